"""Lists as a forest: read back they are what was put in, and neighbours share their beginnings."""

from itertools import accumulate, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prospect.columns.forests import (
    forest_of_lists,
    hashed_forest,
    joined_forests,
    without_twins,
)
from prospect.columns.sorting import mixed, random_seed

# Each list keeps some of the one before it, and adds to that.
steps = st.lists(st.tuples(st.integers(0, 6), st.lists(st.integers(0, 2), max_size=4)), max_size=20)


def lists_by(drawn):
    return list(accumulate(drawn, lambda last, step: last[: step[0]] + step[1], initial=[]))


def forest_of(lists):
    values = np.array([value for one in lists for value in one], np.int32)
    return forest_of_lists(values, np.array([len(one) for one in lists], np.int64))


def read(forest, rows):
    start, found = forest.lists(rows)
    values = forest.value.take(found).tolist()
    return [values[low:high][::-1] for low, high in pairwise(start.tolist())]


@given(steps)
def test_lists_are_read_back(drawn):
    lists = lists_by(drawn)
    forest, last = forest_of(lists)
    assert read(forest, last) == lists
    assert (forest.before < np.arange(len(forest))).all()
    assert forest.reached(last).all()
    shared = [
        sum(accumulate((x == y for x, y in zip(a, b, strict=False)), min))
        for a, b in pairwise(filter(None, lists))
    ]
    assert len(forest) == sum(map(len, lists)) - sum(shared)


@given(steps, steps)
def test_forests_joined_have_the_lists_of_both(first, second):
    first, second = lists_by(first), lists_by(second)
    (one, rows_of_one), (other, rows_of_other) = forest_of(first), forest_of(second)
    whole = joined_forests((one, other))
    rows = np.append(rows_of_one, np.where(rows_of_other < 0, -1, rows_of_other + len(one)))
    assert read(whole, rows) == first + second


@given(steps, st.integers(0, 20))
def test_what_some_lists_need_is_kept(drawn, few):
    lists = lists_by(drawn)
    forest, last = forest_of(lists)
    kept, new_row = forest.kept(forest.reached(last[:few]))
    assert read(kept, new_row.take(last[:few])) == lists[:few]
    assert kept.reached(new_row.take(last[:few])).all()


@given(steps, st.integers(0, 2))
def test_a_forest_is_cut_after_a_value(drawn, value):
    lists = lists_by(drawn)
    forest, last = forest_of(lists)
    is_cut = np.append(forest.value == value, False)
    cut = forest.with_before(np.where(is_cut.take(forest.before), -1, forest.before))
    expected = [
        one[max((n + 1 for n, each in enumerate(one[:-1]) if each == value), default=0) :]
        for one in lists
    ]
    assert read(cut, last) == expected


def hashed(lists, word):
    values = np.array([value for one in lists for value in one], np.int32)
    return hashed_forest(values, np.array([len(one) for one in lists], np.int64), word)


@given(steps, steps)
def test_rows_that_are_alike_become_one(first, second):
    first, second = lists_by(first), lists_by(second)
    word = mixed(np.arange(3, dtype=np.uint64), random_seed())
    (one, rows_of_one, hashes), (other, rows_of_other, others) = (
        hashed(lists, word) for lists in (first, second)
    )
    whole = joined_forests((one, other))
    last = np.append(rows_of_one, np.where(rows_of_other < 0, -1, rows_of_other + len(one)))
    called = whole.callers(last[::2])
    forest, row = without_twins(whole, np.append(hashes, others), called)
    assert read(forest, row.take(last)) == first + second
    assert (forest.before < np.arange(len(forest))).all()
    paths = read(forest, row.take(np.flatnonzero(called)))
    distinct_paths = list(dict.fromkeys(map(tuple, paths)))
    assert len(forest) == len(distinct_paths) + int((~called).sum())
    # In the order in which they first occur.
    assert list(map(tuple, read(forest, np.arange(len(distinct_paths))))) == distinct_paths


@given(steps)
def test_rows_have_one_hash_if_all_values_up_to_them_are_the_same(drawn):
    word = mixed(np.arange(3, dtype=np.uint64), random_seed())
    forest, _, hashes = hashed(lists_by(drawn), word)
    paths = list(map(tuple, read(forest, np.arange(len(forest)))))
    assert len(set(zip(paths, hashes.tolist(), strict=True))) == len(set(paths))
    assert len(set(hashes.tolist())) == len(set(paths))


def test_rows_of_one_hash_that_differ_stay_apart():
    forest, last, _ = hashed([[0, 1], [0, 2]], np.zeros(3, np.uint64))
    called = forest.callers(last)
    same, row = without_twins(forest, np.zeros(3, np.uint64), called)
    assert read(same, row.take(last)) == [[0, 1], [0, 2]]
