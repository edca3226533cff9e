"""Intervals of shares hold the truth as often as they say, where hosts differ from each other."""

from __future__ import annotations

import numpy as np
import pytest

from prospect.estimate.statistics.beta import student_two_sided
from prospect.estimate.statistics.clusters import ClusterSums, Side, difference_of, shares_of

TRIES = 3000


def drawn(seed, hosts, share, differing, samples=2000):
    """Draw what a function has on each host of a fleet, as often as there are tries.

    Returns counts i64[tries, hosts], sizes i64[hosts]. Shares of hosts are drawn from a beta
    distribution whose standard deviation is `differing` times its mean.
    """
    random = np.random.default_rng(seed)
    sizes = random.integers(samples // 2, 2 * samples, hosts)
    if not differing:
        return random.binomial(sizes, share, (TRIES, hosts)), sizes
    total = (1 - share) / (share * differing**2) - 1
    of_host = random.beta(share * total, (1 - share) * total, (TRIES, hosts))
    return random.binomial(sizes, of_host), sizes


def sums_of(counts, sizes):
    x, w = counts.astype(float), sizes.astype(float)
    return ClusterSums(
        x.sum(1), (x**2).sum(1), (x * w).sum(1), w.sum(), (w**2).sum(), len(w), int(w.sum())
    )


@pytest.mark.parametrize(
    ("hosts", "share", "differing", "least"),
    [
        (5, 0.1, 0.3, 0.93),
        (30, 0.1, 0.3, 0.93),
        (30, 0.01, 0.5, 0.93),
        (30, 0.3, 0.0, 0.93),
        (300, 0.05, 0.5, 0.94),
        (1, 0.05, 0.0, 0.93),
    ],
)
def test_the_interval_holds_the_share_of_the_fleet(hosts, share, differing, least):
    found = shares_of(sums_of(*drawn(1, hosts, share, differing)))
    held = ((found.low <= share) & (share <= found.high)).mean()
    assert least <= held <= 0.99


def test_an_interval_of_samples_alone_would_not():
    counts, sizes = drawn(2, 30, 0.1, 0.3)
    share = counts.sum(1) / sizes.sum()
    half = 1.96 * np.sqrt(share * (1 - share) / sizes.sum())
    assert (np.abs(share - 0.1) <= half).mean() < 0.5


def test_a_difference_of_nothing_is_found_as_often_as_it_should_be():
    counts, sizes = drawn(3, 20, 0.1, 0.4)
    random = np.random.default_rng(4)
    # Each host keeps its own share: what differs between hosts cancels.
    again = random.binomial(sizes, counts / sizes)
    p, halves = [], []
    for before, after in zip(counts[:400], again[:400], strict=True):
        found = difference_of(
            Side(before[None, :].astype(float), sizes.astype(float), int(sizes.sum())),
            Side(after[None, :].astype(float), sizes.astype(float), int(sizes.sum())),
        )
        p.append(student_two_sided(found.t, found.freedom)[0])
        halves.append(found.half[0])
    assert (np.array(p) < 0.05).mean() < 0.08
    unpaired = shares_of(sums_of(counts, sizes))
    assert np.median(halves) < np.median(unpaired.high - unpaired.low) / 2


def test_a_difference_of_every_host_is_found():
    rows, sizes = np.full((1, 10), 100.0), np.full(10, 1000.0)
    found = difference_of(Side(rows, sizes, 10_000), Side(1.3 * rows, sizes, 10_000))
    assert found.after[0] - found.before[0] == pytest.approx(0.03)
    assert found.half[0] < 0.03 < 0.03 + found.half[0]
    alone = difference_of(Side(rows[:, :1], sizes[:1], 1000), Side(rows[:, :1], sizes[:1], 1000))
    assert alone.freedom == np.inf
