"""Hosts that differ are found, and few that do not, however much hosts differ anyway."""

from __future__ import annotations

import numpy as np
import pytest

from prospect.estimate.statistics.row_limits import adjusted
from prospect.estimate.statistics.unusual_hosts import outlying


def fleet(seed, hosts=60, functions=40, differing=0.2):
    """Draw i64[functions, hosts] samples of hosts whose shares vary, and i64[hosts] all of each."""
    random = np.random.default_rng(seed)
    totals = random.integers(5_000, 50_000, hosts)
    usual = 1.0 / np.arange(2, functions + 2) ** 1.3 / 3
    shares = usual[:, None] * random.lognormal(0, differing, (functions, hosts))
    return random.binomial(totals, np.minimum(shares, 0.9)), totals


def marked(counts, totals, fdr=0.05):
    p = outlying(counts, totals).p
    return adjusted(p.ravel()).reshape(p.shape) <= fdr


@pytest.mark.parametrize("differing", [0.0, 0.05, 0.3])
def test_of_hosts_that_differ_as_usual_next_to_none_is_marked(differing):
    found = [marked(*fleet(seed, differing=differing)).any() for seed in range(20)]
    assert np.mean(found) <= 0.1


def test_hosts_that_are_different_are_marked_and_few_others():
    true = false = 0
    for seed in range(20):
        counts, totals = fleet(seed, differing=0.05)
        wrong = np.zeros(counts.shape, bool)
        for host in (3, 17, 40):  # several at once do not hide each other
            wrong[5, host] = True
            counts[5, host] = totals[host] // 3
        found = marked(counts, totals)
        true += int((found & wrong).sum())
        false += int((found & ~wrong).sum())
    assert true == 60
    assert false <= 0.1 * true


def test_what_many_hosts_do_is_not_unusual():
    counts, totals = fleet(1)
    counts[39, ::3] = totals[::3] // 20
    assert not marked(counts, totals)[39].any()


def test_what_one_host_alone_has_is_marked_and_a_few_hits_are_not():
    counts, totals = fleet(1)
    counts[39] = 0
    counts[39, 7] = totals[7] // 100
    assert marked(counts, totals)[39, 7]
    counts[39, 7] = 1
    assert not marked(counts, totals)[39, 7]


def test_few_hosts_say_nothing_and_an_empty_one_is_left_out():
    counts, totals = fleet(1, hosts=4)
    assert np.isnan(outlying(counts, totals).p).all()
    counts, totals = fleet(1)
    counts[:, 3] = totals[3] = 0
    found = outlying(counts, totals).p
    assert np.isnan(found[:, 3]).all()
    assert not np.isnan(found[:, 4]).any()


@pytest.mark.parametrize("fdr", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("differing", [0.0, 0.3])
def test_discoveries_are_those_of_the_exact_probabilities(fdr, differing):
    for seed in range(5):
        counts, totals = fleet(seed, differing=differing)
        counts[5, 3] = totals[3] // 3
        counts[7:9, 10:13] *= 4
        counts[39] = 0
        counts[39, seed] = 12
        exact, bounded = (adjusted(outlying(counts, totals, rate).p.ravel()) for rate in (1.0, fdr))
        assert (exact <= fdr).any()
        assert ((exact <= fdr) == (bounded <= fdr)).all()
        assert bounded[bounded <= fdr] == pytest.approx(exact[exact <= fdr], rel=1e-9)
