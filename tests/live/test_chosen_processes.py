"""Stacks, switches with stacks and Python frames are of the wanted processes only."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from builders.command_line import running
from builders.examples import nightly
from builders.recordings import PROSPECT, build_program
from builders.waiting import wait_until_it_watches
from prospect.abi import constants as abi
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.assembly.tables.clocks import clock_of_id, with_clocks
from prospect.assembly.threads.waits import with_copies_of_waits, with_switches
from prospect.events.decode import decode
from prospect.events.record_columns import TASK_FORK
from prospect.figures.report.waiting import waiting
from prospect.options import NamingOptions
from prospect.perfdata.reader import open_recording
from prospect.profile.complete import complete
from prospect.recording.opened_events import filter_obstacle

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(filter_obstacle()), reason="processes cannot be chosen here"),
]

# All tests of this file run next to it.
SOMETIMES_BUSY = """
import time
while True:
    until = time.process_time() + 0.01
    while time.process_time() < until: pass
    time.sleep(0.03)
"""
SPIN = "import time; until = time.process_time() + {}\nwhile time.process_time() < until: pass"
# A thread forks, a child executes another program, and a thread other than the first calls exec.
FAMILY = """
import os, subprocess, sys, threading, time
SPIN = "import time; until = time.process_time() + 0.1\\nwhile time.process_time() < until: pass"
def of_thread():
    subprocess.run([sys.executable, "-c", SPIN])
    until = time.thread_time() + 0.1
    while time.thread_time() < until: pass
