"""Bytes of a file that somebody changes while they are read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from prospect.files import held_files
from prospect.files.child import Child
from prospect.files.held_files import MAPPED_FROM_BYTES, hold_contents, lend, releaser
from prospect.perfdata.reader import open_recording

CONTENT = bytes(range(256)) * (2 * MAPPED_FROM_BYTES // 256)
TRUNCATE = "import os, sys; os.truncate(sys.argv[1], 0)"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    path.chmod(0o644)
    return path


def held(path: Path, **options: bool) -> memoryview:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return hold_contents(descriptor, **options)
    finally:
        os.close(descriptor)


def is_mapped(data):
    """Tell whether the bytes are pages of a file: its inode stands in /proc/self/maps."""
    address = np.frombuffer(data, np.uint8).ctypes.data
    for line in Path("/proc/self/maps").read_text().splitlines():
        bounds, _, _, _, inode, *_ = line.split()
        begin, end = (int(word, 16) for word in bounds.split("-"))
        if begin <= address < end:
            return inode != "0"
    return False


def test_whoever_cuts_a_mapped_file_short_waits_until_it_is_let_go(file: Path) -> None:
    data = held(file)
    if not is_mapped(data):
        pytest.skip("this file system has no leases")
    cutter = subprocess.Popen([sys.executable, "-c", TRUNCATE, file])
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            cutter.wait(0.5)
        assert bytes(data) == CONTENT
        data.release()
        del data
        assert cutter.wait(20) == 0
    finally:
        cutter.kill()
        cutter.wait()
    assert file.stat().st_size == 0


@pytest.mark.parametrize("is_lent", [False, True])
def test_a_child_keeps_nobody_from_a_file_unless_it_was_lent(file: Path, *, is_lent: bool) -> None:
    data = held(file)
    if not is_mapped(data):
        pytest.skip("this file system has no leases")
    ready, says_ready = os.pipe()

    def serve(stop_fd: int) -> None:
        os.write(says_ready, data[:4] if is_lent else b"here")
        os.read(stop_fd, 1)

    child = Child()
    lend(data, to_children=is_lent)
    try:
        child.start(serve, (says_ready,))
        assert os.read(ready, 4) == (CONTENT[:4] if is_lent else b"here")
        data.release()
        if is_lent:
            with pytest.raises(BlockingIOError):
                os.open(file, os.O_WRONLY | os.O_NONBLOCK)
        else:
            os.close(os.open(file, os.O_WRONLY | os.O_NONBLOCK))
    finally:
        child.kill()
        os.close(ready)
        os.close(says_ready)


def test_a_file_that_somebody_has_open_for_writing_is_read(file: Path) -> None:
    with file.open("rb+"):
        data = held(file)
    os.truncate(file, 0)
    assert not is_mapped(data)
    assert bytes(data) == CONTENT


def test_a_file_that_others_may_write_is_read(file: Path) -> None:
    file.chmod(0o664)
    assert not is_mapped(held(file))


@AS_ROOT
def test_a_file_of_another_user_is_read(file: Path) -> None:
    os.chown(file, 65534, 65534)
    assert not is_mapped(held(file))


def test_a_shared_description_gets_no_lease(file: Path) -> None:
    data = held(file, may_map=False)
    os.truncate(file, 0)
    assert bytes(data) == CONTENT


def test_what_a_server_holds_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = file.stat().st_dev
    monkeypatch.setattr(held_files, "is_local", lambda asked: asked != device)
    assert not is_mapped(held(file))


def test_of_a_file_cut_short_while_it_is_read_the_beginning_is_there(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.preadv

    def read_and_cut(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        count = real(descriptor, [buffers[0][:1000]], offset)
        os.truncate(file, 1500)
        return count

    monkeypatch.setattr(os, "preadv", read_and_cut)
    assert bytes(held(file, may_map=False)) == CONTENT[:1500]


def test_a_file_bigger_than_memory_is_refused_unless_mapped(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, 1 << 42)
    path.chmod(0o666)
    with pytest.raises(MemoryError):
        held(path)
    with pytest.raises(Exception, match=r"sparse: the file is bigger than this machine's memory"):
        open_recording(str(path))


def test_pages_of_a_mapped_file_that_were_let_go_of_are_as_they_were(file: Path) -> None:
    contents = held(file)
    if not is_mapped(contents):
        pytest.skip("this file system has no leases")
    release = releaser(contents, 5000)
    assert release is not None
    whole = bytes(contents)
    resident = _resident_bytes(contents)
    for used in (0, 10, 9_000, 8_000, len(contents) - 5000):
        release(used)
    assert _resident_bytes(contents) < resident
    assert bytes(contents) == whole


def test_what_was_read_into_memory_is_never_let_go_of(file: Path) -> None:
    file.chmod(0o666)
    assert releaser(held(file), 0) is None


def _resident_bytes(contents: memoryview) -> int:
    """Return how much of a mapping this process has pages of, as smaps says."""
    address = np.frombuffer(contents, np.uint8).ctypes.data
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        if line.startswith(f"{address:x}-"):
            return next(int(each.split()[1]) << 10 for each in lines if each.startswith("Rss:"))
    raise AssertionError("the mapping is not there")
