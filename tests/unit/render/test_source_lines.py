"""The report with --lines: golden files, and what must hold of every table of source lines."""

import json
import re
from pathlib import Path

import pytest

from builders.annotated import line_table
from builders.json_schema import schema_errors
from builders.pages import report_of
from builders.profile_builder import ProfileBuilder
from prospect.errors import UsageError
from prospect.records import replace

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "report.schema.json").read_text())
WORK, MIX = ("work", "/src/a.c", 3), ("mix", "/src/mix.h", 2)


def profile(children=1):
    """100 hits of a command and 5 of each child; mix() is inlined into two functions."""
    build = ProfileBuilder()
    command = build.process("loop", 10, is_command=True)
    image = build.object("/bin/loop")
    work = build.function("work", image, 0x1000)
    for offset, count in ((2, 60), (4, 20), (6, 10), (8, 6), (10, 4)):
        build.hit(command, work, count, offset=offset)
    for number in range(children):
        child = build.process("child", 11 + number, parent_index=command, is_descendant=True)
        build.hit(child, work, 5, offset=4)
    lines = line_table(
        [
            (WORK, MIX),
            (WORK, ("shift", "/src/mix.h", 9), MIX),
            (("work", "/src/a.c", 23),),
            (("work", "/very/long/path/" + "that/has/many/directories/" * 3 + "b\x1b[31m.c", 7),),
            (),
        ]
    )
    return replace(build.build(), lines=replace(lines, notes={image: "some of it is missing"}))


def rendered(given, name="text", lines=True, **options):
    return report_of(given, name, lines=lines, **options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("source_lines.txt", {}),
        ("source_lines_of_all.txt", {"detail": "4", "user_threshold_s": 0.02}),
    ],
)
def test_reports_are_as_they_were_read(golden, name, options):
    golden(f"report/{name}", rendered(profile(), **options))


def tables(**options):
    document = json.loads(rendered(profile(), "json", **options))
    assert schema_errors(document, SCHEMA, SCHEMA) == []
    (event,) = document["events"]
    return (
        event,
        event["source_lines"],
        {one["pid"]: one["source_lines"] for one in event["details"]},
    )


def test_every_hit_is_in_one_row_of_its_process_and_of_all():
    event, whole, of_process = tables(detail="4", user_threshold_s=0)
    assert whole["samples"] == sum(one["samples"] for one in of_process.values()) == 105
    for table in (whole, *of_process.values()):
        assert sum(row["samples"] for row in table["rows"]) == table["samples"]
        assert table["rows"][-1]["accumulated"] == pytest.approx(1)
        assert table["skipped"]["lines"] == 0
    for process in event["details"]:
        in_functions = sum(one["samples"] for one in process["functions"].values())
        assert of_process[process["pid"]]["samples"] == in_functions


def test_a_line_is_one_row_wherever_it_was_inlined_and_shows_the_heaviest_place():
    _, whole, of_process = tables(detail="4", user_threshold_s=0)
    (row,) = (one for one in whole["rows"] if one["file"] == "/src/mix.h")
    assert (row["line"], row["samples"], row["other_places"]) == (2, 85, 1)
    assert (row["function"], row["inlined_into"]) == ("mix", ["work"])
    (row,) = of_process[11]["rows"]
    assert (row["samples"], row["other_places"]) == (5, 0)
    assert (row["function"], row["inlined_into"]) == ("mix", ["shift", "work"])


def test_hits_without_a_line_are_a_row_of_their_object_that_says_why():
    _, whole, _ = tables(detail="4", user_threshold_s=0)
    (row,) = (one for one in whole["rows"] if one["file"] is None)
    assert (row["samples"], row["object"]) == (4, "/bin/loop")
    assert row["no_line_because"] == "some of it is missing"


def test_what_is_under_the_threshold_is_summed_up():
    _, whole, _ = tables(detail="4", user_threshold_s=0.02)
    assert whole["skipped"]["lines"] == 1
    assert sum(one["samples"] for one in whole["rows"]) + whole["skipped"]["samples"] == 105


def test_one_process_alone_has_no_table_of_all():
    assert b"Source Lines of All" not in rendered(profile(), detail="2")
    assert rendered(profile(), detail="2").count(b"Source Lines of the Process") == 1
    assert b"Source Lines of All" in rendered(profile(), detail="3", user_threshold_s=0)


def test_nothing_reaches_a_terminal_that_it_would_act_on():
    text = rendered(profile()).decode()
    assert all(line.isprintable() for line in text.split("\n"))
    assert re.search(r"\.\.\./(that/has/many/directories/)?b\\x1b\[31m\.c:7", text)


def test_without_the_option_the_report_is_the_same_with_and_without_lines():
    given = profile()
    for name in ("text", "json", "csv"):
        without = rendered(replace(given, lines=None), name, lines=False)
        assert rendered(given, name, lines=False) == without


def test_a_profile_without_lines_is_refused():
    with pytest.raises(UsageError, match="lines=True"):
        rendered(replace(profile(), lines=None))


def test_a_profile_without_hits_has_empty_tables():
    build = ProfileBuilder()
    build.process("loop", 10, is_command=True)
    empty = replace(build.build(), lines=line_table([]))
    (event,) = json.loads(rendered(empty, "json"))["events"]
    assert event["source_lines"]["rows"] == []
    assert b"Source Lines of the Process" in rendered(empty)