until = time.process_time() + 0.2
while time.process_time() < until: pass
threads = [threading.Thread(target=of_thread) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
threading.Thread(target=lambda: os.execv(sys.executable, [sys.executable, "-c", SPIN])).start()
time.sleep(60)
"""


@pytest.fixture(scope="module")
def stranger():
    """Run a program that is no descendant of what is recorded."""
    process = subprocess.Popen([sys.executable, "-c", SOMETIMES_BUSY])
    yield process.pid
    process.kill()
    process.wait()


RECORD = (*PROSPECT, "record", "--no-python", "-H", "400", "-o")


def record(tmp_path, *words):
    file = tmp_path / "run.data"
    line = [*RECORD, str(file), *words]
    subprocess.run(line, check=True, timeout=120, capture_output=True)
    return open_recording(str(file))


class Recorded:
    """The samples of a recording: whose they are, and which have a copy of a stack."""

    def __init__(self, recording):
        info = recording.info
        events = decode(recording.blocks(), info.events, [], clock_of_id(info))
        events, self.info = with_clocks(events, info)
        self.events = with_copies_of_waits(events, self.info)
        samples = self.events.samples
        self.pid = samples.task.astype(np.uint32).astype(np.int64)
        self.is_clock = samples.event == 0
        self.is_user = samples.mode == abi.PERF_RECORD_MISC_USER
        self.has_copy = np.zeros(len(samples), np.bool_)
        if samples.user:
            copied = samples.user.sample[samples.user.stack_bytes > 0]
            self.has_copy[copied] = True
            # The programs are loaded when COMMAND runs already.
            self.is_since = samples.time_ns >= samples.time_ns[copied].min()

    def family(self, pid):
        """Return a process and all that descend from it."""
        tasks = self.events.tasks
        born = tasks.kind == TASK_FORK
        children = {}
        for child, parent in zip(tasks.pid[born], tasks.parent_pid[born], strict=True):
            children.setdefault(int(parent), set()).add(int(child))
        found, waiting = set(), [pid]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += children.get(one, ())
        return found

    def copies(self, pid):
        """Check that a family has the copies, and no other process; return their number by pid."""
        family = sorted(self.family(pid))
        is_of_family = np.isin(self.pid, family)
        assert not (self.has_copy & ~is_of_family).any()
        chosen = self.is_clock & self.is_user & self.is_since & is_of_family
        assert chosen.sum() > 20
        assert self.has_copy[chosen].mean() > 0.97  # a process that is just being born has none
        return {pid: int((self.has_copy & (self.pid == pid)).sum()) for pid in family}


def test_only_the_command_and_its_descendants_have_copies(tmp_path, stranger):
    found = Recorded(record(tmp_path, "--call-graph", "dwarf", sys.executable, "-c", FAMILY))
    counts = found.copies(found.info.extras["command_pid"])
    # Of the command and of two processes that its threads started.
    assert sum(count > 10 for count in counts.values()) >= 3
    assert (found.is_clock & (found.pid == stranger)).any()


def test_mappings_of_strangers_are_those_with_samples(tmp_path, stranger):
    # Short, without copies: in a larger recording they are so small a part that they are left in.
    found = Recorded(record(tmp_path, sys.executable, "-c", SPIN.format(0.1)))
    mmaps, samples = found.events.mmaps, found.events.samples
    family = sorted(found.family(found.info.extras["command_pid"]))
    of_stranger = samples.ip[found.is_user & (found.pid == stranger)]
    rows = np.flatnonzero(mmaps.pid == stranger)
    starts, ends = mmaps.start[rows], mmaps.start[rows] + mmaps.length[rows]
    assert len(of_stranger)
    is_met = (of_stranger >= starts[:, None]) & (of_stranger < ends[:, None])
    assert is_met.any(axis=1).all()
    assert is_met.any(axis=0).all()
    assert len(set(mmaps.pid[mmaps.pid >= 0].tolist())) <= len(set(found.pid.tolist()) | {*family})
    files = set(zip(mmaps.major, mmaps.minor, mmaps.inode, strict=True))
    columns = found.info.extras["mapped_files"]
    assert set(zip(columns["major"], columns["minor"], columns["inode"], strict=True)) <= files


@pytest.mark.usefixtures("stranger")
def test_each_tick_makes_one_sample(tmp_path):
    line = ("--call-graph", "dwarf", sys.executable, "-c", SPIN.format(0.4))
    found = Recorded(record(tmp_path, *line))
    samples = found.events.samples
    for clock, described in enumerate(found.info.extras["clocks"]):
        for cpu in set(described["cpus"]):
            mine = found.is_clock & (samples.clock == clock) & (samples.cpu == cpu)
            times = np.sort(samples.time_ns[mine].astype(np.int64))
            # Two of one tick would be microseconds apart, however late it comes.
            assert len(times) > 5
            assert np.diff(times).min() > 50_000
    assert sum(found.info.extras["lost"].values()) == 0


def test_switches_of_strangers_are_not_recorded(tmp_path, stranger):
    recording = record(tmp_path, "--off-cpu", sys.executable, "-c", FAMILY)
    found = Recorded(recording)
    rows = [
        row
        for row, event in enumerate(found.info.events)
        if event.attr.config == abi.PERF_COUNT_SW_CONTEXT_SWITCHES
    ]
    is_switch = np.isin(found.events.samples.event, rows)
    assert is_switch.any()
    assert set(found.pid[is_switch].tolist()) <= found.family(recording.info.extras["command_pid"])
    events = with_switches(found.events, found.info)
    of_followed = events.switches.task[events.switches.is_followed].astype(np.uint32).tolist()
    assert set(of_followed) >= set(found.pid[is_switch].tolist())
    assert stranger not in of_followed
    # The recorder wakes COMMAND, and has children that many others wake.
    assert not set(of_followed) & set(found.info.extras["recorder_pids"])
    # The clocks' samples tell who had a CPU all the same.
    assert (found.is_clock & (found.pid == stranger)).any()


@pytest.mark.parametrize("whose", [(), ("-a",)])
def test_each_piece_of_a_waiting_stack_is_copied_once(tmp_path, stranger, whose):
    """Two processes pass a byte to each other, and wait at one place each, with all callers."""
    program = build_program(tmp_path, "wall", "-pthread")
    line = ("--off-cpu", "--call-graph", "dwarf", str(program), "pipe", str(tmp_path))
    recording = record(tmp_path, *whose, *line)
    events = decode(recording.blocks(), recording.info.events, [])
    (row,) = (
        row
        for row, event in enumerate(recording.info.events)
        if event.attr.config == abi.PERF_COUNT_SW_CONTEXT_SWITCHES
    )
    data = events.samples.data
    assert set(events.samples.event[data.sample].tolist()) == {row}
    pids = events.samples.task[data.sample].astype(np.uint32)
    family = Recorded(recording).family(recording.info.extras["command_pid"])
    of_family = np.isin(pids, sorted(family))
    assert of_family.all() == (not whose)
    assert (pids == stranger).any() == bool(whose)
    size = (data.words[data.start[:-1]] & np.uint64(0xFFFF_FFFF))[of_family]
    assert len(size) > 400
    # The kernel fills words up. The rest has new pieces: preempted threads may be anywhere.
    assert (size < 16).sum() > len(size) / 2
    assert size.sum() < len(size) * 8192 / 8
    waits = build_profile(
        recording,
        NamingOptions(use_cache=False, debuginfod_s=0),
        ProfileRequest(stacks=True, waits=True),
    )
    found = waiting(complete(waits), "2")
    reads = [stack for stack in found.stacks if "read" in stack.user and "main" in stack.user]
    assert sum(stack.waits for stack in reads) > 0.95 * sum(
        one.waits for one in found.blockers if one.name == "read"
    )


# A thread waits in a recursion of changing depth, whose frames hold other numbers each time.
DEEP = """
#include <time.h>
#include <stdlib.h>
static volatile long sink;
__attribute__((noinline)) void down(int depth) {
    volatile long numbers[40];
    for (int i = 0; i < 40; i++) numbers[i] = rand();
    if (depth) down(depth - 1);
    else { struct timespec t = {0, 100000}; clock_nanosleep(CLOCK_MONOTONIC, 0, &t, 0); }
    sink += numbers[depth % 40];
}
int main(void) { for (int i = 0; i < 600; i++) down(5 + i % 10); }
"""


def test_callers_are_those_of_each_switch(tmp_path):
    """Stacks from shared pieces have as many callers as the program called, each time."""
    source, program = tmp_path / "deep.c", tmp_path / "deep"
    source.write_text(DEEP)
    subprocess.run(["gcc", "-O1", "-fomit-frame-pointer", "-o", program, source], check=True)
    recording = record(tmp_path, "--off-cpu", "--call-graph", "dwarf", str(program))
    waits = build_profile(
        recording,
        NamingOptions(use_cache=False, debuginfod_s=0),
        ProfileRequest(stacks=True, waits=True),
    )
    found = waiting(complete(waits), "2")
    sleeps = [stack for stack in found.stacks if "clock_nanosleep" in "".join(stack.user)]
    counts = {}
    for stack in sleeps:
        assert stack.user.count("main") == 1
        depth = stack.user.count("down")
        counts[depth] = counts.get(depth, 0) + stack.waits
    assert sum(counts.values()) > 550
    assert set(counts) == set(range(6, 16))
    assert min(counts.values()) >= 50
    assert max(counts.values()) <= 60


def test_attached_process_and_its_children(tmp_path, stranger):
    script = (
        "import subprocess, sys\n"
        "sys.stdin.read()\n"
        f"for _ in range(5): subprocess.run([sys.executable, '-c', {SPIN.format(0.1)!r}])"
    )
    with running([sys.executable, "-c", script], stdin=subprocess.PIPE) as parent:
        line = [*RECORD, tmp_path / "r", "--call-graph", "dwarf", "-p", parent.pid]
        with running(line, stderr=subprocess.DEVNULL) as recorder:
            wait_until_it_watches(recorder.pid)
            parent.stdin.close()
            assert recorder.wait(60) == 0
    counts = Recorded(open_recording(str(tmp_path / "r"))).copies(parent.pid)
    assert stranger not in counts
    assert sum(count > 2 for count in counts.values()) >= 3


def test_every_process_has_copies_if_asked_for(tmp_path, stranger):
    line = ("-a", "--call-graph", "dwarf", sys.executable, "-c", SPIN.format(0.4))
    found = Recorded(record(tmp_path, *line))
    chosen = found.is_clock & found.is_user & (found.pid == stranger)
    assert chosen.any()
    assert found.has_copy[chosen].all()


@pytest.mark.usefixtures("stranger")
@pytest.mark.parametrize("callers", ["none", *nightly("dwarf")])
def test_python_frames_are_of_the_same_processes(tmp_path, callers):
    code = f"def spinning():\n  exec({SPIN.format(0.5)!r})\nspinning()"
    line = ("--python", "--call-graph", callers, sys.executable, "-c", code)
    recording = record(tmp_path, *line)
    info = recording.info
    options = NamingOptions(use_cache=False, debuginfod_s=0), ProfileRequest(stacks=True)
    assert "spinning" in build_profile(recording, *options).functions.name
    events = decode(recording.blocks(), info.events, [], clock_of_id(info))
    pids = events.samples.task.astype(np.uint32)[events.runtimes.sample]
    assert set(pids.tolist()) == {info.extras["command_pid"]}
