"""--wall on the running kernel: switches of COMMAND's threads, and of those that it waits for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from builders.recordings import PROSPECT, run_as_another_user
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.figures.report.waiting import waiting
from prospect.options import NamingOptions
from prospect.perfdata.reader import open_recording
from prospect.profile.complete import complete
from prospect.profile.model import PATH_RAN

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="programs that follow threads need root"),
]

# It sleeps, answers its child through a pair of sockets and over loopback, and waits for its end.
PROGRAM = """
import os, socket, time
time.sleep(0.1)
server = socket.create_server(("127.0.0.1", 0))
here, there = socket.socketpair()
if os.fork() == 0:
    asking = socket.create_connection(server.getsockname())
    for _ in range(200):
        there.recv(1), there.send(b"x")
    for _ in range(100):
        asking.send(b"x"), asking.recv(1)
    time.sleep(0.1)
    os._exit(0)
answering, _ = server.accept()
for _ in range(200):
    here.send(b"x"), here.recv(1)
for _ in range(100):
    answering.recv(1), answering.send(b"x")
os.waitpid(-1, 0)
"""
SLEEPS = 2
SLEEP_S = 0.1


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    directory = tmp_path_factory.mktemp("wall")
    file, script = directory / "perf.data", directory / "waits.py"
    script.write_text(PROGRAM)
    # Somebody else, whose switches are not recorded.
    with subprocess.Popen(["sh", "-c", "while :; do sleep 0.01; done"]) as other:
        line = [*PROSPECT, "record", "--wall", "-o", str(file), sys.executable, str(script)]
        ran = subprocess.run(line, check=False, timeout=60, capture_output=True, text=True)
        other.kill()
    assert ran.returncode == 0, ran.stderr
    return file, other.pid


@pytest.fixture(scope="module")
def profile(recording):
    naming = NamingOptions(debuginfod_s=0)
    return complete(
        build_profile(open_recording(str(recording[0])), naming, ProfileRequest(waits=True))
    )


@pytest.fixture(scope="module")
def found(profile):
    return waiting(profile, "3")


def test_waits_have_their_system_calls(found):
    blockers = {one.name: one for one in found.blockers}
    sleeps = blockers["clock_nanosleep"]
    assert sleeps.waits == SLEEPS
    assert sleeps.seconds >= SLEEPS * SLEEP_S
    assert blockers["wait4"].waits == 1
    assert blockers["recvfrom"].waits > 0
    assert not any(one.name == "none" for one in found.blockers)


def test_every_wait_has_its_waking(found):
    for blocker in found.blockers:
        ended = sum(one.waits for one in found.wakers if one.name == blocker.name)
        assert ended == blocker.waits, blocker.name


def test_a_sleep_is_ended_by_an_interrupt_and_an_answer_by_who_sent_it(found):
    ended_by = {}
    for one in found.wakers:
        ended_by.setdefault(one.name, {})[one.who] = one.waits
    assert ended_by["clock_nanosleep"] == {"(interrupt)": SLEEPS}
    program = Path(sys.executable).name[:15]
    answers = ended_by["recvfrom"]
    assert answers.get(program, 0) > 0.9 * sum(answers.values())
    assert ended_by["wait4"] == {program: 1}


def test_each_thread_is_accounted_for(profile, found):
    threads = profile.threads
    shown = found.shown
    life = threads.life_ns.take(shown).sum()
    known = sum(
        column.take(shown).sum()
        for column in (threads.cpu_ns, threads.runnable_ns, threads.blocked_ns)
    )
    assert len(shown) == 2
    assert life - known == threads.unknown_ns.take(shown).sum() < 0.05 * life


def test_others_are_left_out(profile, recording):
    _, other = recording
    assert not np.isin(other, profile.threads.tid)


@pytest.mark.skipif(not shutil.which("perf"), reason="perf is not installed")
def test_perf_reads_the_switches(recording):
    line = ["perf", "script", "-i", str(recording[0]), "-F", "comm,tid,time,event,trace"]
    ran = subprocess.run(line, check=True, timeout=60, capture_output=True)
    switches = [
        line
        for line in ran.stdout.decode(errors="replace").splitlines()
        if "sched:sched_switch: " in line
    ]
    assert switches
    assert all(" prev_state=" in line and " next_pid=" in line for line in switches)


def test_the_path_of_an_ordinary_user_goes_on_with_a_child_that_exits(tmp_path):
    spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    line = ("record", "--wall", "-o", "r", "sh", "-c", f"sh -c '{spin}'; true")
    ran = run_as_another_user(tmp_path, *line)
    assert ran.returncode == 0, ran.stderr
    recording = open_recording(str(tmp_path / "r"))
    naming = NamingOptions(use_cache=False, debuginfod_s=0)
    profile = build_profile(recording, naming, ProfileRequest(waits=True))
    path, threads = profile.wall, profile.threads
    shell = recording.info.extras["command_pid"]
    ran_ns = path.length_ns[(path.state == PATH_RAN) & (path.tid != shell)].sum()
    assert ran_ns > 0.9 * threads.cpu_ns[threads.tid != shell].sum() > 0
    assert not (path.takers.tid == 0).any()  # it is not known that a CPU was idle
