"""The events of the CPUs against a kernel that is played: who is started, redrawn, told ended."""

from __future__ import annotations

import errno
import mmap
import os
import struct
from types import SimpleNamespace

import pytest

from prospect.abi.attr import EventAttr
from prospect.capture.events import clock_bank, cpu_events
from prospect.capture.events.cpu_events import EventSet
from prospect.capture.events.event_choice import (
    CLOCK_HARDWARE,
    CLOCK_TIMER,
    SCOPE_SYSTEM,
    SCOPE_TASK,
    EventPlan,
)
from prospect.capture.kernel import perf_syscalls

RING_BYTES = 4 * mmap.PAGESIZE


class Kernel:
    """Events as memory files: a ring to map; time on a clock that the test moves."""

    def __init__(self):
        self.now_ns = 1_000_000_000
        self.enabled = {}  # fd → (when, CPU)
        self.ended = {}  # CPU → when it went off line
        self.cpu_of = {}
        self.task_of = {}
        self.gone = set()
        self.periods = []
        self.refuses_periods = False
        # What an event's own time is ahead of its start.
        self.offset_ns = 18_000_000

    def open(self, _packed, pid, cpu):
        if pid in self.gone:
            raise ProcessLookupError(errno.ESRCH, "no such process")
        fd = os.memfd_create("event")
        os.ftruncate(fd, mmap.PAGESIZE + RING_BYTES)
        self.cpu_of[fd] = cpu
        self.task_of[fd] = pid
        return fd

    def enable(self, fd):
        self.enabled[fd] = self.now_ns

    def set_period(self, fd, period):
        if self.refuses_periods:
            raise OSError(errno.EINVAL, "above the limit")
        self.periods.append((self.cpu_of[fd], period))

    def counts(self, fd):
        self.now_ns += 1000
        until_ns = self.ended.get(self.cpu_of[fd], self.now_ns)
        return struct.pack("=QQQQ", 7, until_ns - self.enabled[fd] + self.offset_ns, fd, 5)

    def sleep(self, seconds):
        self.now_ns += round(seconds * 1e9)


@pytest.fixture
def kernel(monkeypatch):
    kernel = Kernel()
    monkeypatch.setattr(perf_syscalls, "perf_event_open", kernel.open)
    monkeypatch.setattr(perf_syscalls, "enable_event", kernel.enable)
    monkeypatch.setattr(perf_syscalls, "set_period", kernel.set_period)
    monkeypatch.setattr(perf_syscalls, "share_ring", lambda _fd, _owner: None)
    monkeypatch.setattr(perf_syscalls, "event_id", lambda fd: fd)
    fake_os = SimpleNamespace(read=lambda fd, _size: kernel.counts(fd), close=os.close)
    fake_time = SimpleNamespace(sleep=kernel.sleep)
    monkeypatch.setattr(cpu_events, "monotonic_ns", lambda: kernel.now_ns)
    monkeypatch.setattr(cpu_events, "os", fake_os)
    monkeypatch.setattr(cpu_events, "time", fake_time)
    monkeypatch.setattr(clock_bank, "read_setting", lambda _: 100_000)
    return kernel


@pytest.fixture
def open_events(kernel):
    opened = []

    def open_events(periods, clock=CLOCK_TIMER, cpus=(0, 1), tasks=()):
        scope = SCOPE_TASK if tasks else SCOPE_SYSTEM
        plan = EventPlan(EventAttr(), periods, scope, clock, ())
        events = EventSet(plan, tasks, RING_BYTES)
        opened.append(events)
        events.open(cpus)
        return events

    yield open_events
    for events in opened:
        events.close()


class Sink:
    def append(self, _slices):
        pass


def test_clocks_of_different_periods_start_at_once(kernel, open_events):
    events = open_events((4_000_000, 3_700_000))
    begin_ns = kernel.now_ns
    events.enable()
    assert len(kernel.enabled) == 4
    assert set(kernel.enabled.values()) == {begin_ns}


def test_clocks_of_one_period_start_a_fraction_of_it_apart(kernel, open_events):
    events = open_events((3_000_000, 3_000_000, 3_000_000))
    begin_ns = kernel.now_ns
    events.enable()
    for cpu in (0, 1):
        starts = sorted(
            at - begin_ns for fd, at in kernel.enabled.items() if kernel.cpu_of[fd] == cpu
        )
        assert starts == [0, 1_000_000, 2_000_000]


def test_counters_get_rates_of_their_own_near_the_one_asked_for(kernel, open_events):
    events = open_events((1000,), CLOCK_HARDWARE, cpus=tuple(range(16)))
    events.redraw_rates()
    assert [cpu for cpu, _ in kernel.periods] == list(range(16))
    rates = [rate for _, rate in kernel.periods]
    assert len(set(rates)) > 8
    assert all(500 <= rate <= 1500 for rate in rates)


def test_kernel_that_has_lowered_its_limit_keeps_the_rates(kernel, open_events):
    events = open_events((1000,), CLOCK_HARDWARE)
    kernel.refuses_periods = True
    events.redraw_rates()
    assert kernel.periods == []


def test_events_of_a_cpu_that_went_off_line_are_told_ended_when_they_did(kernel, open_events):
    events = open_events((4_000_000, 3_700_000))
    events.enable()
    assert events.stopped_cpus() == []
    kernel.now_ns += 300_000_000
    kernel.ended[1] = ended_ns = kernel.now_ns
    kernel.now_ns += 900_000_000
    assert events.stopped_cpus() == [1]
    # Exact but for what passed between the start and the look at the event's own time.
    assert events.drop_cpu(1, Sink()) == pytest.approx(ended_ns, abs=10_000)
    assert events.cpus() == (0,)
    assert sorted(events.lost.values()) == [5, 5]


def test_each_id_has_its_cpu_also_after_it_came_back(kernel, open_events):
    events = open_events((4_000_000, 3_700_000))
    events.enable()
    events.drop_cpu(1, Sink())
    events.add_cpu(1)
    first, second = events.clock_ids()
    assert [events.cpu_of()[number] for number in first] == [0, 1, 1]
    assert [events.cpu_of()[number] for number in second] == [0, 1, 1]


def test_kernels_without_lost_counts_have_none(kernel, open_events):
    events = open_events((4_000_000,))
    events.enable()
    counts = kernel.counts
    kernel.counts = lambda fd: counts(fd)[:24]
    assert events.read_lost() == {}
    assert events.stopped_cpus() == []


def test_each_thread_that_is_attached_to_has_events_of_its_own_on_every_cpu(kernel, open_events):
    kernel.gone = {12}
    events = open_events((4_000_000,), tasks=(11, 12, 13))
    events.enable()
    places = sorted((kernel.task_of[fd], kernel.cpu_of[fd]) for fd in kernel.enabled)
    assert places == [(11, 0), (11, 1), (13, 0), (13, 1)]
    (ids,) = events.clock_ids()
    assert sorted(ids) == sorted(kernel.enabled)
    assert [events.cpu_of()[number] for number in ids] == [kernel.cpu_of[number] for number in ids]
    # A thread that ends hangs its descriptor up: the others still tell that the ring is full.
    assert sorted(events.poll_fds()) == sorted(kernel.enabled)
    # The time of a thread's event stands still while it waits: that tells nothing of its CPU.
    assert events.stopped_cpus() == []


def test_threads_that_have_all_ended_are_not_attached_to(kernel, open_events):
    kernel.gone = {11, 12}
    with pytest.raises(ProcessLookupError):
        open_events((4_000_000,), tasks=(11, 12))
