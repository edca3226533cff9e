"""What another machine says first and last, where it is not what Prospect says."""

from __future__ import annotations

import json

import pytest

from prospect.errors import CommandError
from prospect.target.remote import _answer_in, _hello_in, _raise

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
