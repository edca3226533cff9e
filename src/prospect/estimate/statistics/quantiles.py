"""Quantiles of a sample with confidence intervals that assume no distribution.

The number of values below the true quantile of order q is binomial, so that two order statistics
enclose it with a known probability (David and Nagaraja, Order Statistics, 3rd edition, 7.1).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TAIL = 0.025  # on each side of a 95 % interval
_WIDEST = 12.0  # standard deviations that are summed: what is beyond is less than rounding


class Quantile(NamedTuple):
    """A quantile, and its 95 % interval: NaN on a side where the sample has too few values."""

    value: float
    low: float
    high: float


def quantile_of(ordered: NDArray[np.float64], order: float) -> Quantile:
    """Return a quantile of a sample.

    Args:
        ordered: f64[n] ascending, at least one.
        order: between 0 and 1, such as 0.5 for the median.
    """
    count = len(ordered)
    low, high = interval_ranks(count, order)
    return Quantile(
        value=float(np.quantile(ordered, order)),
        low=float(ordered[low]) if low >= 0 else math.nan,
        high=float(ordered[high]) if high < count else math.nan,
    )


def interval_ranks(count: int, order: float) -> tuple[int, int]:
    """Return the ranks, from 0 on, of the values that enclose a quantile with 95 % probability.

    Returns:
        The lower one, -1 if there is none, and the upper one, `count` if there is none.
    """
    mean, deviation = count * order, math.sqrt(count * order * (1 - order))
    first = max(int(mean - _WIDEST * deviation) - 1, 0)
    last = min(int(mean + _WIDEST * deviation) + 1, count)
    number = np.arange(first, last + 1)
    logs = np.array(
        [math.lgamma(one + 1) + math.lgamma(count - one + 1) for one in number.tolist()]
    )
    logs = math.lgamma(count + 1) - logs
    logs += number * math.log(order) + (count - number) * math.log1p(-order)
    at_most = np.cumsum(np.exp(logs))
    # The lower value is above the quantile if at most its rank of values are below that.
    low = first + int(np.searchsorted(at_most, _TAIL, "right")) - 1
    high = first + int(np.searchsorted(at_most, 1 - _TAIL))
    return max(low, -1) if at_most[0] <= _TAIL else -1, min(high, count)
