"""Shares of a population of hosts, from samples of each: hosts differ, so they are the unit.

Samples of one host are alike; their number determines how well that host is known, not the fleet. A
share is the ratio of two sums over hosts, its variance that of a ratio estimated from clusters (the
"ultimate cluster" variance, which has the sampling within hosts in it).
Sources: Hansen, Hurwitz and Madow, Sample Survey Methods and Theory (1953), vol. I, ch. 6; Cochran,
Sampling Techniques (3rd ed., 1977), sections 6.3 and 9A; limits of small shares from the effective
number of samples, Korn and Graubard, Survey Methodology 24 (1998).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.statistics.beta import student_quantile
from prospect.estimate.statistics.row_limits import effective_limits
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from prospect.columns.array_types import F64


_CONFIDENCE = 0.95


class ClusterSums(NamedTuple):
    """Sums over hosts, of rows x and of the whole W that the rows are shares of.

    Attributes:
        of_rows: f64[r] the sum of x.
        squares: f64[r] the sum of x².
        products: f64[r] the sum of x W.
        total, total_squares: the sums of W and of W².
        samples: how many samples W represents.
    """

    of_rows: F64
    squares: F64
    products: F64
    total: float
    total_squares: float
    hosts: int
    samples: int


class Shares(NamedTuple):
    """Shares, f64[r], each with the limits of its 95 % interval."""

    share: F64
    low: F64
    high: F64


def shares_of(sums: ClusterSums) -> Shares:
    """Return the share of each row; for one host as if its samples were independent."""
    total = max(sums.total, 1.0)
    share = sums.of_rows / total
    variance = share * (1.0 - share) / max(sums.samples, 1)
    if sums.hosts > 1:
        residuals = sums.squares - 2.0 * share * sums.products + share**2 * sums.total_squares
        between = sums.hosts / (sums.hosts - 1) * np.maximum(residuals, 0.0) / total**2
        variance = np.maximum(variance, between)
    quantile = student_quantile(_CONFIDENCE, float(max(sums.hosts - 1, 1)))
    if sums.hosts == 1:
        quantile = student_quantile(_CONFIDENCE, np.inf)
    samples = np.full(len(share), float(max(sums.samples, 1)))
    below, above = effective_limits(
        share * samples, samples, 1.0 / samples, variance, np.full(len(share), float(quantile))
    )
    return Shares(share, np.maximum(share - below, 0.0), np.minimum(share + above, 1.0))


class Difference(NamedTuple):
    """How shares differ between two sides.

    Attributes:
        before, after: f64[r] shares.
        half: f64[r] of the 95 % interval of their difference.
        t: f64[r] the difference in standard errors.
        freedom: degrees of freedom of `t`; infinite if only samples were counted.
    """

    before: F64
    after: F64
    half: F64
    t: F64
    freedom: float


class Side(NamedTuple):
    """One side of a comparison.

    Attributes:
        rows: f64[r, h] amount of each row on each host.
        total: f64[h] amount of all rows.
    """

    rows: F64
    total: F64
    samples: int

    @property
    def share(self) -> F64:
        """Each row's share, f64[r]."""
        return np.asarray(self.rows.sum(axis=1) / max(self.total.sum(), 1.0), np.float64)

    def influence(self) -> F64:
        """Return the part of each host in the error of each share, f64[r, h]."""
        over = self.rows - self.share[:, None] * self.total[None, :]
        return np.asarray(over / max(self.total.sum(), 1.0), np.float64)

    def counted_variance(self) -> F64:
        """Return the variance of each share for independent samples, f64[r]."""
        return np.asarray(self.share * (1.0 - self.share) / max(self.samples, 1), np.float64)


def difference_of(before: Side, after: Side) -> Difference:
    """Compare shares of the same hosts, each its own measure.

    A host on one side alone adds to the error as any other does.
    Source: Cochran, section 6.19, the difference of two ratios.
    """
    hosts = int(((before.total > 0) | (after.total > 0)).sum())
    counted = before.counted_variance() + after.counted_variance()
    variance, freedom = counted, np.inf
    if hosts > 1:
        between = ((after.influence() - before.influence()) ** 2).sum(axis=1)
        variance, freedom = np.maximum(counted, hosts / (hosts - 1) * between), float(hosts - 1)
    error = np.sqrt(variance)
    change = after.share - before.share
    t = np.divide(change, error, out=np.zeros(len(error)), where=error > 0)
    half = error * float(student_quantile(_CONFIDENCE, freedom))
    return Difference(before.share, after.share, half, t, freedom)
