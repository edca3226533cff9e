import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prospect.columns.grouping import distinct_keys, group_sums, rows_by_group


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
