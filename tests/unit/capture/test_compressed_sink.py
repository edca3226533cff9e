"""Packed records: read back as they were, in pieces that perf has room for, within the bound."""

from __future__ import annotations

import os
import struct

import numpy as np
import pytest

from builders import perfdata
from prospect.capture import compressed_sink
from prospect.capture.compressed_sink import UNPACKED_BYTES, CompressedSink
from prospect.perfdata.format import PERF_RECORD_COMPRESSED
from prospect.perfdata.stream import Unpacker


@pytest.fixture
def file(tmp_path):
    fd = os.open(tmp_path / "records", os.O_CREAT | os.O_RDWR)
    yield fd
    os.close(fd)


def records_of(fd):
    """Return the payloads of the packed records."""
    data, at, found = os.pread(fd, 1 << 28, 0), 0, []
    while at < len(data):
        kind, misc, size = struct.unpack_from("<IHH", data, at)
        assert (kind, misc) == (PERF_RECORD_COMPRESSED, 0)
        found.append(memoryview(data)[at + 8 : at + size])
        at += size
    assert at == len(data)
    return found


def test_what_was_packed_comes_out_in_pieces_that_a_reader_has_room_for(file):
    random = np.random.default_rng(3)
    # What cannot be packed needs several records for one drain.
    noise = random.bytes(3 << 20)
    make = perfdata.RecordBuilder()
    parts = [make.comm(5, 5, b"a" * 15), noise, make.sample(ip=1, id=7) * 50_000]
    sink = CompressedSink(file)
    for part in parts:
        sink.append([part[: len(part) // 2], memoryview(part)[len(part) // 2 :]])
    payloads = records_of(file)
    unpacker = Unpacker()
    sizes = []
    found = b""
    for payload in payloads:
        piece = b"".join(unpacker.unpack(payload))
        sizes.append(len(piece))
        found += piece
    assert found == b"".join(parts)
    assert max(sizes) <= UNPACKED_BYTES
    assert sink.raw_bytes == len(found)
    assert sink.bytes_written == os.fstat(file).st_size < len(found)


def test_records_are_mended_before_they_are_packed(file):
    def mend(records):
        records[:4] = b"mend"

    sink = CompressedSink(file, mend=mend)
    for part in (b"a" * 64, b"b" * 64):
        sink.append([memoryview(part)[:16], part[16:]])
    unpacker = Unpacker()
    found = b"".join(piece for one in records_of(file) for piece in unpacker.unpack(one))
    assert found == b"mend" + b"a" * 60 + b"mend" + b"b" * 60


def test_it_says_how_it_is_packed(file):
    sink = CompressedSink(file)
    assert sink.compression() == (compressed_sink.LEVEL, 1, UNPACKED_BYTES)
    sink.append([bytes(1 << 20)])
    level, ratio, _ = sink.compression()
    assert (level, ratio > 100) == (compressed_sink.LEVEL, True)


def test_the_bound_is_of_the_file(file):
    sink = CompressedSink(file, 64 << 10)
    sink.append([bytes(1 << 20)])
    with pytest.raises(OSError, match="reached its bound"):
        sink.append([np.random.default_rng(4).bytes(1 << 20)])
    assert sink.bytes_written == os.fstat(file).st_size
