"""A session that records switches: what threads did is what its saved recording says."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest

import prospect
from builders.command_line import running
from prospect.figures.report.waiting import blocked_stacks
from prospect.live.session import LiveSession
from prospect.recording.opened_events import RecordOptions

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="samples the whole system"),
]

OPTIONS = RecordOptions(command=(), frequency_hz=200, call_graph="fp", off_cpu=True)
# One thread waits from before the session to its end, one begins and ends many short waits.
LOAD = (
    "import sys, threading, time\n"
    "threading.Thread(target=sys.stdin.read).start()\n"
    "print('ready', flush=True)\n"
    "end = time.monotonic() + 1.5\n"
    "while time.monotonic() < end:\n"
    "    time.sleep(0.01); sum(range(100_000))\n"
    "sys.stdout.close(); time.sleep(60)\n"
)
TIMES = ("cpu_ns", "runnable_ns", "blocked_ns")
# What is drained a little before or after the end of a part counts in the other one.
PART = 0.1


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """The program's number, the session's last state, and the recording that was saved."""
    file = tmp_path_factory.mktemp("live") / "saved.data"
    line = [sys.executable, "-c", LOAD]
    with running(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as load:
        load.stdout.readline()
        session = LiveSession(OPTIONS)
        try:
            for _ in range(4):
                time.sleep(0.4)
                state = session.advance()
            session.save(str(file))
        finally:
            session.close()
    return load.pid, state.profile, prospect.open(file, stacks=True)


def times_of(profile, pid):
    """Return the times of a process's threads, i64[thread, TIMES], and their threads."""
    threads = profile.threads
    pids = np.append(profile.processes.pid, -1).take(threads.process_index)
    rows = np.flatnonzero(pids == pid)
    columns = [getattr(threads, name).take(rows) for name in TIMES]
    return np.stack(columns, axis=1), threads.tid.take(rows)


def test_each_thread_did_what_the_saved_recording_says(watched):
    pid, shown, saved = watched
    (live, live_tids), (whole, whole_tids) = times_of(shown, pid), times_of(saved, pid)
    assert live_tids.tolist() == whole_tids.tolist()
    assert len(live_tids) == 2
    life = whole.sum(axis=1, keepdims=True)
    assert (np.abs(live - whole) <= PART * life).all()
    threads = shown.threads
    lives = threads.cpu_ns + threads.runnable_ns + threads.blocked_ns + threads.unknown_ns
    assert np.array_equal(lives, threads.life_ns)
    assert set(threads.tid.tolist()) == set(saved.threads.tid.tolist())


def test_waits_have_the_stacks_that_the_saved_recording_has(watched):
    pid, shown, saved = watched
    tids = np.array([pid], np.int32)
    live, whole = (
        sum(stack.seconds for stack in blocked_stacks(profile, tids, 100))
        for profile in (shown, saved)
    )
    assert whole > 0
    assert abs(live - whole) <= PART * whole


def test_waits_of_short_lengths_fill_no_memory(watched):
    _, shown, saved = watched
    assert len(shown.waits) < len(saved.waits)
    assert len(shown.samples) == len(saved.samples)
    clock = [int(one.hits.count[one.hits.event == 0].sum()) for one in (shown, saved)]
    assert clock[0] == clock[1]
