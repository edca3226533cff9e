"""`prospect annotate --source` of a real program: lines, trees, and paths that moved."""

import json
import shutil
import subprocess

import pytest

import prospect
from builders.command_line import PROSPECT, run_here
from prospect.analysis.annotation import INDEX

pytest.importorskip("symbolic")
pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(not shutil.which("gcc"), reason="builds a small C program"),
]

HEADER = """\
static inline unsigned mix(unsigned x) {
    x ^= x >> 13;
    return x * 0x5bd1e995u;
}
"""
SOURCE = """\
#include "mix.h"
__attribute__((noinline)) unsigned work(unsigned n) {
    unsigned sum = 1;
    for (unsigned i = 0; i < n; i++)
        sum += mix(sum + i) / 3;
    return sum;
}
int main(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < 300; i++)
        sum += work(1000000 + i);
    return sum == 1;
}
"""


def run(directory, *arguments, status=0):
    ran = run_here(*arguments, cwd=directory)
    out, err = ran.stdout.decode(), ran.stderr.decode()
    assert ran.returncode == status, err
    return subprocess.CompletedProcess(ran.args, status, out, err)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    directory = tmp_path_factory.mktemp("source")
    (directory / "src").mkdir()
    (directory / "src" / "mix.h").write_text(HEADER)
    (directory / "src" / "hot.c").write_text(SOURCE)
    command = ["gcc", "-g", "-O2", "-o", "hot", str(directory / "src" / "hot.c")]
    subprocess.run(command, cwd=directory, check=True)
    line = [*PROSPECT, "record", "--no-python", "-o", "hot.data", "./hot"]
    subprocess.run(line, cwd=directory, check=True, capture_output=True, timeout=120)
    return directory


def test_hits_stand_at_the_lines_of_the_loop(recorded):
    document = json.loads(
        run(recorded, "annotate", "--source", "--format", "json", "hot.data").stdout
    )
    (event,) = document["events"]
    files = {file["file"].rpartition("/")[2]: file["events"][0] for file in document["files"]}
    in_files = sum(file["samples"] for file in files.values())
    assert in_files + sum(one["samples"] for one in event["without_line"]) == event["samples"]
    assert files["hot.c"]["samples"] + files["mix.h"]["samples"] >= 0.9 * event["samples"]
    assert {line["line"] for line in files["mix.h"]["lines"]} <= {2, 3}
    at_line = {line["line"]: line["samples"] for line in files["hot.c"]["lines"]}
    # The loop, and now and then what stands around it, which runs 300 times.
    assert set(at_line) <= {2, 3, 4, 5, 6, 7, 10, 11}
    assert at_line.get(4, 0) + at_line[5] >= 0.98 * sum(at_line.values())
    assert {one["function"] for one in files["mix.h"]["functions"]} == {"mix"}


def test_of_one_function_only_its_own_file_is_looked_into(recorded):
    text = run(recorded, "annotate", "--source", "-V4", "work", "hot.data").stdout
    assert text.startswith("Event: ")
    # Of the kernel, of libraries and of other programs nothing was asked.
    assert "debug information" not in text
    assert "Note: /" not in text


def test_the_report_by_source_line_has_every_hit_of_the_process(recorded):
    document = json.loads(
        run(recorded, "report", "--lines", "-m0", "--format", "json", "hot.data").stdout
    )
    (event,) = document["events"]
    (process,) = (one for one in event["details"] if one["name"] == "hot")
    lines = process["source_lines"]
    modes = ("user", "kernel", "interrupt", "other")
    assert lines["samples"] == sum(process[one]["samples"] for one in modes)
    assert sum(row["samples"] for row in lines["rows"]) == lines["samples"]
    inlined = [row for row in lines["rows"] if (row["file"] or "").endswith("mix.h")]
    assert {row["function"] for row in inlined} == {"mix"}
    assert all(row["inlined_into"][:1] == ["work"] for row in inlined)
    assert {row["line"] for row in inlined} <= {2, 3}
    text = run(recorded, "report", "--lines", "--classic", "hot.data").stdout
    assert "mix < work" in text
    profile = prospect.open(recorded / "hot.data", lines=True)
    assert profile.report(lines=True, classic=True) == text


def test_inlined_functions_are_functions_among_calls(recorded):
    without, whole = (
        json.loads(run(recorded, "calls", *more, "--format", "json", "hot.data").stdout)
        for more in ([], ["--inline"])
    )
    names = [
        {one["name"]: one["self_samples"] for one in document["events"][0]["functions"]}
        for document in (without, whole)
    ]
    assert "mix" not in names[0]
    assert names[1]["mix"] > 0
    assert names[1]["mix"] + names[1]["work"] == names[0]["work"]


def test_a_tree_has_whole_files_and_an_index(recorded, tmp_path):
    out = tmp_path / "out"
    ran = run(
        recorded,
        "annotate",
        "--source",
        "--output-dir",
        out,
        "--include-files",
        "*.c:*.h",
        "hot.data",
    )
    assert "2 annotated files written" in ran.stderr
    assert ran.stdout == ""
    text = (out / str(recorded / "src/hot.c").lstrip("/")).read_text()
    assert all(line.strip() in text for line in SOURCE.splitlines())
    assert "work: " in text
    assert "mix.h" in (out / INDEX).read_text()
    assert (recorded / "src" / "hot.c").read_text() == SOURCE
    run(recorded, "annotate", "--source", "--output-dir", out, "hot.data")


def test_sources_that_moved_are_found_and_missing_ones_listed(recorded, tmp_path):
    moved = tmp_path / "elsewhere"
    (recorded / "src").rename(moved)
    try:
        lost = run(recorded, "annotate", "--source", "hot.data").stdout
        assert "Sources that were not found" in lost
        assert f"{recorded}/src/hot.c: " in lost
        words = ["--search-dirs", moved, "--base-dirs", f"{recorded}/src:/nowhere"]
        text = run(recorded, "annotate", "--source", *words, "--exclude-files", "mix.h", "hot.data")
        assert f"The source was found as {moved}/hot.c." in text.stdout
        assert "sum += mix(sum + i) / 3;" in text.stdout
        assert "by prospect: " + str(recorded / "src/mix.h") not in text.stdout
        assert "return x * 0x5bd1e995u" not in text.stdout
        same = prospect.annotate(
            recorded / "hot.data",
            source_files=True,
            search_dirs=[str(moved)],
            base_dirs=[f"{recorded}/src"],
            exclude_files=["mix.h"],
        )
        assert same == text.stdout
    finally:
        moved.rename(recorded / "src")


def test_options_that_do_not_fit_together_are_refused(recorded, tmp_path):
    for words, says in (
        (["--output-dir", tmp_path / "o"], "give --source too"),
        (["--source", "--base-dirs", "/x"], "give both"),
        (
            ["--source", "--output-dir", tmp_path / "o", "--format", "json"],
            "--output-dir writes text",
        ),
        (["--source", "--output-dir", tmp_path / "o", "-f", tmp_path / "x"], "give one of them"),
        (["--source", "--search-dirs", ":"], "give one, or several"),
    ):
        assert says in run(recorded, "annotate", *words, "hot.data", status=2).stderr
    assert not list(tmp_path.iterdir())
