"""The line about what takes long: on a terminal only, no wider than it, and gone in the end."""

from __future__ import annotations

import fcntl
import os
import pty
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from prospect.cli import progress as progress_module
from prospect.cli.progress import Progress
from prospect.cli.terminal import takes_escapes

ERASED = b"\r\x1b[K"


@contextmanager
def stderr_on_a_terminal(columns=80):
    """Make stderr a terminal and yield the end that a person would look at.

    No fixture: pytest puts its own file there between a fixture and its test.
    """
    kept = os.dup(2)
    master, slave = pty.openpty()
    resize(master, columns)
    os.dup2(slave, 2)
    os.close(slave)
    os.set_blocking(master, False)
    try:
        yield master
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(master)


def resize(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def seen(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except BlockingIOError:
        return b""


def awaited(terminal: int, wanted: bytes) -> bytes:
    """Wait until something is shown, and return all that was until then."""
    shown = b""
    deadline = time.monotonic() + 60
    while wanted not in shown:
        assert time.monotonic() < deadline, shown
        time.sleep(0.005)
        shown += seen(terminal)
    return shown


@pytest.fixture
def impatient(monkeypatch):
    """Show what is done at once, and, however slow the machine is, as if no time had passed."""
    monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: 0.0))
    monkeypatch.setattr(progress_module, "_PATIENCE_S", 0.01)
    monkeypatch.setattr(progress_module, "_REDRAW_S", 0.01)
    monkeypatch.setenv("TERM", "xterm")


def test_what_is_quick_shows_none(monkeypatch):
    monkeypatch.setattr(progress_module, "_PATIENCE_S", 60.0)
    monkeypatch.setenv("TERM", "xterm")
    with stderr_on_a_terminal() as terminal:
        with Progress("reading") as progress:
            progress.announce("working")
        assert seen(terminal) == b""


def test_what_takes_long_says_so_and_leaves_nothing_behind(impatient):
    with stderr_on_a_terminal() as terminal:
        with Progress("working"):
            shown = awaited(terminal, b"working\r")
        assert shown.startswith(ERASED + b"prospect: 0 s, working\r")
        assert (shown + seen(terminal)).endswith(ERASED)


def test_what_is_told_takes_the_place_of_what_was(impatient):
    with stderr_on_a_terminal() as terminal, Progress("working") as progress:
        awaited(terminal, b"working\r")
        progress.announce("almost done")
        assert ERASED + b"prospect: 0 s, almost done\r" in awaited(terminal, b"almost done\r")
        progress.end()
        awaited(terminal, ERASED)
        progress.announce("more")
        time.sleep(0.05)
        assert b"more" not in seen(terminal)


def fail(terminal, error):
    awaited(terminal, b"working\r")
    raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_leaves_nothing_behind(impatient, error):
    with stderr_on_a_terminal() as terminal:
        with pytest.raises(error), Progress("working"):
            fail(terminal, error)
        assert seen(terminal).endswith(ERASED)


def test_names_of_others_stay_on_one_line_of_the_terminal(impatient):
    ideograph = "\N{CJK UNIFIED IDEOGRAPH-4E00}"
    news = "naming \x1b[2J\n\udcff" + ideograph * 80
    with stderr_on_a_terminal(columns=50) as terminal, Progress(news):
        shown = awaited(terminal, b"...\r").decode()
        line = shown.removeprefix("\r\x1b[K").split("\r")[0]
        assert line.startswith("prospect: 0 s, naming \\x1b[2J\\x0a\\xff")
        assert len(line) + line.count(ideograph) <= 49
        resize(terminal, 20)
        narrow = awaited(terminal, b"\x1b[Jprospect: 0 s, n...\r").decode()
        # What the narrower terminal has wrapped is erased with it.
        assert "\x1b[J" in narrow


