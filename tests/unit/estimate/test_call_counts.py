"""Calls between windows: the estimate covers the truth of simulated programs."""

from __future__ import annotations

import numpy as np
import pytest

from prospect.estimate.call_figures import missed_calls
from prospect.profile.optional_tables import CallWindows

ALL = np.ones(1, np.bool_)
NO_COST = np.zeros(1), np.zeros(1)


def table(calls, own_s, gap_s):
    """Make windows of one function and one process."""
    count = len(own_s)
    return CallWindows(
        own_s=np.array(own_s, np.float64),
        gap_s=np.array(gap_s, np.float64),
        window_index=np.arange(count, dtype=np.int32),
        counted_index=np.zeros(count, np.int32),
        process_index=np.zeros(count, np.int32),
        calls=np.array(calls, np.int64),
    )


def simulate(random, rate_at, windows=40, own_s=0.01, gap_s=0.09):
    """Return windows into a program that calls at random, `rate_at(time)` times a second.

    And how many calls the gaps held.
    """
    gaps = gap_s * random.uniform(0.5, 1.5, windows)
    edges = np.cumsum(np.column_stack((np.full(windows, own_s), gaps)).ravel())
    step = 0.0005
    times = np.arange(0, edges[-1], step)
    calls = random.poisson(rate_at(times) * step)
    part = np.searchsorted(edges, times, side="right")
    sums = np.bincount(part, calls, 2 * windows)[: 2 * windows].astype(int)
    return table(sums[::2], np.full(windows, own_s), gaps), int(sums[1::2].sum())


def bursts(random):
    """Change between many and few calls about eight times a second."""
    levels = random.choice([2000.0, 60_000.0], size=200)
    starts = np.cumsum(random.exponential(0.12, 200))
    return lambda times: levels.take(np.searchsorted(starts, times), mode="clip")


@pytest.mark.parametrize(
    "program",
    [
        lambda _: lambda times: np.full(len(times), 20_000.0),
        lambda _: lambda times: np.full(len(times), 3.0),
        lambda _: lambda times: 5000.0 + 20_000.0 * times,
        lambda _: lambda times: 20_000.0 * (np.sin(times * 23) > 0),
        bursts,
    ],
    ids=["steady", "rare", "growing", "periodic", "bursts"],
)
def test_the_interval_holds_the_truth_in_19_of_20_runs(program):
    random = np.random.default_rng(5)
    runs, inside = 300, 0
    for _ in range(runs):
        windows, truth = simulate(random, program(random))
        missed, half = missed_calls(windows, ALL, *NO_COST)
        inside += abs(float(missed[0]) - truth) <= float(half[0])
    # 285 of 300 are 19 of 20; less than 277 has a chance of 1 in 50 then.
    assert inside >= 277


def phases(random, length_s):
    """A function that is called much, little or not at all, in three to eight phases."""
    count = int(random.integers(3, 9))
    edges = np.sort(random.uniform(0, length_s, count - 1))
    levels = random.choice([0.0, 3000.0, 90_000.0], size=count)
    return lambda times: levels.take(np.searchsorted(edges, times))


def cut_short(windows, truth, kept):
    """Return what the first windows say of the same run: its budget was spent by then."""
    last_s = windows.gap_s[kept - 1 :].sum() + windows.own_s[kept:].sum()
    gap_s = np.append(windows.gap_s[: kept - 1], last_s)
    found = table(windows.calls[:kept], windows.own_s[:kept], gap_s)
    return found, truth + int(windows.calls[kept:].sum())


@pytest.mark.parametrize("kept", [10, 25, 34, 37, 40])
def test_a_program_in_phases_is_held_or_said_to_be_unknown(kept):
    random = np.random.default_rng(6)
    runs, inside, known = 300, 0, 0
    for _ in range(runs):
        windows, truth = cut_short(*simulate(random, phases(random, 4.0)), kept)
        missed, half = missed_calls(windows, ALL, *NO_COST)
        if np.isnan(half[0]):
            continue
        known += 1
        inside += abs(float(missed[0]) - truth) <= float(half[0])
    assert known == 0 if kept < 30 else known > 0.9 * runs
    assert inside >= 0.92 * known


def test_no_gap_is_no_error():
    missed, half = missed_calls(table([5, 6], [0.1, 0.1], [0.0, 0.0]), ALL, *NO_COST)
    assert (missed[0], half[0]) == (0.0, 0.0)


def test_equal_windows_extrapolate_to_their_rate():
    missed, half = missed_calls(table([100] * 10, [0.01] * 10, [0.09] * 10), ALL, *NO_COST)
    assert missed[0] == pytest.approx(9000)
    assert 0 < half[0] < 2000


def test_a_window_without_own_time_is_no_rate():
    calls, own_s, gap_s = [500, 100, 100], [0.0, 0.01, 0.01], [0.09, 0.09, 0.09]
    missed, _ = missed_calls(table(calls, own_s, gap_s), ALL, *NO_COST)
    assert missed[0] == pytest.approx(2700)


@pytest.mark.parametrize("own_s", [[0.01], [0.0, 0.01], [0.0, 0.0]])
def test_one_window_tells_nothing(own_s):
    windows = table([10] * len(own_s), own_s, [0.1] * len(own_s))
    missed, half = missed_calls(windows, ALL, *NO_COST)
    assert missed[0] == 0.0
    assert np.isnan(half[0])


def test_what_a_probe_costs_is_uncertain_and_so_is_the_rest():
    windows = table([100] * 50, [0.01] * 50, [0.09] * 50)
    _, sure = missed_calls(windows, ALL, *NO_COST)
    # 100 calls of 20 us are 2 ms, known to 10 %, beside 10 ms of the program's own.
    missed, half = missed_calls(windows, ALL, np.array([20_000.0]), np.array([1000.0]))
    assert half[0] - sure[0] == pytest.approx(0.02 * missed[0])


def test_only_chosen_processes_count():
    windows = table([100, 100], [0.01, 0.01], [0.09, 0.09])
    missed, _ = missed_calls(windows, np.zeros(1, np.bool_), *NO_COST)
    assert missed[0] == 0.0
