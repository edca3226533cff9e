"""Recordings that arrive from elsewhere are mended here; those that leave are not touched."""

from __future__ import annotations

import os
import struct

import pytest

from builders.perfdata import FileBuilder, RecordBuilder
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.recording.mending import mend_file, mend_in_memory, mend_records
from prospect.target.agent import Watched

KINDS = abi.PERF_SAMPLE_IDENTIFIER | abi.PERF_SAMPLE_TID | abi.PERF_SAMPLE_TIME
EVENT = EventDescription(
    EventAttr(sample_type=KINDS, flags=abi.FLAG_SAMPLE_ID_ALL), (77,), "cpu-clock"
)
TAIL = struct.pack("<IIQQ", 5, 6, 1234, 77)


def symbol(more):
    body = struct.pack("<QIHH", 0xFFFFFFFFC0000000, 64, 1, 0) + b"bpf_prog".ljust(16, b"\0") + TAIL
    size = 8 + len(body) + more
    return struct.pack("<IHH", abi.PERF_RECORD_KSYMBOL, 0, size) + body + b"\x11" * more


def mended(content):
    fd = os.memfd_create("recording", os.MFD_CLOEXEC)
    try:
        os.write(fd, content)
        mend_file(fd)
        return os.pread(fd, len(content) + 1, 0)
    finally:
        os.close(fd)


def test_the_records_of_a_whole_file_are_mended_and_nothing_else():
    build = RecordBuilder(KINDS)
    comm = build.comm(5, 5, "work", time=1, id=77)
    broken = FileBuilder([EVENT], [comm, symbol(32), comm]).file()
    found = mended(broken)
    at = broken.index(symbol(32))
    assert found[at : at + len(symbol(32))].endswith(bytes(32) + TAIL)
    assert found[:at] == broken[:at]
    assert found[at + len(symbol(32)) :] == broken[at + len(symbol(32)) :]


def test_all_kinds_are_mended_in_memory_before_records_are_packed():
    build = RecordBuilder(KINDS)
    tail = {"time": 1, "id": 77}
    mapping = build.mmap2(5, 5, 0x1000, 0x1000, "/lib/c", **tail)
    leaked = build.mmap2(5, 5, 0x1000, 0x1000, "/lib/c", misc=0x4002, **tail)
    foreign, own = (build.sample(pid=5, tid=5, time=2, id=number) for number in (4711, 80))
    # What looks like a mapping with the bit in the contents of another record stays.
    lookalike = build.side(21, leaked, **tail)
    records = bytearray(lookalike + leaked + foreign + symbol(32) + mapping + own)
    switches = EVENT.attr._replace(config=abi.PERF_COUNT_SW_CONTEXT_SWITCHES)
    mend_in_memory(records, [EVENT, EventDescription(switches, (80,), "context-switches")])
    symbol_at = len(lookalike + mapping + own)
    assert records[:symbol_at] == lookalike + mapping + own
    assert records[symbol_at : symbol_at + len(symbol(32))].endswith(bytes(32) + TAIL)
    assert records[symbol_at + len(symbol(32)) :] == mapping + own


@pytest.mark.parametrize("records", [b"", b"\x0a\0\0\0\0\x40\0\0", bytes(64)])
def test_what_cannot_be_mended_in_memory_stays(records):
    left = bytearray(records)
    mend_in_memory(left, [EVENT])
    assert left == records


@pytest.mark.parametrize("content", [b"", b"PERFILE2", b"no recording at all" * 50])
def test_what_is_no_recording_stays_as_it_is(content):
    assert mended(content) == content


def test_without_records_there_is_nothing_to_mend():
    fd = os.memfd_create("recording", os.MFD_CLOEXEC)
    try:
        mend_records(fd, 0, 0, [EVENT])
        os.write(fd, symbol(32))
        mend_records(fd, len(symbol(32)), len(symbol(32)), [EVENT])
        mend_records(fd, 0, 2 * len(symbol(32)), [EVENT])  # it is cut
        assert os.pread(fd, 1000, 0) == symbol(32)
        mend_records(fd, 0, len(symbol(32)), [EVENT])
        assert os.pread(fd, 1000, 0) != symbol(32)
    finally:
        os.close(fd)


def test_a_target_leaves_what_it_has_sent_alone(tmp_path):
    with (tmp_path / "r").open("w+b") as file:
        assert not Watched(file.fileno(), -1).sink(file.fileno(), 0).keeps_records
