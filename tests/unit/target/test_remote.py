"""What another machine says first and last, where it is not what Prospect says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from prospect.errors import CommandError
from prospect.target import relay_stream
from prospect.target.relay_stream import greeting_lines
from prospect.target.target_process import _FIND_PYTHON, _answer_in, _hello_in, _raise

NESTED = b"[" * 100000
SYSTEM_PYTHON = Path(f"/usr/bin/python3.{sys.version_info[1]}")


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
    monkeypatch.setattr(relay_stream, "MOST_GREETING_BYTES", 1 << 12)
    reading, writing = os.pipe()
    os.write(writing, b"x" * 5000 + b"\nand more\n")
    assert list(greeting_lines(reading)) == []
    os.close(reading)
    os.close(writing)


def test_a_greeting_that_trickles_ends(monkeypatch):
    monkeypatch.setattr(relay_stream, "GREETING_S", 0.3)
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


def python_found(directory):
    words = ["/bin/sh", "-c", _FIND_PYTHON, "sh", "-c", "import sys; print(sys.version_info[1])"]
    found = subprocess.run(
        words, capture_output=True, text=True, check=False, env={"PATH": str(directory)}
    )
    return found.returncode, found.stdout.strip()


@pytest.mark.parametrize("directory", ["bin", "shims"])
def test_the_python_of_the_path_runs_unless_it_is_a_shim(tmp_path, directory):
    place = tmp_path / directory
    place.mkdir()
    assert python_found(place) == (127, "")
    (place / "python3").write_text("#!/bin/sh\necho its own\n")
    (place / "python3").chmod(0o755)
    is_replaced = directory == "shims" and SYSTEM_PYTHON.exists()
    shown = str(sys.version_info[1]) if is_replaced else "its own"
    assert python_found(place) == (0, shown)
