"""The file of a recording ends with a whole record, however the disk fails."""

from __future__ import annotations

import errno
import os
import struct
from types import SimpleNamespace

import pytest

from prospect.capture import sink as sink_module
from prospect.capture.sink import RecordSink, default_bound_bytes

PORTION = 40_000
RECORD = 1000
HEADER = struct.Struct("=IHH")


@pytest.fixture
def file(tmp_path):
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"header")
    yield fd
    os.close(fd)


def content(fd):
    return os.pread(fd, 1 << 24, 0)


def test_records_follow_what_is_there(file):
    sink = RecordSink(file)
    sink.append([b"one", memoryview(b"two")])
    sink.append([b"three"])
    assert content(file) == b"headeronetwothree"
    assert sink.bytes_written == 11


def test_more_buffers_than_the_system_takes_at_once_are_written(file):
    RecordSink(file).append([b"%04d" % number for number in range(3000)])
    assert content(file)[6:] == b"".join(b"%04d" % number for number in range(3000))


class Disk:
    """writev(2) and write(2) to a disk with room for `room` more bytes."""

    def __init__(self, room):
        self.room = room
        self._write = os.write

    def write(self, fd, data):
        taken = min(self.room, len(data))
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= taken
        return self._write(fd, bytes(data[:taken]))

    def writev(self, fd, buffers):
        return self.write(fd, b"".join(buffers))


def portion(number):
    record = HEADER.pack(number, 0, RECORD) + bytes([number]) * (RECORD - HEADER.size)
    return record * (PORTION // RECORD)


def append_portions(sink, count):
    for number in range(count):
        whole = portion(number)
        sink.append([whole[:1234], memoryview(whole)[1234:]])


@pytest.mark.parametrize("room", [0, 1, PORTION - 1, 7 * PORTION, 7 * PORTION + 5])
def test_full_disk_leaves_whole_records_and_room_to_finish(monkeypatch, file, room):
    disk = Disk(room)
    monkeypatch.setattr(sink_module.os, "writev", disk.writev)
    monkeypatch.setattr(sink_module.os, "write", disk.write)
    sink = RecordSink(file)
    with pytest.raises(OSError, match="No space left"):
        append_portions(sink, 20)
    monkeypatch.undo()
    kept = content(file)[6:]
    assert len(kept) == sink.bytes_written
    assert len(kept) % RECORD == 0
    assert b"".join(map(portion, range(20))).startswith(kept)
    assert room - len(kept) >= min(room // 2, 64 * 1024)
    assert room - len(kept) < 64 * 1024 + PORTION
    os.write(file, b"tail")
    assert content(file).endswith(b"tail")


def test_of_one_big_portion_the_records_that_found_room_are_kept(monkeypatch, file):
    disk = Disk(7 * PORTION + 5)
    monkeypatch.setattr(sink_module.os, "writev", disk.writev)
    monkeypatch.setattr(sink_module.os, "write", disk.write)
    with pytest.raises(OSError, match="No space left"):
        RecordSink(file).append(list(map(portion, range(20))))
    monkeypatch.undo()
    kept = content(file)[6:]
    assert b"".join(map(portion, range(20))).startswith(kept)
    assert (len(kept) % RECORD, len(kept) > 4 * PORTION) == (0, True)


def test_short_write_is_completed(monkeypatch, file):
    real = os.write
    monkeypatch.setattr(sink_module.os, "writev", lambda fd, parts: real(fd, parts[0][:3]))
    RecordSink(file).append([b"abcdef", b"ghi"])
    assert content(file) == b"headerabcdefghi"


def test_at_its_bound_it_takes_no_more_and_keeps_what_it_has(file):
    bound = 7 * PORTION + 5
    sink = RecordSink(file, bound)
    with pytest.raises(OSError, match="--max-size") as raised:
        append_portions(sink, 20)
    assert raised.value.errno == errno.EFBIG
    assert sink.bytes_written == 7 * PORTION
    assert content(file)[6:] == b"".join(map(portion, range(7)))
    os.write(file, b"tail")
    assert content(file).endswith(b"tail")


def test_it_can_be_filled_to_the_byte(file):
    sink = RecordSink(file, 3 * PORTION)
    append_portions(sink, 3)
    assert sink.bytes_written == 3 * PORTION


@pytest.mark.parametrize(
    ("blocks", "free", "bound"),
    [
        (1 << 30, 1 << 20, 1 << 30),
        (1 << 30, 1 << 10, 64 << 20),  # almost full: the disk itself is the bound
        (1 << 30, 0, 64 << 20),
        (0, 0, 0),  # a file system that does not say
    ],
)
def test_without_a_bound_it_is_a_quarter_of_the_free_space(monkeypatch, file, blocks, free, bound):
    found = SimpleNamespace(f_blocks=blocks, f_bavail=free, f_frsize=4096)
    monkeypatch.setattr(sink_module.os, "fstatvfs", lambda fd: {file: found}[fd])
    assert default_bound_bytes(file) == bound
