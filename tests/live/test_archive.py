"""An archive is reported on without anything of the machine where it was made, to the byte."""

import json
import os
import shutil
import subprocess
import sys

import pytest

import prospect
from builders.command_line import run_here
from builders.examples import nightly

pytest.importorskip("symbolic")
pytest.importorskip("iced_x86")
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("gcc") or not shutil.which("unshare"),
        reason="builds a small C program, and hides files from a report, as root",
    ),
]

SOURCE = """\
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static inline unsigned mix(unsigned x) {
    x ^= x >> 13;
    return x * 0x5bd1e995u;
}
static int by_value(const void *a, const void *b) {
    unsigned x = mix(*(const unsigned *)a), y = mix(*(const unsigned *)b);
    return x < y ? -1 : x > y;
}
int main(void) {
    static unsigned many[100000];
    for (int round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 100000; i++)
            many[i] = i * 2654435761u + round;
        qsort(many, 100000, sizeof *many, by_value);
    }
    struct timespec now;
    for (int turn = 0; turn < 10000000; turn++) /* in the vdso, which is no file */
        clock_gettime(CLOCK_MONOTONIC, &now);
    return printf("%u\\n", many[7]) < 0;
}
"""
# Of what the test started: files of others on this machine come and go.
REPORTS = [
    *nightly(("report", "-V3"), ("report", "--format", "json"), ("report", "--format", "csv")),
    ("report", "--lines", "-V3"),
    ("report", "--lines", "--format", "json", "-V3", "-m0"),
    *nightly(("annotate", "-V3")),
    ("annotate", "--syntax", "intel", "--format", "json", "-n", "30", "-V3"),
    *nightly(("annotate", "-Vk", "--whole")),
]
# Elsewhere: another host, no program, no source, no debug files, no libraries of the recorded one.
HIDE = """
set -e
hostname elsewhere.example
mount -t tmpfs none /usr/lib/debug 2>/dev/null || true
for file in /proc/kallsyms /proc/kcore /proc/modules "$1" "$2"; do
    if [ -e "$file" ]; then mount --bind /dev/null "$file"; fi
done
shift 2
exec "$@"
"""


def run(*command, **keywords):
    return subprocess.run(
        [*map(str, command)], capture_output=True, timeout=120, check=False, **keywords
    )


def tool(*arguments, **keywords):
    return run(sys.executable, "-m", "prospect", *arguments, **keywords)


@pytest.fixture(scope="module")
def archived(tmp_path_factory):
    """Return a directory with the program, its recording and the archive."""
    if run("unshare", "-m", "-u", "true").returncode:
        pytest.skip("no namespaces can be made here")
    directory = tmp_path_factory.mktemp("archive")
    (directory / "sort.c").write_text(SOURCE)
    build = ["gcc", "-g", "-O2", "-o", "sort", str(directory / "sort.c")]
    subprocess.run(build, cwd=directory, check=True)
    made = tool("record", "-o", "run.data", "./sort", cwd=directory)
    if made.returncode:
        pytest.skip(f"no recording can be made here: {made.stderr.decode()}")
    ran = tool("archive", "run.data", cwd=directory)
    assert ran.returncode == 0, ran.stderr.decode()
    return directory


@pytest.fixture(scope="module")
def report(archived):
    return prospect.open(archived / "run.data").report()


def elsewhere(directory, *arguments):
    home = directory / "home"
    home.mkdir(exist_ok=True)
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home)}
    shell = ["unshare", "-m", "-u", "bash", "-c", HIDE, "hide"]
    hidden = [directory / "sort", directory / "sort.c"]
    command = [*shell, *hidden, sys.executable, "-m", "prospect", *arguments]
    return run(*command, cwd=directory, env=environment)


