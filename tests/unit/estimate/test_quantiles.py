"""Intervals of quantiles: the ranks that tables of order statistics have."""

import math

import numpy as np
import pytest

from prospect.estimate.statistics.row_limits import interval_ranks, quantile_of


@pytest.mark.parametrize(
    ("count", "order", "low", "high"),
    [
        (6, 0.5, 1, 6),
        (10, 0.5, 2, 9),
        (20, 0.5, 6, 15),
        (100, 0.5, 40, 61),
        (1_000_000, 0.5, 499_020, 500_981),
        (1000, 0.95, 936, 964),
    ],
)
def test_ranks_from_one_on(count, order, low, high):
    assert interval_ranks(count, order) == (low - 1, high - 1)


def test_with_too_few_values_a_side_is_open():
    assert interval_ranks(5, 0.5) == (-1, 5)
    found = quantile_of(np.arange(59, dtype=np.float64), 0.95)
    assert (found.low, math.isnan(found.high)) == (51, True)


def test_an_interval_has_the_quantile_as_often_as_it_says():
    random = np.random.default_rng(5)
    samples = np.sort(random.exponential(size=(4000, 40)), axis=1)
    low, high = interval_ranks(40, 0.5)
    covers = (samples[:, low] < math.log(2)) & (math.log(2) < samples[:, high])
    assert 0.94 < covers.mean() < 0.98
