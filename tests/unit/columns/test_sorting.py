"""Numbers of distinct values: short columns, that are sorted, and long ones, that are hashed."""

import numpy as np
import pytest

from prospect.columns.sorting import ascending, falling_within, numbered


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int32])
@pytest.mark.parametrize("distinct", [1, 300, 2**20])
@pytest.mark.parametrize("count", [0, 1, 100, 5000, 40_000])
def test_numbers_follow_the_first_occurrence(count, distinct, dtype):
    random = np.random.default_rng(5)
    column = random.integers(-distinct, distinct, count).astype(dtype)
    number, first = numbered(column)
    rows = {}
    expected = [rows.setdefault(value, len(rows)) for value in column.tolist()]
    assert number.tolist() == expected
    assert column.take(first).tolist() == list(rows)
    assert (np.diff(first) > 0).all()


def test_values_that_share_all_slots_are_told_apart():
    # Equal in the bits that both multipliers take: multiples of 2^52 keep 12 bits of slot.
    column = np.arange(5000, dtype=np.uint64).repeat(2) << np.uint64(52)
    number, first = numbered(column)
    assert (column.take(first).take(number) == column).all()
    assert len(first) == len(np.unique(column))


@pytest.mark.parametrize("bits", [1, 20, 50, 64])
@pytest.mark.parametrize("count", [0, 1, 2, 5000])
def test_rows_of_one_key_stay_in_their_order(count, bits):
    random = np.random.default_rng(7)
    key = random.integers(0, 1 << bits, count, dtype=np.uint64, endpoint=False)
    key[count // 2 :] = key[: count - count // 2]
    order = ascending(key)
    expected = sorted(range(count), key=lambda row: (int(key[row]), row))
    assert order.tolist() == expected


@pytest.mark.parametrize("weight_of", [lambda count: 2.5 * count, lambda count: 1.0 * (count % 3)])
def test_rows_fall_by_weight_then_count_within_their_groups(weight_of):
    random = np.random.default_rng(8)
    group, count = np.sort(random.integers(0, 9, 5000)), random.integers(1, 40, 5000)
    order = falling_within(group, weight_of(count), count)
    assert np.array_equal(order, np.lexsort((-count, -weight_of(count), group)))


def test_rows_without_a_weight_or_any_rows_are_in_order():
    nothing = np.zeros(0, np.int64)
    assert not len(falling_within(nothing, nothing.astype(float), nothing))
    assert falling_within(np.array([0, 0]), np.zeros(2), np.array([0, 3])).tolist() == [1, 0]
