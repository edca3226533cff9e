"""Callers and callees of two sides: the statistics of their hits, and what is significant."""

from __future__ import annotations

import numpy as np
import pytest

from builders.profile import empty_profile, qsort_profile
from builders.runs import stacked_run
from builders.stacks import random_stacks_profile, stacks_profile
from prospect.estimate.compare import compared_stacks as stacks_module
from prospect.estimate.compare.changes import changes
from prospect.estimate.compare.compared_run import row_times
from prospect.estimate.compare.compared_sides import compare
from prospect.estimate.compare.comparison import CompareOptions
from prospect.estimate.compare.variation import Rows, side_means, spread_of


def compared(before, after):
    return compare(before, after, CompareOptions(scope="4", stacks=True)).stacks


def mutual(seed):
    """Eight functions that call each other in any order."""
    random = np.random.default_rng(seed)
    paths = [random.integers(0, 8, random.integers(2, 9)).tolist() for _ in range(800)]
    return stacked_run({";".join(f"f{n}" for n in path): 1 + path[0] % 3 for path in paths})


def by_name(stacks):
    """Return the rows of calls by the names of caller and callee; of processes "*"."""
    names = [*stacks.name, *["*"] * (2 + len(stacks.processes))]
    pairs = zip(stacks.calls.caller.tolist(), stacks.calls.callee.tolist(), strict=True)
    return {(names[caller], names[callee]): row for row, (caller, callee) in enumerate(pairs)}


SIDES = {
    "stacks": lambda: ([stacks_profile()], [stacks_profile()]),
    "mutual": lambda: ([mutual(1)], [mutual(2)]),
    "recursive": lambda: (
        [stacked_run({"main;a;f;b;a;f": 40, "main;f;a": 30, "main;a": 20})],
        [stacked_run({"main;a;f;b;a;f": 90, "main;f;a": 30})],
    ),
    "several": lambda: (
        [random_stacks_profile(3000, 200, 8), random_stacks_profile(2000, 99, 6)],
        [random_stacks_profile(2500, 150, 7, seed=2)] * 2,
    ),
    "no stacks": lambda: ([qsort_profile()], [qsort_profile(wall_seconds=5.0)]),
}


@pytest.mark.parametrize("case", SIDES)
def test_a_call_has_the_statistics_of_its_hits_alone(case, monkeypatch):
    seen = []
    whole = stacks_module.compared_calls
    monkeypatch.setattr(
        stacks_module, "compared_calls", lambda *given: seen.append(given) or whole(*given)
    )
    stacks = compared(*SIDES[case]())
    ((tree, _, runs, test),) = seen
    calls = stacks.calls
    assert len(calls) > 2
    for row in np.random.default_rng(3).permutation(len(calls))[:25].tolist():
        is_within = np.zeros(len(tree) + 1, np.bool_)
        for at in range(1, len(tree)):
            above = tree.caller_index[at]
            is_call = tree.frame_index[above] == calls.caller[row]
            is_call &= tree.frame_index[at] == calls.callee[row]
            is_within[at] = is_within[above] or is_call
        alone = [row_times(run.run, is_within.take(run.row_of_hit) - 1, 1) for run in runs]
        hits, values, sampling, own = (
            np.stack([getattr(each, name) for each in alone], axis=1)
            for name in ("hits", "seconds", "sampling_variance", "own_variance")
        )
        rows = Rows(hits, values / test.divisor, sampling / test.divisor**2, own / test.divisor**2)
        expected = changes(
            side_means(rows.values, test.before),
            spread_of(rows, test.before, test.variation),
            test.sides(hits),
            test.exposure,
        )
        assert test.sides(hits)[0].tolist() == calls.hits[row].tolist()
        assert calls.half_width[row] == pytest.approx(expected.half_width[0], rel=1e-9)
        assert calls.q_value[row] >= expected.p_value[0] * (1 - 1e-9)


def test_a_caller_that_calls_more_is_told_from_one_that_does_not():
    before = stacked_run({"main;a;f": 400, "main;b;f": 400, "main;c;f": 4, "main": 3})
    after = stacked_run({"main;a;f": 900, "main;b;f": 400, "main;c;f": 5, "main": 4})
    stacks = compared([before], [after])
    rows, calls = by_name(stacks), stacks.calls
    marked = {pair for pair, row in rows.items() if calls.significant[row]}
    assert {("main", "a"), ("a", "f")} <= marked
    assert not {("main", "b"), ("b", "f")} & marked
    assert ("b", "f") in rows
    assert ("c", "f") not in rows  # nine hits cannot tell
    assert calls.hits[rows["a", "f"]].tolist() == [400, 900]


def test_the_same_code_has_no_significant_call():
    random = np.random.default_rng(3)
    paths = [f"main;f{n % 7};g{n}" for n in range(60)]
    sides = [
        [stacked_run(dict(zip(paths, random.poisson(40, 60).tolist(), strict=True))) for _ in "abc"]
        for _ in "ab"
    ]
    calls = compared(*sides).calls
    assert len(calls) > 60
    assert not calls.significant.any()


def test_nothing_has_no_calls():
    assert len(compared([empty_profile()], [empty_profile()]).calls) == 0
