"""The alias alarm: rows whose program runs in step with a clock.

Clocks of different rates see the same program; one that is in step with it counts far too much or
too little, and the others do not. With a single clock such a program cannot be detected.

Counts that are taken on a grid vary by less than the binomial distribution has it, so the test
is, on honest programs, silent more often than promised.
Source: Pearson's test of homogeneity (Philosophical Magazine 50, 1900), with the rate of false
discoveries controlled by Benjamini and Hochberg, J. R. Statist. Soc. B 57 (1995).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.statistics.false_discovery import adjusted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.errors.clock_sums import ClockSums

_erfc = np.frompyfunc(math.erfc, 1, 1)

FALSE_DISCOVERIES = 0.01
# With fewer hits the distribution of Pearson's sum is too coarse for so small a rate.
_LEAST_HITS = 20


def chi_square_tail(
    statistic: NDArray[np.float64], freedom: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the probability of at least `statistic` by chance, f64[n]."""
    spread = 2.0 / (9.0 * freedom)
    deviation = (np.cbrt(statistic / freedom) - 1.0 + spread) / np.sqrt(spread)
    return np.asarray(0.5 * _erfc(deviation / math.sqrt(2.0)), np.float64)


def homogeneity(sums: ClockSums, ticks: NDArray[np.int64], rows: int) -> NDArray[np.float64]:
    """Return how likely each row's counts by clock are equal but for chance, f64[r].

    `ticks` i64[s, K] are those that each clock had in each stretch.

    Returns:
        NaN for rows with too few hits for the test.
    """
    had = ticks.take(sums.stretch, axis=0).astype(np.float64)
    all_hits, all_ticks = sums.hits.sum(axis=1), had.sum(axis=1)
    share = np.clip(all_hits / np.maximum(all_ticks, 1.0), 0.0, 1.0)
    expected = had * share[:, None]
    # A row that fills its CPU leaves nothing to chance: neither sum nor degrees of freedom.
    spread = expected * (1.0 - share[:, None])
    counts = (spread > 0).all(axis=1)
    square = np.divide(
        (sums.hits - expected) ** 2, spread, out=np.zeros_like(spread), where=spread > 0
    ).sum(axis=1)
    statistic = np.bincount(sums.row[counts], square[counts], rows)
    freedom = np.bincount(sums.row[counts], minlength=rows) * (ticks.shape[1] - 1.0)
    hits = np.bincount(sums.row, all_hits, rows)
    tested = (freedom > 0) & (hits >= _LEAST_HITS)
    tail = np.full(rows, np.nan)
    tail[tested] = chi_square_tail(statistic[tested], freedom[tested])
    return tail


def alarms(p_values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return bool[r]: the rows that are marked, of which at most 1 % are so by chance.

    `p_values` are of all rows of a report, NaN if not tested.
    """
    return np.nan_to_num(adjusted(p_values), nan=1.0) <= FALSE_DISCOVERIES
