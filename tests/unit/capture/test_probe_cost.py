"""The cost of a probe, against a machine that is played."""

from __future__ import annotations

import os

import pytest

from prospect.capture.counting import call_probes
from prospect.capture.counting.call_probes import measure_probe_cost

pytestmark = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="what is timed are instructions of x86-64"
)
PLAIN_NS, PROBED_NS, DISTURBED_NS = 1_000, 401_000, 3_000_000
COST_NS = (PROBED_NS - PLAIN_NS) / 100


@pytest.fixture
def machine(monkeypatch):
    """A machine on which a round is disturbed when `is_disturbed` says so by its number."""

    class Machine:
        now_ns = rounds = switches = 0
        is_probed = False
        is_disturbed = staticmethod(lambda _: False)

        def duration_ns(self, _run):
            self.rounds += 1
            took_ns = PROBED_NS if self.is_probed else PLAIN_NS
            if self.is_disturbed(self.rounds):
                self.switches += 1
                took_ns += DISTURBED_NS
            self.now_ns += took_ns
            return took_ns

        def cost(self):
            def attach(_path, _offset):
                self.is_probed = True
                return os.open(os.devnull, os.O_RDONLY)

            return measure_probe_cost("nop", attach)

    found = Machine()
    monkeypatch.setattr(call_probes, "duration_ns", found.duration_ns)
    monkeypatch.setattr(call_probes, "preemptions", lambda: found.switches)
    monkeypatch.setattr(call_probes.time, "perf_counter_ns", lambda: found.now_ns)
    return found


def test_a_machine_at_rest_is_measured_in_a_few_rounds(machine):
    assert machine.cost() == (COST_NS, 0.0)
    assert machine.rounds == 18


def test_rounds_in_which_another_task_ran_do_not_count(machine):
    """Most are disturbed, and the median of all would be many times the cost."""
    machine.is_disturbed = lambda number: number % 3
    assert machine.cost() == (COST_NS, 0.0)


def test_a_machine_that_leaves_no_round_alone_is_measured_all_the_same_and_not_for_ever(machine):
    machine.is_disturbed = lambda _: True
    assert machine.cost().cost_ns == pytest.approx(COST_NS)
    assert machine.now_ns < 300_000_000
