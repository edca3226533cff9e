"""--off-cpu on the running kernel: programs whose waits, and how long they take, are known."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time

import numpy as np
import pytest

from builders.command_line import run, run_here, running
from builders.examples import nightly
from builders.recordings import PROSPECT, build_program
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.assembly.threads.followed_threads import left_with
from prospect.assembly.threads.waits import switch_event, with_switches
from prospect.events.decode import decode
from prospect.figures.report.waiting import waiting
from prospect.figures.stacks.stack_weights import with_waits
from prospect.options import NamingOptions
from prospect.perfdata.reader import open_recording
from prospect.profile.complete import complete

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]

# A thread's own clock, and the switches that others see: one is read a little before the other.
SLACK_NS = 5_000_000
PART = 0.01


@pytest.fixture(scope="module")
def waits(tmp_path_factory):
    return build_program(tmp_path_factory.mktemp("bin"), "waits", "-pthread", "-g")


@pytest.fixture(scope="module")
def record(waits, tmp_path_factory):
    """Record the program in one of its modes: the file, and what its threads say of themselves."""

    def record(mode, *options):
        file = tmp_path_factory.mktemp("recording") / "perf.data"
        line = [*PROSPECT, "record", "--no-python", "--off-cpu", *options]
        line += ["-o", str(file), str(waits), mode]
        ran = subprocess.run(line, check=True, timeout=60, capture_output=True, text=True)
        told = {}
        for name, tid, ran_ns, lived_ns in map(str.split, ran.stdout.splitlines()):
            told[name] = (int(tid), int(ran_ns), int(lived_ns))
        return file, told

    return record


@pytest.fixture(scope="module")
def resting(record):
    return record("rest", "--call-graph", "auto")


def profile_of(file, *, stacks=True):
    options = NamingOptions(debuginfod_s=0), ProfileRequest(stacks=stacks)
    return build_profile(open_recording(str(file)), *options)


@pytest.fixture(scope="module")
def profile(resting):
    return profile_of(resting[0])


def stolen_ns(profile):
    """Return what the host took: switches do not tell it, a thread's own clock leaves it out."""
    seconds = [accounting["steal_s"] for accounting in profile.run.cpu_accounting.values()]
    ticks = 2 * sum(one > 0 for one in seconds)
    return int((sum(seconds) + ticks / os.sysconf("SC_CLK_TCK")) * 1e9)


def row_of(threads, tid):
    (row,) = np.flatnonzero(threads.tid == tid).tolist()
    return row


@pytest.mark.parallel
def test_each_thread_adds_up_to_its_life(resting, profile):
    threads = profile.threads
    parts = threads.cpu_ns + threads.runnable_ns + threads.blocked_ns
    assert (parts + threads.unknown_ns).tolist() == threads.life_ns.tolist()
    for name, (tid, ran_ns, lived_ns) in resting[1].items():
        row = row_of(threads, tid)
        assert threads.name[row] == name
        allowed_ns = PART * lived_ns + SLACK_NS + stolen_ns(profile)
        assert abs(int(threads.cpu_ns[row]) - ran_ns) < allowed_ns
        assert int(threads.unknown_ns[row]) <= PART * lived_ns
        assert int(threads.life_ns[row]) >= lived_ns


@pytest.mark.parallel
def test_waits_last_as_long_as_they_were_made(resting, profile):
    threads = profile.threads
    longest = {
        name: int(threads.longest_ns[row_of(threads, tid)])
        for name, (tid, _, _) in resting[1].items()
    }
    assert longest["sleeper"] >= 300_000_000
    assert longest["holder"] >= 250_000_000
    assert longest["reader"] >= 200_000_000
    assert longest["locker"] >= 250_000_000
    burner = row_of(threads, resting[1]["burner"][0])
    assert int(threads.cpu_ns[burner]) >= 300_000_000 - SLACK_NS
    assert int(threads.blocked_ns[burner]) < int(threads.cpu_ns[burner])


@pytest.mark.parallel
def test_stacks_say_who_waited_for_what(profile):
    found = waiting(complete(profile), "2")
    names = {blocker.name for blocker in found.blockers}
    assert {"a mutex", "read"} <= names
    assert names & {"nanosleep", "clock_nanosleep"}
    for function, kernel in (("sleeps", "nanosleep"), ("locks", "futex"), ("reads", "read")):
        # There may be others: a wait that a signal or another thread cut short.
        stack = max(
            (
                stack
                for stack in found.stacks
                if function in stack.user and any(kernel in name for name in stack.kernel)
            ),
            key=lambda stack: stack.longest_s,
        )
        assert stack.user.index(function) < stack.user.index("work")
        assert stack.longest_s >= 0.1


@pytest.mark.parallel
def test_who_ended_a_wait_is_who_did(resting, profile):
    tids = {name: tid for name, (tid, _, _) in resting[1].items()}
    waits = profile.waits

    def waker_of(name):
        rows = np.flatnonzero(~waits.is_runnable & (waits.tid == tids[name]))
        return int(waits.waker[rows[waits.length_ns[rows].argmax()]])

    assert waker_of("locker") == tids["holder"]
    writer = row_of(profile.threads, waker_of("reader"))
    assert profile.threads.name[writer] == "waits"
    # Nobody did, but a timer; beside another profiler its record may not be found.
    assert waker_of("sleeper") in {0, -1}
    found = waiting(complete(profile), "2")
    kinds = {(one.name, one.idle) for one in found.blockers if one.longest_s >= 0.1}
    assert {("a mutex", False), ("read", False)} <= kinds
    assert kinds & {("nanosleep", True), ("clock_nanosleep", True)}
    assert "holder" in {one.who for one in found.wakers if one.name == "a mutex"}


