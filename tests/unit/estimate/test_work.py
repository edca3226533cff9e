"""The text of `--per`, and what it divides by."""

from __future__ import annotations

import pytest

from builders.runs import run_of
from prospect.errors import UsageError
from prospect.estimate.compare.compared_sides import divisors
from prospect.estimate.compare.option_texts import PER_RUN, PER_SECOND, chosen_work, parse_work


@pytest.mark.parametrize(
    ("text", "kind", "unit", "before", "after"),
    [
        ("run", "run", "run", (1.0,), (1.0,)),
        (" second ", "second", "second", (1.0,), (1.0,)),
        ("1000", "count", "units", (1000.0,), (1000.0,)),
        ("1000 requests", "count", "requests", (1000.0,), (1000.0,)),
        ("1e3 HTTP requests", "count", "HTTP requests", (1000.0,), (1000.0,)),
        ("A=1000,B=1200", "count", "units", (1000.0,), (1200.0,)),
        ("A=1000, B=1200 frames", "count", "frames", (1000.0,), (1200.0,)),
        ("A=10:11:12,B=9.5 turns", "count", "turns", (10.0, 11.0, 12.0), (9.5,)),
    ],
)
def test_a_unit_of_work_is_understood(text, kind, unit, before, after):
    work = parse_work(text)
    assert (work.kind, work.unit, work.before, work.after) == (kind, unit, before, after)


@pytest.mark.parametrize(
    "text",
    [
        "requests",
        "0",
        "A=1",
        "B=1",
        "A=1,B=0",
        "-1",
        "1,2",
        "1::2",
        "nan",
        "inf",
        "1e999",
        "1e300",
        "A=1e-10,B=1",
        "٣",
        "=",
    ],
)
def test_what_is_no_unit_is_refused(text):
    with pytest.raises(UsageError):
        parse_work(text)


def test_runs_of_a_command_are_compared_per_run_and_systems_per_second():
    asked_nothing = parse_work("")
    assert chosen_work(asked_nothing, is_of_runs=True) == PER_RUN
    assert chosen_work(asked_nothing, is_of_runs=False) == PER_SECOND
    assert chosen_work(PER_RUN, is_of_runs=False) == PER_RUN


def test_times_are_divided_by_wall_time_or_by_each_recordings_work():
    before = [run_of({"f": 100}, wall_seconds=2.0), run_of({"f": 100}, wall_seconds=4.0)]
    after = [run_of({"f": 100}, wall_seconds=8.0)]
    assert divisors(PER_SECOND, before, after).tolist() == [2.0, 4.0, 8.0]
    assert divisors(PER_RUN, before, after).tolist() == [1.0, 1.0, 1.0]
    assert divisors(parse_work("A=10:20,B=30"), before, after).tolist() == [10.0, 20.0, 30.0]
    assert divisors(parse_work("A=10,B=30"), before, after).tolist() == [10.0, 10.0, 30.0]


def test_counts_that_do_not_fit_the_recordings_are_refused():
    run = run_of({"f": 100})
    with pytest.raises(UsageError, match="2 counts for A, but A has 3 recordings"):
        divisors(parse_work("A=1:2,B=3"), [run] * 3, [run])


@pytest.mark.parametrize("wall", [0.0, -1.0, float("nan"), float("inf")])
def test_a_recording_without_a_length_is_not_compared_by_the_second(wall):
    with pytest.raises(UsageError, match="--per run"):
        divisors(PER_SECOND, [run_of({"f": 1}, wall_seconds=wall)], [run_of({"f": 1})])
