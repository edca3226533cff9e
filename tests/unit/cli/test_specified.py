"""Options that stand for specifications, as opreport has them, and `--threshold`."""

from __future__ import annotations

import io
import json

import pytest

from builders.stacks import stacks_profile
from prospect.api.recorded_profile import Profile
from prospect.cli.commands import REPORT
from prospect.cli.help import option_help
from prospect.cli.operands import specified
from prospect.cli.option_parser import parse
from prospect.cli.option_table import options_of
from prospect.errors import UsageError
from prospect.records import asdict
from prospect.render.registry import make_renderer


def words_of(*arguments):
    return specified(parse(REPORT, list(arguments))[0])


def test_options_are_specifications():
    assert words_of("--include-symbols", "a,b", "--include-symbols=c*") == ["symbol:a,b,c*"]
    assert words_of("--exclude-symbols", "a", "--exclude-dependent") == [
        "exclude-symbol:a",
        "dependent:no",
    ]
    assert words_of("--no-cache") == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--threshold", "1", "-m", "2"], "replaces -m and -k"),
        (["--threshold", "101"], "give a share of time in percent"),
        (["--include-symbols", ""], "give a name or a pattern"),
    ],
)
def test_what_has_no_meaning_is_refused(arguments, says):
    with pytest.raises(UsageError, match=says):
        parse(REPORT, arguments)


def test_a_threshold_is_a_part_of_the_time_that_is_asked_for():
    profile = stacks_profile()
    renderer = make_renderer("json", sort=("function",), detail="4", threshold=20)
    out = io.BytesIO()
    renderer.render(profile, out)
    (event,) = json.loads(out.getvalue())["events"]
    assert [row["samples"] for row in event["rows"]] == [9, 8, 6]
    assert event["left_out"]["samples"] == 30 - 23
    text = Profile(**asdict(profile)).report(sort=["function"], detail="4", threshold=20)
    assert f"{event['left_out']['rows']} rows" in text


def test_formats_without_thresholds_are_as_they_were():
    written = []
    for options in ({}, {"threshold": 5.0}):
        out = io.BytesIO()
        make_renderer("folded", detail="4", **options).render(stacks_profile(), out)
        written.append(out.getvalue())
    assert written[0] == written[1] != b""


def test_no_threshold_is_no_default_that_could_be_given():
    (option,) = (one for one in options_of(REPORT) if one.keyword == "threshold")
    assert "default" not in option_help(option)
    with pytest.raises(UsageError, match="in percent, such as"):
        parse(REPORT, ["--threshold", "0"])
