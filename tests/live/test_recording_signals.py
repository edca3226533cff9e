"""Signals to the recorder end the interval, reach COMMAND, and still leave a recording."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from builders.examples import nightly
from builders.waiting import wait_for
from prospect.capture.loop.command import Command, SignalWatch
from prospect.errors import ProspectError
from prospect.perfdata.reader import open_recording

pytestmark = [pytest.mark.live, pytest.mark.parallel]


@pytest.fixture
def start():
    """Record a shell script and wait for the line that says it is ready."""
    children = []

    def start(output, script, **options):
        line = [sys.executable, "-m", "prospect", "record", "-o", str(output), "sh", "-c", script]
        child = subprocess.Popen(line, stdout=subprocess.PIPE, start_new_session=True, **options)
        children.append(child)
        assert child.stdout.readline() == b"ready\n"
        return child

    yield start
    for child in children:
        child.stdout.close()


def record_bytes(output):
    """Return how many bytes of records can be read, 0 as long as the file has no head."""
    with suppress(ProspectError), open_recording(str(output)) as recording:
        return sum(len(block.data) for block in recording.blocks())
    return 0


def extras(output):
    with open_recording(str(output)) as recording:
        assert sum(len(block.data) for block in recording.blocks()) > 1000
        return recording.info.extras


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *nightly(signal.SIGHUP, signal.SIGINT, signal.SIGALRM, signal.SIGXCPU)],
)
def test_signal_to_the_recorder_ends_the_command_too(start, tmp_path, number):
    # `exec` so that the signal finds the sleeping program itself.
    child = start(tmp_path / "r", "echo ready; exec sleep 60")
    child.send_signal(number)
    assert child.wait(5) == 128 + number
    assert extras(tmp_path / "r")["interrupted_by"] == number


def test_signals_that_mean_nothing_to_a_recorder_do_not_end_it(start, tmp_path):
    script = "trap 'echo got; exit 4' USR1; echo ready; echo $$; while :; do sleep 0.05; done"
    child = start(tmp_path / "r", script)
    pid = int(child.stdout.readline())
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGIO, signal.SIGPROF, signal.SIGPWR):
        child.send_signal(number)
    time.sleep(0.2)
    assert child.poll() is None
    os.kill(pid, signal.SIGUSR1)  # COMMAND has the default of its own, and not the recorder's
    assert child.stdout.read() == b"got\n"
    assert child.wait(5) == 4
    assert extras(tmp_path / "r")["interrupted_by"] == 0


def test_command_dies_of_a_signal_that_the_recorder_ignores(start, tmp_path):
    child = start(tmp_path / "r", "echo ready; kill -USR1 $$; exec sleep 60")
    assert child.wait(10) == 128 + signal.SIGUSR1


def test_command_chooses_its_exit_status_after_the_signal(start, tmp_path):
    script = "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    child = start(tmp_path / "r", script)
    child.send_signal(signal.SIGTERM)
    assert child.stdout.read() == b"caught\n"
    assert child.wait(5) == 5


def test_command_that_ignores_the_signal_is_left_alone_after_a_while(start, tmp_path):
    child = start(tmp_path / "r", "trap '' TERM; echo ready; echo $$; exec sleep 8")
    pid = int(child.stdout.readline())
    begin = time.monotonic()
    child.send_signal(signal.SIGTERM)
    assert child.wait(8) == 128 + signal.SIGTERM
    assert 1.5 < time.monotonic() - begin < 5
    os.kill(pid, signal.SIGKILL)  # raises if it did not survive
    assert any("still running" in limit for limit in extras(tmp_path / "r")["limits"])


def test_second_signal_ends_at_once(start, tmp_path):
    child = start(tmp_path / "r", "trap '' TERM; echo ready; echo $$; exec sleep 8")
    pid = int(child.stdout.readline())
    begin = time.monotonic()
    child.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    child.send_signal(signal.SIGTERM)
    assert child.wait(8) == 128 + signal.SIGTERM
    assert time.monotonic() - begin < 1.5
    os.kill(pid, signal.SIGKILL)
    assert extras(tmp_path / "r")["interrupted_by"] == signal.SIGTERM


def test_quit_key_is_the_commands_business(start, tmp_path):
    script = "trap 'echo dump' QUIT; echo ready; sleep 0.5; echo end"
    child = start(tmp_path / "r", script)
    os.killpg(child.pid, signal.SIGQUIT)
    assert child.wait(10) == 0
    assert child.stdout.read() == b"dump\nend\n"
    assert extras(tmp_path / "r")["interrupted_by"] == 0


def test_signals_ignored_from_the_start_stay_ignored(start, tmp_path):
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    child = start(tmp_path / "r", "echo ready; sleep 0.5; echo end", preexec_fn=ignore)
    child.send_signal(signal.SIGHUP)
    child.send_signal(signal.SIGINT)
    assert child.wait(10) == 0
    assert child.stdout.read() == b"end\n"


def test_interrupt_key_reaches_the_command_once_and_ends_the_interval(tmp_path):
    output = tmp_path / "r"
    script = "trap 'n=$((n+1))' INT; echo ready; sleep 0.3; sleep 0.3; sleep 0.3; echo caught $n"
    line = [sys.executable, "-m", "prospect", "record", "-o", str(output), "sh", "-c", script]
    pid, controller = pty.fork()
    if pid == 0:
        os.execv(line[0], line)
    said = read_until(controller, b"ready")
    os.write(controller, b"\x03")
    said = read_until(controller, b"caught")
    assert b"caught 1" in said + read_until(controller, b"\n")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(controller)
    assert extras(output)["interrupted_by"] == signal.SIGINT


def read_until(fd, mark):
    said = b""
    while mark not in said:
        said += os.read(fd, 1)
    return said


def test_killed_recorder_leaves_a_readable_file_and_a_running_command(start, tmp_path):
    output = tmp_path / "r"
    child = start(output, "echo ready; echo $$; exec sleep 30")
    pid = int(child.stdout.readline())
    wait_for(lambda: record_bytes(output) > 1000)  # it writes some while it runs
    child.kill()
    child.wait(5)
    os.kill(pid, signal.SIGKILL)  # raises if it did not survive
    assert record_bytes(output) > 1000
    with open_recording(str(output)) as recording:
        assert recording.info.events[0].name in {"cpu-clock", "cycles"}


def test_command_never_runs_when_the_recorder_dies_before_it(tmp_path):
    signals = SignalWatch()
    command = Command(["touch", str(tmp_path / "ran")], signals)
    command.close()
    signals.close()
    assert command.reap().exit_status == 127
    assert not (tmp_path / "ran").exists()