def test_a_dumb_terminal_gets_no_escapes(impatient, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with stderr_on_a_terminal() as terminal:
        with Progress("working"):
            time.sleep(0.05)
        assert seen(terminal) == b""
        assert not takes_escapes(2)
        monkeypatch.setenv("TERM", "xterm")
        assert takes_escapes(2)


def test_it_is_for_terminals_only(impatient, capfd):
    with Progress("working"):
        time.sleep(0.05)
    assert capfd.readouterr().err == ""


def test_a_job_in_the_background_draws_nothing(impatient):
    script = """
import os, sys, time
import prospect.cli.progress as module
module._PATIENCE_S = module._REDRAW_S = 0.01
from prospect.cli.progress import Progress
os.setsid()
import fcntl, termios
fcntl.ioctl(2, termios.TIOCSCTTY, 0)
if os.fork():
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
os.setpgid(0, 0)
with Progress("in the background"):
    time.sleep(0.2)
"""
    master, slave = pty.openpty()
    done = subprocess.run([sys.executable, "-c", script], stderr=slave, check=False)
    os.close(slave)
    os.set_blocking(master, False)
    try:
        shown = os.read(master, 1 << 16)
    except OSError:
        shown = b""
    os.close(master)
    assert (done.returncode, shown) == (0, b"")


IMPATIENT = """
import sys
import prospect.cli.progress as progress
progress._PATIENCE_S = progress._REDRAW_S = 0.0005
from prospect.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@contextmanager
def impatient_command(*arguments, **files):
    """Run a command line whose stderr is a terminal; yield it and what a person would look at."""
    master, slave = pty.openpty()
    resize(master, 200)
    files = {name: slave if file == "terminal" else file for name, file in files.items()}
    command = subprocess.Popen(
        [sys.executable, "-c", IMPATIENT, *arguments],
        stderr=slave,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
        **files,
    )
    os.close(slave)
    os.set_blocking(master, False)
    try:
        yield command, master
    finally:
        command.kill()
        command.wait()
        os.close(master)


def until_its_end(command, terminal):
    """Read what a terminal shows until the command has ended, lest it wait for room.

    What was written last may reach the other end after the command is gone.
    """
    shown = b""
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            shown += seen(terminal)
            time.sleep(0.01)
    except OSError:  # nobody has the other end any more, and all was read
        command.wait(10)
        return shown
    pytest.fail(f"the command does not end: {shown!r}")


@pytest.fixture
def folded(tmp_path):
    lines = (f"main;f{number};g{number % 7} {number + 1}\n" for number in range(2000))
    (tmp_path / "stacks").write_text("".join(lines))
    return str(tmp_path / "stacks")


def test_a_report_on_the_same_terminal_begins_where_the_progress_was(folded):
    with impatient_command("report", folded, stdout="terminal") as (command, terminal):
        shown = until_its_end(command, terminal).decode()
    before, _, report = shown.rpartition("\x1b[K")
    assert command.returncode == 0
    assert "prospect: 0 s, " in before  # whichever step it is in when it is looked at
    assert "Program" not in before
    # A name that is longer than the screen ends in dots.
    assert report.splitlines()[0][:60] == shlex.quote(folded)[:60]
    assert report.count("\r") == report.count("\r\n")


def test_progress_and_report_do_not_meet(folded, tmp_path):
    with (
        (tmp_path / "out").open("wb") as out,
        impatient_command("report", folded, stdout=out) as (command, terminal),
    ):
        shown = until_its_end(command, terminal)
    plain = subprocess.run(
        [sys.executable, "-m", "prospect", "report", folded], capture_output=True, check=True
    )
    assert plain.stderr == b""
    assert (tmp_path / "out").read_bytes() == plain.stdout
    assert b"working out the report" in shown
    assert shown.endswith(ERASED)


def test_an_interrupted_command_leaves_nothing_behind():
    reader, writer = os.pipe()
    with impatient_command("report", "-", stdin=reader) as (command, terminal):
        os.close(reader)
        shown = awaited(terminal, b"reading the recording\r")
        command.send_signal(signal.SIGINT)
        shown += until_its_end(command, terminal)
    os.close(writer)
    assert command.returncode == 130
    assert shown.endswith(ERASED)
    assert b"Traceback" not in shown


def test_an_error_stands_where_the_progress_was(tmp_path):
    reader, writer = os.pipe()
    with impatient_command("report", "-", stdin=reader) as (command, terminal):
        os.close(reader)
        awaited(terminal, b"reading the recording\r")
        os.close(writer)
        shown = until_its_end(command, terminal)
    assert command.returncode == 1
    assert shown.endswith(ERASED + b"prospect: <stdin>: the stream is empty\r\n")
