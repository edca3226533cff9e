"""Hosts, or groups of hosts, that differ in a function's share of samples.

Hosts always differ by more than chance, so chance is no measure of unusual hosts. The usual share
is taken from the hosts themselves: the median share, and the spread of hosts about it without a
tenth at either end. So one host, or a few, cannot hide by widening the measure, and a difference of
a large part of the hosts is not unusual. A count is then compared as one whose variance is
μ + φ μ², by the transform that stabilizes it, for hosts differ by factors. A test has to succeed
against that and against counting alone; its false discoveries are controlled over all tests.
Exact probabilities of large counts take long, and hardly any test succeeds: bounds exclude most
tests, and counting alone is only computed if it can have the larger probability.

Hosts of a group differ from each other, and a group often has few. So the spread of hosts is taken
from both groups together: three hosts compared with forty are measured by all forty-three. A
difference of a group of one host may be the group's or the host's. A difference of groups has to
succeed twice: as one of the shares of the groups' sums, which reports show; and host by host, by
the transform that equalizes factors, without the host of each group with the largest difference.
Otherwise a host in a long tail is enough to make a small group differ.
Sources: an empirical null from the centre of the values, Efron, J. Amer. Statist. Assoc. 99 (2004);
scale from a range of quantiles, whose efficiency is 65 %, Mosteller, Ann. Math. Statist. 17 (1946);
the transform, Anscombe, Biometrika 35 (1948); the bound of binomial tails, Chernoff, Ann. Math.
Statist. 23 (1952); two means with one variance, Fisher, Metron 5 (1925), 90; the variance of a
ratio of sums over hosts, Cochran, Sampling Techniques (3rd ed., 1977), section 6.3; degrees of
freedom of a sum of squares with unequal weights, Satterthwaite, Biometrics Bull. 2 (1946).
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.statistics.beta import (
    binomial_two_sided,
    student_quantile,
    student_two_sided,
)
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from prospect.columns.array_types import F64, I64, Bools

LEAST_HOSTS = 5
_EFFICIENCY = 0.65
_LEFT_OUT = 0.1
_OFFSET = 3.0 / 8.0
_LEAST_PHI = 1e-12
# The error of logarithms is less than this; the exponential of the other is the least number.
_SLACK = 1e-3
_LEAST_LOG = -746.0

LEAST_HOSTS_OF_A_GROUP = 2
_CONFIDENCE = 0.95
_TINY = 1e-300


class Outlying(NamedTuple):
    """How unusual each host is.

    Attributes:
        usual: f64[r] the usual share of a function.
        spread: f64[r] the spread of hosts about it, as a multiple of that of counting alone.
        p: f64[r, h] the probability of at least this by chance; NaN without counts, 1 if it cannot
            be a discovery.
    """

    usual: F64
    spread: F64
    p: F64


def outlying(counts: I64, totals: I64, fdr: float = 1.0) -> Outlying:
    """Compare each host with the others.

    `counts`, i64[r, h], are samples of each function on each host, `totals`, i64[h], all samples of
    each host; `fdr` is the highest rate of false discoveries that is of interest.

    Returns:
        The usual share and how unusual each host is; no probability for fewer than `LEAST_HOSTS`
        hosts.
    """
    there = totals > 0
    shape = counts.shape
    if there.sum() < LEAST_HOSTS:
        usual = np.median(counts / np.maximum(totals, 1)[None, :], axis=1)
        return Outlying(np.asarray(usual), np.ones(shape[0]), np.full(shape, np.nan))
    counted, n = counts[:, there], totals[there].astype(np.float64)
    usual = np.asarray(np.median(counted / n, axis=1), np.float64)
    expected = expected_counts(usual[:, None], n)
    variance, phi = dispersion(counted, n, expected)
    distance = evened(counted, phi) - evened(expected, phi)
    distance /= np.maximum(_scale(distance), 1.0)[:, None]
    unusual = np.nonzero(np.abs(distance) >= _least_distance(distance, fdr))
    p_unusual = student_two_sided(distance[unusual], max(_EFFICIENCY * float(there.sum() - 1), 1.0))
    share = np.minimum(expected / n, 1.0 - 1e-12)[unusual]
    successes, trials = counted[unusual], n[unusual[1]]
    with np.errstate(divide="ignore"):
        limit = np.maximum(np.log(p_unusual), _LEAST_LOG) - _SLACK
    by_counting = _log_tails(successes, trials, share) > limit
    p_unusual[by_counting] = np.maximum(
        p_unusual[by_counting],
        binomial_two_sided(successes[by_counting], trials[by_counting], share[by_counting]),
    )
    p_there = np.ones(counted.shape)
    p_there[unusual] = p_unusual
    p = np.full(shape, np.nan)
    p[:, there] = p_there
    return Outlying(usual, np.sqrt(np.maximum(variance, 1.0)), p)


def _least_distance(distance: F64, fdr: float) -> float:
    """Return the least distance of a discovery from the usual share.

    The normal distribution is a lower bound of Student's t. A discovery's probability is at most
    the rate times the share of tests that may be discoveries, which in turn reduces their number.
    """
    away = np.abs(distance)
    level, least = fdr, 0.0
    while True:
        least = -NormalDist().inv_cdf(level / 2.0) if 0.0 < level < 1.0 else least
        fewer = fdr * np.count_nonzero(away >= least) / away.size
        if not 0.0 < fewer < level:
            return least
        level = fewer


def _log_tails(successes: I64, trials: F64, share: F64) -> F64:
    """Return the logarithm of a bound of twice the smaller tail of a binomial count, f64[n]."""
    failures = trials - successes
    with np.errstate(divide="ignore", invalid="ignore"):
        of_successes = successes * np.log(successes / (trials * share))
        of_failures = failures * np.log(failures / (trials * (1.0 - share)))
    divergence = np.where(successes > 0, of_successes, 0.0)
    divergence += np.where(failures > 0, of_failures, 0.0)
    return np.asarray(np.log(2.0) - divergence, np.float64)


def dispersion(counts: I64, totals: F64, expected: F64) -> tuple[F64, F64]:
    """Return how widely counts spread about their expectations.

    Returns:
        f64[r] their variance, as a multiple of that of counting alone, and f64[r] the φ by which
        `evened` gives them a standard deviation of 1.
    """
    chance = np.sqrt(expected * (1.0 - np.minimum(expected / totals, 0.5)))
    variance = _scale((counts - expected) / chance) ** 2
    return variance, np.maximum((variance - 1.0) / np.median(expected, axis=1), _LEAST_PHI)


def expected_counts(share: F64, totals: F64) -> F64:
    """Return the expected samples of each function on each host, f64[r, h].

    If most hosts never run it, the usual share is half a hit on the host with most samples. No host
    has a total of 0.
    """
    return np.asarray(np.maximum(share, 0.5 / totals.max()) * totals, np.float64)


def _scale(values: F64) -> F64:
    """Return the standard deviation of each row, from the range of its inner values, f64[r]."""
    hosts = values.shape[1]
    left_out = max(int(_LEFT_OUT * hosts), 1)
    inner = np.partition(values, (left_out, hosts - 1 - left_out), axis=1)
    width = inner[:, hosts - 1 - left_out] - inner[:, left_out]
    # Where the outermost of the inner values is expected (Blom's plotting position).
    at = NormalDist().inv_cdf((hosts - left_out - _OFFSET) / (hosts + 0.25))
    return np.asarray(width / (2.0 * at), np.float64)


def evened(counts: I64 | F64, phi: F64) -> F64:
    """Return counts transformed to a standard deviation of 1, f64[r, h]."""
    root = np.sqrt(phi)[:, None]
    return np.asarray(2.0 / root * np.arcsinh(root * np.sqrt(counts + _OFFSET)), np.float64)


class GroupDifference(NamedTuple):
    """The difference between two groups of hosts.

    Attributes:
        share, usual: f64[r] of the group, and of the other one.
        half: f64[r] of the 95 % interval of their difference.
        p: f64[r] the probability of at least this by chance; NaN without counts.
    """

    share: F64
    usual: F64
    half: F64
    p: F64


def difference_of_groups(counts: I64, totals: I64, is_group: Bools) -> GroupDifference:
    """Compare the shares of a group of hosts with those of the other ones.

    `counts` i64[r, h] are the samples of each function on each host, `totals` all samples of each
    host, none of them 0. At least `LEAST_HOSTS_OF_A_GROUP` hosts are in the group, and as many are
    not.
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


