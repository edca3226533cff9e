"""What is said where there is no memory left."""

from __future__ import annotations

import resource

import pytest

from prospect.cli import main as entry


@pytest.mark.parametrize(
    ("limit", "remedy"),
    [
        (
            resource.RLIM_INFINITY,
            "out of memory: report on a shorter recording, or one of a lower -H",
        ),
        (500_000_000, "500 MB of address space are not enough: raise the limit (ulimit -v)"),
    ],
)
def test_the_limit_is_named_where_it_is_the_cause(monkeypatch, capfd, limit, remedy):
    def fail(_arguments):
        raise MemoryError

    monkeypatch.setattr(entry, "_run", fail)
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (limit, limit))
    assert entry.main(["report"]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert remedy in line
