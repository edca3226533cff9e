"""Comparisons as text and JSON: as they were, by the schema, and safe for a terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from builders.json_schema import schema_errors
from builders.profile import empty_profile, hostile_profile, qsort_profile
from builders.runs import run_of, stacked_run
from prospect.estimate.compare.compared_sides import compare
from prospect.estimate.compare.comparison import CompareOptions
from prospect.profile.naming import NameSource
from prospect.records import replace
from prospect.render.diff_registry import diff_writer

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "diff.schema.json").read_text())
BEFORE = {"parse": 4000, "f.isra.0": 800, "removed": 300, "k:copy": 500, "": 40}
AFTER = {"parse": 5000, "f": 780, "added": 200, "k:copy": 510, "": 35}


def once():
    return compare([run_of(BEFORE, origin="a")], [run_of(AFTER, origin="b")])


def replicates():
    sides = [
        [
            run_of({name: count + step for name, count in side.items()}, origin=f"{letter}{step}")
            for step in (0, 9, 17)
        ]
        for letter, side in (("a", BEFORE), ("b", AFTER))
    ]
    options = CompareOptions(
        fail_if="slower by 3% at 95%", per="A=1000,B=1000:1100:1200 requests", run_variation=0.0
    )
    return compare(*sides, options)


def undecided():
    sides = [
        [run_of({"f": 1000 + 100 * number}, origin=f"{letter}{number}") for number in range(2)]
        for letter in "ab"
    ]
    return compare(*sides, CompareOptions(fail_if="different by 2% in f"))


def system():
    return compare([qsort_profile()], [qsort_profile()], CompareOptions(scope="4"))


def hostile():
    other = hostile_profile()
    run = replace(other.run, hostname="\x1b[2J", origin="b\n\u202e", command=("\x07",))
    options = CompareOptions(fail_if="slower by 3% in \x1b[31mred", per="3 \x1b[5mturns\x1b")
    return compare([hostile_profile()], [replace(other, run=run)], options)


def stacked():
    sides = [
        stacked_run({"main;old": old, "main;helper;leaf": 400, "main;rare": 2}, "work")
        for old in (300, 900)
    ]
    before, after = (replace(run, run=replace(run.run, has_user_callers=True)) for run in sides)
    return compare([before], [after], CompareOptions(inclusive=True))


def nothing():
    return compare([empty_profile()], [empty_profile()])


CASES = {
    "once": once,
    "replicates": replicates,
    "undecided": undecided,
    "system": system,
    "hostile": hostile,
    "nothing": nothing,
    "stacked": stacked,
}
every_case = pytest.mark.parametrize("case", CASES)


def rendered(name, comparison, **options):
    out = io.BytesIO()
    diff_writer(name, **options)(comparison, out)
    return out.getvalue()


@every_case
@pytest.mark.parametrize(("name", "suffix"), [("text", "txt"), ("json", "json")])
def test_a_comparison_is_written_as_it_was(case, name, suffix, golden):
    golden(f"diff/{case}.{suffix}", rendered(name, CASES[case]()))


@every_case
@pytest.mark.parametrize("rows", [0, 3, 1000])
def test_the_document_keeps_to_its_schema_and_to_its_sums(case, rows):
    document = json.loads(rendered("json", CASES[case](), rows=rows))
    assert schema_errors(document, SCHEMA, SCHEMA) == []
    total = document["total"]["rows"]
    for name in ("modes", "processes", "objects", "functions"):
        table = document[name]
        for side in ("a", "b"):
            found = sum(row[side] for row in table["rows"]) + table["skipped"][side]
            assert found == pytest.approx(sum(row[side] for row in total), abs=1e-12)
        marked = [row["significant"] for row in table["rows"]]
        assert marked.count(True) == table["significant"]
        assert len(marked) <= max(rows, table["significant"]) or name == "modes"


@every_case
def test_nothing_that_a_terminal_acts_on_gets_through(case):
    text = rendered("text", CASES[case]()).decode()
    assert all(char.isprintable() for char in text.replace("\n", ""))


def test_colour_marks_titles_and_nothing_else():
    plain, coloured = (rendered("text", once(), colour=colour) for colour in (False, True))
    assert b"\x1b[1m" in coloured
    for code in (b"\x1b[0m", b"\x1b[1m", b"\x1b[2m", b"\x1b[33m"):
        coloured = coloured.replace(code, b"")
    assert coloured == plain


def test_a_figure_has_no_more_digits_than_its_interval_supports():
    coarse = rendered("text", compare([run_of({"f": 30})], [run_of({"f": 40})])).decode()
    assert "  30  40     +10  6  " in coarse
    exact = compare([run_of({"f": 400_000})] * 3, [run_of({"f": 400_400})] * 3)
    assert " 400.000  400.400 " in rendered("text", exact).decode()


def test_samples_without_names_are_missing():
    run = run_of({"f": 100, "": 300})
    source = np.array([NameSource.SYMTAB, NameSource.NO_FILE], np.uint8)
    run = replace(run, functions=replace(run.functions, source=source))
    assert run.functions.name[1] == ""
    lines = rendered("text", compare([run_of({"f": 300})], [run])).decode().splitlines()
    assert "Missing: up to 75% unnamed (file gone: --sysroot DIR or DEBUGINFOD_URLS)" in lines
    assert any(
        line.startswith("Note: 0% of the samples in A and 75% in B have no name") for line in lines
    )


def test_a_total_that_nearly_vanished_keeps_a_digit():
    text = rendered("text", compare([run_of({"f": 3000})], [run_of({"f": 4})])).decode()
    (total,) = [line.split() for line in text.split("-" * 79)[0].splitlines() if "Total" in line]
    assert float(total[1]) > 0, total


def test_times_are_told_in_the_unit_that_suits_them():
    run, other = run_of({"f": 3000}), run_of({"f": 3100})
    units = {
        per: rendered("text", compare([run], [other], CompareOptions(per=per))).decode()
        for per in ("run", "1000 requests", "10000000 requests", "1e15 instructions")
    }
    assert "in s per run" in units["run"]
    assert "in ms for each of the requests" in units["1000 requests"]
    assert "in ns for each of the requests" in units["10000000 requests"]
    assert "in ns for each of the instructions" in units["1e15 instructions"]


def test_the_answer_to_a_condition_is_one_line():
    for case, says in (
        (
            "replicates",
            "slower by 3% at 95%: cannot tell. The command and its descendants took 5.6% more",
        ),
        ("undecided", "different by 2% in f: cannot tell. The function f,"),
    ):
        last = rendered("text", CASES[case]()).decode().splitlines()[-1]
        assert last.startswith(says), last


def test_functions_with_what_they_call_stand_behind_the_others():
    text = rendered("text", stacked(), rows=1).decode()
    tables = text.split("By function, with all that it calls\n")
    assert len(tables) == 2
    first, *rest = [line.split() for line in tables[1].splitlines()[3:] if line]
    assert first[-2:] == ["old", "/usr/bin/work"]
    assert " ".join(rest[-1]) == "- Left out by --rows 1: 2 rows not significant"
    document = json.loads(rendered("json", stacked()))
    rows = {row["name"]: row for row in document["inclusive"]["rows"]}
    assert (rows["main"]["a"], rows["main"]["b"]) == pytest.approx((0.702, 1.302))
    assert (rows["helper"]["a"], rows["helper"]["mode"]) == (pytest.approx(0.4), None)
    assert "inclusive" not in json.loads(rendered("json", once()))


def test_rows_that_are_not_shown_are_summed():
    text = rendered("text", once(), rows=0).decode()
    assert "rows not significant or of few samples: A 5" in text
    assert "added" in text
    assert "copy" not in text


def test_the_answer_comes_first_and_fits_a_terminal():
    for comparison in (once(), replicates()):
        short = rendered("text", comparison).decode().split("-" * 79)[0].splitlines()
        assert len(short) <= 24
        assert short[0] == "Difference: B - A"
        assert sum(line.endswith("Total") for line in short) == 1
        assert any(line.startswith("Missing: ") for line in short)
