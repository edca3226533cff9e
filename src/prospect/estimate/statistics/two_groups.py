"""Shares on two groups of hosts: whether what one group does differs from what the other does.

Hosts of a group differ from each other, and a group often has few. How widely hosts lie is
therefore taken from both groups together: three hosts beside forty are measured by what all
forty-three say. Of one host nobody knows whether it is the group or the host that differs.

A difference has to succeed twice: as one of the shares of the groups' sums, which people read; and
host by host, by the transform that makes differences by factors even, without the host of each
group that makes most of it. A host in a long tail is else enough to make a small group differ.
Sources: two means with one variance, Fisher, Metron 5 (1925), 90; the variance of a ratio of sums
over hosts, Cochran, Sampling Techniques (3rd ed., 1977), section 6.3; degrees of freedom of a sum
of squares with unequal weights, Satterthwaite, Biometrics Bull. 2 (1946).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.statistics.beta import student_quantile, student_two_sided
from prospect.estimate.statistics.outlying import dispersion, evened, expected_counts
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bools = NDArray[np.bool_]
    Counts = NDArray[np.int64]
    Floats = NDArray[np.float64]

LEAST_HOSTS_OF_A_GROUP = 2
_CONFIDENCE = 0.95
_TINY = 1e-300


class GroupDifference(NamedTuple):
    """How a group differs from another one.

    Attributes:
        share, usual: f64[r] of the group, and of the other one.
        half: f64[r] of the 95 % interval of their difference.
        p: f64[r] the probability of at least this by chance; NaN where nothing was counted.
    """

    share: Floats
    usual: Floats
    half: Floats
    p: Floats


def difference_of_groups(counts: Counts, totals: Counts, is_group: Bools) -> GroupDifference:
    """Compare the shares of a group of hosts with those of the other ones.

    Args:
        counts: i64[r, h] samples of each function on each host.
        totals: i64[h] all samples of each host, none of them 0.
        is_group: bool[h]; at least `LEAST_HOSTS_OF_A_GROUP` hosts are, and as many are not.
    """
    rows, weights = counts.astype(np.float64), totals.astype(np.float64)
    share, usual = (
        np.asarray(rows[:, of].sum(axis=1) / weights[of].sum(), np.float64)
        for of in (is_group, ~is_group)
    )
    change = share - usual
    error = np.sqrt(
        np.maximum(_between(rows, weights, is_group), _counted(share, usual, weights, is_group))
    )
    freedom = max(float((weights**2).sum() ** 2 / (weights**4).sum()) - 2.0, 1.0)
    t = np.divide(change, error, out=np.zeros(len(error)), where=error > 0)
    by_sums = student_two_sided(t, freedom)
    p = np.maximum(by_sums, _by_host(counts, totals, is_group, (share, usual)))
    half = error * float(student_quantile(_CONFIDENCE, freedom))
    return GroupDifference(share, usual, half, np.where(counts.any(axis=1), p, np.nan))


def _between(rows: Floats, weights: Floats, is_group: Bools) -> Floats:
    """Return the variance of the difference of shares, as hosts of both groups lie, f64[r]."""
    squares = np.zeros(len(rows))
    expected = relative = 0.0
    for of in (is_group, ~is_group):
        own, total = weights[of], weights[of].sum()
        share = rows[:, of].sum(axis=1) / total
        squares += ((rows[:, of] - share[:, None] * own) ** 2).sum(axis=1)
        # What these squares would be on average were the variance of a host's share 1.
        expected += (own**2 * (1.0 - 2.0 * own / total + (own**2).sum() / total**2)).sum()
        relative += (own**2).sum() / total**2
    return np.asarray(squares / max(expected, _TINY) * relative, np.float64)


def _counted(group: Floats, usual: Floats, weights: Floats, is_group: Bools) -> Floats:
    """Return the variance of the difference were all samples independent, f64[r].

    The larger of what the groups' own shares say and of what a common one does: a group in which
    nothing was counted is as uncertain as what it lacks.
    """
    sizes = weights[is_group].sum(), weights[~is_group].sum()
    apart = group * (1.0 - group) / sizes[0] + usual * (1.0 - usual) / sizes[1]
    common = (group * sizes[0] + usual * sizes[1]) / sum(sizes)
    together = common * (1.0 - common) * (1.0 / sizes[0] + 1.0 / sizes[1])
    return np.asarray(np.maximum(apart, together), np.float64)


def _by_host(
    counts: Counts, totals: Counts, is_group: Bools, shares: tuple[Floats, Floats]
) -> Floats:
    """Return the p-values of the means of hosts' distances from what is usual, f64[r].

    One host of each group is left out, of each function the one that makes most of the difference.
    """
    n = totals.astype(np.float64)
    own = np.where(is_group, shares[0][:, None], shares[1][:, None])
    _, phi = dispersion(counts, n, expected_counts(own, n))
    usual = counts.sum(axis=1, keepdims=True) / n.sum()
    distance = evened(counts, phi) - evened(expected_counts(usual, n), phi)
    means = [distance[:, of].mean(axis=1) for of in (is_group, ~is_group)]
    is_more = (means[0] > means[1])[:, None]
    squares, change, each = np.zeros(len(counts)), np.zeros(len(counts)), 0.0
    for of, sign in ((is_group, 1.0), (~is_group, -1.0)):
        towards = np.sort(np.where(is_more, sign, -sign) * distance[:, of], axis=1)[:, :-1]
        mean = towards.mean(axis=1)
        squares += ((towards - mean[:, None]) ** 2).sum(axis=1)
        change += mean
        each += 1.0 / towards.shape[1]
    freedom = max(len(n) - 4, 1)
    # Distances are such that chance alone makes each differ by 1.
    t = change / np.sqrt(np.maximum(squares / freedom, 1.0) * each)
    return np.where(t > 0, student_two_sided(t, float(freedom)), 1.0)
