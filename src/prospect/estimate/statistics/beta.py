"""Probabilities from the incomplete beta function: Student's t and the binomial.

numpy lacks these functions, and scipy would be a dependency for two of them.
Source: DLMF 8.17.22 (continued fraction), 8.17.4 (symmetry), 8.17.5 (binomial); Abramowitz and
Stegun 26.5.27 (Student's t).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from prospect.columns.array_types import F64

# The fraction takes about sqrt(max(a, b)) terms; NORMAL_FROM_DF bounds that for Student's t.
_MOST_TERMS = 1000
_PRECISION = 1e-13
_TINY = 1e-300
# From here on a quantile of Student's t is the normal distribution's to 4 digits.
NORMAL_FROM_DF = 1e4
_NODES = 257
# Halvings of an interval of log(1 + t) to a hundredth of t, and steps from there, each of which
# squares the error.
_BISECTIONS = 11
_NEWTON_STEPS = 6
_log_gamma = np.frompyfunc(math.lgamma, 1, 1)
_erfc = np.frompyfunc(math.erfc, 1, 1)


def incomplete_beta(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> F64:
    """Return the regularised incomplete beta function I_x(a, b), f64[n].

    `a` and `b` are over 0, `x` is from 0 to 1.
    """
    first, second, at = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (a, b, x)))
    # The fraction converges fast on the left of the mean only.
    is_right = at > (first + 1.0) / (first + second + 2.0)
    left_a, left_b = np.where(is_right, second, first), np.where(is_right, first, second)
    left_x = np.clip(np.where(is_right, 1.0 - at, at), 0.0, 1.0)
    inside = np.clip(left_x, _TINY, 1.0 - 2.0**-53)
    front = np.exp(
        _floats(_log_gamma(left_a + left_b) - _log_gamma(left_a) - _log_gamma(left_b))
        + left_a * np.log(inside)
        + left_b * np.log1p(-inside)
    )
    value = np.clip(front / left_a * _continued_fraction(left_a, left_b, inside), 0.0, 1.0)
    value = np.where(left_x > 0.0, value, 0.0)
    return np.where(is_right, 1.0 - value, value)


def _continued_fraction(a: F64, b: F64, x: F64) -> F64:
    """Evaluate DLMF 8.17.22 by Lentz's method, elementwise."""
    numerator = np.ones_like(x)
    denominator = 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    fraction = denominator
    for term in range(1, _MOST_TERMS):
        even = term * (b - term) * x / ((a + 2 * term - 1.0) * (a + 2 * term))
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1.0))
        for coefficient in (even, odd):
            denominator = 1.0 / _away_from_zero(1.0 + coefficient * denominator)
            numerator = _away_from_zero(1.0 + coefficient / numerator)
            step = numerator * denominator
            fraction = fraction * step
        if not (np.abs(step - 1.0) > _PRECISION).any():
            break
    return fraction


def _away_from_zero(value: F64) -> F64:
    return np.where(np.abs(value) < _TINY, _TINY, value)


def student_two_sided(t: ArrayLike, df: ArrayLike) -> F64:
    """Return the probability that Student's t is at least `t` away from 0, f64[n].

    The sign of `t` does not matter, and infinities give 0; `df` is at least 1 and may be infinite.
    """
    at, freedom = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (t, df)))
    finite = np.minimum(freedom, NORMAL_FROM_DF)
    square = np.minimum(np.abs(at), 1e150) ** 2
    tail = incomplete_beta(finite / 2.0, 0.5, finite / (finite + square))
    normal = _floats(_erfc(np.abs(at) / math.sqrt(2.0)))
    return np.where(freedom >= NORMAL_FROM_DF, normal, tail)


def student_quantile(confidence: float, df: ArrayLike) -> F64:
    """Return t such that Student's t is within ±t with probability `confidence`, f64[n].

    `df` is at least 1 and may be infinite.
    """
    inverse, quantiles = _quantile_nodes(confidence)
    # A quantile is nearly linear in 1 / df: interpolation is correct to 4 digits.
    return np.interp(1.0 / np.maximum(np.asarray(df, np.float64), 1.0), inverse, quantiles)


@lru_cache(maxsize=16)
def _quantile_nodes(confidence: float) -> tuple[F64, F64]:
    inverse = np.linspace(0.0, 1.0, _NODES) ** 2  # closer together where degrees are many
    df = 1.0 / np.maximum(inverse, 1.0 / (2 * NORMAL_FROM_DF))
    low, high = np.zeros(_NODES), np.full(_NODES, math.log(4.0 / (1.0 - confidence)) + 10.0)
    for _ in range(_BISECTIONS):  # of log(1 + t), so that heavy tails cost no more
        middle = (low + high) / 2.0
        is_low = student_two_sided(np.expm1(middle), df) > 1.0 - confidence
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    # A tail is convex, so that Newton's steps from below never pass the quantile.
    quantiles = np.expm1(low)
    for _ in range(_NEWTON_STEPS):
        beyond = student_two_sided(quantiles, df) - (1.0 - confidence)
        quantiles += beyond / (2.0 * _student_density(quantiles, df))
    from statistics import NormalDist  # noqa: PLC0415 - rarely needed

    quantiles[0] = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    return inverse, quantiles


def _student_density(t: F64, df: F64) -> F64:
    """Return f64[n] the density of Student's t, with finite degrees of freedom."""
    scale = _floats(_log_gamma((df + 1.0) / 2.0) - _log_gamma(df / 2.0)) - np.log(math.pi * df) / 2
    return np.asarray(np.exp(scale - (df + 1.0) / 2.0 * np.log1p(t**2 / df)), np.float64)


def binomial_two_sided(successes: ArrayLike, trials: ArrayLike, share: ArrayLike) -> F64:
    """Return the exact two-sided p-value of a binomial count, twice its smaller tail, f64[n]."""
    k, n, p = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (successes, trials, share)))
    # The median is within 1 of the mean; beyond that the tail on the side of the count is smaller.
    mean = n * p
    at_least, at_most = np.ones(k.shape), np.ones(k.shape)
    high, low = (k > 0) & (k > mean - 1.0), (k < n) & (k < mean + 1.0)
    at_least[high] = incomplete_beta(k[high], (n - k)[high] + 1.0, p[high])
    at_most[low] = incomplete_beta((n - k)[low], k[low] + 1.0, 1.0 - p[low])
    return np.minimum(2.0 * np.minimum(at_least, at_most), 1.0)


def _floats(objects: object) -> F64:
    return np.asarray(objects, np.float64)
