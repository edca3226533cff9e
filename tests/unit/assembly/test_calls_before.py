"""What a recording says of the calls that threads were in as it began."""

from __future__ import annotations

import pytest

from prospect.assembly.tables.run_facts import _calls_before


def test_calls_are_named_but_for_one_that_only_restarts_another():
    calls = {"5": [230, 0], "6": [219, 0], "7": [162, 1]}
    extras = {"calls_before": {"read_ns": 9, "calls": calls}}
    assert _calls_before(extras, "x86_64") == (9, {5: "clock_nanosleep", 7: "nanosleep"})


@pytest.mark.parametrize(
    "found", [None, [], {"calls": {"5": [230]}}, {"calls": {"x": [1, 0]}}, {"calls": {"5": "ab"}}]
)
def test_what_is_no_call_is_none(found):
    assert _calls_before({"calls_before": found}, "x86_64") == (0, {})
