"""How much runs differ: common to all rows, each row's own, and what rows lend each other."""

from __future__ import annotations

import math

import numpy as np
import pytest

from prospect.estimate.compare.variation import (
    ASSUMED_DF,
    Rows,
    inverse_trigamma,
    lent_freedom,
    own_spread_of,
    side_means,
    spread_of,
    trigamma,
    variation_of,
)

ASSUMED = (0.05, 0.1)


def rows_of(values, sampling=1e-12):
    values = np.asarray(values, np.float64)
    noise = np.full(values.shape, sampling)
    return Rows(np.full(values.shape, 1000), values, noise, noise)


def random_rows(seed, *, rows=60, runs=400, common=0.0, row=0.0, sampling=0.01):
    random = np.random.default_rng(seed)
    mean = random.uniform(1.0, 5.0, (rows, 1))
    factors = (
        1.0 + common * random.standard_normal(runs) + row * random.standard_normal((rows, runs))
    )
    values = mean * factors + sampling * random.standard_normal((rows, runs))
    return rows_of(values, sampling**2)


@pytest.mark.parametrize(("common", "row"), [(0.1, 0.0), (0.0, 0.1), (0.05, 0.08)])
def test_what_is_common_and_what_is_a_rows_own_are_told_apart(common, row):
    found = variation_of(random_rows(1, common=common, row=row), 200, ASSUMED)
    assert not found.assumed
    # Sixty rows' own variation leaves an eighth of itself in their mean.
    expected = math.hypot(common, row / math.sqrt(60))
    assert found.common == pytest.approx((expected, expected), rel=0.15, abs=0.002)
    assert found.row == pytest.approx(row, rel=0.05, abs=0.003)


def test_sides_may_vary_differently():
    quiet, loud = random_rows(1, common=0.02), random_rows(1, common=0.2)
    both = Rows(*(np.concatenate(pair, axis=1) for pair in zip(quiet, loud, strict=True)))
    found = variation_of(both, 400, ASSUMED)
    assert found.common == pytest.approx((0.02, 0.2), rel=0.1)
    assert found.common_df == (399, 399)


def test_without_several_recordings_a_side_variation_is_assumed():
    rows = rows_of([[1.0, 2.0], [3.0, 3.0]])
    found = variation_of(rows, 1, ASSUMED)
    assert found.assumed
    assert found.common == ASSUMED
    spread = spread_of(rows, 1, found)
    assert spread.common == pytest.approx(np.array([[0.05, 0.2], [0.15, 0.3]]) ** 2)
    assert (spread.common_df == ASSUMED_DF).all()
    assert spread.is_shared


def test_a_side_of_one_recording_varies_as_the_other_does():
    rows = random_rows(2, runs=9, common=0.1)
    found = variation_of(rows, 1, ASSUMED)
    assert found.common[0] == found.common[1]
    spread = own_spread_of(rows, 1, found)
    means = side_means(rows.values, 1)
    share = spread.row / means**2
    assert share[:, 0] == pytest.approx(share[:, 1] * 8)
    assert (spread.row_df == 7).all()


def test_a_variance_is_never_less_than_that_of_sampling():
    values = np.ones((8, 6))  # six runs that were, by chance, exactly equal
    rows = rows_of(values, sampling=0.01)
    found = variation_of(rows, 3, ASSUMED)
    for spread in (spread_of(rows, 3, found), own_spread_of(rows, 3, found)):
        assert (spread.row >= 0.01 / 3 - 1e-15).all()


def test_a_rows_own_runs_are_welchs_test():
    rows = rows_of([[1.0, 1.2, 1.4, 2.0, 2.6]])
    spread = own_spread_of(rows, 3, variation_of(rows, 3, ASSUMED))
    assert spread.row[0] == pytest.approx([0.04 / 3, 0.18 / 2])
    assert spread.row_df[0].tolist() == [2, 1]
    assert not spread.is_shared


def test_trigamma_has_its_known_values():
    assert trigamma(1.0) == pytest.approx(math.pi**2 / 6.0, rel=1e-9)
    assert trigamma(0.5) == pytest.approx(math.pi**2 / 2.0, rel=1e-9)
    for x in (1e-3, 0.7, 3.0, 250.0):
        assert trigamma(x) == pytest.approx(trigamma(x + 1.0) + 1.0 / x**2, rel=1e-9)
        assert inverse_trigamma(trigamma(x)) == pytest.approx(x, rel=1e-6)
    assert inverse_trigamma(0.0) == inverse_trigamma(-1.0) == math.inf


@pytest.mark.parametrize("lent", [2.0, 6.0, 20.0])
def test_rows_lend_what_their_variances_have_in_common(lent):
    random = np.random.default_rng(3)
    freedom = 4
    variance = lent / random.chisquare(lent, 20_000)
    ratios = variance * random.chisquare(freedom, 20_000) / freedom
    assert lent_freedom([ratios], [freedom]) == pytest.approx(lent, rel=0.1)


def test_few_rows_lend_nothing_and_no_more_than_was_seen():
    alike = np.ones(8)
    assert lent_freedom([alike[:4]], [2]) == 0.0
    assert lent_freedom([alike, alike], [2, 3]) == 40.0
