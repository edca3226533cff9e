"""One recording, two readers: Prospect and perf count the same samples in the same places."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys

import pytest

import prospect
from builders.examples import nightly
from builders.recordings import PROSPECT, build_program, record
from builders.sums import check_sums
from prospect.profile.naming import NameSource

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed"),
]

LOAD = (
    "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; "
    "dd if=/dev/zero of=/dev/null bs=64k count=20000 status=none; "
    f"{sys.executable} -c 'print(sum(i % 7 for i in range(2000000)))'; ls -lR /usr/include"
)
FORMS = {
    "all CPUs": ("-a",),
    "call graph": ("-a", "-g"),
    "dwarf": ("--call-graph", "dwarf,512"),
    "compressed": ("-a", "-z"),
    "two events": ("-a", "-e", "page-faults"),
    # perf 6.1 does not survive a BPF program of another recording that came and went.
    "its processes": ("--no-bpf-event",),
}
# test_reads_perf_recordings counts their records each time, test_calls compares call graphs, and a
# stream is of all CPUs.
NIGHTLY = ("all CPUs", "call graph", "dwarf", "compressed", "two events")


NAMELESS = re.compile(r"0x[0-9a-f]+|.*@plt|.*->.*|\[fn at 0x[0-9a-f]+\]")


def run_perf(*words, **options):
    """Run perf; it must not complain. That perf itself crashes is none of our business."""
    done = subprocess.run(
        ["perf", *map(str, words)], stderr=subprocess.PIPE, timeout=120, check=False, **options
    )
    if done.returncode == -signal.SIGABRT:
        pytest.skip(f"perf {words[0]} aborted: {done.stderr.decode()[-200:]}")
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def perf_rows(file):
    """Return perf's samples by (comm, file name of the object, raw symbol); it must not complain.

    Names that only one of the two has are left out: brackets and main of stripped programs are
    ours, and of the procedure linkage table we name more stubs.
    """
    options = ("--stdio", "--no-children", "--no-demangle", "-g", "none", "-t", "\t")
    fields = ("-F", "sample,comm,dso,sym")
    text = run_perf("report", "-i", file, *options, *fields, stdout=subprocess.PIPE)
    counts = {}
    for line in text.decode(errors="surrogateescape").splitlines():
        if not line.startswith("#") and line.strip():
            samples, comm, dso, symbol = (field.strip() for field in line.split("\t")[:4])
            comm = "perf-exec" if comm == "perf-ex" else comm  # perf cuts its own child's name
            name = symbol[4:]  # behind "[.] " or "[k] "
            key = comm, dso, "" if NAMELESS.fullmatch(name) else name
            counts[key] = counts.get(key, 0) + int(samples)
    return counts


def our_rows(profile):
    """Return our hits by the same keys."""
    hits, functions = profile.hits, profile.functions
    function = profile.locations.function_index[hits.location_index]
    counts = {}
    for comm_row, row, count in zip(
        hits.comm_index.tolist(), function.tolist(), hits.count.tolist(), strict=True
    ):
        comm, name = profile.comms[comm_row], functions.linkage_name[row]
        is_ours = functions.source[row] == NameSource.ENTRY_POINT or NAMELESS.fullmatch(name)
        path = profile.objects.path[functions.object_index[row]]
        key = (
            ":-1" if comm == "unknown" else comm,  # a task that has already left the task table
            path.rpartition("/")[2] if path.startswith("/") else path,
            "" if is_ours else name,
        )
        counts[key] = counts.get(key, 0) + count
    return counts


def check_rows(file):
    """Assert that nearly all rows, and the heaviest twenty, have the same counts; return them."""
    profile = prospect.open(file)
    theirs, ours = perf_rows(file), our_rows(profile)
    assert sum(ours.values()) == sum(theirs.values()) > 0
    differing = {
        key: (theirs.get(key, 0), ours.get(key, 0))
        for key in {*theirs, *ours}
        if theirs.get(key, 0) != ours.get(key, 0)
    }
    heaviest = sorted(theirs, key=lambda key: -theirs[key])[:20]
    assert not {key: differing[key] for key in heaviest if key in differing}
    moved = sum(abs(their - our) for their, our in differing.values()) / 2
    # perf takes the linkage table for the end of _init.
    assert moved <= max(3, 0.002 * sum(theirs.values())), differing
    return profile


def test_of_our_recording_perf_counts_the_same_in_every_row(tmp_path):
    file = tmp_path / "r"
    record(file, "sh", "-c", f"({LOAD}) >/dev/null", frequency_hz=4000)
    check_rows(file)


def test_of_our_recording_perf_prints_as_many_samples(tmp_path):
    file = tmp_path / "r"
    record(file, build_program(tmp_path, "forks"), 100, 2)
    # Without its call chain, each sample is a line.
    text = run_perf("script", "-G", "-i", file, "-F", "comm,ip", stdout=subprocess.PIPE)
    profile = prospect.open(file)
    assert len(text.splitlines()) == profile.hits.count.sum()


@pytest.mark.parametrize(
    "form",
    [pytest.param("its processes", marks=pytest.mark.parallel), *nightly(*NIGHTLY)],
)
def test_of_perfs_recordings_the_rows_are_perfs(tmp_path, form):
    file = tmp_path / "r"
    options = ("-q", "-F", "2000", "-o", file, "-e", "cpu-clock", *FORMS[form])
    run_perf("record", *options, "--", "sh", "-c", f"({LOAD}) >/dev/null")
    profile = check_rows(file)
    check_sums(profile)
    assert not profile.run.damage


def test_of_perfs_stream_the_rows_are_perfs(tmp_path):
    options = ("-q", "-a", "-F", "2000", "-e", "cpu-clock", "-o", "-")
    file = tmp_path / "r"
    with file.open("wb") as stream:
        run_perf("record", *options, "--", "sh", "-c", f"({LOAD}) >/dev/null", stdout=stream)
    profile = check_rows(file)
    check_sums(profile)
    with file.open("rb") as stream:
        done = subprocess.run(
            [*PROSPECT, "report", "-"], stdin=stream, capture_output=True, check=True
        )
    assert int(re.search(rb"Num samples: +(\d+)", done.stdout)[1]) == profile.hits.count.sum()
