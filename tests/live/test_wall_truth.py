"""--wall of programs that know how long they ran and waited, by their own clocks."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from builders.recordings import PROGRAMS, PROSPECT, build_program
from prospect.analysis.pipeline import build_profile
from prospect.analysis.profile_request import ProfileRequest
from prospect.estimate.finished_report import Report
from prospect.figures.report.waiting import waiting
from prospect.options import NamingOptions
from prospect.perfdata.reader import open_recording
from prospect.profile.complete import complete

pytestmark = [
    pytest.mark.live,
    pytest.mark.parallel,
    pytest.mark.skipif(os.geteuid() != 0, reason="programs that follow threads need root"),
]

MODES = ["sleep", "tcp", "tree", "chain"]
SLEEPS = 5
SLEEP_S = 0.03
# Start, end and system calls of a program besides the functions that it counts.
BESIDES_S = 0.05


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build_program(tmp_path_factory.mktemp("bin"), "wall", "-pthread")


@pytest.fixture(scope="module", params=MODES)
def recorded(request, program, tmp_path_factory):
    """Record a program: its mode, what it says of itself, its waits and its account."""
    truth, profile = record(tmp_path_factory.mktemp("wall"), str(program), request.param)
    return request.param, truth, waiting(profile, "3"), Report(profile).wall


def record(directory, *command, how="--wall"):
    """Record a program: what it says of itself, and its profile."""
    file = directory / "perf.data"
    line = [*PROSPECT, "record", how, "-o", str(file), *command]
    ran = subprocess.run(line, check=False, timeout=60, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    naming = NamingOptions(debuginfod_s=0)
    request = ProfileRequest(waits=True)
    return json.loads(ran.stdout), complete(
        build_profile(open_recording(str(file)), naming, request)
    )


def test_threads_ran_as_long_as_they_say(recorded):
    _, truth, found, _ = recorded
    ran_s = sum(truth["ran"].values())
    cpu_s = found.threads.cpu_ns.take(found.shown).sum() / 1e9
    unknown_s = found.threads.unknown_ns.take(found.shown).sum() / 1e9
    assert 0.98 * ran_s <= cpu_s + unknown_s
    assert cpu_s <= 1.1 * ran_s + BESIDES_S


def test_every_wait_has_its_waking(recorded):
    _, _, found, _ = recorded
    for blocker in found.blockers:
        ended = sum(one.waits for one in found.wakers if one.name == blocker.name)
        assert ended == blocker.waits, blocker.name


def test_a_program_waits_for_what_it_says(recorded):
    mode, truth, found, _ = recorded
    blockers = {one.name: one for one in found.blockers}
    if mode == "sleep":
        slept = blockers["clock_nanosleep"]
        assert slept.waits == SLEEPS
        # Its own clock goes on while it waits for a CPU again.
        assert SLEEPS * SLEEP_S <= slept.seconds <= truth["blocked"]["clock_nanosleep"]
    elif mode == "tree":
        children = blockers["wait4"]
        assert children.waits >= 1
        assert children.longest_s >= 0.9 * truth["ran"]["leaf"] * 8 / 9
    elif mode == "chain":
        assert sum(one.seconds for one in found.blockers) < 0.5 * truth["wall_s"]
    else:
        assert {one.who for one in found.wakers if one.name == "read"} >= {"wall"}


def test_the_account_adds_up_to_the_wall_time(recorded):
    _, truth, _, account = recorded
    assert sum(row.seconds for row in account.rows) == pytest.approx(account.seconds, abs=1e-6)
    # The program's own clock begins in main() and ends before its exit.
    assert truth["wall_s"] <= account.seconds
    assert account.seconds <= 1.05 * truth["wall_s"] + BESIDES_S


def test_known_parts_of_the_path_are_in_the_account(recorded):
    mode, truth, _, account = recorded
    if mode == "tcp":
        pytest.skip("of two sides on busy CPUs, one may wait for the CPU of the other")
    ran_s = sum(truth["ran"].values())
    running_s, unknown_s = account.seconds_of("running"), account.seconds_of("not known")
    assert 0.98 * ran_s <= running_s + unknown_s
    assert running_s <= 1.1 * ran_s + BESIDES_S
    slept_s = sum(row.seconds for row in account.rows if row.what == "sleep")
    assert slept_s == pytest.approx(SLEEPS * SLEEP_S if mode == "sleep" else 0.0, rel=0.2)


def test_a_packet_to_this_machine_is_its_senders_doing_with_stacks_too(program, tmp_path):
    _, profile = record(tmp_path, str(program), "tcp", how="--off-cpu")
    ended = [one.who for one in waiting(profile, "3").wakers if one.name == "read"]
    assert ended[:1] == ["wall"]
    account = Report(profile).wall
    assert not [row for row in account.rows if row.what == "network (read)"]


def test_the_path_goes_on_with_the_thread_that_has_the_global_lock(tmp_path):
    truth, profile = record(tmp_path, sys.executable, str(PROGRAMS / "wall_gil.py"))
    account = Report(profile).wall
    # Both threads wait for nothing else, and never run at once.
    ran_s = sum(truth["ran"].values())
    running_s, unknown_s = account.seconds_of("running"), account.seconds_of("not known")
    assert 0.9 * ran_s <= running_s + unknown_s


def test_the_path_goes_on_with_a_server_of_another_process(tmp_path):
    client = sys.executable, "-I", str(PROGRAMS / "wall_client.py"), str(tmp_path / "socket")
    with subprocess.Popen([*client, "serve"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout.readline() == "ready\n"
            _, profile = record(tmp_path, *client, how="--wall=system")
        finally:
            server.kill()
    account = Report(profile).wall
    slept_s = sum(row.seconds for row in account.rows if row.what == "sleep")
    assert slept_s == pytest.approx(SLEEPS * SLEEP_S, rel=0.2)
    assert server.pid in profile.processes.pid.take(profile.wall.process_index)
