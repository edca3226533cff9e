"""Sets of words against Python's own, with as many collisions as one likes."""

from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prospect.columns import sorting as words_module
from prospect.columns.sorting import collect_words, word_set

WORDS = st.lists(
    st.one_of(st.integers(0, 40), st.integers(0, 2**64 - 1), st.integers(2**64 - 40, 2**64 - 1)),
    max_size=80,
)


def few_slots(bits):
    return patch.multiple(words_module, _MOST_SLOT_BITS=bits, _SMALL_BLOCK=0)


@given(WORDS, WORDS, st.integers(1, 8))
def test_a_word_is_found_if_it_is_there(members, others, bits):
    with few_slots(bits):
        found = word_set(np.array(members, np.uint64))
        asked = np.array([*members, *others], np.uint64)
        rows, may_be = found.find(asked), found.may_hold(asked)
    known = sorted({*members} - {0})
    assert found.words.tolist() == known
    expected = [known.index(word) if word in known else -1 for word in asked.tolist()]
    assert rows.tolist() == expected
    assert all(may for may, row in zip(may_be.tolist(), expected, strict=True) if row >= 0)


@given(st.lists(WORDS, max_size=6), st.integers(1, 8))
def test_all_words_of_all_blocks_are_collected(blocks, bits):
    with few_slots(bits):
        found = collect_words((np.array(block, np.uint64) for block in blocks), 10_000)
    assert found.words.tolist() == sorted({word for block in blocks for word in block} - {0})


@given(st.lists(WORDS, max_size=6))
def test_small_blocks_need_no_table(blocks):
    found = collect_words((np.array(block, np.uint64) for block in blocks), 10_000)
    assert found.words.tolist() == sorted({word for block in blocks for word in block} - {0})
    assert len(found.slot_word) < 1 << 12


def test_no_more_is_kept_than_was_allowed():
    with few_slots(4):
        blocks = np.arange(1, 10_001, dtype=np.uint64).reshape(100, 100)
        found = collect_words(iter(blocks), 50)
    assert 16 <= len(found.words) <= 16 + 2 * 50 + 100
