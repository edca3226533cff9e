"""`prospect compare`: the order of runs, what a command finds as its files, and the exit status."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from builders.runs import run_of
from prospect.api import recorded_profile as profiles
from prospect.cli import compare
from prospect.cli.main import main
from prospect.errors import CommandError
from prospect.recording.interval import RecordingResult

OLD = ["compare", "--a", "old 'a b'", "--b", "new"]


class Machine:
    """Stands for the recorder: remembers each command, and writes as it would."""

    def __init__(self):
        self.commands = []
        self.read = []
        self.status = {}
        self.interrupted_by = 0

    def record(self, file, _settings, command, _command_line):
        """Take the part of `record_into`."""
        self.commands.append(command)
        self.read.append(os.read(0, 100))
        os.write(1, b"from the command\n")
        if command[0] == "missing":
            raise CommandError("missing: command not found", 127)
        os.write(file.descriptor, command[0].encode())
        return RecordingResult(self.status.get(command[0], 0), self.interrupted_by, (), {})

    def profile(self, path, *_options):
        """Take the part of the reader."""
        side = Path(path).read_text()
        return run_of({"f": 1000 if side == "old" else 2000, "g": 500}, origin=path)


@pytest.fixture
def machine(monkeypatch, tmp_path):
    fake = Machine()
    monkeypatch.setattr(compare, "record_into", fake.record)
    monkeypatch.setattr(profiles, "read", fake.profile)
    monkeypatch.chdir(tmp_path)
    return fake


def test_neither_side_always_comes_first():
    assert list(compare.order(3)) == [
        ("a", 1), ("b", 1), ("b", 2), ("a", 2), ("a", 3), ("b", 3),
    ]  # fmt: skip
    first = Counter(side for nth, (side, _) in enumerate(compare.order(10)) if nth % 2 == 0)
    assert first == {"a": 5, "b": 5}


def begun(number: int, runs: int) -> str:
    return f"prospect: compare: run {number} of {runs} of A and B"


def test_both_run_in_turn_and_the_answer_is_that_of_diff(machine, capfd):
    assert main([*OLD, "--runs", "2", "--fail-if", "slower by 3%"]) == 3
    assert machine.commands == [["old", "a b"], ["new"], ["new"], ["old", "a b"]]
    out, err = capfd.readouterr()
    assert "\nA: run 1: program" in out
    assert "\nB: run 2: program" in out
    assert "Difference: B - A" in out
    assert out.splitlines()[-1].startswith("slower by 3%: yes. ")
    first, second, answer = err.splitlines()
    assert (first, second) == (begun(1, 2), begun(2, 2))
    assert answer.startswith("prospect: slower by 3%: yes.")
    assert "from the command" not in out + err


def test_a_command_reads_the_file_that_was_named_each_time(machine, capfd, tmp_path):
    (tmp_path / "words").write_text("one two")
    assert main([*OLD, "-n1"]) == 0
    assert main([*OLD, "-n1", "--stdin", "words", "--show-output"]) == 0
    assert machine.read == [b"", b"", b"one two", b"one two"]
    assert capfd.readouterr().err.splitlines() == [
        *[begun(1, 1)] * 2,
        *["from the command"] * 2,
    ]


def test_recordings_are_kept_where_asked(machine, capfd, tmp_path):
    assert main([*OLD, "-n2", "--save", "kept/here"]) == 0
    kept = sorted(file.name for file in (tmp_path / "kept/here").iterdir())
    assert kept == ["a1.data", "a2.data", "b1.data", "b2.data"]
    assert "A: kept/here/a1.data: program" in capfd.readouterr().out


def test_a_run_that_fails_ends_it(machine, capfd):
    machine.status["new"] = 7
    assert main([*OLD, "-n3"]) == 1
    assert len(machine.commands) == 2
    out, err = capfd.readouterr()
    assert out == ""
    first, said = err.splitlines()
    assert first == begun(1, 3)
    assert said.startswith("prospect: compare: B, run 1 of 3 ended with status 7: 'new'; ")
    assert main([*OLD, "-n3", "--ignore-failure"]) == 0
    assert len(machine.commands) == 2 + 6


def test_a_command_that_is_not_there_is_named_with_its_side(machine, capfd):
    assert main(["compare", "--a", "old", "--b", "missing"]) == 127
    assert capfd.readouterr().err == (
        f"{begun(1, 5)}\nprospect: compare: B, run 1 of 5: missing: command not found\n"
    )


def test_an_interrupted_run_is_not_compared(machine, capfd):
    machine.interrupted_by = 2
    assert main(OLD) == 130
    assert capfd.readouterr().err == (
        f"{begun(1, 5)}\nprospect: compare: A, run 1 of 5 was interrupted: nothing is compared\n"
    )
