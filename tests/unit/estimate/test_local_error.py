import numpy as np
import pytest

from prospect.estimate.errors.local_error import (
    MISSING,
    OUTSIDE,
    compared_lags,
    lag_weights,
    local_error,
    successions,
)

ROWS = np.arange(3, dtype=np.int32)
ALONE = np.full(3, -1, np.int64)


def variance(hits, clocks=4, other=ALONE):
    return of_rows(hits, ROWS, other, clocks)


def of_rows(hits, rows, other=ALONE, clocks=4):
    changes = successions(np.array(hits, np.int32), compared_lags(clocks))
    return local_error(changes, np.array(rows, np.int32), other, clocks)


@pytest.mark.parametrize("clocks", range(1, 17))
def test_weights_sum_to_one_and_reach_a_sixth_of_a_period(clocks):
    weights = lag_weights(clocks)
    assert sum(weight for _, weight in weights) == pytest.approx(1.0)
    assert sum(lag * weight for lag, weight in weights) == pytest.approx(clocks / 6)


@pytest.mark.parametrize(
    ("clocks", "least", "most"),
    [(1, 1.0, 2.7), (2, 1.0, 1.2), (3, 0.95, 1.04), (4, 0.97, 1.03), (8, 0.97, 1.04)],
)
def test_random_changes_of_any_speed_get_nearly_their_own_variance(clocks, least, most):
    # Ticks at random phases, lag by lag, of a presence that changes u times a period.
    random = np.random.default_rng(4)
    phases = np.sort(random.random((20_000, clocks)), axis=1)
    ticks = np.concatenate([phases + turn for turn in range(4)], axis=1)
    for u in (0.1, 1.0, 3.0, 10.0, 100.0):
        estimated = 0.0
        for lag, weight in lag_weights(clocks):
            apart = ticks[:, lag : lag + clocks] - ticks[:, :clocks]
            estimated += weight * np.mean(1.0 - np.exp(-u * apart))
        true = 1.0 / np.tanh(u / 2.0) - 2.0 / u
        assert least - 0.01 <= estimated / true <= most + 0.01


@pytest.mark.parametrize("clocks", [1, 2, 3, 4, 8])
def test_independent_hits_have_the_binomial_variance(clocks):
    random = np.random.default_rng(1)
    hits = random.choice(3, size=400_000, p=(0.6, 0.3, 0.1))
    share = np.bincount(hits) / len(hits)
    binomial = len(hits) * share * (1 - share)
    assert variance(hits, clocks).variance == pytest.approx(binomial, rel=0.02)


@pytest.mark.parametrize("clocks", [1, 2, 3, 4, 8])
def test_a_long_stay_has_a_twelfth_of_a_squared_period_for_each_end(clocks):
    hits = [0] * 100 + [1] * 100 + [0] * 100
    # A period is as many ticks as there are clocks, and the mean of K clocks divides by K.
    each_end = clocks**2 / 12 / clocks
    result = variance(hits, clocks)
    assert result.variance == pytest.approx([2 * each_end, 2 * each_end, 0])
    assert result.changes.tolist() == [2, 2, 0]


def test_a_single_hit_counts_as_one_of_poisson():
    hits = [0] * 50 + [1] + [0] * 50 + [1] + [0] * 50
    assert variance(hits).variance[1] == pytest.approx(2.0)


def test_missing_ticks_are_nobodys_and_ends_of_a_cpu_are_no_change():
    inside = [0] * 50 + [MISSING] * 50 + [0] * 50
    assert variance(inside).variance[0] == pytest.approx(2 / 3)
    apart = [0] * 50 + [OUTSIDE] * compared_lags(4)[-1] + [1] * 50
    assert variance(apart).variance.tolist() == [0, 0, 0]


def test_the_difference_of_two_rows_that_take_turns_is_twice_as_uncertain_as_either():
    hits = np.random.default_rng(2).integers(0, 2, 100_000)
    result = variance(hits, other=np.array([1, 0, -1]))
    difference = result.variance[0] + result.variance[1] + result.between[0]
    assert np.sqrt(difference) == pytest.approx(2 * np.sqrt(result.variance[0]), rel=1e-6)


def test_rows_that_never_meet_have_independent_errors():
    hits = np.concatenate([np.tile([0, 2, 2], 1000), np.tile([1, 2, 2], 1000)])
    result = variance(hits, other=np.array([1, 0, -1]))
    assert result.between[0] <= lag_weights(4)[1][1]  # but for the one time where halves meet


def test_hits_of_no_row_are_the_same_as_missing_ones():
    hits = np.random.default_rng(3).integers(0, 3, 1000).astype(np.int32)
    without = of_rows(hits, [0, 1, -1], ALONE[:2])
    missing = of_rows(np.where(hits == 2, MISSING, hits), ROWS)
    assert np.array_equal(without.variance, missing.variance[:2])


@pytest.mark.parametrize("different", [3, 2000])
def test_changes_are_told_by_every_pair_of_ticks(different):
    # Few pairs of hits are counted, many are listed; either way the sums are those of a loop.
    random = np.random.default_rng(7)
    hits = random.integers(MISSING, different, 3000)
    hits[1000:1003] = OUTSIDE
    row_of_hit = random.integers(-1, 3, different)
    other = np.array([1, 2, -1])
    row = np.append(row_of_hit, [OUTSIDE, -1]).take(hits)
    expected, between = np.zeros(3), np.zeros(3)
    for lag, weight in lag_weights(4):
        for first, second in zip(row[:-lag].tolist(), row[lag:].tolist(), strict=True):
            if first == second or OUTSIDE in {first, second}:
                continue
            for one, two in ((first, second), (second, first)):
                if one >= 0:
                    expected[one] += weight / 2
                    between[one] += weight * (other[one] == two)
    result = of_rows(hits, row_of_hit, other)
    assert result.variance == pytest.approx(expected)
    assert result.between == pytest.approx(between)
