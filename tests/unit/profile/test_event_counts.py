"""What follows from counts."""

import pytest

from prospect.profile.event_counts import Count, CountedEvent, derived_figures

SECOND = 1_000_000_000


def figures(elapsed_s=2.0, **counts):
    events = tuple(CountedEvent(name.replace("_", "-")) for name in counts)
    found = derived_figures(events, tuple(counts.values()), elapsed_s)
    return {event.name: figure for event, figure in zip(events, found, strict=True)}


def test_a_count_that_shared_its_counter_is_scaled():
    assert Count(300, 4 * SECOND, 1 * SECOND).estimate == 1200
    assert Count(300, 4 * SECOND, 1 * SECOND).running_share == 0.25
    assert Count(7, SECOND, SECOND).estimate == 7


def test_a_count_without_a_counter_is_none_and_one_of_nobody_is_zero():
    assert Count(0, SECOND, 0).estimate is None
    assert Count(0, SECOND, 0).running_share == 0.0
    assert Count(0, 0, 0).estimate == 0.0
    assert Count(0, 0, 0).running_share == 1.0


def test_a_difference_scales_by_its_own_times():
    earlier, later = Count(100, 2 * SECOND, SECOND), Count(400, 4 * SECOND, 2 * SECOND)
    assert later.since(earlier) == (300, 2 * SECOND, SECOND)
    assert later.since(earlier).estimate == 600


def test_clocks_cycles_and_instructions():
    found = figures(task_clock=float(SECOND), cycles=3e9, instructions=6e9, faults=50.0)
    assert found["task-clock"] == (0.5, "CPUs utilised")
    assert found["cycles"] == (3.0, "GHz")
    assert found["instructions"] == (2.0, "instructions a cycle")
    assert found["faults"] == (50.0, "/s of CPU time")


def test_shares_are_of_what_they_are_misses_of():
    found = figures(branches=200.0, branch_misses=5.0)
    assert found["branch-misses"] == (2.5, "% of branches")
    assert figures(branch_misses=5.0)["branch-misses"] == (2.5, "/s")


def test_user_events_go_with_user_events():
    events = (CountedEvent("cycles:u"), CountedEvent("cycles"), CountedEvent("instructions:u"))
    found = derived_figures(events, (100.0, 1000.0, 200.0), 1.0)
    assert found[2] == (2.0, "instructions a cycle")


def test_an_idle_clock_says_nothing_of_others():
    found = figures(cpu_clock=2.0 * SECOND, cycles=3e9)
    assert found["cpu-clock"] == (SECOND, "/s")
    assert found["cycles"] == (1.5e9, "/s")


@pytest.mark.parametrize("elapsed_s", [0.0, 1.0])
def test_nothing_follows_from_nothing(elapsed_s):
    assert figures(elapsed_s, cycles=None)["cycles"] is None
    assert derived_figures((), (), elapsed_s) == ()
    joules = CountedEvent("power/energy/", "Joules", 0.5)
    assert derived_figures((joules,), (4.0,), elapsed_s) == (None,)
