"""Every way of counting pairs finds the same; the sequence is the same however recorded."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from prospect.estimate.errors.local_error import MISSING, OUTSIDE, plain_sequence, successions

# Ticks, hits, and how many hits are one part: few and many changes, few and many kinds of them.
WAYS = [(20, 3, 1), (5_000, 40, 4), (5_000, 40, 1), (5_000, 400, 1), (150_000, 90_000, 1)]


def counted_one_by_one(sequence, lag):
    """Count the pairs of a list that differ and are inside, the plain way."""
    pairs = zip(sequence[:-lag], sequence[lag:], strict=True)
    return Counter(pair for pair in pairs if pair[0] != pair[1] and OUTSIDE not in pair)


def made_up(ticks, hits, stay):
    random = np.random.default_rng(ticks + hits + stay)
    sequence = random.integers(0, hits, ticks).repeat(stay)[:ticks].astype(np.int32)
    sequence[random.integers(0, ticks, ticks // 20)] = MISSING
    sequence[ticks // 2 : ticks // 2 + 3] = OUTSIDE
    return sequence


@pytest.mark.parametrize(("ticks", "hits", "together"), WAYS)
@pytest.mark.parametrize("stay", [1, 6])
def test_pairs_that_differ_are_counted_once_each(ticks, hits, together, stay):
    sequence = made_up(ticks, hits, stay)
    part_of_hit = (np.arange(hits) // together).astype(np.int32)
    part_of_hit[0] = -1
    table = [*part_of_hit.tolist(), OUTSIDE, MISSING]
    parts = [table[hit] for hit in sequence.tolist()]
    for part, wanted in ((None, sequence.tolist()), (part_of_hit, parts)):
        for found in successions(sequence, (1, 3), part):
            total = Counter()
            for pairs in found.pairs():
                both = zip(pairs.earlier.tolist(), pairs.later.tolist(), strict=True)
                times = [1] * len(pairs.earlier) if pairs.times is None else pairs.times.tolist()
                for pair, count in zip(both, times, strict=True):
                    total[pair] += count
            assert total == counted_one_by_one(wanted, found.lag)


def test_a_sequence_shorter_than_the_distance_has_no_pairs():
    short = np.zeros(2, np.int32)
    assert not [
        pairs.earlier.tolist()
        for one in successions(short, (2, 5))
        for pairs in one.pairs()
        if len(pairs.earlier)
    ]


@pytest.mark.parametrize("is_mixed", [False, True])
def test_cpus_follow_each_other_in_order_of_time_however_they_were_recorded(is_mixed):
    random = np.random.default_rng(3)
    cpu = np.repeat(np.array([3, 1, 3, 0], np.uint16), 50)
    time_ns = np.arange(200, dtype=np.uint64)
    if is_mixed:
        turn = random.permutation(200)
        cpu, time_ns = cpu[turn], time_ns[turn]
    hit = time_ns.astype(np.int32)
    gap = [OUTSIDE] * 2
    wanted = [*range(150, 200), *gap, *range(50, 100), *gap, *range(50), *range(100, 150)]
    assert plain_sequence(hit, cpu, time_ns, 2).tolist() == wanted
