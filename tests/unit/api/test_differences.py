"""`prospect.diff` on profiles in memory: tables, report, verdict."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import prospect
from builders.runs import run_of, stacked_run
from prospect.api.differences import TABLES
from prospect.errors import RecordingError, UsageError
from prospect.records import replace

BEFORE, AFTER = run_of({"f": 1000, "g": 500, "h\udcff": 3}), run_of({"f": 1000, "g": 1500})


def test_a_table_has_every_row_as_columns():
    found = prospect.diff(BEFORE, AFTER).table()
    assert len({len(column) for column in found.values()}) == 1
    assert found["name"].tolist() == ["g", "f", "h\\xff"]
    assert found["significant"].tolist() == [True, False, False]
    assert found["a"] == pytest.approx([0.5, 1.0, 0.003])
    assert found["samples_b"].tolist() == [1500, 1000, 0]
    assert found["mode"].tolist() == ["user"] * 3


def test_the_page_and_the_docstring_name_every_column():
    page = Path(__file__).parents[3] / "docs" / "python.md"
    described = page.read_text().partition("returns a `Difference`")[2].partition("\n\n")[0]
    for column in prospect.diff(BEFORE, AFTER).table():
        assert f"`{column}`" in described
        assert f"`{column}`" in str(prospect.Difference.table.__doc__)


@pytest.mark.parametrize("name", TABLES)
def test_each_table_adds_up(name):
    difference = prospect.diff(BEFORE, AFTER)
    table = difference.table(name)
    assert table["b"].sum() - table["a"].sum() == pytest.approx(float(difference.total.change[0]))
    assert ("object" in table) == (name == "functions")


def test_functions_with_what_they_call_are_a_table_where_stacks_are_compared():
    run = stacked_run({"main;f": 90, "main": 10})
    run = replace(run, run=replace(run.run, has_user_callers=True))
    table = prospect.diff(run, run, scope="4", stacks=True).table("inclusive")
    assert dict(zip(table["name"].tolist(), table["samples_a"].tolist(), strict=True)) == {
        "main": 100,
        "f": 90,
    }
    assert "mode" not in table
    with pytest.raises(UsageError, match=r"there are processes, objects, functions$"):
        prospect.diff(run, run, scope="4").table("inclusive")


def test_sides_may_be_several_and_of_either_kind(tmp_path):
    several = prospect.diff([BEFORE, BEFORE], (AFTER,))
    assert (len(several.before), len(several.after)) == (2, 1)
    with pytest.raises(RecordingError, match="missing"):
        prospect.diff(tmp_path / "missing", AFTER)
    with pytest.raises(UsageError):
        prospect.diff([], AFTER)


def test_a_report_is_returned_and_written(tmp_path):
    difference = prospect.diff(BEFORE, AFTER, fail_if="slower by 1% in g")
    text = difference.report(output=str(tmp_path / "out"))
    assert (tmp_path / "out").read_text() == text
    assert text.splitlines()[-1].startswith("slower by 1% in g: yes.")
    assert difference.verdict.outcome == "met"
    assert json.loads(difference.report(format="json", rows=1))["functions"]["skipped"]["rows"] == 2
    with pytest.raises(UsageError, match="text, json"):
        difference.report(format="csv")


def test_a_notebook_shows_a_cell():
    assert ">g</td>" in prospect.diff(BEFORE, AFTER)._repr_html_()


def test_what_does_not_exist_is_refused_with_what_does():
    with pytest.raises(UsageError, match="processes, objects, functions"):
        prospect.diff(BEFORE, AFTER).table("threads")
    with pytest.raises(UsageError):
        prospect.diff(BEFORE, AFTER, scope="9")


def test_a_scope_may_be_a_number():
    assert prospect.diff(BEFORE, AFTER, scope=4).options.scope == "4"


def test_the_repr_is_one_line():
    assert repr(prospect.diff(BEFORE, AFTER)) == (
        "<prospect.Difference: 1.503 s in A, 2.5 s in B per run, significant rows: 3>"
    )
    assert repr(prospect.diff(run_of({}), run_of({}))).startswith("<prospect.Difference: 0 s in A")


def test_the_recordings_are_not_changed():
    before = [column.copy() for column in vars(BEFORE.hits).values() if column is not None]
    prospect.diff(BEFORE, AFTER)
    after = [column for column in vars(BEFORE.hits).values() if column is not None]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
