"""Distinct values and their counts, against sorting all: few, many, and of one slot."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.examples import examples
from prospect.columns.grouping import counted, tallied


def assert_counts(column):
    value, place, count = np.unique(column, return_inverse=True, return_counts=True)
    found = counted(column)
    assert np.array_equal(found.value, value)
    assert np.array_equal(found.rows, count)
    assert np.array_equal(found.place, place)
    assert (found.value.dtype, found.rows.dtype, found.place.dtype) == (
        np.uint64,
        np.int64,
        np.int32,
    )


@settings(max_examples=examples(40))
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0, 1, 100, 20_000, 70_000, 300_000]),
    st.sampled_from([1, 2, 300, 2**16, 2**20, 2**62]),
    st.sampled_from([0, 12, 47]),
)
def test_words_are_counted_as_sorting_does(seed, rows, different, shift):
    random = np.random.default_rng(seed)
    column = random.integers(0, different, rows).astype(np.uint64) << np.uint64(shift)
    assert_counts(column)


@pytest.mark.parametrize("value", [0, 1, 2**64 - 1])
def test_a_word_alone_and_beside_others_is_counted(value):
    alone = np.full(40_000, value, np.uint64)
    assert_counts(alone)
    assert_counts(np.concatenate((alone, np.arange(40_000, dtype=np.uint64))))


def test_words_that_share_a_slot_in_every_table_are_counted():
    # Multiples of 2^62 differ in two bits of the hash only: 4 slots for all of them, and with the
    # low bits beside them many words fall on one slot of each table.
    high = np.arange(4, dtype=np.uint64).repeat(30_000) << np.uint64(62)
    assert_counts(high | np.arange(len(high), dtype=np.uint64) % np.uint64(7))


def test_more_words_than_slots_of_all_tables_are_counted():
    column = np.arange(1_300_000, dtype=np.uint64) * np.uint64(0x1000)
    assert_counts(np.concatenate((column, column[::3], column[::-1])))


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("rows", [0, 1, 30_000])
def test_values_are_tallied_as_sorting_does(dtype, rows):
    column = np.random.default_rng(5).integers(0, 900, rows).astype(dtype)
    value, count = np.unique(column, return_counts=True)
    found, tally = tallied(column)
    assert found.dtype == np.uint64
    assert found.tolist() == value.tolist()
    assert tally.tolist() == count.tolist()
