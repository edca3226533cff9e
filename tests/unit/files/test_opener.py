"""The child that opens files: what goes wrong with one file is that file's alone."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from prospect.files import opener as opener_module
from prospect.files.opener import OWN_RIGHTS, Opener, Request
from prospect.profile.naming import NameSource

if TYPE_CHECKING:
    from collections.abc import Iterator

TOO_LARGE, UNREADABLE = b"x" * 2000, b"y" * 10


@pytest.fixture
def opener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opener]:
    """One that takes no file for local, and so copies each, up to 1000 bytes."""
    real = os.read

    def read(descriptor: int, size: int) -> bytes:
        data = real(descriptor, size)
        if data == UNREADABLE:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return data

    monkeypatch.setattr(opener_module, "is_local", lambda _: False)
    monkeypatch.setattr(opener_module, "LARGEST_COPY_BYTES", 1000)
    monkeypatch.setattr(os, "read", read)
    made = Opener()
    yield made
    made.close()


def request(path: Path) -> Request:
    return Request(os.fsencode(path), b"/", OWN_RIGHTS, 1 << 20)


def content(opener: Opener, path: Path) -> bytes:
    answer = opener.open(request(path))
    assert not isinstance(answer, NameSource)
    try:
        return os.pread(answer[0], 100, 0)
    finally:
        os.close(answer[0])


def held_by_child(opener: Opener) -> int:
    return len(list(Path(f"/proc/{opener._child.pid}/fd").iterdir()))


def test_a_child_that_was_started_early_is_the_one_that_answers(
    tmp_path: Path, opener: Opener
) -> None:
    opener.start()
    pid = opener.pid
    (tmp_path / "file").write_bytes(b"good")
    assert content(opener, tmp_path / "file") == b"good"
    opener.start()
    assert opener.pid == pid > 0


@pytest.mark.parametrize(
    ("written", "refusal"), [(TOO_LARGE, NameSource.NO_ELF), (UNREADABLE, NameSource.NO_FILE)]
)
def test_a_file_that_cannot_be_copied_costs_nobody_an_answer(
    tmp_path: Path, opener: Opener, written: bytes, refusal: NameSource
) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    bad.write_bytes(written)
    good.write_bytes(b"good")
    children, held = set(), set()
    for _ in range(4):
        assert content(opener, good) == b"good"
        assert opener.open(request(bad)) == refusal
        # What was copied is let go before a refusal is said; a file only after it was handed over.
        children.add(opener._child.pid)
        held.add(held_by_child(opener))
    assert len(children) == len(held) == 1


def test_the_interpreter_ends_without_a_warning() -> None:
    program = """
from prospect.files.opener import OWN_RIGHTS, Opener, Request
from prospect.profile.naming import NameSource
opener = Opener()
opener.open(Request(b"/etc/passwd", b"/", OWN_RIGHTS, 1 << 20))
"""
    words = [sys.executable, "-X", "dev", "-c", program]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert "ResourceWarning" not in ran.stderr
