"""`prospect compare`: who is run how often, in which order, and what is refused."""

from __future__ import annotations

import os

import pytest

from prospect.cli import compare
from prospect.cli.commands import COMPARE
from prospect.cli.main import main
from prospect.cli.options import parse
from prospect.errors import ProspectError
from prospect.recording.interval import RecordingResult


@pytest.fixture
def recorded(monkeypatch):
    """Return what was recorded, in order, and what was compared, in place of doing so."""
    done = []

    def record_into(file, _settings, command, _line):
        done.append(command)
        return RecordingResult(int(command[0] == "fail"), 0, (), {})

    def compare_recordings(before, after, _settings):
        done.append((len(before), len(after)))
        return 3

    monkeypatch.setattr(compare, "record_into", record_into)
    monkeypatch.setattr(compare, "compare_recordings", compare_recordings)
    return done


def test_both_are_run_in_turn_and_their_words_are_no_shell_s(recorded):
    settings, words = parse(COMPARE, ["--a", "one 'a b' ; rm", "--runs", "2", "--b=two $HOME"])
    assert compare.run(settings, words, ("prospect",)) == 3
    a, b = ["one", "a b", ";", "rm"], ["two", "$HOME"]
    assert recorded == [a, b, b, a, (2, 2)]


def test_five_runs_are_usual():
    assert parse(COMPARE, ["-n", "7"])[0].runs == 7
    assert parse(COMPARE, [])[0].runs == 5


def test_a_run_that_fails_ends_it(recorded):
    settings, words = parse(COMPARE, ["--a", "one", "--b", "fail"])
    with pytest.raises(ProspectError, match="B, run 1: fail ended with status 1"):
        compare.run(settings, words, ("prospect",))
    assert recorded == [["one"], ["fail"]]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--a", "true"], "which command is B?"),
        (["--b", "true"], "which command is A?"),
        (["--a", "an 'open quote", "--b", "true"], "it cannot be split into words"),
        (["--a", "", "--b", "true"], "give a command"),
        (["old.data", "new.data"], "unexpected 'old.data'"),
    ],
)
def test_what_cannot_be_meant_is_refused(capfd, arguments, says):
    assert main(["compare", *arguments]) == 2
    assert says in capfd.readouterr().err


def test_standard_output_of_commands_is_not_the_comparison_s(capfd):
    with compare._quiet():
        os.write(1, b"noise")
    os.write(1, b"answer")
    assert capfd.readouterr().out == "answer"
