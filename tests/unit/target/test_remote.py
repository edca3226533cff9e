"""What another machine says first and last, where it is not what Prospect says."""

from __future__ import annotations

import json
import os
import threading
import time

import pytest

from prospect.errors import CommandError
from prospect.target import relay_stream
from prospect.target.relay_stream import greeting_lines
from prospect.target.target_process import _answer_in, _hello_in, _raise

NESTED = b"[" * 100000


@pytest.mark.parametrize(
    "line",
    [b"Welcome!\n", b"{}\n", b"[]\n", b'{"python": [3, "x"], "magic": ""}\n', NESTED],
)
def test_what_is_no_greeting_is_skipped(line):
    assert _hello_in(line) is None


def test_a_greeting_says_which_python_is_there():
    hello = {"python": [3, 9, 1], "magic": "610d0d0a"}
    assert _hello_in(json.dumps(hello).encode()) == hello


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b'{"pid": ' + NESTED])
def test_an_answer_that_is_damaged_says_nothing(content):
    assert _answer_in(content) == {"pid": 0}


@pytest.mark.parametrize(
    ("said", "status"),
    [(127, 127), (0, 1), (None, 1), ("127", 1), (1e999, 1), ([], 1), (256 + 3, 3)],
)
def test_a_command_that_did_not_start_there_has_a_status_whatever_is_said(said, status):
    answer = {"error": "no such program", "kind": "CommandError", "status": said}
    with pytest.raises(CommandError, match=r"^db1: no such program$") as raised:
        _raise("db1", answer)
    assert raised.value.exit_status == status


def test_an_endless_greeting_ends(monkeypatch):
    monkeypatch.setattr(relay_stream, "_MOST_GREETING_BYTES", 1 << 12)
    reading, writing = os.pipe()
    os.write(writing, b"x" * 5000 + b"\nand more\n")
    assert list(greeting_lines(reading)) == []
    os.close(reading)
    os.close(writing)


def test_a_greeting_that_trickles_ends(monkeypatch):
    monkeypatch.setattr(relay_stream, "_GREETING_S", 0.3)
    reading, writing = os.pipe()
    ended = threading.Event()

    def trickle():
        while not ended.wait(0.05):
            os.write(writing, b"x\n")

    thread = threading.Thread(target=trickle)
    thread.start()
    began = time.monotonic()
    lines = list(greeting_lines(reading))
    assert 0.2 < time.monotonic() - began < 5
    ended.set()
    thread.join()
    assert set(lines) == {b"x\n"}
    os.close(reading)
    os.close(writing)


def test_what_follows_a_greeting_is_left_there():
    reading, writing = os.pipe()
    os.write(writing, b"Welcome!\n4711\nPERFILE2")
    lines = greeting_lines(reading)
    assert [next(lines), next(lines)] == [b"Welcome!\n", b"4711\n"]
    assert os.read(reading, 100) == b"PERFILE2"
    os.close(writing)
    assert list(lines) == []
    os.close(reading)
