"""How far the mean of each side may be from what endless runs would have.

Comes in: each row's time in each recording, and how runs differ (`variation`). Goes out: variances
of the means with their degrees of freedom, never less than the sampling error's.
Source: Smyth (2004), cited in `variation`, for drawing a row's variance towards the expected one;
Welch, Biometrika 34 (1947), for two sides of unequal variance.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.compare.variation import side_means, spread_over
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.compare.variation import Rows, Variation


class Spread(NamedTuple):
    """Of each row and side: variances of the mean, with degrees of freedom; f64[r, 2] each.

    `is_shared`: one estimate stands for both sides, and has its degrees of freedom once.
    """

    common: NDArray[np.float64]
    common_df: NDArray[np.float64]
    row: NDArray[np.float64]
    row_df: NDArray[np.float64]
    is_shared: bool


def spread_of(rows: Rows, before: int, variation: Variation) -> Spread:
    """Return the variance of each row's mean on each side, never less than sampling's.

    Args:
        rows: any table of the recordings that `variation` was estimated from.
        before: how many recordings are A's.
        variation: how runs differ.
    """
    count = rows.values.shape[1]
    mean = spread_over(side_means(rows.values, before), before, count)
    expected = rows.own + variation.row**2 * mean**2
    residual = rows.values - mean * (1.0 + variation.factors)
    shape = (len(mean), 2)
    spread = Spread(
        common=np.empty(shape),
        common_df=np.empty(shape),
        row=np.empty(shape),
        row_df=np.empty(shape),
        is_shared=min(before, count - before) == 1,
    )
    sides = (slice(0, before), slice(before, count))
    factors = [_moderated(residual[:, side], expected[:, side], variation.row_df) for side in sides]
    for number, side in enumerate(sides):
        columns = expected[:, side].shape[1]
        # A single recording is taken to be as the other side's are.
        factor, freedom = factors[number] if columns > 1 else factors[1 - number]
        row = np.maximum(factor[:, None] * expected[:, side], rows.sampling[:, side])
        spread.row[:, number] = row.sum(axis=1) / columns**2
        spread.row_df[:, number] = freedom
        spread.common[:, number] = (variation.common[number] * mean[:, side][:, 0]) ** 2 / columns
        spread.common_df[:, number] = variation.common_df[number]
    return spread


def own_spread_of(rows: Rows, before: int, variation: Variation) -> Spread:
    """Return the same for rows that were chosen beforehand, such as the total: by their own runs.

    Nothing is borrowed from other rows: the plain test of Welch, never below sampling's error.
    """
    if variation.assumed:
        return spread_of(rows, before, variation)
    means = side_means(rows.values, before)
    count = rows.values.shape[1]
    shape = (len(means), 2)
    row, row_df = np.empty(shape), np.empty(shape)
    sides = (slice(0, before), slice(before, count))
    for number, side in enumerate(sides):
        columns = rows.values[:, side].shape[1]
        told_by, scale = number, np.ones(len(means))
        if columns == 1:  # taken to vary as the other side does, as a part of its time
            told_by = 1 - number
            scale = np.divide(
                means[:, number], means[:, told_by], out=scale, where=means[:, told_by] > 0
            )
        seen = rows.values[:, sides[told_by]]
        sampling = rows.sampling[:, side].mean(axis=1)
        row[:, number] = np.maximum(scale**2 * seen.var(axis=1, ddof=1), sampling) / columns
        row_df[:, number] = seen.shape[1] - 1
    is_shared = min(before, count - before) == 1
    return Spread(np.zeros(shape), np.full(shape, math.inf), row, row_df, is_shared)


def _moderated(
    residual: NDArray[np.float64], expected: NDArray[np.float64], lent_df: float
) -> tuple[NDArray[np.float64], float]:
    """Return f64[r]: how much more than expected rows vary, drawn towards 1; and its degrees."""
    freedom = residual.shape[1] - 1
    if math.isinf(lent_df) or not freedom:
        return np.ones(len(residual)), math.inf
    ratio = (residual**2 / expected).sum(axis=1) / freedom
    return (lent_df + freedom * ratio) / (lent_df + freedom), lent_df + freedom
