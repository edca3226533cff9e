"""The spool keeps the latest records, between half and all of what it may hold."""

import errno
import os

import pytest

from prospect.errors import RecordingError
from prospect.files.outputs import RecordingFile
from prospect.live.session import Spool, copy_extents
from prospect.live.source import Mark

RECORD = bytes(range(16)) * 4
STATE = b"state..." * 2


def mark(time_ns=0):
    return Mark(time_ns, 0.0, {}, {}, {}, {})


@pytest.fixture
def spool(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    spool = Spool(mark(), 1024)
    yield spool
    spool.close()
    assert list(tmp_path.iterdir()) == []


def kept(spool, tmp_path):
    path = tmp_path / "copy"
    with path.open("wb") as out:
        assert copy_extents(spool.extents(), out.fileno()) == out.seek(0, os.SEEK_CUR)
    found = path.read_bytes()
    path.unlink()
    return found


def test_turning_keeps_the_older_file_and_what_comes_then(spool, tmp_path):
    spool.append([RECORD])
    spool.turn(mark(5), STATE)
    spool.append([b"second.."])
    assert kept(spool, tmp_path) == RECORD + b"second.."
    assert spool.start == mark()
    spool.turn(mark(6), STATE)
    spool.append([b"third..."])
    # What was the older file is gone; the file that is now the older one tells what stood.
    assert kept(spool, tmp_path) == STATE + b"second.." + b"third..."
    assert spool.start == mark(5)


def test_it_is_full_when_half_is_used_so_that_two_files_fit(spool, tmp_path):
    most = 0
    for turn in range(100):
        spool.append([RECORD])
        most = max(most, len(kept(spool, tmp_path)))
        if spool.is_full:
            spool.turn(mark(turn), STATE)
            assert len(kept(spool, tmp_path)) >= 512
    assert 512 <= most <= 1024 + len(STATE)


def test_restarting_forgets_what_was_kept(spool, tmp_path):
    spool.append([RECORD])
    spool.restart(mark(7), STATE)
    assert kept(spool, tmp_path) == STATE
    assert spool.start == mark(7)


def test_a_full_disk_keeps_what_there_is_and_is_said_once(spool, tmp_path, monkeypatch):
    for _ in range(8):
        spool.append([RECORD])

    def no_space(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "writev", no_space)
    spool.append([RECORD])
    monkeypatch.undo()
    assert "No space left" in spool.refusal
    spool.append([RECORD])
    assert 0 < len(kept(spool, tmp_path)) <= 8 * len(RECORD)
    assert len(kept(spool, tmp_path)) % len(RECORD) == 0
    spool.restart(mark(), STATE)
    assert not spool.refusal


def test_without_room_for_another_file_it_keeps_what_there_is(spool, tmp_path, monkeypatch):
    for _ in range(8):
        spool.append([RECORD])
    assert spool.is_full
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count

    def no_space(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(os, "writev", no_space)
        spool.turn(mark(1), STATE)
        with pytest.raises(RecordingError, match="No space left"):
            spool.restart(mark(1), STATE)
    assert "No space left" in spool.refusal
    assert not spool.is_full
    assert spool.start == mark()
    assert kept(spool, tmp_path) == 8 * RECORD
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - names alone count
    spool.restart(mark(2), STATE)
    assert kept(spool, tmp_path) == STATE
    assert not spool.refusal


def test_an_output_that_cannot_grow_is_an_error_and_leaves_no_descriptor(spool):
    spool.append([RECORD])
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count
    out = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match="No space left"):
        copy_extents(spool.extents(), out)
    os.close(out)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - names alone count


def test_its_files_have_no_name(spool, tmp_path):
    spool.append([RECORD])
    assert list(tmp_path.iterdir()) == []
    assert isinstance(spool._parts[0]._file, RecordingFile)
