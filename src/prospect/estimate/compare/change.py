"""A change between two means: its interval, its relative size, and how likely it is by chance.

Comes in: means of both sides with the variances of `variation.Spread`. Goes out: f64[r] columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.statistics.beta import (
    binomial_two_sided,
    student_quantile,
    student_two_sided,
)
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.compare.spread import Spread

CONFIDENCE = 0.95
# With fewer hits on a side the normal approximation of a count is too sure of itself.
_EXACT_BELOW_HITS = 20


class Changes(NamedTuple):
    """f64[r] columns; relative ones are parts of A's time, NaN or infinite where unbounded."""

    change: NDArray[np.float64]
    half_width: NDArray[np.float64]
    relative: NDArray[np.float64]
    relative_low: NDArray[np.float64]
    relative_high: NDArray[np.float64]
    p_value: NDArray[np.float64]


def changes(
    mean: NDArray[np.float64],
    spread: Spread,
    hits: NDArray[np.int64],
    exposure: tuple[float, float],
) -> Changes:
    """Compare both sides of each row.

    Args:
        mean: f64[r, 2] the sides' means.
        spread: their variances.
        hits: i64[r, 2] hits of all recordings of a side.
        exposure: how many hits a side would have of a row that took one unit of time.
    """
    before, after = mean[:, 0], mean[:, 1]
    change = after - before
    variance, df = combined(spread, 1.0)
    error = np.sqrt(variance)
    quantile = student_quantile(CONFIDENCE, df)
    t = np.divide(change, error, out=np.zeros_like(change), where=error > 0)
    relative = np.divide(change, before, out=np.full_like(change, np.nan), where=before > 0)
    low, high = _ratio_interval(mean, spread, quantile)
    return Changes(
        change=change,
        half_width=quantile * error,
        relative=relative,
        relative_low=low - 1.0,
        relative_high=high - 1.0,
        p_value=np.maximum(student_two_sided(t, df), _counting_p_value(hits, exposure)),
    )


def one_sided(
    mean: tuple[float, float], spread: Spread, factor: float, confidence: float
) -> tuple[float, float, float]:
    """Compare B with `factor` times A, in one row.

    Returns:
        B less `factor` times A, its standard error, and how many of them to be `confidence` sure
        of one side.
    """
    variance, df = combined(spread, factor)
    quantile = student_quantile(2.0 * confidence - 1.0, df)
    return mean[1] - factor * mean[0], float(np.sqrt(variance[0])), float(quantile[0])


def ratio_bounds(
    mean: tuple[float, float], spread: Spread, confidence: float
) -> tuple[float, float]:
    """Return what B over A is above, and what it is below, with `confidence` each, in one row."""
    _, df = combined(spread, 1.0)
    quantile = student_quantile(2.0 * confidence - 1.0, df)
    low, high = _ratio_interval(np.array([mean]), spread, quantile)
    return float(low[0]), float(high[0])


def combined(spread: Spread, factor: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return variance and degrees of freedom, f64[r] each, of B's mean less `factor` times A's.

    Source: Satterthwaite, Biometrics Bulletin 2 (1946).
    """
    weight = np.array([factor**2, 1.0])
    variance = np.zeros(len(spread.row))
    squares = np.zeros(len(spread.row))  # of variances, each over its degrees of freedom
    for part, df in ((spread.common, spread.common_df), (spread.row, spread.row_df)):
        weighed = part * weight
        variance = variance + weighed.sum(axis=1)
        if spread.is_shared:
            squares += weighed.sum(axis=1) ** 2 / np.maximum(df[:, 0], 1.0)
        else:
            squares += (weighed**2 / np.maximum(df, 1.0)).sum(axis=1)
    df = np.divide(variance**2, squares, out=np.full_like(variance, np.inf), where=squares > 0)
    return variance, np.maximum(df, 1.0)


def _counting_p_value(
    hits: NDArray[np.int64], exposure: tuple[float, float]
) -> NDArray[np.float64]:
    """Return f64[r]: how likely so unequal counts are; 0 where there are hits enough on both sides.

    Given their sum, two Poisson counts are binomial.
    Source: Przyborowski and Wilenski, Biometrika 31 (1940).
    """
    few = hits.min(axis=1) < _EXACT_BELOW_HITS
    p_value = np.zeros(len(hits))
    share = exposure[1] / (exposure[0] + exposure[1])
    p_value[few] = binomial_two_sided(hits[few, 1], hits[few].sum(axis=1), share)
    return p_value


def _ratio_interval(
    mean: NDArray[np.float64], spread: Spread, quantile: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the interval of B's mean over A's, f64[r] each; infinite where A may be nothing.

    Source: Fieller, J. R. Statist. Soc. B 16 (1954).
    """
    variance = spread.common + spread.row
    before, after = mean[:, 0], mean[:, 1]
    square = quantile**2
    a = before**2 - square * variance[:, 0]
    b = before * after
    c = after**2 - square * variance[:, 1]
    root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    bounded = a > 0
    safe = np.where(bounded, a, 1.0)
    low = np.where(bounded, np.maximum((b - root) / safe, 0.0), 0.0)
    high = np.where(bounded, (b + root) / safe, np.inf)
    return low, high
