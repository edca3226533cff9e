"""Benjamini and Hochberg's procedure against its own words."""

from __future__ import annotations

import numpy as np
import pytest

from prospect.estimate.statistics.row_limits import adjusted


def step_up(p_values, rate):
    """Reject the k smallest, k the largest with p(k) at most k / n times the rate."""
    order = sorted(range(len(p_values)), key=lambda row: p_values[row])
    passing = [k for k, row in enumerate(order, 1) if p_values[row] <= k / len(order) * rate]
    return set(order[: max(passing, default=0)])


@pytest.mark.parametrize("seed", range(40))
def test_rows_within_the_rate_are_those_that_the_procedure_rejects(seed):
    random = np.random.default_rng(seed)
    p_values = random.random(seed + 1) ** random.integers(1, 6)
    for rate in (0.01, 0.05, 0.3):
        rejected = set(np.flatnonzero(adjusted(p_values) <= rate).tolist())
        assert rejected == step_up(p_values.tolist(), rate)


def test_rows_that_are_not_tested_do_not_count():
    p_values = np.array([np.nan, 0.01, np.nan, 0.04])
    assert np.isnan(adjusted(p_values)[[0, 2]]).all()
    assert adjusted(p_values)[[1, 3]].tolist() == [0.02, 0.04]


def test_no_rows_are_no_trouble():
    assert adjusted(np.empty(0)).tolist() == []
    assert np.isnan(adjusted(np.full(3, np.nan))).all()


def test_an_adjusted_value_is_at_most_one_and_at_least_the_value_itself():
    p_values = np.array([0.9, 0.95, 1.0, 1.0])
    assert (adjusted(p_values) <= 1.0).all()
    assert (adjusted(p_values) >= p_values).all()
