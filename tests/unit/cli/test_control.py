"""What `prospect control` passes on to a daemon, and what it refuses itself."""

from __future__ import annotations

import pytest

from prospect.cli import control
from prospect.cli.main import main
from prospect.daemon import loop
from prospect.errors import StoreError
from prospect.store.directory import StoreDirectory


@pytest.fixture(name="asked")
def _asked(monkeypatch):
    """What a daemon was asked that does not answer."""
    words = []

    def ask(_store, asked):
        words.append(asked)
        raise StoreError("nobody answers")

    monkeypatch.setattr(control, "ask", ask)
    return words


@pytest.mark.parametrize("word", loop.COMMANDS)
def test_whatever_a_daemon_understands_is_asked(tmp_path, capfd, asked, word):
    StoreDirectory(str(tmp_path / "s"), create=True).close()
    words = [word, "before"] if word == "session" else [word]
    assert main(["control", *words, "--store", str(tmp_path / "s")]) != 0
    assert "nobody answers" in capfd.readouterr().err
    assert asked == [words]


def test_what_no_daemon_understands_is_said_with_all_that_they_do(capfd, asked):
    assert main(["control", "dunp"]) == 2
    said = capfd.readouterr().err
    assert ", ".join(loop.COMMANDS) in said
    assert "dump?" in said
    assert not asked
