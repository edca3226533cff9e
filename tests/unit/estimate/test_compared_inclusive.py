"""Functions with all that they call, on two sides: each sample once, by its hits' statistics."""

from __future__ import annotations

import numpy as np
import pytest

from builders.runs import stacked_run
from builders.stacks import random_stacks_profile
from prospect.estimate.compare import compared_sides as compare_module
from prospect.estimate.compare.changes import changes
from prospect.estimate.compare.compared_run import row_times
from prospect.estimate.compare.compared_sides import compare
from prospect.estimate.compare.comparison import CompareOptions
from prospect.estimate.compare.variation import Rows, side_means, spread_of
from prospect.records import replace

OPTIONS = CompareOptions(scope="4", inclusive=True)


def with_callers(profile):
    return replace(profile, run=replace(profile.run, has_user_callers=True))


def run(calls):
    return with_callers(stacked_run(calls))


def rows_of(table):
    return {name: row for row, name in enumerate(table.name)}


def test_a_sample_is_in_each_function_on_its_stack_once():
    before = run({"main;a;f;a;f": 40, "main;b;f": 30, "main": 10})
    after = run({"main;a;f;a;f": 40, "main;b;f": 70})
    table = compare([before], [after], OPTIONS).inclusive
    hits = {name: table.hits[row].tolist() for name, row in rows_of(table).items()}
    assert hits == {"main": [80, 110], "a": [40, 40], "f": [70, 110], "b": [30, 70]}
    assert table.mean == pytest.approx(table.hits / 1000.0)
    assert table.change == pytest.approx(table.mean[:, 1] - table.mean[:, 0])


def test_a_caller_is_told_from_one_that_calls_as_much_as_before():
    before = run({"main;a;f": 400, "main;b;f": 400, "main;c": 4})
    after = run({"main;a;f": 900, "main;b;f": 400, "main;c": 5})
    table = compare([before], [after], OPTIONS).inclusive
    rows = rows_of(table)
    marked = {name for name, row in rows.items() if table.significant[row]}
    assert marked == {"main", "a", "f"}
    assert "b" in rows
    assert "c" not in rows  # nine hits cannot tell
    assert table.significant.tolist() == [True, True, True, False]  # these come first


def test_the_same_code_has_no_significant_row():
    one, other = (with_callers(random_stacks_profile(3000, 200, 8, seed=seed)) for seed in (1, 1))
    table = compare([one], [other], OPTIONS).inclusive
    assert len(table) > 2
    assert not table.significant.any()


SIDES = {
    "recursive": lambda: (
        [run({"main;a;f;b;a;f": 40, "main;f;a": 30, "main;a": 20})],
        [run({"main;a;f;b;a;f": 90, "main;f;a": 30})],
    ),
    "several": lambda: tuple(
        [with_callers(random_stacks_profile(2000, 99, 6, seed=seed)) for seed in seeds]
        for seeds in ((1, 2), (3, 4, 5))
    ),
}


@pytest.mark.parametrize("case", SIDES)
def test_a_function_has_the_statistics_of_its_hits_alone(case, monkeypatch):
    seen = []
    whole = compare_module.compared_inclusive
    monkeypatch.setattr(
        compare_module, "compared_inclusive", lambda *given: seen.append(given) or whole(*given)
    )
    table = compare(*SIDES[case](), OPTIONS).inclusive
    ((matched, test),) = seen
    tree = matched.tree
    assert len(table) > 2
    for row in np.random.default_rng(3).permutation(len(table))[:25].tolist():
        frame = list(zip(matched.name, matched.object, strict=True)).index(
            (table.name[row], table.object[row])
        )
        is_within = np.zeros(len(tree) + 1, np.bool_)
        for at in range(1, len(tree)):
            is_within[at] = is_within[tree.caller_index[at]] or tree.frame_index[at] == frame
        alone = [row_times(one.run, is_within.take(one.row_of_hit) - 1, 1) for one in matched.runs]
        hits, values, sampling, own = (
            np.stack([getattr(each, name) for each in alone], axis=1)
            for name in ("hits", "seconds", "sampling_variance", "own_variance")
        )
        rows = Rows(hits, values / test.divisor, sampling / test.divisor**2, own / test.divisor**2)
        mean = side_means(rows.values, test.before)
        spread = spread_of(rows, test.before, test.variation)
        expected = changes(mean, spread, test.sides(hits), test.exposure)
        assert test.sides(hits)[0].tolist() == table.hits[row].tolist()
        assert table.mean[row] == pytest.approx(mean[0])
        assert table.half_width[row] == pytest.approx(expected.half_width[0], rel=1e-9)
        assert table.p_value[row] == pytest.approx(expected.p_value[0], rel=1e-9)


def test_without_callers_in_each_recording_there_is_no_such_table():
    both, one = run({"main;f": 90}), stacked_run({"main;f": 90})
    assert compare([both], [one], OPTIONS).inclusive is None
    assert compare([both, both], [both, replace(both, stacks=None)], OPTIONS).inclusive is None
    assert compare([both], [both], CompareOptions(scope="4")).inclusive is None
    assert compare([both], [both], OPTIONS).inclusive is not None
