"""Completion: asked of a real bash, as it asks when a person types."""

import subprocess

import pytest

from prospect.cli.commands import COMMANDS, SUBCOMMANDS
from prospect.cli.completion import bash, fish, zsh
from prospect.cli.main import main
from prospect.cli.option_table import options_of


def completed(*words):
    """What bash offers for the last of the words."""
    quoted = " ".join(f"'{word}'" for word in words)
    script = f"{bash()}\nCOMP_WORDS=({quoted}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
    script += "_prospect; printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return set(done.stdout.split())


def test_commands_and_programs():
    assert {"annotate", "archive"} & completed("prospect", "a")
    assert "report" in completed("prospect", "rep")
    assert "true" in completed("prospect", "tru")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name or "profile")
def test_options_of_every_command(command):
    words = ("prospect", command.name, "-") if command.name else ("prospect", "-")
    assert completed(*words) == {s for o in options_of(command) for s in o.spellings}


def test_values():
    assert completed("prospect", "report", "-V", "") == {"2", "3", "4", "k"}
    assert completed("prospect", "annotate", "--syntax", "i") == {"intel"}
    assert completed("prospect", "help", "dif") == {"diff"}
    assert completed("prospect", "completion", "") == {"bash", "zsh", "fish"}


def test_values_whose_option_does_not_list_them():
    assert {"html", "folded", "pprof"} <= completed("prospect", "report", "--format", "")
    assert completed("prospect", "calls", "--show", "g") == {"graph"}
    assert completed("prospect", "--call-graph", "d") == {"dwarf"}


def test_recordings_come_first_and_options_behind_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("run.data", "run.archive", "run.txt", "other"):
        (tmp_path / name).touch()
    assert completed("prospect", "report", "") == {"run.data", "run.archive"}
    assert completed("prospect", "report", "o") == {"other"}
    assert "-V" in completed("prospect", "report", "run.data", "-")
    assert completed("prospect", "report", "run.data", "--format", "ht") == {"html"}


def test_files_where_a_file_is_meant(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.data").touch()
    assert completed("prospect", "report", "run") == {"run.data"}
    assert completed("prospect", "-f", "run") == {"run.data"}


def test_nothing_where_no_word_is_meant(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.data").touch()
    assert completed("prospect", "doctor", "") == completed("prospect", "examples", "r") == set()
    assert "run.data" not in completed("prospect", "list", "")


def test_programs_where_one_is_run():
    assert "true" in completed("prospect", "stat", "tru")
    assert "true" in completed("prospect", "record", "-H", "100", "tru")


def test_the_words_of_a_profiled_command_are_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "--file").touch()
    assert "--clocks" not in completed("prospect", "-H", "100", "ls", "--")


def test_every_shell_knows_every_command():
    for script in (bash(), zsh(), fish()):
        assert all(command.name in script for command in SUBCOMMANDS)
    assert zsh().startswith("#compdef prospect\n")
    options = [option for command in COMMANDS for option in options_of(command)]
    assert fish().count("complete -c prospect") == len(options) + len(SUBCOMMANDS)


def test_another_shell_is_refused_in_words(capfd):
    assert main(["completion", "tcsh"]) == 2
    assert "bash, zsh, fish" in capfd.readouterr().err
    assert main(["completion", "bash"]) == 0
    assert "complete -o filenames" in capfd.readouterr().out