@pytest.mark.parallel
def test_waits_weigh_their_time_in_every_sum(profile):
    """Each wait with a stack has a row, and is exported as a sample behind the clock's."""
    waits, threads = profile.waits, profile.threads
    waited = int(threads.blocked_ns.sum() + threads.runnable_ns.sum())
    assert int(waits.length_ns.sum()) == waited - int(threads.stackless_ns.sum())
    assert len(profile.samples) == int(profile.hits.count.sum())
    every = with_waits(profile)
    events, hits = every.run.events, every.hits
    assert [event.name for event in events][-2:] == ["blocked", "runnable"]
    period = np.bincount(hits.event, hits.period, len(events)).astype(np.int64)
    assert int(period[-2:].sum()) == int(waits.length_ns.sum())
    assert len(every.samples) == int(hits.count.sum())


@pytest.mark.parallel
def test_the_report_counts_no_wait_as_a_sample(resting):
    with_waits = run_here("report", resting[0]).stdout.decode()
    assert "Waiting: What Each Thread Did All its Life" in with_waits
    assert "sleeper" in with_waits
    assert "context-switches" not in with_waits
    folded = run_here("report", "--format", "folded", resting[0]).stdout.decode()
    slept = [line for line in folded.splitlines() if line.startswith("sleeper;")]
    assert any(int(line.rpartition(" ")[2]) >= 300_000 for line in slept if ";sleeps;" in line)


@pytest.mark.parallel
def test_rivals_for_one_processor_wait_for_it(record):
    file, told = record("rivals")
    profile = profile_of(file)
    threads = profile.threads
    for tid, ran_ns, lived_ns in told.values():
        row = row_of(threads, tid)
        allowed_ns = PART * lived_ns + SLACK_NS + stolen_ns(profile)
        assert abs(int(threads.cpu_ns[row]) - ran_ns) < allowed_ns
        assert int(threads.preemptions[row]) > 0
        # One of two runs at a time, as long as both want to.
        assert int(threads.runnable_ns[row]) > 0.25 * lived_ns


@pytest.mark.parametrize("of_all", [*nightly(True), False])
def test_another_profiler_that_samples_switches_takes_no_wait_away(tmp_path, of_all):
    """The kernel gives samples of the one that began first the ids of the other."""
    first, second = (str(tmp_path / name) for name in ("first.data", "second.data"))
    begin = [*PROSPECT, "record", "--no-python", "--off-cpu", "--call-graph", "fp"]
    begin += ["-a"] * of_all
    inner = [*begin, "-o", second, "--", "sh", "-c", "sleep 0.1; sleep 0.1"]
    subprocess.run([*begin, "-o", first, "--", *inner], check=True, timeout=60, capture_output=True)
    for file in (first, second):
        source = open_recording(file)
        events = decode(source.blocks(), source.info.events, source.damage)
        assert events.damage == ()
        of_switch = events.samples.event == switch_event(source.info)
        if of_all:
            # One may be the last that was still recorded.
            assert abs(int(of_switch.sum()) - int(events.switches.is_out.sum())) <= 2
        else:
            times = [event.name for event in source.info.events].index("sched:sched_switch")
            found, left_ns = left_with(events.samples, np.flatnonzero(of_switch), times)
            assert 0 < of_switch.sum() <= len(found) + 2
            switches = with_switches(events, source.info).switches
            assert set(left_ns.tolist()) <= set(switches.time_ns[switches.is_followed].tolist())
        if shutil.which("perf"):
            # It refuses a file with a sample of an event that the file does not describe.
            line = ["perf", "script", "-i", file, "-F", "event,pid"]
            ran = subprocess.run(line, check=True, timeout=60, capture_output=True, text=True)
            assert ran.stdout.count("context-switches") == int(of_switch.sum())


def test_perf_reads_the_same_switches(resting):
    perf = shutil.which("perf")
    if not perf:
        pytest.skip("perf is not installed")
    ran = subprocess.run(
        [perf, "script", "-i", str(resting[0]), "-F", "tid,time,event"],
        capture_output=True,
        timeout=60,
        check=True,
    )
    lines = ran.stdout.decode(errors="replace").splitlines()
    switches = [line.split() for line in lines if "sched:sched_switch" in line]
    tid = resting[1]["sleeper"][0]
    # A thread that leaves its CPU to a followed one would have one of these too.
    outs = [words for words in switches if words[0] == str(tid)]
    threads = profile_of(resting[0], stacks=False).threads
    row = row_of(threads, tid)
    # What it does after its death is recorded, and no part of its life.
    assert len(outs) - int(threads.blocks[row] + threads.preemptions[row]) in (0, 1)


@pytest.mark.parallel
def test_a_wait_that_lasts_all_the_recording_has_its_call(tmp_path):
    with running(["sleep", "60"]) as sleeper:
        time.sleep(0.2)
        words = ["--off-cpu", "-p", str(sleeper.pid), "--for", "0.5", "--format", "json"]
        ran = run(*words, "-f", str(tmp_path / "out"))
    assert ran.returncode == 0, ran.stderr
    waiting = json.loads((tmp_path / "out").read_text())["waiting"]
    (thread,) = waiting["threads"]
    assert thread["blocked_s"] == pytest.approx(thread["life_s"], abs=0.05)
    (blocker,) = waiting["blockers"]
    assert (blocker["name"], blocker["idle"]) == ("clock_nanosleep", True)
    assert blocker["seconds"] == pytest.approx(thread["blocked_s"])
