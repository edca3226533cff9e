import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prospect.columns.grouping import (
    alike,
    distinct_keys,
    group_sums,
    rows_by_group,
    without_gaps,
)


def _columns(rows, count):
    return [np.array([row[i] for row in rows], np.int64) for i in range(count)]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.integers(0, 3), st.integers(0, 2**31 - 1), st.integers(-9, 9)
        ),
        max_size=60,
    )
)
def test_group_sums_equal_a_dictionary_of_sums(rows):
    expected = {}
    for a, b, c, value in rows:
        total, number = expected.get((a, b, c), (0, 0))
        expected[a, b, c] = (total + value, number + 1)
    a, b, c, value = _columns(rows, 4)
    keys, (total, number) = group_sums((a, b, c), (value, np.ones(len(rows), np.int64)))
    got = dict(
        zip(
            zip(*(key.tolist() for key in keys), strict=True),
            zip(total.tolist(), number.tolist(), strict=True),
            strict=True,
        )
    )
    assert got == expected
    assert list(got) == sorted(got)


def test_group_sums_hold_at_the_largest_row_numbers():
    big = 2**31 - 1
    keys, (total,) = group_sums(
        (np.array([big, 0, big]), np.array([3, 0, 3]), np.array([big, 1, big])),
        (np.array([1, 2, 4], np.int64),),
    )
    assert [key.tolist() for key in keys] == [[0, big], [0, 3], [1, big]]
    assert total.tolist() == [2, 5]


@given(st.lists(st.tuples(st.integers(-1, 6), st.integers(0, 4)), max_size=50))
def test_rows_by_group_gives_each_group_its_rows_in_order(rows):
    group, key = _columns(rows, 2)
    index = rows_by_group(group, 7, (key,))
    for number in range(7):
        got = index.rows(number).tolist()
        expected = [row for row, (of, _) in enumerate(rows) if of == number]
        assert sorted(got) == expected
        assert [rows[row][1] for row in got] == sorted(rows[row][1] for row in expected)


@given(st.lists(st.integers(0, 40), max_size=60), st.sampled_from([41, 2**40]))
def test_distinct_keys_are_those_of_a_sort(keys, bound):
    distinct, row = distinct_keys(np.array(keys, np.int64), bound)
    assert distinct.tolist() == sorted(set(keys))
    assert distinct.take(row).tolist() == keys


@pytest.mark.parametrize("rows", [100, 20_000])
@pytest.mark.parametrize("most", [7, 1 << 40])
def test_sums_of_what_is_everywhere_the_same_are_those_of_a_column(rows, most):
    random = np.random.default_rng(7)
    keys = random.integers(0, 9, rows, np.uint16), random.integers(0, most, rows)
    same = np.broadcast_to(np.int64(5), rows)
    found, (one,) = group_sums(keys, (same,))
    expected, (other, _) = group_sums(keys, (same.copy(), np.ones(rows, np.int64)))
    assert [key.tolist() for key in found] == [key.tolist() for key in expected]
    assert one.tolist() == other.tolist()


@given(st.lists(st.integers(0, 9), max_size=30))
def test_numbers_without_gaps_stand_for_the_same(numbers):
    found, place = without_gaps(np.array(numbers, np.int32), 10)
    assert found.tolist() == sorted(set(numbers))
    assert found.take(place).tolist() == numbers


@pytest.mark.parametrize(("least", "shift"), [(-1, 60), (0, 60), (0, 40), (0, 0)])
def test_rows_are_alike_that_equal_in_every_column(least, shift):
    random = np.random.default_rng(3)
    columns = (
        random.integers(least, 40, 50_000, np.int32),
        random.integers(0, 2, 50_000).astype(bool),
        random.integers(0, 9, 50_000, np.uint64) << np.uint64(shift),
    )
    found = alike(columns)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    first = {}
    for row, values in enumerate(rows):
        first.setdefault(values, row)
    assert sorted(found.row.tolist()) == sorted(first.values())
    assert [rows[row] for row in found.row[found.place].tolist()] == rows
    if least == 0:
        assert [rows[row] for row in found.row.tolist()] == sorted(first)


def test_without_rows_none_is_alike():
    found = alike((np.empty(0, np.int64),))
    assert len(found.row) == len(found.place) == 0
