"""Student's t and the binomial against closed forms and direct sums."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from prospect.estimate.statistics.beta import (
    binomial_two_sided,
    incomplete_beta,
    student_quantile,
    student_two_sided,
)


@pytest.mark.parametrize("x", [0.0, 1e-9, 0.1, 0.5, 0.9, 1.0 - 1e-9, 1.0])
def test_the_incomplete_beta_function_has_its_closed_forms(x):
    assert incomplete_beta(1.0, 1.0, x) == pytest.approx(x, abs=1e-12)
    assert incomplete_beta(3.0, 1.0, x) == pytest.approx(x**3, abs=1e-12)
    arcsine = 2.0 / math.pi * math.asin(math.sqrt(x))
    assert incomplete_beta(0.5, 0.5, x) == pytest.approx(arcsine, abs=1e-10)


def test_one_and_two_degrees_of_freedom_have_closed_forms():
    t = np.array([0.0, 0.3, 1.0, 5.0, 400.0])
    one = 1.0 - 2.0 / math.pi * np.arctan(t)
    two = 1.0 - t / np.sqrt(2.0 + t**2)
    assert student_two_sided(t, 1.0) == pytest.approx(one, rel=1e-9)
    assert student_two_sided(-t, 2.0) == pytest.approx(two, rel=1e-7)


def test_many_degrees_of_freedom_are_the_normal_distribution():
    normal = 2.0 * (1.0 - NormalDist().cdf(2.5))
    assert student_two_sided(2.5, np.inf) == pytest.approx(normal, rel=1e-12)
    assert student_two_sided(2.5, 9999.0) == pytest.approx(normal, rel=1e-2)
    assert student_two_sided(np.inf, [3.0, np.inf]).tolist() == [0.0, 0.0]


# Tables of Student's t, as every text book has them.
@pytest.mark.parametrize(
    ("confidence", "df", "quantile"),
    [
        (0.95, 1.0, 12.706),
        (0.95, 2.0, 4.3027),
        (0.95, 4.0, 2.7764),
        (0.95, 10.0, 2.2281),
        (0.95, 120.0, 1.9799),
        (0.95, np.inf, 1.95996),
        (0.90, 5.0, 2.0150),
        (0.99, 3.0, 5.8409),
        (0.998, 8.0, 4.5008),
    ],
)
def test_quantiles_are_those_of_the_tables(confidence, df, quantile):
    assert student_quantile(confidence, df) == pytest.approx(quantile, rel=2e-4)


def test_a_quantile_leaves_out_what_it_promises():
    df = np.array([1.0, 1.3, 2.7, 6.1, 33.0, 777.0])
    for confidence in (0.5, 0.8, 0.95, 0.999):
        left_out = student_two_sided(student_quantile(confidence, df), df)
        assert left_out == pytest.approx(1.0 - confidence, rel=2e-3)


@pytest.mark.parametrize("trials", [0, 1, 2, 17, 60])
@pytest.mark.parametrize("share", [0.5, 0.1, 0.93])
def test_the_binomial_is_the_sum_of_its_terms(trials, share):
    terms = [
        math.comb(trials, k) * share**k * (1.0 - share) ** (trials - k) for k in range(trials + 1)
    ]
    for k in range(trials + 1):
        tails = min(sum(terms[k:]), sum(terms[: k + 1]))
        exact = min(2.0 * tails, 1.0)
        assert binomial_two_sided(k, trials, share) == pytest.approx(exact, rel=1e-8, abs=1e-14)


def test_of_a_binomial_that_is_far_from_even_the_smaller_tail_is_taken():
    # Of 40 trials none or one is the median.
    for share in (0.01, 0.02, 0.024, 0.03):
        terms = [math.comb(40, k) * share**k * (1.0 - share) ** (40 - k) for k in range(41)]
        for k in range(4):
            exact = min(2.0 * min(sum(terms[k:]), sum(terms[: k + 1])), 1.0)
            assert binomial_two_sided(k, 40, share) == pytest.approx(exact, rel=1e-8)
