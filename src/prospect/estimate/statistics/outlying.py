"""Which of many hosts differ from the rest in what share of their samples a function has.

Hosts always differ by more than chance, so chance is no measure of what is unusual. What is usual
is taken from the hosts themselves: the median share, and how widely hosts lie about it but for a
tenth at either end. So one host, or a few, cannot hide by widening what they are measured by, and
what a good part of the hosts does is not unusual. A count is then compared as one whose variance is
μ + φ μ², by the transform that makes that even, for hosts differ by factors. A test has to succeed
against that and against counting alone; its false discoveries are controlled over all tests.
Exact probabilities of large counts take long, and next to no test succeeds: what bounds show to be
no discovery is not computed, nor by counting alone what cannot be the larger of the two.
Sources: an empirical null from the centre of the values, Efron, J. Amer. Statist. Assoc. 99 (2004);
scale from a range of quantiles, whose efficiency is 65 %, Mosteller, Ann. Math. Statist. 17 (1946);
the transform, Anscombe, Biometrika 35 (1948); the bound of binomial tails, Chernoff, Ann. Math.
Statist. 23 (1952).
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.statistics.beta import binomial_two_sided, student_two_sided
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LEAST_HOSTS = 5
_EFFICIENCY = 0.65
_LEFT_OUT = 0.1
_OFFSET = 3.0 / 8.0
_LEAST_PHI = 1e-12
# Logarithms are right to less than this; what is less than the exponential of the other is 0.
_SLACK = 1e-3
_LEAST_LOG = -746.0


class Outlying(NamedTuple):
    """How unusual each host is.

    Attributes:
        usual: f64[r] the share that a function usually has.
        spread: f64[r] how widely hosts lie about it, as a multiple of what counting alone does.
        p: f64[r, h] the probability of at least this by chance; NaN where nothing was counted, 1 of
            what is no discovery.
    """

    usual: Floats
    spread: Floats
    p: Floats


def outlying(counts: NDArray[np.int64], totals: NDArray[np.int64], fdr: float = 1.0) -> Outlying:
    """Compare each host with the others.

    Args:
        counts: i64[r, h] samples of each function on each host.
        totals: i64[h] all samples of each host.
        fdr: the highest rate of false discoveries that is of interest.

    Returns:
        What is usual and how unusual each is; of fewer than `LEAST_HOSTS` hosts no probability.
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


def _least_distance(distance: Floats, fdr: float) -> float:
    """Return how far from what is usual a discovery is at least.

    Of Student's t the normal distribution is a lower bound. A discovery's probability is at most
    the rate times the share of tests that may be discoveries, which again are fewer for that.
    """
    away = np.abs(distance)
    level, least = fdr, 0.0
    while True:
        least = -NormalDist().inv_cdf(level / 2.0) if 0.0 < level < 1.0 else least
        fewer = fdr * np.count_nonzero(away >= least) / away.size
        if not 0.0 < fewer < level:
            return least
        level = fewer


def _log_tails(successes: NDArray[np.int64], trials: Floats, share: Floats) -> Floats:
    """Return a bound of twice the smaller tail of a binomial count, its logarithm, f64[n]."""
    failures = trials - successes
    with np.errstate(divide="ignore", invalid="ignore"):
        of_successes = successes * np.log(successes / (trials * share))
        of_failures = failures * np.log(failures / (trials * (1.0 - share)))
    divergence = np.where(successes > 0, of_successes, 0.0)
    divergence += np.where(failures > 0, of_failures, 0.0)
    return np.asarray(np.log(2.0) - divergence, np.float64)


def dispersion(
    counts: NDArray[np.int64], totals: Floats, expected: Floats
) -> tuple[Floats, Floats]:
    """Return how widely counts lie about what is expected of them.

    Returns:
        f64[r] their variance, as a multiple of what counting alone has, and f64[r] the φ by which
        `evened` makes them differ by 1.
    """
    chance = np.sqrt(expected * (1.0 - np.minimum(expected / totals, 0.5)))
    variance = _scale((counts - expected) / chance) ** 2
    return variance, np.maximum((variance - 1.0) / np.median(expected, axis=1), _LEAST_PHI)


def expected_counts(share: Floats, totals: Floats) -> Floats:
    """Return how many samples of each function are expected on each host, f64[r, h].

    Of what most hosts never do, half a hit where most could have been counted.

    Args:
        share: f64[r, 1] or f64[r, h].
        totals: f64[h] all samples of each host, none of them 0.
    """
    return np.asarray(np.maximum(share, 0.5 / totals.max()) * totals, np.float64)


def _scale(values: Floats) -> Floats:
    """Return the standard deviation of each row, from the range of its inner values, f64[r]."""
    hosts = values.shape[1]
    left_out = max(int(_LEFT_OUT * hosts), 1)
    inner = np.partition(values, (left_out, hosts - 1 - left_out), axis=1)
    width = inner[:, hosts - 1 - left_out] - inner[:, left_out]
    # Where the outermost of the inner values is expected (Blom's plotting position).
    at = NormalDist().inv_cdf((hosts - left_out - _OFFSET) / (hosts + 0.25))
    return np.asarray(width / (2.0 * at), np.float64)


def evened(counts: NDArray[np.int64] | Floats, phi: Floats) -> Floats:
    """Return counts so that each differs by chance by 1, f64[r, h]."""
    root = np.sqrt(phi)[:, None]
    return np.asarray(2.0 / root * np.arcsinh(root * np.sqrt(counts + _OFFSET)), np.float64)
