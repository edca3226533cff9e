"""How much the variance of all rows says about that of each.

Comes in: of many rows, the ratio of the variance seen to the one expected. Goes out: how many
degrees of freedom the rows together lend each one.
Source: Smyth, Linear models and empirical Bayes methods, Stat. Appl. Genet. Mol. Biol. 3 (2004),
section 6.2 and its appendix.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_FEWEST_ROWS = 5
_BISECTIONS = 50
# A ratio of 0, as of rows that happen to be equal, has no logarithm.
_LEAST_RATIO = 1e-6


def lent_freedom(ratios: Sequence[NDArray[np.float64]], freedoms: Sequence[int]) -> float:
    """Return the degrees of freedom that rows lend each other: more the more alike they vary.

    Never more than the rows were seen with; 0 where there are too few rows to say.

    Args:
        ratios: of each group, f64[r] variance seen over variance expected.
        freedoms: of each group, the degrees of freedom that each of its ratios has.
    """
    rows = len(ratios[0])
    if rows < _FEWEST_ROWS:
        return 0.0
    # The logarithm of a variance varies by trigamma(d / 2); what is more is rows' own.
    excess = [
        float(np.log(ratio + _LEAST_RATIO).var(ddof=1)) - trigamma(freedom / 2.0)
        for ratio, freedom in zip(ratios, freedoms, strict=True)
    ]
    return min(2.0 * inverse_trigamma(float(np.mean(excess))), float(rows * sum(freedoms)))


def trigamma(x: float) -> float:
    """Return the second derivative of log gamma. Source: DLMF 5.15.5 and 5.15.8."""
    value = 0.0
    while x < 10.0:
        value += 1.0 / x**2
        x += 1.0
    inverse = 1.0 / x
    square = inverse**2
    return (
        value
        + inverse
        + square / 2.0
        + inverse * square * (1.0 / 6.0 - square * (1.0 / 30.0 - square / 42.0))
    )


def inverse_trigamma(value: float) -> float:
    """Return x such that trigamma(x) is `value`; infinite where that is 0 or less."""
    if value <= 1e-9:
        return math.inf
    low, high = -20.0, 25.0  # of log x
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if trigamma(math.exp(middle)) > value else (low, middle)
    return math.exp((low + high) / 2.0)
