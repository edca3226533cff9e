"""The text of `--fail-if`, and what becomes of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from prospect.errors import UsageError
from prospect.estimate.compare.changes import judge
from prospect.estimate.compare.option_texts import parse_condition
from prospect.estimate.compare.variation import Spread


@pytest.mark.parametrize(
    ("text", "understood"),
    [
        ("slower by 3%", ("slower", 3, 95, "", "")),
        ("slower by 3% at 95%", ("slower", 3, 95, "", "")),
        ("  faster by 2.5 %  at 99.9%", ("faster", 2.5, 99.9, "", "")),
        ("different by 0% at 90%", ("different", 0, 90, "", "")),
        ("slower by 150%", ("slower", 150, 95, "", "")),
        ("slower by 3% in cc1", ("slower", 3, 95, "", "cc1")),
        (
            "slower by 3% at 90% in function operator new(unsigned long)",
            ("slower", 3, 90, "function", "operator new(unsigned long)"),
        ),
        ("slower by 1% in object libc.so.6", ("slower", 1, 95, "object", "libc.so.6")),
        ("slower by 1% in process", ("slower", 1, 95, "", "process")),
        ("slower by 1% in process at 5%", ("slower", 1, 95, "process", "at 5%")),
    ],
)
def test_a_condition_is_understood(text, understood):
    direction, percent, confidence, kind, name = understood
    condition = parse_condition(text)
    assert (condition.direction, condition.kind, condition.name) == (direction, kind, name)
    assert condition.limit == pytest.approx(percent / 100)
    assert condition.confidence == pytest.approx(confidence / 100)


@pytest.mark.parametrize(
    "text",
    [
        "slow by 3%",
        "slower 3%",
        "slower by 3",
        "slower by -3%",
        "slower by 3% at",
        "slower by 3% at 50%",
        "slower by 3% at 100%",
        "slower by 3% at 95% in",
        "slower by ٣%",
        "slower by 1e3%",
        "slower by 99999999999%",
        "faster by 100%",
        "different by 100%",
        "slower by nan%",
    ],
)
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(UsageError):
        parse_condition(text)


def test_nothing_is_no_condition():
    assert parse_condition(" ") is None


def spread(before, after, df=math.inf):
    """Return the spread of means whose standard errors are known."""
    row = np.array([[before, after]]) ** 2
    return Spread(np.zeros((1, 2)), np.ones((1, 2)), row, np.full((1, 2), df), is_shared=False)


def outcome(text, mean, errors, df=math.inf):
    return judge(parse_condition(text), "it", mean, spread(*errors, df), 3).outcome


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        # Standard error 1 % of A each: one-sided 95 % is 1.645 * 1.43 = 2.35 points.
        ("slower by 3%", 1.06, "met"),
        ("slower by 3%", 1.05, "undecided"),
        ("slower by 3%", 1.01, "undecided"),
        ("slower by 3%", 1.00, "not met"),
        ("slower by 3%", 0.80, "not met"),
        ("faster by 3%", 0.94, "met"),
        ("faster by 3%", 0.96, "undecided"),
        ("faster by 3%", 1.10, "not met"),
        ("different by 5%", 1.09, "met"),
        ("different by 5%", 0.91, "met"),
        ("different by 5%", 1.00, "not met"),
        ("different by 5%", 1.05, "undecided"),
        ("slower by 0%", 1.02, "undecided"),
        ("slower by 0%", 1.03, "met"),
        ("slower by 0% at 99%", 1.03, "undecided"),
    ],
)
def test_a_condition_is_met_only_where_that_is_sure(text, after, expected):
    assert outcome(text, (1.0, after), (0.01, 0.01)) == expected


def test_few_degrees_of_freedom_make_it_less_sure():
    assert outcome("slower by 3%", (1.0, 1.06), (0.01, 0.01), df=1.0) == "undecided"


def test_the_bounds_are_those_of_the_decision():
    verdict = judge(parse_condition("slower by 3%"), "it", (1.0, 1.06), spread(0.01, 0.01), 3)
    assert verdict.relative == pytest.approx(0.06)
    assert 0.03 < verdict.relative_low < 0.06 < verdict.relative_high < 0.1
    limit = f"slower by {100 * verdict.relative_low:.6f}%"
    nearly = (verdict.relative_low + 1.0 - 0.0001, verdict.relative_low + 1.0 + 0.0001)
    assert [
        outcome(f"slower by {100 * (low - 1):.6f}%", (1.0, 1.06), (0.01, 0.01)) for low in nearly
    ] == ["met", "undecided"], limit


def test_what_is_new_is_slower_by_any_limit():
    verdict = judge(parse_condition("slower by 900%"), "it", (0.0, 1.0), spread(0.01, 0.01), 1)
    assert verdict.outcome == "met"
    assert math.isnan(verdict.relative)
    assert math.isinf(verdict.relative_high)


def test_it_says_how_many_recordings_would_decide():
    asked = parse_condition("slower by 3%")
    verdict = judge(asked, "it", (1.0, 1.05), spread(0.01, 0.01), 4)
    # 2 points are 1.39 errors of 1.435 points; 1.645 are wanted: 4 * (1.645 / 1.39)**2 = 5.6.
    assert verdict.recordings_needed == 6
    assert judge(asked, "it", (1.0, 1.03001), spread(0.01, 0.01), 4).recordings_needed == 0
    assert judge(asked, "it", (1.0, 1.2), spread(0.01, 0.01), 4).recordings_needed == 0