@pytest.mark.parallel
@pytest.mark.parametrize("words", REPORTS, ids=" ".join)
def test_reports_elsewhere_are_those_made_here(archived, words):
    command, *options = words
    here = run_here(command, *options, "run.data", cwd=archived)
    assert here.returncode == 0, here.stderr.decode()
    there = elsewhere(archived, command, *options, "run.data.archive")
    assert there.returncode == 0, there.stderr.decode()
    # The commands that a report ends its first screen with name the file that was reported on.
    assert there.stdout.replace(b"run.data.archive", b"run.data") == here.stdout


@pytest.fixture(scope="module")
def with_stacks(archived):
    """Return the directory with a recording that has stacks, too, and its archive."""
    words = ("record", "--call-graph", "auto", "-o", "stacks.data", "./sort")
    made = tool(*words, cwd=archived)
    assert made.returncode == 0, made.stderr.decode()
    made = run_here("archive", "stacks.data", cwd=archived)
    assert made.returncode == 0, made.stderr.decode()
    return archived


@pytest.mark.parallel
@pytest.mark.parametrize("options", [*nightly(["-V3"]), ["--inline", "--format", "json"]])
def test_calls_elsewhere_are_those_made_here(with_stacks, options):
    here = run_here("calls", *options, "stacks.data", cwd=with_stacks)
    assert b"by_value" in here.stdout, here.stderr.decode()
    assert b"[vdso]" in here.stdout
    there = elsewhere(with_stacks, "calls", *options, "stacks.data.archive")
    assert there.stdout == here.stdout, there.stderr.decode()


@pytest.mark.parallel
def test_what_is_said_of_single_processes_is_kept(archived):
    words = ("record", "-H", "4000", "-o", "notes.data", sys.executable, "-c", "import numpy")
    for command in (words, ("archive", "notes.data")):
        made = tool(*command, cwd=archived)
        assert made.returncode == 0, made.stderr.decode()
    here = tool("report", "-V3", "notes.data", cwd=archived)
    if b"show no Python function" not in here.stdout:
        pytest.skip("Python's functions were not read, or all of them")
    there = elsewhere(archived, "report", "-V3", "notes.data.archive")
    assert there.stdout.replace(b"notes.data.archive", b"notes.data") == here.stdout


@pytest.mark.parallel
@pytest.mark.nightly
def test_two_archives_are_compared_elsewhere_as_their_recordings_here(archived):
    for number in (1, 2):
        made = tool("record", "-o", f"{number}.data", "./sort", cwd=archived)
        assert made.returncode == 0, made.stderr.decode()
        assert run_here("archive", f"{number}.data", cwd=archived).returncode == 0
    for options in ([], ["--format", "json", "-V3"]):
        here = run_here("diff", *options, "1.data", "2.data", cwd=archived)
        assert b"by_value" in here.stdout, here.stderr.decode()
        there = elsewhere(archived, "diff", *options, "1.data.archive", "2.data.archive")
        assert there.stdout == here.stdout, there.stderr.decode()


@pytest.mark.parallel
def test_sources_elsewhere_have_all_figures_and_the_lines_that_are_kept(archived):
    command = ("annotate", "--source", "--format", "json")
    here = json.loads(run_here(*command, "run.data", cwd=archived).stdout)
    there = json.loads(elsewhere(archived, *command, "run.data.archive").stdout)
    assert [file["file"] for file in there["files"]] == [file["file"] for file in here["files"]]
    for one, other in zip(here["files"], there["files"], strict=True):
        for event, same in zip(one["events"], other["events"], strict=True):
            assert [
                {key: value for key, value in line.items() if key != "text"}
                for line in event["lines"]
            ] == [
                {key: value for key, value in line.items() if key != "text"}
                for line in same["lines"]
            ]
    (own,) = (file for file in there["files"] if file["file"].endswith("/sort.c"))
    texts = {line["line"]: line["text"] for line in own["events"][0]["lines"]}
    assert texts
    assert all(SOURCE.splitlines()[number - 1].rstrip() == text for number, text in texts.items())
    with_sources = elsewhere(
        *(archived, "annotate", "--source", "--search-dirs", archived / "moved"),
        *("--base-dirs", archived, "run.data.archive"),
    )
    assert b"lines that the archive keeps" in with_sources.stdout


