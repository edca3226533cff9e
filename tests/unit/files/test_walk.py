"""Walks that end early hold nothing open: who walks may live long."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from prospect.files.walk import MayBlockError, walk


def fail(*_: object, **__: object) -> bytes:
    """Answer as a FUSE server may."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.fixture
def path(tmp_path: Path) -> bytes:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    return os.fsencode(tmp_path / "link")


def held() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("question", ["readlink", "fstat"])
def test_a_link_that_answers_with_an_error_is_let_go(
    path: bytes, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    before = held()
    with monkeypatch.context() as failing:
        failing.setattr(os, question, fail)
        with pytest.raises(OSError, match="Input/output error"):
            walk(path, {os.geteuid()})
    assert held() == before


@pytest.mark.parametrize("answer", [True, OSError(errno.EIO, os.strerror(errno.EIO))])
@pytest.mark.parametrize("names", [0, 1])
def test_what_may_wait_is_let_go(path: bytes, names: int, answer: bool | OSError) -> None:
    asked = 0

    def may_wait(_: int) -> bool:
        nonlocal asked
        asked += 1
        if asked <= names:
            return False
        if isinstance(answer, OSError):
            raise answer
        return answer

    before = held()
    with pytest.raises((MayBlockError, OSError)):
        walk(path, {os.geteuid()}, may_wait=may_wait)
    assert asked == names + 1
    assert held() == before


def test_a_link_is_followed_and_only_its_end_is_held(path: bytes) -> None:
    before = held()
    found = walk(path, {0, os.geteuid()})
    assert Path(f"/proc/self/fd/{found}").readlink() == Path(os.fsdecode(path)).with_name("file")
    os.close(found)
    assert held() == before
