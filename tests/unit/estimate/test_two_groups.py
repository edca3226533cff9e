"""Groups of hosts that differ are found, and few that do not, however much hosts differ anyway."""

from __future__ import annotations

import numpy as np
import pytest

from builders.examples import nightly
from prospect.estimate.statistics.row_limits import adjusted
from prospect.estimate.statistics.unusual_hosts import difference_of_groups


def fleet(seed, hosts, differing, functions=60):
    """Draw i64[functions, hosts] samples of hosts whose shares vary, and i64[hosts] all of each."""
    random = np.random.default_rng(seed)
    totals = random.integers(500, 5000, hosts)
    usual = 1.0 / np.arange(2, functions + 2) ** 1.3 / 3
    shares = usual[:, None] * random.lognormal(0, differing, (functions, hosts))
    return random.binomial(totals, np.minimum(shares, 0.9)), totals


def compared(counts, totals, group):
    return difference_of_groups(counts, totals, np.arange(len(totals)) < group)


@pytest.mark.parametrize("differing", [0.0, *nightly(0.1, 0.3), 0.5])
@pytest.mark.parametrize(("hosts", "group"), [(4, 2), (40, 2), (40, 20), (300, 3)])
def test_of_groups_that_are_alike_next_to_none_is_marked(hosts, group, differing):
    any_of_it, p = [], []
    for seed in range(60):
        found = compared(*fleet(seed, hosts, differing), group).p
        any_of_it.append((adjusted(found) <= 0.05).any())
        p.append(found)
    assert np.mean(any_of_it) <= 0.05
    assert np.mean(np.concatenate(p) < 0.05) <= 0.05


@pytest.mark.parametrize(("hosts", "group", "least"), [(10, 3, 0.9), (40, 5, 0.99)])
def test_what_a_group_does_otherwise_is_found_and_little_else(hosts, group, least):
    true = false = 0
    for seed in range(50):
        counts, totals = fleet(seed, hosts, 0.2)
        counts[5, :group] = np.random.default_rng(seed).binomial(totals[:group], 0.15)
        marked = adjusted(compared(counts, totals, group).p) <= 0.05
        true += int(marked[5])
        false += int(marked.sum()) - int(marked[5])
    assert true >= least * 50
    assert false <= 0.1 * true


def test_one_host_of_a_group_is_not_the_group():
    counts, totals = fleet(1, 40, 0.1)
    counts[50, 0] = totals[0] // 4
    assert compared(counts, totals, 3).p[50] > 0.01


def test_a_group_without_any_is_as_uncertain_as_what_it_lacks():
    counts = np.array([[0, 0, 10_000, 10_000]])
    few = difference_of_groups(counts, np.array([5, 5, 10**5, 10**5]), np.array([1, 1, 0, 0], bool))
    assert few.p[0] > 0.2
    assert few.half[0] > 0.1


def test_what_nobody_has_is_not_compared():
    counts, totals = fleet(1, 10, 0.1)
    counts[7] = 0
    found = compared(counts, totals, 4)
    assert np.flatnonzero(np.isnan(found.p)).tolist() == [7]
    assert found.share[7] == found.usual[7] == found.half[7] == 0
