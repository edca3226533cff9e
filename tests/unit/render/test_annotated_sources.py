"""Annotated sources as text and JSON: golden files, sums, and what may stand in names."""

import json
from functools import partial

import numpy as np
import pytest

from builders.annotated import line_table
from builders.profile_builder import ProfileBuilder
from prospect.estimate.annotate.source_view import source_view
from prospect.profile.optional_tables import SourceFile
from prospect.records import replace
from prospect.render.json.annotation_documents import source_json
from prospect.render.text.annotated_code import index_text, source_text

LINES = {
    "/src/a.c": ["int work(int n) {", "\tint sum = 0;", *["\t// more"] * 20, "\treturn sum;", "}"],
    "/src/mix.h": ["static int mix(int x) {", "    return x * 31;", "}"],
}


def read(path):
    lines = LINES.get(path)
    return lines and SourceFile(f"/found{path}", lines, 2000, 1, 2, is_public=True)


def profile():
    """Hits: 60 in mix() inlined into work(), 30 in work(), 6 of a lost file, 4 without a line."""
    build = ProfileBuilder()
    command = build.process("loop", 10, is_command=True)
    image = build.object("/bin/loop")
    work = build.function("work", image, 0x1000)
    for offset, count in ((2, 60), (4, 20), (6, 10), (8, 6), (10, 4)):
        build.hit(command, work, count, offset=offset)
    lines = line_table(
        [
            (("work", "/src/a.c", 3), ("mix", "/src/mix.h", 2)),
            (("work", "/src/a.c", 2),),
            (("work", "/src/a.c", 23),),
            (("work", "/gone/b\x1b[31m.c", 7),),
            (),
        ]
    )
    lines = replace(lines, notes={image: "some of it is missing"}, built_ns={image: 1000})
    return replace(build.build(), lines=lines)


def rendered(annotation, view):
    return b"".join(annotation(view, read))


@pytest.mark.parametrize(
    ("name", "annotation"),
    [
        ("source.txt", source_text),
        ("source_whole.txt", partial(source_text, whole=True, colour=True)),
        ("source.json", source_json),
    ],
)
def test_annotated_sources_are_as_they_were_read(golden, name, annotation):
    golden(f"annotation/{name}", rendered(annotation, source_view(profile(), "2")))


def test_every_hit_is_in_one_line_or_said_to_have_none():
    view = source_view(profile(), "2")
    (event,) = view.events
    in_files = sum(int(found.lines.hits.sum()) for found in event.files.values())
    assert in_files + sum(hits for _, _, hits in event.without_file) == event.hits == 100
    for found in event.files.values():
        assert found.lines.hits.sum() == found.functions.hits.sum() == found.file.hits[0]
    assert [view.paths[row] for row in view.order][:2] == ["/src/mix.h", "/src/a.c"]


def test_inlined_code_counts_where_it_is_written():
    view = source_view(profile(), "2")
    (event,) = view.events
    mix = event.files[view.paths.index("/src/mix.h")]
    assert (mix.function, mix.line.tolist(), mix.lines.hits.tolist()) == (["mix"], [2], [60])
    work = event.files[view.paths.index("/src/a.c")]
    assert (work.line.tolist(), work.lines.hits.tolist()) == ([2, 23], [20, 10])
    assert work.first_line.tolist() == [2]


def test_files_and_functions_can_be_chosen():
    chosen = source_view(profile(), "2", is_wanted=lambda path: path.endswith(".h"))
    assert [chosen.paths[row] for row in chosen.order] == ["/src/mix.h"]
    nothing = source_view(profile(), "2", functions=np.array([], np.int64))
    assert nothing.order == []
    assert "No sample has a line" in rendered(source_text, nothing).decode()


def test_what_is_missing_and_what_is_newer_is_said():
    text = rendered(source_text, source_view(profile(), "2")).decode()
    assert "/gone/b\\x1b[31m.c: 6 samples" in text
    assert "4 samples in /bin/loop: some of it is missing" in text
    assert "newer than /bin/loop" in text
    assert "found as /found/src/a.c" in text
    assert all(line.isprintable() for line in text.split("\n"))


def test_the_index_lists_what_was_written_refused_and_not_found():
    view = source_view(profile(), "2")
    rows = {path: row for row, path in enumerate(view.paths)}
    outcome = {rows["/src/a.c"]: "", rows["/src/mix.h"]: "too long"}
    lines = b"".join(index_text(view, outcome)).decode().split("\n")
    assert any(line.startswith("/src/a.c: 30 samples") and "not" not in line for line in lines)
    assert any("/src/mix.h" in line and "(not written: too long)" in line for line in lines)
    assert "Sources that were not found" in lines


def test_json_has_every_line_with_its_text():
    document = json.loads(rendered(source_json, source_view(profile(), "2")))
    assert document["schema"] == "prospect-source/2"
    files = {file["file"]: file for file in document["files"]}
    assert files["/gone/b\x1b[31m.c"]["found"] is None
    (line,) = files["/src/mix.h"]["events"][0]["lines"]
    assert (line["line"], line["samples"], line["text"]) == (2, 60, "    return x * 31;")
    assert line["half_width_s"] == pytest.approx(0.038358547)
