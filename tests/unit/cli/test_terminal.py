"""Lines on stderr, pages on stdout, and what becomes of closed files."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from prospect.cli import progress as progress_module
from prospect.cli.main import main
from prospect.cli.progress import progress
from prospect.cli.terminal import say, show, takes_escapes
from prospect.errors import RenderError


@contextmanager
def stderr_on_a_terminal():
    """Make stderr a terminal and yield the end that a person would look at.

    No fixture: pytest puts its own file there between a fixture and its test.
    """
    kept = os.dup(2)
    master, slave = pty.openpty()
    os.dup2(slave, 2)
    os.close(slave)
    os.set_blocking(master, False)
    try:
        yield master
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(master)


def seen(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except BlockingIOError:
        return b""


def test_a_message_stays_one_line_whatever_is_in_it(capfd):
    say("a\nb\x1b[2J\udcff\N{GREEK SMALL LETTER MU}")
    assert capfd.readouterr().err == "prospect: a\\nb\\x1b[2J\\xff\N{GREEK SMALL LETTER MU}\n"


def test_a_page_that_stdout_cannot_take_is_an_error_of_ours():
    kept = os.dup(1)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, 1)
    try:
        with pytest.raises(RenderError, match="No space left on device"):
            show("page\n")
        assert main(["--version"]) == 1
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(full)


def test_what_is_quick_shows_no_progress(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with stderr_on_a_terminal() as terminal:
        with progress("working"):
            pass
        assert seen(terminal) == b""


def test_what_takes_long_says_so_on_a_terminal_and_cleans_up(monkeypatch):
    monkeypatch.setattr(progress_module, "_PATIENCE_S", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    with stderr_on_a_terminal() as terminal:
        with progress("working"):
            deadline = time.monotonic() + 20
            while not (shown := seen(terminal)):
                assert time.monotonic() < deadline
                time.sleep(0.01)
        assert shown == b"prospect: working\r"
        assert seen(terminal) == b"\r\x1b[K"


def test_what_is_told_takes_the_place_of_the_message(monkeypatch):
    monkeypatch.setattr(progress_module, "_PATIENCE_S", 0.05)
    monkeypatch.setenv("TERM", "xterm")
    with stderr_on_a_terminal() as terminal:
        with progress("working") as tell:
            tell("almost")  # not yet: nobody has waited long
            deadline = time.monotonic() + 20
            while not (shown := seen(terminal)):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert shown == b"prospect: almost\r"
            tell("almost")
            tell("done")
            assert seen(terminal) == b"\x1b[Kprospect: done\r"
        assert seen(terminal) == b"\r\x1b[K"


def test_a_dumb_terminal_gets_no_escapes(monkeypatch):
    monkeypatch.setattr(progress_module, "_PATIENCE_S", 0.0)
    monkeypatch.setenv("TERM", "dumb")
    with stderr_on_a_terminal() as terminal:
        with progress("working"):
            time.sleep(0.05)
        assert seen(terminal) == b""
        assert not takes_escapes(2)
        monkeypatch.setenv("TERM", "xterm")
        assert takes_escapes(2)


def test_progress_is_for_terminals_only(monkeypatch, capfd):
    monkeypatch.setattr(progress_module, "_PATIENCE_S", 0.0)
    with progress("working"):
        time.sleep(0.05)
    assert capfd.readouterr().err == ""


def test_the_numbers_of_closed_files_are_not_given_to_others():
    script = (
        "import os; [os.close(n) for n in (0, 1, 2)];"
        "from prospect.cli.terminal import occupy_closed_standard_files as occupy; occupy();"
        "taken = os.open('/dev/null', os.O_RDONLY);"
        "os._exit(taken if not any(map(os.get_inheritable, (0, 1, 2))) else 99)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 3
