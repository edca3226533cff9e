"""What perf's own commands and options amount to here."""

from __future__ import annotations

import pytest

from prospect.cli.commands import PERF_WORDS, SUBCOMMANDS
from prospect.cli.instead import instead
from prospect.cli.main import main


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Return a recording beside a program that empties it, as script(1) would."""
    program = tmp_path / "script"
    program.write_text('#!/bin/sh\n: > "$1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    recording = tmp_path / "perf.data"
    recording.write_bytes(b"precious")
    return recording


@pytest.mark.parametrize("options", [[], ["-V4"]])
def test_script_of_a_recording_does_not_empty_it(script, capfd, options):
    assert main([*options, "script", str(script)]) == 2
    assert "prospect report FILE --format folded" in capfd.readouterr().err
    assert script.read_bytes() == b"precious"


def test_every_word_has_a_sentence_and_is_no_command_here():
    assert not set(PERF_WORDS) & {command.name for command in SUBCOMMANDS}
    for word in PERF_WORDS:
        assert instead(word).endswith(f"prospect -- {word}")


@pytest.mark.parametrize("command", ["report", "view", "annotate", "calls", "archive"])
def test_a_recording_may_be_named_as_perf_does(command, capfd):
    assert main([command, "-i", "missing.data"]) == 1
    assert "missing.data: no such file" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("option", "says"), [("--dsos", "--sort object"), ("--no-children", "prospect calls")]
)
def test_options_of_perf_are_answered_with_what_serves(option, says, capfd):
    assert main(["report", option, "comm"]) == 2
    said = capfd.readouterr().err
    assert f"{option} is perf's: here " in said
    assert says in said


def test_annotate_takes_a_function_beside_it(capfd):
    assert main(["annotate", "work", "-i", "missing.data"]) == 1
    assert "missing.data: no such file" in capfd.readouterr().err
    assert main(["annotate", "work", "other", "--input", "missing.data"]) == 2