@pytest.mark.parallel
def test_what_is_hidden_is_missed_by_the_mere_recording(archived):
    there = elsewhere(archived, "annotate", "by_value", "run.data")
    # The recording keeps the program, which was in a temporary directory, but not its source.
    assert b"mix" in there.stdout
    assert b"x ^= x >> 13;" not in there.stdout
    with_archive = elsewhere(archived, "annotate", "by_value", "run.data.archive")
    assert b"mix" in with_archive.stdout
    assert b"x ^= x >> 13;" in with_archive.stdout


# Alone: perf 6.1 does not survive a BPF program of another recording that came and went.
def test_perf_reads_an_archive_as_it_reads_the_recording(archived):
    if not shutil.which("perf"):
        pytest.skip("perf is not installed")
    before, after = (
        run("perf", "report", "--stdio", "-i", archived / name)
        for name in ("run.data", "run.data.archive")
    )
    assert after.returncode == before.returncode == 0
    assert rows(after.stdout) == rows(before.stdout)
    assert b"by_value" in after.stdout


def rows(text):
    """Leave out comments: perf ends with a tip, each time another."""
    return [line for line in text.splitlines() if not line.startswith(b"#")]


@pytest.mark.parallel
def test_an_archive_is_small_and_private(archived):
    recording, archive = (archived / name for name in ("run.data", "run.data.archive"))
    assert archive.stat().st_size <= recording.stat().st_size + 1_000_000
    assert archive.stat().st_mode & 0o077 == 0


@pytest.mark.parallel
@pytest.mark.nightly
def test_whole_images_are_there_whole(archived, report):
    whole = archived / "whole.data"
    made = tool("archive", "--whole-images", "-o", whole, "run.data", cwd=archived)
    assert made.returncode == 0, made.stderr.decode()
    grown = whole.stat().st_size - (archived / "run.data.archive").stat().st_size
    assert grown > 100_000  # the C library alone
    assert prospect.open(whole).report() == report
    assert prospect.open(archived / "run.data.archive").report() == report


@pytest.mark.parallel
def test_python_archives_too(archived, report):
    made = prospect.archive(archived / "run.data", output=str(archived / "python.data"))
    assert made == str(archived / "python.data")
    assert prospect.open(made).report() == report


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere.data"], "no such file; recordings there:"),
        (["sort.c"], "not a perf.data recording"),
        (["run.data.archive"], "archive already"),
        (["-"], "pipe"),
        (["-o", "run.data", "run.data"], "replace its recording"),
        (["-o", "/dev/full", "run.data"], "No space left"),
        (["-o", "nowhere/a", "run.data"], "No such file"),
    ],
)
def test_errors_are_one_line_and_leave_the_recording(archived, words, says):
    before = (archived / "run.data").read_bytes()
    ran = run_here("archive", *words, cwd=archived)
    assert ran.returncode != 0
    (line,) = ran.stderr.decode().splitlines()
    assert says in line
    assert (archived / "run.data").read_bytes() == before


@pytest.mark.parallel
def test_a_full_disk_keeps_the_earlier_archive(archived, tmp_path):
    ran = run(
        *("unshare", "-m", "bash", "-c"),
        'mount -t tmpfs -o size=16k none "$1"; echo earlier >"$1/a"; shift; "$@"; '
        'status=$?; ls -A "$0"; cat "$0/a"; exit $status',
        tmp_path,
        tmp_path,
        *(sys.executable, "-m", "prospect", "archive", "-o", tmp_path / "a", "run.data"),
        cwd=archived,
    )
    assert ran.returncode == 1
    assert ran.stdout.decode() == "a\nearlier\n"
    assert b"No space left" in ran.stderr
