"""The system calls that threads are in as recording begins."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from prospect.abi.syscall_names import syscall_name
from prospect.capture.machine.surroundings import calls_before

SLEEPS = b"230 0x0 0x0 0x7ffc3c 0x0 0x0 0x0 0x7ffc9d2e3b10 0x7f1f9ac5f7\n"
SMALL = b"162 0x1 0x0 0x0 0x0 0x0 0x0 0xffa1c0 0xf7f2b0\n"


def test_calls_are_read_of_every_thread_that_is_in_one(tmp_path):
    states = {
        (5, 5): SLEEPS,
        (5, 6): b"running\n",
        (5, 7): b"-1 0x7ffc9d2e3b10 0x7f1f9ac5f7\n",
        (8, 8): SMALL,
        (9, 9): b"",
    }
    for (pid, tid), text in states.items():
        directory = tmp_path / f"{pid}/task/{tid}"
        directory.mkdir(parents=True)
        (directory / "syscall").write_bytes(text)
    proc = str(tmp_path)
    assert calls_before([], proc)["calls"] == {5: [230, 0], 8: [162, 1]}
    assert calls_before([5, 404], proc)["calls"] == {5: [230, 0]}


def test_a_process_that_sleeps_is_in_its_call():
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            file = Path(f"/proc/{sleeper.pid}/syscall")
            until = time.monotonic() + 10
            name = ""
            while "nanosleep" not in name and time.monotonic() < until:
                try:
                    file.read_bytes()
                except PermissionError:
                    pytest.skip("this user may not trace")
                calls = calls_before([sleeper.pid])["calls"]
                if sleeper.pid in calls:
                    number, compat = calls[sleeper.pid]
                    name = syscall_name(os.uname().machine, number, compat=bool(compat))
            assert "nanosleep" in name
        finally:
            sleeper.kill()
