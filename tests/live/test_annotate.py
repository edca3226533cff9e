"""`prospect annotate` on a real loop: hits are at its instructions, and lines are its lines."""

import json
import shutil
import subprocess

import pytest

import prospect
from builders.command_line import run_here

pytest.importorskip("symbolic")
pytest.importorskip("iced_x86")
pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(not shutil.which("gcc"), reason="builds a small C program"),
]

SOURCE = """\
#include <stdio.h>
static inline unsigned mix(unsigned x) {
    x ^= x >> 13;
    return x * 0x5bd1e995u;
}
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
    printf("%u\\n", sum);
    return 0;
}
"""


def run(*arguments, cwd):
    ran = run_here(*arguments, cwd=cwd)
    out, err = ran.stdout.decode(), ran.stderr.decode()
    return subprocess.CompletedProcess(ran.args, ran.returncode, out, err)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return a directory with the program `hot`, its source and a recording of it."""
    directory = tmp_path_factory.mktemp("annotate")
    (directory / "hot.c").write_text(SOURCE)
    command = ["gcc", "-g", "-O2", "-o", "annotated", str(directory / "hot.c")]
    subprocess.run(command, cwd=directory, check=True)
    ran = run("record", "--no-python", "-H", "500", "-o", "hot.data", "./annotated", cwd=directory)
    if ran.returncode:
        pytest.skip(f"no recording can be made here: {ran.stderr}")
    return directory


@pytest.fixture(scope="module")
def work(recorded):
    ran = run("annotate", "--format", "json", "work", "hot.data", cwd=recorded)
    assert ran.returncode == 0, ran.stderr
    (event,) = json.loads(ran.stdout)["events"]
    (function,) = event["functions"]
    return function


def test_hits_of_instructions_and_of_blocks_add_up_to_the_functions(work):
    assert work["function"] == "work"
    assert work["samples"] > 60
    assert work["samples_between_instructions"] == 0
    assert sum(row["samples"] for row in work["instructions"]) == work["samples"]
    assert sum(block["samples"] for block in work["blocks"]) == work["samples"]
    assert sum(row["percent"] for row in work["instructions"]) == pytest.approx(100.0, abs=1e-3)


def test_the_hits_are_in_the_block_of_the_loop(work):
    rows = work["instructions"]
    (back,) = [
        r for r in rows if r["flow"] == "branch" and int(r["target"], 16) < int(r["address"], 16)
    ]
    loop = range(int(back["target"], 16), int(back["address"], 16) + 1)
    inside = sum(row["samples"] for row in rows if int(row["address"], 16) in loop)
    assert inside >= 0.98 * work["samples"]
    assert int(work["hottest"], 16) in loop
    assert int(work["likely_meant"] or work["hottest"], 16) in loop


def test_instructions_have_the_lines_of_the_source(work):
    hit = [row for row in work["instructions"] if row["samples"]]
    assert {frame["function"] for row in hit for frame in row["frames"]} == {"work", "mix"}
    for row in hit:
        outer, *inlined = row["frames"]
        assert outer["function"] == "work"
        assert outer["file"].endswith("/hot.c")
        assert 7 <= outer["line"] <= 11
        assert all(frame["line"] in (3, 4) for frame in inlined)


def test_the_text_shows_source_between_instructions(recorded):
    ran = run("annotate", "hot.data", cwd=recorded)
    assert ran.returncode == 0, ran.stderr
    assert "inlined mix < work hot.c:9" in ran.stdout
    assert "x ^= x >> 13;" in ran.stdout
    assert "Address and instruction" in ran.stdout
    assert all(line.isprintable() for line in ran.stdout.split("\n"))
    whole = run("annotate", "--whole", "--syntax", "intel", "work", "hot.data", cwd=recorded)
    assert "Skip" not in whole.stdout
    assert "%eax" not in whole.stdout
    assert "eax" in whole.stdout
    plain = run("annotate", "--no-source", "hot.data", cwd=recorded).stdout
    assert "hot.c:" not in plain


def test_the_image_and_a_pattern_name_the_same_function(recorded):
    by_name = run("annotate", "work", "hot.data", cwd=recorded)
    assert by_name.stdout == run("annotate", "w?rk", "hot.data", cwd=recorded).stdout
    by_image = run("annotate", "--functions", "1", "annotated", "hot.data", cwd=recorded)
    assert by_image.stdout == by_name.stdout
    assert "did you mean work?" in run("annotate", "wrok", "hot.data", cwd=recorded).stderr


def test_the_table_of_hits_has_lines_where_they_are_asked_for(recorded):
    profile = prospect.open(recorded / "hot.data", lines=True)
    table = profile.hits_table(detail="4")
    mine = (table["function"] == "work") & (table["object"] == str(recorded / "annotated"))
    assert mine.any()
    assert set(table["file"][mine]) == {str(recorded / "hot.c")}
    assert set(table["line"][mine].tolist()) <= {3, 4, 8, 9}
    assert "line" not in prospect.open(recorded / "hot.data").hits_table(detail="4")


def test_a_program_that_was_built_again_is_shown_as_it_ran(recorded, tmp_path, monkeypatch):
    for name in ("annotated", "hot.c", "hot.data"):
        shutil.copy2(recorded / name, tmp_path / name)
    changed = recorded / "annotated"
    kept = tmp_path / "annotated"

    def instructions():
        ran = run("annotate", "-V4", "annotated", "hot.data", cwd=recorded)
        return [line for line in ran.stdout.splitlines() if " <+" in line]

    as_it_ran = instructions()
    assert len(as_it_ran) > 10
    try:
        source = SOURCE.replace("/ 3", "/ 5")
        command = ["gcc", "-g", "-O2", "-o", str(changed), "-x", "c", "-"]
        changed.unlink()
        subprocess.run(command, input=source, text=True, check=True)
        # A perf that records the whole system meanwhile keeps a copy in the home of its user.
        monkeypatch.setenv("HOME", str(tmp_path))
        assert instructions() == as_it_ran
    finally:
        kept.replace(changed)
