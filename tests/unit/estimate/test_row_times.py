"""Seconds of rows, and what neighbouring blocks of time tell of a run's unsteadiness."""

from __future__ import annotations

import numpy as np
import pytest

from builders.runs import run_of
from prospect.estimate.compare.compared_run import compared_run, row_times, seconds_per_hit
from prospect.estimate.compare.matching import label_runs, matched_rows
from prospect.profile.model import SampleTable
from prospect.records import replace

BLOCK_NS = 10_000_000


def timed_run(times_ns, *, wall_ns):
    """Return a run whose samples of `f` and `g` have these times."""
    profile = run_of({name: len(times) for name, times in times_ns.items()})
    hit_index = np.repeat(np.arange(len(times_ns)), [len(times) for times in times_ns.values()])
    samples = SampleTable(
        hit_index=hit_index.astype(np.int32),
        time_ns=np.concatenate([np.asarray(times, np.uint64) for times in times_ns.values()]),
        cpu=np.zeros(len(hit_index), np.uint16),
        clock=np.zeros(len(hit_index), np.uint8),
    )
    run = replace(profile.run, begin_ns=1, end_ns=1 + wall_ns, wall_seconds=wall_ns * 1e-9)
    return compared_run(replace(profile, run=run, samples=samples), "3")


def times_of(run):
    rows = matched_rows("function", [run], label_runs([run], []))
    return row_times(run, rows.row_of_hit[0], len(rows))


def brute_force(times, blocks, wall_ns):
    """Return the variance of the sum by the mean square successive difference."""
    edges = 1 + np.arange(blocks + 1) * (wall_ns / blocks)
    seconds = np.histogram(times, edges)[0] * 1e-3
    return blocks * (np.diff(seconds) ** 2).sum() / (2 * (blocks - 1))


def test_rows_sum_hits_and_seconds():
    found = times_of(compared_run(run_of({"f": 7, "k:g": 5}), "3"))
    assert found.hits.tolist() == [7, 5]
    assert found.seconds == pytest.approx([0.007, 0.005])


@pytest.mark.parametrize("seed", range(5))
def test_the_variance_of_neighbours_is_that_of_its_definition(seed):
    random = np.random.default_rng(seed)
    wall_ns = 60 * BLOCK_NS
    bursts = random.integers(1, wall_ns, 6)
    times = np.concatenate([burst + np.arange(20) * 1000 for burst in bursts])
    run = timed_run({"f": np.minimum(times, wall_ns), "g": [1, wall_ns]}, wall_ns=wall_ns)
    found = times_of(run)
    for row, name in enumerate(("f", "g")):
        of_row = run.profile.samples.time_ns[run.profile.samples.hit_index == row]
        expected = max(brute_force(of_row, 60, wall_ns), found.sampling_variance[row])
        assert found.own_variance[row] == pytest.approx(expected), name


def test_bursts_are_less_sure_than_what_goes_on_all_the_time():
    wall_ns = 100 * BLOCK_NS
    steady = np.arange(1000) * (wall_ns // 1000) + 1
    bursts = np.concatenate([start * 9 * BLOCK_NS + np.arange(100) * 50_000 for start in range(10)])
    run = timed_run({"f": steady, "g": bursts + 1}, wall_ns=wall_ns)
    steady_variance, burst_variance = times_of(run).own_variance
    # Ten bursts of 0.1 s that come or do not: a variance of 10 * 0.1**2.
    assert burst_variance == pytest.approx(0.1, rel=0.2)
    assert steady_variance < burst_variance / 50


def test_a_phase_costs_little():
    wall_ns = 100 * BLOCK_NS
    phase = np.arange(500) * 1_000_000 + 20 * BLOCK_NS + 1
    found = times_of(timed_run({"f": phase}, wall_ns=wall_ns))
    assert np.sqrt(found.own_variance[0]) < 0.05 * found.seconds[0]


def test_a_row_without_a_hit_is_not_known_to_be_nothing():
    run = compared_run(run_of({"f": 100}), "3")
    none = np.full(len(run.profile.hits), -1, np.int64)
    found = row_times(run, none, 2)
    assert found.seconds.tolist() == [0.0, 0.0]
    assert found.sampling_variance == pytest.approx([1e-6, 1e-6])


@pytest.mark.parametrize("times", [[0, 0, 0], [2**64 - 1, 1, 2**63], [5, 5, 5]])
def test_times_that_make_no_sense_do_no_harm(times):
    run = timed_run({"f": times}, wall_ns=2**62)
    assert np.isfinite(times_of(run).own_variance).all()


def test_what_a_hit_is_worth_is_known_without_hits():
    assert seconds_per_hit(compared_run(run_of({"f": 10}), "3")) == pytest.approx(1e-3)
    assert seconds_per_hit(compared_run(run_of({}), "3")) == pytest.approx(1e-3)
