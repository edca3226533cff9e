"""The operands of `prospect diff`, its options, and its exit status."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode

import pytest

from builders.runs import run_of
from prospect.api import differences
from prospect.cli import diff
from prospect.cli.commands import DIFF
from prospect.cli.main import main
from prospect.cli.option_parser import parse
from prospect.errors import RecordingError, UsageError
from prospect.options import Settings

PROFILES = {
    "before": {"f": 1000, "g": 500},
    "after": {"f": 2000, "g": 500},
    "odd,name": {"f": 1010, "g": 500},
}


@pytest.fixture
def recordings(monkeypatch, tmp_path):
    """Let a few names stand for recordings, in an empty directory."""

    def read(path, *_options):
        if path not in PROFILES:
            raise RecordingError(f"{path}: No such file or directory")
        return run_of(PROFILES[path], origin=path)

    for name in PROFILES:
        (tmp_path / name).touch()
    monkeypatch.setattr(differences.api, "read", read)
    monkeypatch.chdir(tmp_path)


def test_it_is_told_which_recording_is_read(recordings, monkeypatch):
    def read(path, _naming, _wanted, sinks):
        sinks.announce(f"naming objects of {path}")
        return run_of(PROFILES[path], origin=path)

    monkeypatch.setattr(differences.api, "read", read)
    news = []
    differences.diff(["before", "odd,name"], run_of({"f": 1, "g": 2}), announce=news.append)
    assert news == [
        "recording 1 of 3: naming objects of before",
        "recording 2 of 3: naming objects of odd,name",
        "comparing",
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a", "b"], (["a"], ["b"])),
        (["a", "--against", "b"], (["a"], ["b"])),
        (["a1", "a2", "--against", "b1", "b2", "b3"], (["a1", "a2"], ["b1", "b2", "b3"])),
        (["a,1", "b,2"], (["a,1"], ["b,2"])),
    ],
)
def test_the_sides_are_told_apart(words, expected):
    assert diff.sides(words) == expected


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "give two recordings"),
        (["a"], "give two recordings"),
        (["a", "--against"], "give two recordings"),
        (["--against", "b"], "give two recordings"),
        (["a", "b", "c"], "which of the 3 recordings are B's?"),
        (["a", "--against", "b", "--against", "c"], "give --against once"),
        (["-", "b"], "not a pipe"),
        (["a", "--against", "-"], "not a pipe"),
    ],
)
def test_operands_that_cannot_be_meant_are_refused(words, says):
    with pytest.raises(UsageError, match="diff: ") as caught:
        diff.sides(words)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        (["-V4"], "scope", "4"),
        (["--per", "1000 requests"], "per", "1000 requests"),
        (["--per=second"], "per", "second"),
        (["--fdr", "1%"], "fdr", 0.01),
        (["--fdr=0.1"], "fdr", 0.1),
        (["--run-variation", "2.5%"], "run_variation", 0.025),
        (["--run-variation=0"], "run_variation", 0.0),
        (["--rows", "0"], "rows", 0),
        (["--fail-if", "slower by 3%"], "fail_if", "slower by 3%"),
    ],
)
def test_each_option_sets_its_field_and_no_other(arguments, field, value):
    settings, rest = parse(DIFF, [*arguments, "a", "b"])
    assert settings == Settings(**{field: value})
    assert rest == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-V5"], "-V 5: give 2"),
        (["--per", "much"], "--per much: give run, second"),
        (["--fdr", "0"], "--fdr 0: give a share over 0"),
        (["--fdr", "5"], "--fdr 5: give a share such as 5% or 0.05"),
        (["--fdr", "1e-3"], "give a share"),
        (["--run-variation", "100%"], "give a share"),
        (["--run-variation", "%"], "give a share"),
        (["--rows", "-1"], "--rows -1: give a whole number"),
        (["--fail-if", "slow"], "--fail-if slow: give 'slower by 3%'"),
        (["--fail-if", ""], "--fail-if '': give a condition"),
        (["--format", "csv"], "give text, json or html"),
        (["-m", "1"], "prospect diff has no option -m"),
    ],
)
def test_an_impossible_option_is_answered_with_what_to_do(arguments, says):
    with pytest.raises(UsageError) as caught:
        parse(DIFF, [*arguments, "a", "b"])
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("condition", "status", "says"),
    [
        ("slower by 3%", 3, "slower by 3%: yes. The command and its descendants took 66.7% more"),
        ("slower by 3% in g", 0, ""),
        ("faster by 3%", 0, ""),
        ("different by 3% at 99% in f", 3, "different by 3% at 99% in f: yes. The function f, in"),
        ("slower by 66%", 0, ""),
    ],
)
def test_the_status_says_whether_the_condition_is_met(recordings, capfd, condition, status, says):
    arguments = ["diff", "--fail-if", condition, "before", "after"]
    assert main(arguments) == status
    out, err = capfd.readouterr()
    assert out.splitlines()[-1].startswith(f"{condition}: ")
    assert err.startswith(f"prospect: {says}" if says else "")
    assert err.count("\n") == bool(says)


def test_a_report_in_a_file_leaves_the_answer_on_stderr(recordings, capfd, tmp_path):
    arguments = ["diff", "-f", "out", "--format", "json", "--fail-if", "slower by 66%"]
    assert main([*arguments, "before", "after"]) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("prospect: slower by 66%: cannot tell.")
    assert json.loads((tmp_path / "out").read_text())["condition"]["outcome"] == "undecided"


def test_a_page_has_the_stacks_of_both_sides(recordings, capfd, tmp_path):
    assert main(["diff", "-f", "page.html", "--format", "html", "before", "after"]) == 0
    page = (tmp_path / "page.html").read_bytes()
    assert page.startswith(b"<!DOCTYPE html>")
    ((_, packed),) = re.findall(rb'id="data-(stacks)">([^<]*)<', page)
    block = gzip.decompress(b64decode(packed))
    header = json.loads(block[4 : 4 + int.from_bytes(block[:4], "little")])
    assert {"f", "g"} <= set(header["labels"])
    assert len(header["events"]) == 1


def test_without_a_condition_the_status_is_0(recordings, capfd):
    assert main(["diff", "before", "after"]) == 0
    out, err = capfd.readouterr()
    assert "Difference: B - A" in out
    assert err == ""


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["before", "missing"], 1, "missing: no such file"),
        (["--fail-if", "slower by 3% in nowhere", "before", "after"], 2, "'nowhere' has a sample"),
        (["--per", "A=1:2,B=3", "before", "after"], 2, "2 counts for A, but A has 1 recording:"),
        (["-f", "before", "before", "after"], 2, "the report would replace a recording"),
    ],
)
def test_what_cannot_be_compared_is_answered_with_one_line(recordings, capfd, words, status, says):
    assert main(["diff", *words]) == status
    out, err = capfd.readouterr()
    assert out == ""
    assert says in err
    assert err.startswith("prospect: ")
    assert err.count("\n") == 1


def test_a_file_name_may_hold_a_comma(recordings, capfd):
    assert main(["diff", "odd,name", "--against", "before", "after"]) == 0
    assert "A: odd,name: program" in capfd.readouterr().out
