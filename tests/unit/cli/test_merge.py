"""`report --merge`: opreport's word for what a report does unless an option keeps classes apart."""

from __future__ import annotations

import pytest

from prospect.cli import report
from prospect.cli.commands import REPORT
from prospect.cli.option_parser import parse
from prospect.errors import RecordingError, UsageError


def run(*words):
    settings, operands = parse(REPORT, list(words))
    return report.run(settings, operands, ())


@pytest.mark.parametrize(
    ("merged", "apart"),
    [
        ("cpu", "--columns=cpu"),
        ("tid,cpu", "--columns=thread"),
        ("tid", "--sort=routine,thread"),
        ("tgid", "--sort=pid"),
        ("tgid", "--columns=process"),
        ("tgid", "--separate=process"),
        ("lib", "--columns=program"),
        ("all", "--sort=program"),
    ],
)
def test_what_keeps_apart_is_refused(tmp_path, merged, apart):
    with pytest.raises(UsageError, match=r"merges rows that .* separates: leave one out"):
        run(str(tmp_path / "none"), f"--merge={merged}", apart)


@pytest.mark.parametrize("apart", ["--columns=cpu", "--sort=object", "--separate=process"])
def test_other_classes_may_be_apart(tmp_path, apart):
    with pytest.raises(RecordingError, match="none"):
        run(str(tmp_path / "none"), "--merge=tid,lib", apart)


@pytest.mark.parametrize(
    ("merged", "says"),
    [("unitmask", "count different things"), ("cpu,core", "give some of"), ("", "give some of")],
)
def test_what_does_not_add_up_is_said(merged, says):
    with pytest.raises(UsageError, match=says):
        run(f"--merge={merged}")
