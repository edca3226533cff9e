"""What arrives from a target: taken apart whatever its pieces, and never trusted."""

from __future__ import annotations

import os
import struct
import zlib

import pytest

from prospect.errors import CaptureError
from prospect.target.relay_stream import Frames, ReceivedFile
from prospect.target.target_recording import checked_result

AT = struct.Struct("<Q")


def stream(*frames):
    packer = zlib.compressobj(1)
    parts = [struct.pack("<cI", letter, len(body)) + body for letter, body in frames]
    return packer.compress(b"".join(parts)) + packer.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_frames_come_whole_in_pieces_of_any_size(size):
    sent = [(b"D", AT.pack(5) + b"abc"), (b"T", AT.pack(3)), (b"A", b"{}"), (b"E", b"")]
    data, frames, found = stream(*sent), Frames(), []
    for at in range(0, len(data), size):
        found += frames.feed(data[at : at + size])
    assert found == sent


@pytest.mark.parametrize(
    "data", [b"not compressed", stream()[:1] + b"\xff" * 40, stream((b"D", b"x"))[:2] + b"\0" * 30]
)
def test_what_is_no_stream_is_refused(data):
    with pytest.raises(CaptureError, match="damaged"):
        list(Frames().feed(data))


def test_a_frame_beyond_any_size_is_refused_before_it_is_kept():
    with pytest.raises(CaptureError, match="too long"):
        list(Frames().feed(zlib.compress(struct.pack("<cI", b"D", 0xFFFFFFFF))))


def test_a_small_piece_that_unpacks_to_much_is_taken_in_modes():
    bomb = zlib.compress(b"\0" * (1 << 28))
    with pytest.raises(CaptureError, match=r"too long|damaged"):
        list(Frames().feed(zlib.compress(struct.pack("<cI", b"D", 1 << 27)) + bomb))


def test_a_file_is_written_at_its_places_and_not_beyond_its_bound(tmp_path):
    descriptor = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    file = ReceivedFile(descriptor, 100)
    file.write(AT.pack(10) + b"abc")
    file.write(AT.pack(0) + b"begin")
    assert os.pread(descriptor, 100, 0) == b"begin\0\0\0\0\0abc"
    file.truncate(AT.pack(5))
    file.truncate(AT.pack(1 << 60))
    assert os.fstat(descriptor).st_size == 5
    for offset in (98, 1 << 63):
        with pytest.raises(CaptureError, match="more than"):
            file.write(AT.pack(offset) + b"abc")
    os.close(descriptor)


def test_a_full_disk_cuts_the_file_and_the_rest_is_let_go():
    file = ReceivedFile(os.open("/dev/full", os.O_WRONLY), 1 << 20)
    file.write(AT.pack(0) + b"abc")
    assert "No space left" in file.cut
    file.write(AT.pack(0) + b"abc")


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        {},
        {"exit_status": "0", "interrupted_by": 0, "limits": [], "counters": {}},
        {"exit_status": 0, "interrupted_by": 0, "limits": [1], "counters": {}},
        {"exit_status": 0, "interrupted_by": 0, "limits": [], "counters": {"a": "b"}},
    ],
)
def test_a_result_that_is_none_is_refused(said):
    with pytest.raises(CaptureError, match="damaged"):
        checked_result(said)


def test_a_status_is_that_of_a_command():
    said = {"exit_status": 1 << 40, "interrupted_by": 2, "limits": ["a"], "counters": {}}
    assert checked_result(said)[:3] == (0, 2, ("a",))
