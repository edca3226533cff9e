"""When the walker is attached: as Python begins to run, and not before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from prospect.capture.kernel import procfs
from prospect.capture.machine import runtime_processes
from prospect.capture.machine.mapping_records import MappingRecord
from prospect.capture.machine.runtime_processes import FirstRuntime, IdleRuntimes, may_be_runtime

RECORDER = os.getppid()


class Processes:
    """/proc, of processes that are a parent, the ticks used, and the begin of their image."""

    def __init__(self, monkeypatch, **processes):
        self.rows = {int(pid.removeprefix("p")): row for pid, row in processes.items()}
        self.rows[RECORDER] = (1, 5, 1000)
        monkeypatch.setattr(runtime_processes, "read_if_there", self.read)
        monkeypatch.setattr(procfs, "read_if_there", self.read)
        monkeypatch.setattr(runtime_processes, "names_in", lambda path: [path.split("/")[2]])
        # Each question is answered by a new look.
        monkeypatch.setattr(runtime_processes, "_SOON_S", 0.0)
        monkeypatch.setattr(runtime_processes, "_LATER_S", 0.0)

    def read(self, path):
        _, _, pid, *_, name = path.split("/")
        if int(pid) not in self.rows:
            return b""
        if name == "children":
            return " ".join(
                str(one) for one, row in self.rows.items() if row[0] == int(pid)
            ).encode()
        parent, ticks, image = self.rows[int(pid)]
        fields = ["0"] * 50
        fields[1], fields[11] = str(parent), str(ticks)
        for number in range(20, 48):
            fields[number] = str(image)
        return f"{pid} (python3 (x)) {' '.join(fields)}".encode()


def test_nobody_who_runs_python_is_waited_for_without_an_end(monkeypatch):
    Processes(monkeypatch)
    before = IdleRuntimes(())
    assert not before.has_run()
    assert before.wait_ms() is None


def test_an_idle_python_is_watched_until_it_uses_the_cpu(monkeypatch):
    there = Processes(monkeypatch, p70=(1, 10, 7000))
    before = IdleRuntimes([70])
    assert not before.has_run()
    assert before.wait_ms() > 0
    there.rows[70] = (1, 11, 7000)
    assert before.has_run()


def test_a_fork_of_an_idle_python_is_python_that_runs(monkeypatch):
    there = Processes(monkeypatch, p70=(1, 10, 7000), p80=(1, 10, 8000))
    before = IdleRuntimes([70])
    there.rows[81] = (80, 0, 8000)
    assert not before.has_run()
    there.rows[71] = (70, 0, 7000)
    assert before.has_run()


@pytest.mark.parametrize(("image", "runs"), [(1000, False), (2000, True)])
def test_the_recorder_and_its_forks_are_not_waited_for_but_command_is(monkeypatch, image, runs):
    there = Processes(monkeypatch, p90=(RECORDER, 0, image))
    before = IdleRuntimes([RECORDER, 90])
    assert before.has_run() is runs
    there.rows[RECORDER] = (1, 50, 1000)
    assert before.has_run() is runs


def mapping(path):
    return MappingRecord((8, 1, 2), 70, 0, 1, path, 0, 0)


@pytest.mark.parametrize(
    ("path", "is_python"),
    [
        (b"/usr/bin/python3.11", True),
        (b"/usr/lib/libpython3.13.so.1.0 (deleted)", True),
        (b"/usr/bin/python3.13t", True),
        (b"/usr/lib/python3/dist-packages/_x.so", False),
        (b"/usr/lib/python3.so", False),
        (b"/usr/bin/python2.7", False),
    ],
)
def test_the_first_mapping_of_python_is_told_once(path, is_python):
    assert may_be_runtime(path) == is_python
    read_fd, write_fd = os.pipe2(os.O_NONBLOCK)
    try:
        first = FirstRuntime(write_fd)
        assert first.wait_ms() is None
        for _ in range(2):
            first.look([mapping(b"/bin/sh"), mapping(path)], is_all=True)
        os.close(write_fd)
        assert os.read(read_fd, 8) == b"!" * is_python
    finally:
        os.close(read_fd)


def test_where_mappings_were_lost_one_may_have_been_of_python():
    read_fd, write_fd = os.pipe2(os.O_NONBLOCK)
    try:
        FirstRuntime(write_fd).look([], is_all=False)
        assert os.read(read_fd, 8) == b"!"
    finally:
        os.close(write_fd)
        os.close(read_fd)


def test_a_fork_that_has_executed_nothing_is_no_python_of_its_own():
    pid = os.fork()
    if not pid:
        time.sleep(60)
        os._exit(0)
    try:
        assert not runtime_processes.executes_runtime(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        while not runtime_processes.executes_runtime(child.pid):
            assert child.poll() is None
        child.communicate(b"\n")
