"""Where a store lies that nobody names."""

from __future__ import annotations

import os

import pytest

from prospect.cli.operands import usual_store


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("db1", "db1"),
        ("root@db1.example", "root@db1.example"),
        ("ssh://db1:22", "ssh___db1_22"),
        ("../../etc", "_.._etc"),
        ("..", "_"),
    ],
)
@pytest.mark.parametrize("user", [0, 1000])
def test_that_of_a_target_lies_in_a_directory_for_all_of_them(monkeypatch, user, target, name):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    own, of_target = usual_store(), usual_store(target)
    assert of_target == f"{own}-targets/{name}"
    assert os.path.dirname(os.path.normpath(of_target)) == f"{own}-targets"  # noqa: PTH120 - as it is