def _between(rows: F64, weights: F64, is_group: Bools) -> F64:
    """Return the variance of the difference of shares, from the spread of hosts, f64[r]."""
    squares = np.zeros(len(rows))
    expected = relative = 0.0
    for of in (is_group, ~is_group):
        own, total = weights[of], weights[of].sum()
        share = rows[:, of].sum(axis=1) / total
        squares += ((rows[:, of] - share[:, None] * own) ** 2).sum(axis=1)
        # The mean of these squares if the variance of a host's share were 1.
        expected += (own**2 * (1.0 - 2.0 * own / total + (own**2).sum() / total**2)).sum()
        relative += (own**2).sum() / total**2
    return np.asarray(squares / max(expected, _TINY) * relative, np.float64)


def _counted(group: F64, usual: F64, weights: F64, is_group: Bools) -> F64:
    """Return the variance of the difference for independent samples, f64[r].

    The larger of the variances from the groups' own shares and from a common one: a group without
    counts is as uncertain as what it lacks.
    """
    sizes = weights[is_group].sum(), weights[~is_group].sum()
    apart = group * (1.0 - group) / sizes[0] + usual * (1.0 - usual) / sizes[1]
    common = (group * sizes[0] + usual * sizes[1]) / sum(sizes)
    together = common * (1.0 - common) * (1.0 / sizes[0] + 1.0 / sizes[1])
    return np.asarray(np.maximum(apart, together), np.float64)


def _by_host(counts: I64, totals: I64, is_group: Bools, shares: tuple[F64, F64]) -> F64:
    """Return the p-values of the means of hosts' distances from the usual share, f64[r].

    For each function, the host of each group with the largest difference is left out.
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
    # Chance alone gives each distance a standard deviation of 1.
    t = change / np.sqrt(np.maximum(squares / freedom, 1.0) * each)
    return np.where(t > 0, student_two_sided(t, float(freedom)), 1.0)
