"""COMMAND runs under the recorder exactly as it would alone."""

from __future__ import annotations

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from builders.waiting import wait_for
from prospect.errors import CommandError
from prospect.recording.opened_events import RecordOptions
from prospect.recording.run import record

pytestmark = [pytest.mark.live, pytest.mark.parallel]

SHOW_SELF = """
import json, os, resource, signal, sys
ignored = [n for n in range(1, 65) if n not in (9, 19, 32, 33)
           and signal.getsignal(n) == signal.SIG_IGN]
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "cwd": os.getcwd(), "argv": sys.argv[1:], "env": dict(os.environ), "pgrp": os.getpgrp(),
    "session": os.getsid(0), "fds": sorted(int(n) for n in os.listdir("/proc/self/fd")),
    "nofile": resource.getrlimit(resource.RLIMIT_NOFILE),
    "blocked": status["SigBlk"].strip(), "ignored": status["SigIgn"].strip(),
}))
"""


def prospect(output, *words):
    return [sys.executable, "-m", "prospect", "record", "-o", str(output), "--", *words]


def run(output, *words, **options):
    line = prospect(output, *words)
    return subprocess.run(line, capture_output=True, timeout=60, check=False, **options)


def test_surroundings_are_those_of_a_plain_run(tmp_path):
    show = [sys.executable, "-c", SHOW_SELF, "a b", "", "*", "--"]
    environment = {**os.environ, "MARK": "ä\udcff"}
    plain = subprocess.run(show, capture_output=True, cwd=tmp_path, env=environment, check=True)
    recorded = run(tmp_path / "r", *show, cwd=tmp_path, env=environment)
    assert recorded.returncode == 0
    assert json.loads(recorded.stdout) == json.loads(plain.stdout)


def test_signal_dispositions_are_inherited_as_under_nohup(tmp_path):
    show = ["grep", "Sig[BI]", "/proc/self/status"]
    plain = subprocess.run(["nohup", *show], capture_output=True, check=True)
    recorded = subprocess.run(
        ["nohup", *prospect(tmp_path / "r", *show)], capture_output=True, check=True
    )
    assert recorded.stdout == plain.stdout


def test_ignored_child_signals_neither_cost_the_status_nor_change_for_the_command(tmp_path):
    def ignore():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    show = ["sh", "-c", "grep SigIgn /proc/self/status; exit 3"]
    plain = subprocess.run(show, capture_output=True, preexec_fn=ignore, check=False)
    recorded = run(tmp_path / "r", *show, preexec_fn=ignore)
    assert (recorded.returncode, recorded.stdout) == (3, plain.stdout)


def test_recording_works_outside_the_main_thread(tmp_path):
    results = []

    def work():
        with (tmp_path / "r").open("wb") as file:
            results.append(record(RecordOptions(command=("sh", "-c", "exit 4")), file.fileno()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results[0].exit_status == 4


def test_recorder_leaves_the_callers_process_as_it_was(tmp_path):
    def state():
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
        return (
            [signal.getsignal(number) for number in numbers],
            sorted(path.name for path in Path("/proc/self/fd").iterdir()),
            resource.getrlimit(resource.RLIMIT_NOFILE),
        )

    before = state()
    with (tmp_path / "r").open("wb") as file:
        record(RecordOptions(command=("true",)), file.fileno())
        with pytest.raises(CommandError):
            record(RecordOptions(command=("no-such-command-here",)), file.fileno())
    assert state() == before


def test_input_and_outputs_pass_through(tmp_path):
    script = "cat; echo error >&2"
    result = run(tmp_path / "r", "sh", "-c", script, input=b"in\0put\xff")
    assert result.stdout == b"in\0put\xff"
    assert result.stderr.startswith(b"error\n")


@pytest.mark.parametrize(
    ("script", "status"),
    [
        pytest.param("exit 0", 0, marks=pytest.mark.nightly),
        pytest.param("exit 3", 3, marks=pytest.mark.nightly),
        ("exit 255", 255),
        ("kill -9 $$", 137),
        pytest.param("kill -15 $$", 143, marks=pytest.mark.nightly),
    ],
)
def test_exit_status_is_the_shells(tmp_path, script, status):
    assert run(tmp_path / "r", "sh", "-c", script).returncode == status


def test_command_that_does_not_exist_is_127(tmp_path):
    result = run(tmp_path / "r", "no-such-command-here")
    assert result.returncode == 127
    assert b"no-such-command-here: command not found" in result.stderr


def test_command_that_cannot_run_is_126(tmp_path):
    file = tmp_path / "plain"
    file.write_text("")
    for word in (file, tmp_path):
        result = run(tmp_path / "r", word)
        assert result.returncode == 126
        assert b"Permission denied" in result.stderr


def test_script_without_interpreter_line_runs_in_the_shell(tmp_path):
    script = tmp_path / "script"
    script.write_text('echo "$0 $1"')
    script.chmod(0o755)
    assert run(tmp_path / "r", "./script", "x", cwd=tmp_path).stdout == b"./script x\n"


def test_path_is_searched_past_files_that_cannot_run(tmp_path):
    for name, mode in (("first", 0o644), ("second", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").write_text(f"#!/bin/sh\necho {name}\n")
        (tmp_path / name / "tool").chmod(mode)
    path = f"{tmp_path}/none:{tmp_path}/first:{tmp_path}/second:{os.environ['PATH']}"
    result = run(tmp_path / "r", "tool", env={**os.environ, "PATH": path})
    assert result.stdout == b"second\n"


def test_open_files_limit_raised_for_the_events_is_not_the_commands(tmp_path):
    def lower():
        resource.setrlimit(resource.RLIMIT_NOFILE, (13, 64))

    result = run(tmp_path / "r", "sh", "-c", "ulimit -n", preexec_fn=lower)
    assert (result.returncode, result.stdout) == (0, b"13\n")


def test_terminal_stays_the_commands(tmp_path):
    controller, terminal = pty.openpty()
    script = "test -t 0 && test -t 1 && read line && echo got $line"
    child = subprocess.Popen(
        prospect(tmp_path / "r", "sh", "-c", script),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    os.write(controller, b"word\n")
    said = b""
    while b"got word" not in said:
        said += os.read(controller, 1024)
    assert child.wait(30) == 0
    os.close(controller)


def test_killed_command_ends_the_recording(tmp_path):
    child = subprocess.Popen(prospect(tmp_path / "r", "sleep", "60"))
    pid = wait_for_child(child.pid, "sleep")
    os.kill(pid, signal.SIGKILL)
    assert child.wait(5) == 137


def wait_for_child(parent, comm):
    """Return the pid of the child once it executes `comm`."""
    children = Path(f"/proc/{parent}/task/{parent}/children")
    return wait_for(
        lambda: next(
            (
                int(pid)
                for pid in children.read_text().split()
                if Path(f"/proc/{pid}/comm").read_text().strip() == comm
            ),
            None,
        )
    )
