"""The error of measuring a share of hosts, chosen anew each hour, in place of all.

Each host was chosen for an hour by itself, with probability p, and counts 1/p times: of the sum of
such weighted times y, by row, host and hour, the estimated variance is Σ (1 - p) y².
Source: Särndal, Swensson and Wretman, Model Assisted Survey Sampling (1992), section 3.2, Poisson
sampling. How much samples within a host add is what all other estimates say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.statistics.limits import student_quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.errors.design import Design

_LEAST_FREEDOM = 2.0


def host_error(
    design: Design,
    row_of_hit: NDArray[np.int32],
    other: NDArray[np.int64],
    normal: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return half of the interval of each row, and of its difference to its other, f64[r] s each.

    Args:
        design: how samples were taken; none of its hosts stands for others where it has no
            `host_hour`.
        row_of_hit: i32[h] the row of each hit, -1 for none.
        other: i64[r] a row to compare each one with, -1 for none.
        normal: the quantile of the normal distribution for the confidence wanted.
    """
    rows = len(other)
    if design.host_hour is None:
        return np.zeros(rows), np.zeros(rows)
    chosen = np.flatnonzero((design.host_hour >= 0) & (row_of_hit >= 0))
    hours = int(design.host_hour.max(initial=0)) + 1
    pair = row_of_hit.take(chosen).astype(np.int64) * hours + design.host_hour.take(chosen)
    distinct, number = np.unique(pair, return_inverse=True)
    seconds = np.bincount(number, design.seconds.take(chosen), len(distinct)).astype(np.float64)
    row, hour = np.divmod(distinct, hours)
    squares = np.bincount(row, seconds**2, rows)
    freedom = np.bincount(row, minlength=rows) - 1.0
    of_other = _values_of(distinct, seconds, other.take(row) * hours + hour)
    between = np.bincount(row, seconds * of_other, rows)
    apart = np.maximum(squares + squares[other] - 2.0 * between, 0.0)
    quantile = student_quantile(normal, np.maximum(freedom, _LEAST_FREEDOM))
    rest = 1.0 - design.host_share
    return quantile * np.sqrt(rest * squares), quantile * np.sqrt(rest * apart)


def _values_of(
    keys: NDArray[np.int64], values: NDArray[np.float64], wanted: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the values of some of the ascending keys, f64[n]; zero where a key is not there."""
    if not len(keys):
        return np.zeros(len(wanted))
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys.take(at) == wanted, values.take(at), 0.0)
