"""Profiling what runs already: as root and as an ordinary user, until it ends, is told to, or has
taken long enough.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import prospect as library
from builders.another_user import WHO, python_of_another_user
from builders.command_line import BURN, PROSPECT, names, run, run_here, running
from builders.daemon import HALF_BUSY
from builders.waiting import wait_until_it_watches
from prospect.perfdata.reader import open_recording

pytestmark = [pytest.mark.live, pytest.mark.parallel]

THREADS = """
import subprocess, sys, threading
def spin():
    while True:
        sum(range(1000))
threading.Thread(target=spin, daemon=True).start()
print("ready", flush=True)
while True:
    subprocess.run(["sh", "-c", sys.argv[1]])
"""


@pytest.fixture
def start():
    """Start a program that runs by itself; a line from it says that it does."""
    children = []

    def start(*words, **keywords):
        child = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True, **keywords)
        children.append(child)
        assert child.stdout.readline() == b"ready\n"
        return child

    yield start
    for child in children:
        with suppress(ProcessLookupError):  # all of it has ended
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()


@pytest.fixture
def busy(start):
    # A quarter of a CPU is enough at these rates.
    load = HALF_BUSY.replace("sleep(0.005)", "sleep(0.015)")
    return start(sys.executable, "-c", f"print('ready', flush=True)\n{load}")


@pytest.fixture
def as_nobody(here):
    """Let another user work here, or skip."""
    python_of_another_user()
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) not in (1, 2):
        pytest.skip("ordinary users may profile nothing here, or everything")
    for directory in (here, Path(os.environ["TMPDIR"])):
        directory.chmod(0o777)
    for directory in (here.parent, *here.parent.parents[:2]):
        directory.chmod(0o755)
    return here


def hits_by_pid(path: str) -> tuple[dict[int, int], library.Profile]:
    profile = library.open(path)
    owners = profile.processes.pid[profile.hits.process_index].tolist()
    found: dict[int, int] = {}
    for pid, count in zip(owners, profile.hits.count.tolist(), strict=True):
        found[pid] = found.get(pid, 0) + count
    return found, profile


def wanted(profile: library.Profile, column: str) -> set[int]:
    return set(profile.processes.pid[getattr(profile.processes, column)].tolist())


def test_root_sees_the_whole_system_and_reports_on_what_was_named(here, busy):
    ran = run("record", "--no-python", "-H2000", "-p", str(busy.pid), "--for", "0.5", "-o", "r")
    assert ran.returncode == 0
    hits, profile = hits_by_pid("r")
    assert hits[busy.pid] > 50
    assert profile.run.system_wide
    assert profile.run.command == ()
    assert 0.45 < profile.run.wall_seconds < 5
    assert wanted(profile, "is_command") == wanted(profile, "is_descendant") == {busy.pid}
    with open_recording("r") as recording:
        extras = recording.info.extras
    assert (extras["attached_pids"], extras["command"]) == ([busy.pid], [])
    assert (extras["exit_status"], extras["interrupted_by"]) == (0, 0)
    assert busy.poll() is None


def test_the_report_says_whom_it_is_of(here, busy):
    ran = run("-p", str(busy.pid), "--for", "0.3", "-V2", "--format", "json")
    assert ran.returncode == 0
    document = json.loads(ran.stdout)
    assert document["run"]["origin"] == f"process {busy.pid}"
    assert {process["pid"] for process in document["events"][0]["processes"]} >= {busy.pid}


def test_perf_reads_a_recording_of_what_ran_already(here, busy):
    if not shutil.which("perf"):
        pytest.skip("perf is not installed")
    run("record", "--no-python", "-p", str(busy.pid), "--for", "0.3", "-o", "r")
    command = ["perf", "report", "-i", "r", "--stdio", "--sort", "pid", "--pid", str(busy.pid)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{busy.pid}:{Path(sys.executable).name}" in told.stdout


def test_an_ordinary_user_gets_all_threads_and_the_children_of_later(as_nobody, start):
    child = start(python_of_another_user(), "-c", THREADS, BURN, **WHO)
    ran = run("record", "-H2000", "-p", str(child.pid), "--for", "0.8", "-o", "r", **WHO)
    assert ran.returncode == 0, ran.stderr
    assert "Only the processes of -p" in ran.stderr
    hits, profile = hits_by_pid("r")
    assert not profile.run.system_wide
    assert hits[child.pid] > 100  # its second thread; the first one only waits
    later = wanted(profile, "is_descendant") - {child.pid}
    assert sum(hits.get(pid, 0) for pid in later) > 100
    assert set(hits) <= later | {child.pid}
    assert wanted(profile, "is_command") == {child.pid}
    # What was mapped before is known, and so are the names of code in it.
    assert any("libc" in path or "python" in path for path in profile.objects.path)


def test_an_ordinary_user_is_refused_what_is_not_his(as_nobody, busy):
    ran = run("record", "-p", str(busy.pid), "--for", "5", "-o", "r", "touch", "started", **WHO)
    assert ran.returncode == 2
    ran = run("record", "-p", str(busy.pid), "-o", "r", "touch", "started", **WHO)
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert f"process {busy.pid} is not yours to profile" in ran.stderr
    ran = run("--for", "5", **WHO)
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert "-p PID" in ran.stderr
    assert names(as_nobody) == []


def test_it_ends_when_all_that_it_watches_have_ended(here, start, busy):
    short = start("sh", "-c", f"echo ready; {BURN}")
    ran = run("record", "-p", str(short.pid), "-o", "r")
    assert ran.returncode == 0
    assert library.open("r").run.wall_seconds < 30
    both = f"{short.pid},{busy.pid}"
    ran = run("record", "--no-python", "-p", both, "--for", "0.2", "-o", "r")
    # It has ended, and is not waited for, but nobody has asked for its status yet.
    assert ran.returncode == 0
    short.wait()
    ran = run("record", "--no-python", "-p", both, "--for", "5", "-o", "r")
    assert (ran.returncode, ran.stderr) == (1, f"prospect: there is no process {short.pid} (-p)\n")


def test_the_processes_of_a_user_who_ends_them_end_the_recording_too(as_nobody, start):
    # It goes on for a while once the recording is there, however late that begins.
    until_then = "while [ ! -s r ]; do :; done"
    short = start("sh", "-c", f"echo ready; {until_then}; {BURN}; {BURN}; {BURN}; {BURN}", **WHO)
    ran = run("record", "-p", str(short.pid), "-o", "r", **WHO)
    assert ran.returncode == 0
    hits, _ = hits_by_pid("r")
    assert set(hits) == {short.pid}


@pytest.mark.parametrize(
    ("number", "is_of_all"),
    [
        (signal.SIGINT, True),
        (signal.SIGTERM, False),
        pytest.param(signal.SIGINT, False, marks=pytest.mark.nightly),
        pytest.param(signal.SIGTERM, True, marks=pytest.mark.nightly),
    ],
)
def test_a_signal_ends_the_recording_and_nothing_else(here, busy, number, is_of_all):
    whom = [] if is_of_all else ["-p", str(busy.pid)]
    with running([*PROSPECT, "record", "--no-python", "-H2000", "-o", "r", *whom]) as recorder:
        wait_until_it_watches(recorder.pid)
        time.sleep(0.4)
        recorder.send_signal(number)
        assert recorder.wait(20) == 0
    assert busy.poll() is None
    hits, profile = hits_by_pid("r")
    assert hits[busy.pid] > 50
    assert bool(wanted(profile, "is_command")) is not is_of_all
    with open_recording("r") as recording:
        assert recording.info.extras["interrupted_by"] == number


def test_a_command_says_how_long_and_its_status_counts(here, busy):
    words = ["record", "--no-python", "-H2000", "-p", str(busy.pid), "-o", "r"]
    ran = run(*words, "sh", "-c", f"{BURN}; exit 3")
    assert ran.returncode == 3
    hits, profile = hits_by_pid("r")
    assert hits[busy.pid] > 20
    assert wanted(profile, "is_descendant") == {busy.pid}
    assert profile.run.command == ()
    assert "command_user_s" not in profile.run.accounting


def test_a_time_takes_the_place_of_sleep(here, busy):
    ran = run("-V4", "--for", "0.3", "--format", "json")
    assert ran.returncode == 0
    document = json.loads(ran.stdout)
    assert document["run"]["origin"] == "the whole system"
    assert busy.pid in {process["pid"] for process in document["events"][0]["processes"]}


def test_a_full_file_ends_it_as_nobody_else_waits(here, busy):
    bound = ["--max-size", "1M", "-H1000", "--call-graph", "dwarf"]
    ran = run("record", *bound, "-p", str(busy.pid), "-o", "r")
    assert ran.returncode == 1
    assert library.open("r").run.wall_seconds < 50


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["-p", "99999999"], 1, "there is no process 99999999"),
        (["-p", "x"], 2, "give numbers of processes"),
        (["-p", "0"], 2, "give numbers of processes"),
        (["-p", "1,"], 2, "give numbers of processes"),
        (["--for", "0"], 2, "give a number of seconds over 0"),
        (["--for", "9", "touch", "started"], 2, "drop it, or drop --for"),
        (["-p", "1", "--count-calls", "x*"], 2, "--count-calls counts in COMMAND"),
        (["-p", "99999999", "touch", "started"], 1, "there is no process 99999999"),
    ],
)
@pytest.mark.parametrize("command", [[], ["record", "-o", "r"]])
def test_what_cannot_be_attached_to_starts_nothing(here, command, arguments, status, says):
    ran = run_here(*command, *arguments)
    assert (ran.returncode, ran.stdout, ran.stderr.count(b"\n")) == (status, b"", 1)
    assert says in ran.stderr.decode()
    assert names(here) == []


def test_the_python_interface_attaches(here, busy):
    profile = library.record(pids=[busy.pid], for_s=0.3, frequency_hz=1000)
    assert wanted(profile, "is_command") == {busy.pid}
    with pytest.raises(library.errors.UsageError):
        library.record()
