import numpy as np
import pytest

from prospect.estimate.errors.error_bars import chi_square_tail
from prospect.estimate.statistics.row_limits import (
    MOST_DECIMALS,
    approximate_student_quantile,
    count_limits,
    decimals,
    effective_limits,
)

NORMAL = 1.959964


def limits(count):
    low, high = count_limits(np.array([float(count)]), np.array([NORMAL]))
    return float(low[0]), float(high[0])


@pytest.mark.parametrize(
    # Published quantiles of chi-square with 2n + 1 degrees of freedom, halved.
    ("count", "low", "high"),
    [(4, 1.350, 9.511), (9, 4.453, 16.426), (49, 36.68, 64.21)],
)
def test_limits_of_a_count_are_quantiles_of_gamma(count, low, high):
    assert limits(count) == pytest.approx((low, high), rel=0.01)


def test_limits_of_the_smallest_counts_are_between_mid_p_and_jeffreys():
    # Jeffreys: 0.108 to 4.67 for one hit, 0 to 2.51 for none; mid-P: 0.050 to 4.93, 0 to 3.00.
    low, high = limits(1)
    assert 0.050 < low < 0.108
    assert 4.6 < high < 4.93
    assert limits(0) == pytest.approx((0.0, 2.51), abs=0.06)


@pytest.mark.parametrize(
    # Published quantiles of Student's t, two-sided 95 %.
    ("freedom", "quantile", "accuracy"),
    [(2, 4.303, 0.01), (3, 3.182, 0.0012), (4, 2.776, 0.0005), (10, 2.228, 5e-4), (60, 2.0, 5e-4)],
)
def test_quantiles_of_student(freedom, quantile, accuracy):
    found = approximate_student_quantile(NORMAL, np.array([float(freedom)]))
    assert found[0] == pytest.approx(quantile, rel=accuracy)


def effective(hits, of_ticks, variance):
    columns = [np.array([float(v)]) for v in (hits, of_ticks, 0.001, variance, NORMAL)]
    low, high = effective_limits(*columns)
    return float(low[0]), float(high[0])


def test_a_row_of_single_hits_has_the_limits_of_its_count():
    low, high = effective(9, 1e9, 9e-6)
    assert (0.009 - low, 0.009 + high) == pytest.approx((0.004453, 0.016426), rel=0.01)


def test_row_and_rest_have_the_same_limits_the_other_way_round():
    low, high = effective(9, 1000, 9e-6)
    assert effective(991, 1000, 9e-6) == pytest.approx((high, low))


def test_half_of_the_ticks_has_even_limits():
    low, high = effective(500, 1000, 250e-6)
    assert low == pytest.approx(high)
    assert low == pytest.approx(NORMAL * np.sqrt(250e-6), rel=0.01)


def test_a_row_that_is_always_there_may_have_been_away_unseen():
    low, high = effective(1000, 1000, 0.0)
    assert low == pytest.approx(0.0025, rel=0.03)
    assert high == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("half_width_s", "digits"),
    [
        (0.0123, 3),
        (0.0354, 3),
        (0.036, 2),
        (0.094, 2),
        (0.0951, 2),
        (0.1, 2),
        (0.35, 2),
        (0.5, 1),
        (0.97, 1),
        (1.2, 1),
        (4.0, 0),
        (25.0, 0),
        (9e-9, MOST_DECIMALS),
        (0.0, MOST_DECIMALS),
        (float("nan"), MOST_DECIMALS),
        (float("inf"), MOST_DECIMALS),
    ],
)
def test_digits_are_those_that_the_error_supports(half_width_s, digits):
    assert decimals(half_width_s) == digits


@pytest.mark.parametrize(
    # Published upper quantiles of chi-square.
    ("statistic", "freedom", "tail"),
    [
        (7.815, 3, 0.05),
        (11.345, 3, 0.01),
        (18.307, 10, 0.05),
        (23.209, 10, 0.01),
        (135.807, 100, 0.01),
    ],
)
def test_tail_of_chi_square(statistic, freedom, tail):
    found = chi_square_tail(np.array([statistic]), np.array([float(freedom)]))
    assert found[0] == pytest.approx(tail, rel=0.05)


@pytest.mark.parametrize(
    ("statistic", "freedom", "tail"),
    [(16.266, 3, 0.001), (21.108, 3, 1e-4), (29.588, 10, 0.001), (149.449, 100, 0.001)],
)
def test_far_tails_of_chi_square_are_too_large_rather_than_too_small(statistic, freedom, tail):
    found = chi_square_tail(np.array([statistic]), np.array([float(freedom)]))
    assert tail * 0.999 < found[0] < 1.4 * tail
