"""Stacks of two sides as one tree: sums, names that match, and what is called significant."""

from __future__ import annotations

import numpy as np
import pytest

from builders.profile import empty_profile, qsort_profile
from builders.runs import run_of, stacked_run
from builders.stacks import random_stacks_profile, stacks_profile
from prospect.estimate.compare.compared_sides import compare
from prospect.estimate.compare.comparison import CompareOptions
from prospect.figures.stacks.call_forest import ALL, THREADS, subtree_sums
from prospect.records import replace


def compared(before, after, **options):
    options = {"scope": "4", "stacks": True, **options}
    return compare(before, after, CompareOptions(**options))


def paths_of(stacks):
    """Return the row of each path of the tree, without all samples and without processes."""
    first = len(stacks.name) + THREADS
    found = {}
    names = []
    for row, (depth, frame) in enumerate(
        zip(stacks.tree.depth.tolist(), stacks.tree.frame_index.tolist(), strict=True)
    ):
        del names[depth:]
        names.append(stacks.processes[frame - first] if frame >= first else "")
        if frame < len(stacks.name):
            names[-1] = stacks.name[frame]
            found[";".join(names[2:])] = row
    return found


SIDES = {
    "stacks": lambda: ([stacks_profile()], [stacks_profile()]),
    "random": lambda: ([random_stacks_profile(3000, 200, 8)], [random_stacks_profile(2000, 99, 6)]),
    "no stacks": lambda: ([qsort_profile()], [qsort_profile(wall_seconds=5.0)]),
    "one side": lambda: ([stacks_profile()], [qsort_profile()]),
    "several": lambda: ([stacks_profile(), qsort_profile()], [stacks_profile()] * 3),
    "nothing": lambda: ([empty_profile()], [empty_profile()]),
}


@pytest.mark.parametrize("case", SIDES)
def test_the_tree_has_all_that_is_compared_once(case):
    comparison = compared(*SIDES[case]())
    stacks = comparison.stacks
    total = comparison.total
    assert stacks.own.sum(axis=0) == pytest.approx(total.mean.sum(axis=0), abs=1e-12)
    assert (stacks.own_hits.sum(axis=0) == total.hits.sum(axis=0)).all()
    depth, caller = stacks.tree.depth, stacks.tree.caller_index
    assert depth[0] == 0
    assert stacks.tree.frame_index[0] == len(stacks.name) + ALL
    assert (depth[1:] == depth.take(caller[1:]) + 1).all()
    # In preorder a row stands behind its caller, or behind its elder sibling's subtree.
    assert (np.diff(depth) <= 1).all()


@pytest.mark.parametrize("case", SIDES)
def test_times_of_functions_are_those_of_the_table(case):
    comparison = compared(*SIDES[case]())
    stacks, table = comparison.stacks, comparison.functions
    of_tree, of_table = {}, {}
    for frame, own in zip(stacks.tree.frame_index.tolist(), stacks.own.tolist(), strict=True):
        if frame < len(stacks.name):
            key = stacks.object[frame], stacks.name[frame]
            of_tree[key] = np.add(of_tree.get(key, 0.0), own)
    for of_object, name, mean in zip(table.object, table.name, table.mean.tolist(), strict=True):
        of_table[of_object, name] = np.add(of_table.get((of_object, name), 0.0), mean)
    assert of_table.keys() <= of_tree.keys()
    for key, mean in of_table.items():
        assert of_tree[key] == pytest.approx(mean, abs=1e-12)


def test_what_grew_in_one_place_is_told_from_what_did_not_in_another():
    before = stacked_run({"main;a;f": 400, "main;b;f": 400, "main;old": 60, "main": 3})
    after = stacked_run({"main;a;f": 900, "main;b;f": 400, "main;new": 60, "main": 4})
    stacks = compared([before], [after]).stacks
    rows = paths_of(stacks)
    total = subtree_sums(stacks.tree, stacks.own)
    marked = {path for path, row in rows.items() if stacks.significant[row]}
    assert marked == {"main", "main;a", "main;a;f", "main;old", "main;new"}
    assert total[rows["main;a"]] == pytest.approx([0.4, 0.9])
    assert stacks.half_width[rows["main;a;f"]] < 0.4
    assert total[rows["main;old"], 1] == 0.0
    assert stacks.has_callers


def test_the_same_code_has_no_significant_row():
    random = np.random.default_rng(3)
    paths = [f"main;f{n % 7};g{n}" for n in range(60)]
    sides = [
        [
            stacked_run(dict(zip(paths, random.poisson(40, 60).tolist(), strict=True)))
            for _ in range(3)
        ]
        for _ in "ab"
    ]
    stacks = compared(*sides).stacks
    assert np.isfinite(stacks.q_value).sum() > 60
    assert not stacks.significant.any()


def test_rows_of_few_hits_are_not_tested():
    stacks = compared(
        [stacked_run({"main;f": 100, "main;g": 4})], [stacked_run({"main;f": 90})]
    ).stacks
    rows = paths_of(stacks)
    assert np.isnan(stacks.q_value[rows["main;g"]])
    assert not stacks.significant[rows["main;g"]]
    assert np.isfinite(stacks.q_value[rows["main;f"]])


def test_all_samples_are_the_row_of_the_total():
    comparison = compared([stacked_run({"main;f": 300})], [stacked_run({"main;f": 500})])
    assert comparison.stacks.half_width[0] == comparison.total.half_width[0]
    assert comparison.stacks.significant[0]
    assert not compared([stacked_run({"f": 300})], [stacked_run({"f": 301})]).stacks.significant[0]


def test_renamed_programs_and_clones_are_the_same_rows():
    before = stacked_run({"main;f.isra.0;g": 100}, "old")
    after = stacked_run({"main;f;g": 100}, "new")
    stacks = compared([before], [after], scope="2").stacks
    assert set(paths_of(stacks)) == {"main", "main;f", "main;f;g"}
    assert stacks.processes == ["old => new"]


def test_without_chains_on_one_side_stacks_have_one_frame():
    stacks = compared([stacks_profile()], [replace(stacks_profile(), stacks=None)]).stacks
    assert not stacks.has_callers
    assert stacks.tree.depth.max() == 2


def test_inlined_functions_count_for_the_function_that_they_are_in():
    plain = compared([stacks_profile()], [stacks_profile()]).stacks
    lined = compared([stacks_profile(lines=True)], [stacks_profile()]).stacks
    assert paths_of(lined) == paths_of(plain)
    assert lined.own_hits.tolist() == plain.own_hits.tolist()


def test_stacks_are_compared_only_if_asked_for():
    run = run_of({"f": 20})
    assert compare([run], [run]).stacks is None
