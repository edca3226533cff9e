"""Stacks that hardly any sample has."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.examples import examples
from prospect.store.compaction import without_rare
from prospect.store.windows import stack_number

FUNCTIONS = st.integers(1, 4)
CHAINS = st.lists(
    st.tuples(st.lists(FUNCTIONS, min_size=1, max_size=5).map(tuple), st.integers(1, 6)),
    min_size=1,
    max_size=12,
)


def number_of(chain):
    """Return the number of a chain of functions; each is at the address of its number."""
    number = bytes(8)
    for function in chain:
        place = function.to_bytes(8, "little") * 2
        number = stack_number(number, place, 1)
    return int.from_bytes(number, "little")


def frames_of(chains):
    prefixes = sorted(
        {chain[:end] for chain in chains for end in range(1, len(chain) + 1)}, key=len
    )
    columns = {
        "stack": [number_of(one) for one in prefixes],
        "caller": [number_of(one[:-1]) if len(one) > 1 else 0 for one in prefixes],
        "function": [one[-1] for one in prefixes],
        "address": [one[-1] for one in prefixes],
        "mode": [1 for _ in prefixes],
        "depth": [len(one) - 1 for one in prefixes],
    }
    types = {"mode": np.uint8, "depth": np.int32}
    return {name: np.array(each, types.get(name, np.uint64)) for name, each in columns.items()}


def chain_of(frames, number):
    row = {int(stack): at for at, stack in enumerate(frames["stack"].tolist())}
    found = []
    while number:
        at = row[number]
        found.append((int(frames["function"][at]), int(frames["address"][at])))
        number = int(frames["caller"][at])
    return tuple(reversed(found))


@settings(max_examples=examples(100))
@given(CHAINS, st.integers(1, 12))
def test_functions_keep_their_hits_and_what_is_shared_stays(counted, least):
    counts = Counter()
    for chain, count in counted:
        counts[chain] += count
    stack = np.array([number_of(chain) for chain in counts], np.uint64)
    frames, old, new = without_rare(
        frames_of(counts), stack, np.array(list(counts.values())), least
    )
    assert len(set(frames["stack"].tolist())) == len(frames["stack"])
    renamed = dict(zip(old.tolist(), new.tolist(), strict=True))
    after = Counter()
    for chain, count in counts.items():
        number = number_of(chain)
        left = chain_of(frames, renamed.get(number, number))
        # Its own function, and outer frames as they were.
        assert left[-1][0] == chain[-1]
        assert [function for function, _ in left[:-1]] == list(chain[: len(left) - 1])
        assert (left[-1][1] == 0) == (number in renamed)
        after[left] += count
        if count >= least:
            assert number not in renamed
    assert after.total() == counts.total()
    # What few samples have is a function alone.
    assert all(len(left) == 1 for left, count in after.items() if count < least)
