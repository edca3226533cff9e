"""Keys of any encoding are read, and the terminal is let go of without waiting for the next one."""

import asyncio
import os
import pty
import threading

import pytest
from textual.app import App
from textual.events import Key

from prospect.tui import app as module
from prospect.tui.app import Keyboard


async def keyboard_of(app):
    return Keyboard(app)


@pytest.fixture
def terminal(monkeypatch):
    """A keyboard at a terminal of its own, what it has heard, and the other end."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "rb", buffering=0) as stdin:
        monkeypatch.setattr("sys.__stdin__", stdin)
        made = asyncio.run(keyboard_of(App()))
        made.write = lambda _: None
        heard = []
        made.process_message = heard.append
        yield made, heard, ours
    os.close(ours)


@pytest.mark.timeout(60)
def test_input_ends_at_once_though_no_key_comes(terminal, monkeypatch):
    made, heard, fd = terminal
    monkeypatch.setattr(module, "_TICK_S", 600.0)
    for typed in (b"a\n", b"\xffb\n"):  # as the library does it: again after each disabling
        made._key_thread = threading.Thread(target=made.run_input_thread, daemon=True)
        made._key_thread.start()
        count = len(heard)
        os.write(fd, typed)
        while len(heard) < count + 2:
            pass
        made.disable_input()
        assert not made._key_thread.is_alive()
    keys = [message.key for message in heard if isinstance(message, Key)]
    assert [key for key in keys if len(key) == 1] == ["a", "b"]
