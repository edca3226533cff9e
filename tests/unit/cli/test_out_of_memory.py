"""What is said where there is no memory left."""

from __future__ import annotations

import gc

import pytest

from prospect import __main__ as entry
from prospect.cli import main as command_line

NO_LIMIT = 0


@pytest.mark.parametrize(
    ("limit", "remedy"),
    [
        (NO_LIMIT, "out of memory: report on a shorter recording, or one of a lower -H"),
        (500_000_000, "500 MB of address space are not enough: raise the limit (ulimit -v)"),
    ],
)
def test_the_limit_is_named_where_it_is_the_entry_reason(monkeypatch, capfd, limit, remedy):
    def fail(_arguments):
        raise MemoryError

    monkeypatch.setattr(command_line, "_run", fail)
    monkeypatch.setattr(entry, "_address_space_bytes", lambda: limit)
    monkeypatch.setattr(gc, "set_threshold", lambda _: None)
    assert entry.run() == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert remedy in line
