"""Counters: who is opened where, what starts when, and what a refusal says."""

from __future__ import annotations

import errno
import os
import struct

import pytest

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.capture.counting import event_counters
from prospect.capture.counting.event_counters import CounterSet, CountTarget
from prospect.capture.events.event_choice import ChosenEvent
from prospect.capture.events.event_parsing import parse_events
from prospect.errors import CaptureError

COMMAND = CountTarget(pids=(7,), cpus=(0, 1), on_exec=True)
CPUS = CountTarget(cpus=(0, 1))
PROBE = ChosenEvent("./p:f", EventAttr(type=8), path=b"/p")


class Kernel:
    """perf_event_open() that notes what it opened; each counter reads as 10 of 4 ns, 2 running."""

    def __init__(self, monkeypatch, refuse=lambda _event: 0):
        self.opened, self.enabled = [], []
        self.refuse = refuse
        monkeypatch.setattr(event_counters, "open_chosen", self.open)
        monkeypatch.setattr(event_counters.perf_syscalls, "enable_event", self.enabled.append)

    def open(self, event, pid, cpu, group_fd=-1):
        if code := self.refuse(event):
            raise OSError(code, os.strerror(code))
        fd = os.memfd_create(event.name)
        os.write(fd, struct.pack("=QQQ", 10, 4, 2))
        os.lseek(fd, 0, os.SEEK_SET)
        self.opened.append((event.name, pid, cpu, group_fd >= 0, event.attr.flags, fd))
        return fd


@pytest.fixture
def kernel(monkeypatch):
    return Kernel(monkeypatch)


def open_all(target, text, **options):
    found = CounterSet(target)
    found.open(parse_events(text), **options)
    return found


def test_a_command_is_counted_from_its_exec_on(kernel):
    found = open_all(COMMAND, "faults,cs")
    found.enable()
    assert kernel.enabled == []
    wanted = abi.FLAG_INHERIT | abi.FLAG_DISABLED | abi.FLAG_ENABLE_ON_EXEC
    assert [row[:3] for row in kernel.opened] == [("faults", 7, -1), ("cs", 7, -1)]
    assert all(row[4] & wanted == wanted for row in kernel.opened)
    assert found.read() == ((10, 4, 2), (10, 4, 2))
    found.close()


def test_cpus_are_added_up(kernel):
    found = open_all(CPUS, "faults")
    found.enable()
    assert [row[1:3] for row in kernel.opened] == [(-1, 0), (-1, 1)]
    assert len(kernel.enabled) == 2
    assert found.read() == ((20, 8, 4),)
    assert not kernel.opened[0][4] & abi.FLAG_INHERIT
    found.close()


def test_a_group_starts_with_its_leader(kernel):
    found = open_all(CPUS, "{cycles,instructions},faults")
    found.enable()
    assert [row[3] for row in kernel.opened] == [False, False, True, True, False, False]
    assert len(kernel.enabled) == 4
    found.close()


def test_a_probe_is_never_inherited(kernel):
    found = CounterSet(COMMAND)
    found.open((PROBE,))
    found.enable()
    assert [row[1:3] for row in kernel.opened] == [(-1, 0), (-1, 1)]
    assert len(kernel.enabled) == 2
    assert not any(row[4] & abi.FLAG_INHERIT for row in kernel.opened)
    assert "every process" in found.limits[0]
    found.close()


def test_who_may_not_count_the_kernel_counts_user_space(monkeypatch):
    kernel = Kernel(
        monkeypatch, lambda e: 0 if e.attr.flags & abi.FLAG_EXCLUDE_KERNEL else errno.EACCES
    )
    found = open_all(COMMAND, "faults,cycles:u")
    assert [event.name for event in found.events] == ["faults:u", "cycles:u"]
    assert len(kernel.opened) == 2
    found.close()
    for target, text in ((CPUS, "faults"), (COMMAND, "faults:k")):
        with pytest.raises(CaptureError, match="run as root"):
            open_all(target, text)


def test_an_event_that_is_not_there_may_be_left_out(monkeypatch):
    Kernel(monkeypatch, lambda e: errno.ENOENT if e.name == "cycles" else 0)
    found = open_all(COMMAND, "cycles,faults", optional=True)
    assert [event.name for event in found.events] == ["faults"]
    assert found.refused[0].startswith("cycles: this machine does not have it")
    found.close()
    with pytest.raises(CaptureError, match="does not have it"):
        open_all(COMMAND, "cycles")


def test_more_threads_than_open_files_are_refused_with_a_limit_that_is_enough(monkeypatch):
    many = CountTarget(pids=tuple(range(100)), cpus=(0, 1))
    for limits in ((1000, 1000), (100, 1000)):
        kernel = Kernel(monkeypatch)
        kernel.refuse = lambda _, opened=kernel.opened: errno.EMFILE * (len(opened) >= 150)
        monkeypatch.setattr(
            event_counters.perf_syscalls, "_limit_open_files", lambda *_, now=limits: now
        )
        with pytest.raises(CaptureError, match=r"^cs: too many open files: .*`ulimit -n 232`"):
            open_all(many, "faults,cs", optional=True)


def test_a_group_that_the_counters_cannot_hold_is_no_missing_event(monkeypatch):
    group = "{cycles,instructions,branches}"
    kernel = Kernel(monkeypatch, lambda _: 0)
    found = open_all(COMMAND, group)
    found.close()
    leader = kernel.opened[0][3]
    assert [row[3] for row in kernel.opened].count(leader) == 1
    Kernel(
        monkeypatch,
        lambda e: errno.EINVAL if e.name == "branches" and e.group == 0 else 0,
    )
    with pytest.raises(CaptureError, match=r"^branches: .* whole group"):
        open_all(COMMAND, group)
    Kernel(monkeypatch, lambda e: errno.EINVAL if e.name == "branches" else 0)
    with pytest.raises(CaptureError, match=r"^branches: this machine does not have it"):
        open_all(COMMAND, group)


def test_a_unit_outside_of_the_cores_is_counted_once(kernel):
    event = ChosenEvent("power/energy/", EventAttr(type=11), cpus=b"1")
    found = CounterSet(CPUS)
    found.open((event,))
    assert [row[1:3] for row in kernel.opened] == [(-1, 1)]
    found.close()
    with pytest.raises(CaptureError, match="counts for whole CPUs"):
        CounterSet(COMMAND).open((event,))
