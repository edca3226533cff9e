"""The cost of a sample, against a machine that is played."""

from __future__ import annotations

import math
import os
import random
import statistics
import struct
import subprocess
import sys
import time

import pytest

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.capture.events import sample_cost
from prospect.capture.events.event_choice import CLOCK_TIMER, SCOPE_SYSTEM, EventPlan
from prospect.capture.events.sample_cost import measure_sample_cost, median_and_spread

PLAN = EventPlan(EventAttr(), (1,), SCOPE_SYSTEM, CLOCK_TIMER, ())
WORK_NS = 250_000
PERIOD_NS = 20_000


def test_spread_of_a_median_covers_it_as_often_as_it_says():
    chance = random.Random(3)
    covered = 0
    for _ in range(2000):
        median, spread = median_and_spread([chance.gauss(0, 1) for _ in range(48)])
        covered += abs(median) <= spread
    assert 0.945 < covered / 2000 < 0.985


def test_median_of_few_values():
    assert median_and_spread([4.0, 1.0, 3.0])[0] == 3.0
    assert median_and_spread([4.0, 1.0, 3.0, 2.0])[0] == 2.5
    assert median_and_spread([2.0, 2.0, 2.0, 2.0]) == (2.0, 0.0)


class Machine:
    """Work takes `WORK_NS` and, while the clock is on, what its samples cost."""

    def __init__(
        self,
        user_ns,
        kernel_ns,
        *,
        noise_ns=0,
        burst_every=0,
        told=False,
        samples=True,
        work_ns=WORK_NS,
    ):
        self.work_ns = work_ns
        self.costs = [user_ns, kernel_ns]
        self.noise_ns, self.burst_every, self.samples = noise_ns, burst_every, samples
        self.told = told
        self.preemptions = 0
        self.chance = random.Random(5)
        self.now_ns = 0
        self.is_on = False
        self.runs = 0
        self.taken = 0
        self.closed = 0

    def clock(self, *_):
        return self

    def start(self):
        self.is_on, self.taken = True, 0

    def stop(self):
        self.is_on = False
        return self.taken

    def close(self):
        self.closed += 1

    def duration(self, work):
        self.runs += 1
        is_kernel = "readv" in work.__code__.co_names
        spent_ns = self.work_ns + abs(self.chance.gauss(0, self.noise_ns))
        if self.burst_every and self.runs % self.burst_every == 0:
            spent_ns += 3_000_000  # another process had the CPU, or another machine of this host
            self.preemptions += self.told
        if self.is_on and self.samples:
            self.taken = round(spent_ns / PERIOD_NS)
            spent_ns += self.taken * self.costs[is_kernel]
        self.now_ns += spent_ns
        return spent_ns


@pytest.fixture
def play(monkeypatch):
    def play(machine):
        monkeypatch.setattr(sample_cost, "_Clock", machine.clock)
        monkeypatch.setattr(sample_cost, "duration_ns", machine.duration)
        monkeypatch.setattr(sample_cost, "preemptions", lambda: machine.preemptions)
        monkeypatch.setattr(sample_cost.time, "perf_counter_ns", lambda: int(machine.now_ns))
        affinity = os.sched_getaffinity(0)
        cost = measure_sample_cost(PLAN)
        assert os.sched_getaffinity(0) == affinity
        assert machine.closed == 1
        return cost

    return play


def test_quiet_machine_shows_both_costs_exactly(play):
    cost = play(Machine(5000, 8000))
    assert cost == pytest.approx((5000, 0, 8000))


def test_noise_and_other_processes_hardly_matter_and_widen_the_spread(play):
    costs = [play(Machine(5000, 8000, noise_ns=20_000, burst_every=k)) for k in (7, 9, 11)]
    for cost in costs:
        assert cost.user_ns == pytest.approx(5000, abs=1500)
        assert cost.kernel_ns == pytest.approx(8000, abs=1500)
        assert 0 < cost.spread_ns < 3000
    assert statistics.median(cost.user_ns for cost in costs) == pytest.approx(5000, abs=800)


@pytest.mark.parametrize("burst_every", [3, 4, 5])
def test_turns_in_which_another_task_had_the_cpu_do_not_count(play, burst_every):
    cost = play(Machine(5000, 8000, burst_every=burst_every, told=True))
    assert cost == pytest.approx((5000, 0, 8000))


def test_cpu_that_is_never_left_alone_is_given_up_in_time(play):
    machine = Machine(5000, 8000, burst_every=2, told=True)
    assert play(machine) is None
    assert machine.now_ns < 220_000_000


def test_leaving_the_cpu_to_another_task_is_seen():
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        before, end_s = sample_cost.preemptions(), time.monotonic() + 20
        while sample_cost.preemptions() == before and time.monotonic() < end_s:
            pass
        assert sample_cost.preemptions() > before
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, allowed)


def test_clock_that_takes_no_samples_gives_no_cost(play):
    assert play(Machine(5000, 8000, samples=False)) is None


def test_cost_that_drowns_in_noise_is_not_known_or_vague(play):
    cost = play(Machine(1, 1, noise_ns=200_000))
    assert cost is None or cost.spread_ns > cost.user_ns


def test_slow_machine_is_left_before_the_budget_is_far_overdrawn(play):
    machine = Machine(5000, 8000, work_ns=2_000_000)
    play(machine)
    assert machine.now_ns < 60_000_000


def test_user_space_alone_has_no_kernel_cost(monkeypatch):
    machine = Machine(5000, 8000)
    monkeypatch.setattr(sample_cost, "_Clock", machine.clock)
    monkeypatch.setattr(sample_cost, "duration_ns", machine.duration)
    monkeypatch.setattr(sample_cost.time, "perf_counter_ns", lambda: int(machine.now_ns))
    plan = PLAN._replace(attr=EventAttr(flags=abi.FLAG_EXCLUDE_KERNEL))
    cost = measure_sample_cost(plan)
    assert cost.kernel_ns == 0.0
    assert math.isclose(cost.user_ns, 5000)


def test_refusing_kernel_gives_no_cost(monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "no")

    monkeypatch.setattr(sample_cost.perf_syscalls, "perf_event_open", refuse)
    affinity = os.sched_getaffinity(0)
    assert measure_sample_cost(PLAN) is None
    assert os.sched_getaffinity(0) == affinity


def test_only_samples_are_counted():
    def record(kind, size):
        return struct.pack("<IHH", kind, 0, size) + bytes(size - 8)

    lost = record(abi.PERF_RECORD_LOST, 48)
    sample = record(abi.PERF_RECORD_SAMPLE, 64)
    assert sample_cost._count_samples(sample + lost + sample) == 2
    assert sample_cost._count_samples(b"") == 0
