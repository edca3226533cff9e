"""Rows stay where they are until the figures say that they do not."""

from __future__ import annotations

import numpy as np

from prospect.tui.order import steady_order


def order_of(hits, before=()):
    keys = [(name,) for name in hits]
    ranks = {(name,): rank for rank, name in enumerate(before)}
    counts = np.array(list(hits.values()), np.int64)
    return "".join(str(keys[row][0]) for row in steady_order(keys, counts, ranks))


def test_without_a_past_the_most_stands_at_the_top():
    assert order_of({"a": 3, "b": 9, "c": 5}) == "bca"
    assert order_of({}) == ""


def test_a_difference_that_chance_makes_swaps_nothing():
    assert order_of({"a": 100, "b": 110}, "ab") == "ab"
    assert order_of({"a": 110, "b": 100}, "ab") == "ab"


def test_a_difference_beyond_chance_does():
    assert order_of({"a": 100, "b": 140}, "ab") == "ba"


def test_a_row_rises_above_all_that_it_clearly_exceeds_past_rows_that_it_equals():
    assert order_of({"a": 10, "b": 20, "c": 30, "d": 40}, "abcd") == "dcba"
    assert order_of({"a": 100, "b": 205, "c": 200}, "abc") == "bca"


def test_a_new_row_comes_in_where_its_hits_put_it():
    assert order_of({"a": 100, "b": 50, "n": 70}, "ab") == "anb"
    assert order_of({"a": 100, "b": 50, "n": 7, "m": 300}, "ab") == "mabn"


def test_random_counts_swap_less_and_less_and_end_in_order():
    random = np.random.default_rng(4)
    rates = np.array([40.0, 30.0, 20.0, 10.0, 5.0])
    counts, before, swaps = np.zeros(5, np.int64), "", []
    for _ in range(200):
        counts += random.poisson(rates)
        after = order_of(dict(zip("abcde", counts.tolist(), strict=True)), before)
        swaps.append(bool(before) and after != before)
        before = after
    assert before == "abcde"
    assert sum(swaps[:20]) <= 4
    assert not any(swaps[20:])
