"""When the walker is attached: as Python begins to run, and not before."""

from __future__ import annotations

import os

import pytest

from prospect.capture.machine.mapping_records import MappingRecord
from prospect.capture.python import first_python

RECORDER = os.getppid()


class Processes:
    """/proc, of processes that are a parent, the ticks used, and the begin of their image."""

    def __init__(self, monkeypatch, **processes):
        self.rows = {int(pid.removeprefix("p")): row for pid, row in processes.items()}
        self.rows[RECORDER] = (1, 5, 1000)
        monkeypatch.setattr(first_python, "read_if_there", self.stat)
        monkeypatch.setattr(first_python, "_pids", lambda: set(self.rows))

    def stat(self, path):
        _, _, pid, name = path.split("/")
        if int(pid) not in self.rows or name != "stat":
            return b""
        parent, ticks, image = self.rows[int(pid)]
        fields = ["0"] * 50
        fields[1], fields[11] = str(parent), str(ticks)
        for number in range(20, 48):
            fields[number] = str(image)
        return f"{pid} (python3 (x)) {' '.join(fields)}".encode()

    def before(self, *pids):
        records = [MappingRecord((8, 1, 2), pid, 0, 1, b"/usr/bin/python3", 0, 0) for pid in pids]
        return first_python.Before(iter(records))


def test_nobody_who_runs_python_is_waited_for_without_an_end(monkeypatch):
    before = Processes(monkeypatch).before()
    assert not before.has_run()
    assert before.wait_ms() is None


def test_an_idle_python_is_watched_until_it_uses_the_cpu(monkeypatch):
    there = Processes(monkeypatch, p70=(1, 10, 7000))
    before = there.before(70)
    assert not before.has_run()
    assert before.wait_ms() > 0
    there.rows[70] = (1, 11, 7000)
    assert before.has_run()


def test_a_fork_of_an_idle_python_is_python_that_runs(monkeypatch):
    there = Processes(monkeypatch, p70=(1, 10, 7000), p80=(1, 10, 8000))
    before = there.before(70)
    there.rows[81] = (80, 0, 8000)
    assert not before.has_run()
    there.rows[71] = (70, 0, 7000)
    assert before.has_run()


@pytest.mark.parametrize(("image", "runs"), [(1000, False), (2000, True)])
def test_the_recorder_and_its_forks_are_not_waited_for_but_command_is(monkeypatch, image, runs):
    there = Processes(monkeypatch, p90=(RECORDER, 0, image))
    before = there.before(RECORDER, 90)
    assert before.has_run() is runs
    there.rows[RECORDER] = (1, 50, 1000)
    assert before.has_run() is runs
