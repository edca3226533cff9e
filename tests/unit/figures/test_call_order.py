"""Rows of calls stand in the order of the time that they show."""

from __future__ import annotations

import numpy as np

from prospect.figures.calls.call_graph import Arcs, FrameTotals


def totals(hits, seconds):
    hits, seconds = np.array(hits), np.array(seconds)
    return FrameTotals(self_hits=hits, total_hits=hits, self_s=seconds, total_s=seconds)


def test_functions_stand_by_time_and_not_by_hits():
    assert totals([3, 2, 0, 9], [0.1, 0.3, 0.0, 0.2]).hottest(9).tolist() == [1, 3, 0]
    assert totals([3, 2, 0, 9], [0.1, 0.3, 0.0, 0.2]).hottest(1, by_self=True).tolist() == [1]


def test_an_event_without_time_goes_by_hits():
    assert totals([3, 2, 0, 9], [0.0, 0.0, 0.0, 0.0]).hottest(9).tolist() == [3, 0, 1]


def test_times_that_differ_by_the_order_of_addition_only_are_equal():
    assert totals([1, 2], [0.1 + 0.2, 0.3]).hottest(9).tolist() == [1, 0]


def test_calls_stand_by_time_and_then_by_hits():
    seconds = np.array([0.1, 0.3, 0.2, 0.2])
    calls = Arcs(
        caller=np.zeros(4, np.int64),
        callee=np.arange(4),
        hits=np.array([9, 1, 1, 2]),
        self_s=seconds,
        total_s=seconds,
    )
    assert calls.by_time(np.array([0, 1, 2, 3])).tolist() == [1, 3, 2, 0]
    assert calls.by_time(np.array([0, 2])).tolist() == [1, 0]
