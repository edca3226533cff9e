"""--event on recordings: what was asked for is sampled, and perf calls it the same."""

from __future__ import annotations

import shutil
import subprocess

import pytest

import prospect
from builders.recordings import PROSPECT, build_program

pytestmark = [pytest.mark.live, pytest.mark.parallel]

PAGES, CALLS = 500, 300
POINT = "sched:sched_process_exit"


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Record a program that touches pages and calls a function, a known number of times each."""
    directory = tmp_path_factory.mktemp("events")
    program = build_program(directory, "chores", "-static")
    events = f"cpu-clock/freq=500/,page-faults:u,{program}:one_call,{POINT}"
    words = [str(program), str(PAGES), "0", str(CALLS), "1"]
    file = directory / "perf.data"
    line = [*PROSPECT, "record", "--no-python", "--event", events, "-o", str(file), *words]
    subprocess.run(line, check=True, capture_output=True, timeout=60)
    return program, file


def hits_of(profile, event):
    """Return the hits of one event by process name."""
    table = profile.hits_table(detail="4")
    chosen = table["event"] == event
    hits = {}
    for name, count in zip(table["process"][chosen], table["samples"][chosen], strict=True):
        hits[name] = hits.get(name, 0) + int(count)
    return hits


def test_each_time_is_a_hit(recording):
    program, file = recording
    profile = prospect.open(file)
    losses = profile.losses  # says why, where there are fewer
    kept = (losses.lost.tolist(), losses.throttled.tolist(), profile.run.limits)
    assert hits_of(profile, f"{program}:one_call") == {"chores": 2 * CALLS}, kept
    assert 2 * PAGES <= hits_of(profile, "page-faults:u")["chores"] < 2 * PAGES + 200
    assert hits_of(profile, POINT)["chores"] == 2


def test_events_that_come_while_the_recorder_does_not_run_are_kept(tmp_path):
    program = build_program(tmp_path, "chores", "-static")
    file = tmp_path / "perf.data"
    pages = 20_000
    burst = f"kill -STOP $PPID; {program} {pages} 0 1; kill -CONT $PPID"
    line = [*PROSPECT, "record", "--event", "page-faults,context-switches", "-o", str(file)]
    subprocess.run([*line, "sh", "-c", burst], check=True, timeout=60)
    profile = prospect.open(file)
    assert profile.losses.lost.sum() < pages / 200
    assert hits_of(profile, "page-faults")["chores"] > pages


def test_the_report_shows_them_side_by_side(recording):
    _program, file = recording
    report = prospect.open(file).report(detail="3")
    assert "Events side by side" in report
    table = report[report.index("Events side by side") :].splitlines()
    row = next(line for line in table if "  one_call  " in line)
    assert str(2 * CALLS) in row.split()


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_perf_calls_them_the_same(recording):
    program, file = recording
    line = ["perf", "script", "-i", str(file), "-F", "comm,event"]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)
    rows = [row.split() for row in ran.stdout.splitlines() if row.strip()]
    calls = [row for row in rows if row == ["chores", f"{program}:one_call:"]]
    assert len(calls) == 2 * CALLS
    assert sum(row == ["chores", f"{POINT}:"] for row in rows) == 2
    traced = ["perf", "script", "-i", str(file), "-F", "event,trace"]
    ran = subprocess.run(traced, capture_output=True, text=True, timeout=60, check=True)
    assert any(POINT in row and "comm=chores" in row for row in ran.stdout.splitlines())


def test_what_cannot_be_sampled_starts_nothing(tmp_path):
    started = tmp_path / "started"
    for events, says in (
        ("cycels", "did you mean cycles?"),
        (f"{POINT}/filter=nosuch==1/", "does not understand the filter"),
    ):
        line = [*PROSPECT, "--event", events, "touch", str(started)]
        ran = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode in (1, 2)
        assert says in ran.stderr
        assert ran.stderr.count("\n") == 1
    assert not started.exists()
