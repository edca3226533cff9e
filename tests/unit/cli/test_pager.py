"""Reports on a terminal go through the person's pager, which no shell starts."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from prospect.cli import analysis as pager

LONG = b"".join(b"line %d\n" % number for number in range(100))


@pytest.fixture
def terminal(monkeypatch):
    size = os.terminal_size((80, 24))
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_: size)


@pytest.fixture
def taker(tmp_path, monkeypatch, terminal):
    """Return the file that a pager writes what it was given to, behind $LESS."""
    program, taken = tmp_path / "page", tmp_path / "taken"
    program.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        "text = f'{os.environ[\"LESS\"]} {sys.argv[1]}{sys.stdin.read()}'\n"
        f"open({str(taken)!r}, 'w').write(text)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PAGER", f"{program} 'a word; true'")
    monkeypatch.delenv("LESS", raising=False)
    return taken


def test_what_is_longer_is_paged_and_words_are_no_shell_s(taker):
    assert pager.show_paged(LONG)
    assert taker.read_text() == "FRX a word; true" + LONG.decode()


def test_a_person_s_own_options_stay(taker, monkeypatch):
    monkeypatch.setenv("LESS", "-S")
    assert pager.show_paged(LONG)
    assert taker.read_text().startswith("-S a word")


def test_what_fits_is_not(taker):
    assert not pager.show_paged(b"line\n" * 23)
    assert not taker.exists()


@pytest.mark.parametrize("value", ["", "cat", "no-such-program", "an 'open quote"])
def test_without_a_pager_nothing_is_shown(terminal, monkeypatch, value):
    monkeypatch.setenv("PAGER", value)
    assert not pager.show_paged(LONG)


def test_a_pager_that_is_left_early_is_no_error(terminal, monkeypatch):
    monkeypatch.setenv("PAGER", "true")
    assert pager.show_paged(LONG * 10_000)
