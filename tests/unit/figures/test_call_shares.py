"""The example of the gprof paper's kind, and graphs at random against a plain solution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.examples import examples
from builders.gmon import arc, gmon_out, histogram
from prospect.errors import UsageError
from prospect.figures.calls.call_shares import call_shares
from prospect.foreign.gmon_profile import ProgramFunctions, gmon_profile, read_gmon

BYTES = 16


def shares_of(ticks, calls):
    """`ticks` of each function, `calls` by (caller, callee)."""
    starts = np.arange(len(ticks), dtype=np.uint64) * BYTES
    of = ProgramFunctions(
        start=starts,
        end=starts + np.uint64(BYTES),
        name=[f"f{row}".encode() for row in range(len(ticks))],
        is_global=np.ones(len(ticks), np.bool_),
        is_function=np.ones(len(ticks), np.bool_),
    )
    records = [histogram(0, BYTES * len(ticks), ticks)]
    records += [arc(a * BYTES + 4, b * BYTES, n) for (a, b), n in calls.items()]
    data = read_gmon(memoryview(gmon_out(*records)))
    return call_shares(
        gmon_profile("gmon.out", "prog", data, of, [f"f{r}" for r in range(len(ticks))])
    )


def test_time_goes_to_callers_by_their_calls():
    shares = shares_of([10, 20, 0, 40], {(0, 3): 3, (1, 3): 1, (2, 0): 1, (2, 1): 1})
    assert shares.child_s.tolist() == pytest.approx([0.3, 0.1, 0.7, 0])
    assert shares.calls.tolist() == [1, 1, 0, 4]
    assert shares.labels[int(shares.order[0])] == "f2"
    assert shares.cycle.tolist() == [0, 0, 0, 0]


def test_recursion_is_no_arc():
    shares = shares_of([10, 20], {(0, 1): 2, (1, 1): 7})
    assert shares.child_s.tolist() == pytest.approx([0.2, 0])
    assert (shares.calls.tolist(), shares.self_calls.tolist()) == ([0, 2], [0, 7])


def test_a_cycle_is_one_node_whose_time_goes_to_who_called_it_from_outside():
    shares = shares_of(
        [0, 10, 20, 8], {(0, 1): 1, (0, 2): 3, (1, 2): 5, (2, 1): 6, (2, 3): 2, (0, 3): 2}
    )
    assert shares.labels[4:] == ["<cycle 1 as a whole>"]
    assert shares.cycle.tolist() == [0, 1, 1, 0, 1]
    assert (int(shares.calls[4]), int(shares.self_calls[4])) == (4, 11)
    assert float(shares.self_s[4]) == pytest.approx(0.3)
    assert float(shares.child_s[4]) == pytest.approx(0.04)
    assert float(shares.child_s[0]) == pytest.approx(0.38)
    assert shares.members(1) == [2, 1]
    assert shares.calls.tolist()[:4] == [0, 7, 8, 4]


def test_deep_chains_need_no_deep_stack():
    size = 5000
    shares = shares_of([1] * size, {(row, row + 1): 1 for row in range(size - 1)})
    assert float(shares.child_s[0]) == pytest.approx((size - 1) / 100)


def test_without_counts_it_says_so():
    shares = shares_of([1], {})
    with pytest.raises(UsageError, match="not all counted"):
        call_shares(type(shares.profile)(**{**vars(shares.profile), "call_counts": None}))


graphs = st.integers(1, 9).flatmap(
    lambda size: st.tuples(
        st.lists(st.integers(0, 50), min_size=size, max_size=size),
        st.dictionaries(
            st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)),
            st.integers(1, 20),
            max_size=25,
        ),
    )
)


@settings(max_examples=examples(150))
@given(graphs)
def test_every_second_reaches_a_function_that_nobody_calls(graph):
    ticks, calls = graph
    shares = shares_of(ticks, calls)
    heads = {shares.head(row) for row in range(len(ticks))}
    roots = [node for node in heads if shares.calls[node] == 0]
    reached = sum(float(shares.self_s[node] + shares.child_s[node]) for node in roots)
    assert reached == pytest.approx(sum(ticks) / 100)


@settings(max_examples=examples(150))
@given(graphs)
def test_cycles_are_the_functions_that_reach_each_other(graph):
    ticks, calls = graph
    size = len(ticks)
    reach = np.eye(size, dtype=np.bool_)
    for caller, callee in calls:
        reach[caller, callee] = True
    for middle in range(size):
        reach |= np.outer(reach[:, middle], reach[middle])
    shares = shares_of(ticks, calls)
    for a in range(size):
        for b in range(size):
            if a != b:
                assert (shares.head(a) == shares.head(b)) == (reach[a, b] and reach[b, a])
