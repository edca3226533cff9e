"""Records of BPF programs that the kernel wrote too large are as they ought to be."""

from __future__ import annotations

import mmap
import os
import struct

import pytest

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.perfdata.program_records import mend_program_records

EVENT = EventDescription(
    EventAttr(
        sample_type=abi.PERF_SAMPLE_IDENTIFIER | abi.PERF_SAMPLE_TID | abi.PERF_SAMPLE_TIME,
        flags=abi.FLAG_SAMPLE_ID_ALL,
    ),
    (77,),
    "cpu-clock",
)
TAIL = struct.pack("<IIQQ", 5, 6, 1234, 77)


def symbol(name=b"bpf_prog_00ff_walk", more=0, tail=TAIL):
    padded = name.ljust(-(-(len(name) + 1) // 8) * 8, b"\0")
    body = struct.pack("<QIHH", 0xFFFFFFFFC0000000, 64, 1, 0) + padded
    size = 8 + len(body) + len(tail) + more
    return struct.pack("<IHH", abi.PERF_RECORD_KSYMBOL, 0, size) + body + tail + b"\x11" * more


def program(more=0):
    body = struct.pack("<HHIQ", 1, 0, 9, 0xABCDEF)
    size = 8 + len(body) + len(TAIL) + more
    return struct.pack("<IHH", abi.PERF_RECORD_BPF_EVENT, 0, size) + body + TAIL + b"\x22" * more


def mended(data, events=(EVENT,)):
    fd = os.memfd_create("recording", os.MFD_CLOEXEC)
    try:
        os.write(fd, data)
        with mmap.mmap(fd, 0) as data_map:
            count = mend_program_records(data_map, 0, events)
        return count, os.pread(fd, len(data) + 1, 0)
    finally:
        os.close(fd)


@pytest.mark.parametrize("name", [b"bpf_trampoline_6442536467", b"bpf_dispatcher_xdp"])
def test_what_calls_programs_is_mended_too(name):
    count, found = mended(symbol(name, more=32))
    assert (count, found[-len(TAIL) :]) == (1, TAIL)


def test_the_tail_stands_at_the_end_again():
    other = struct.pack("<IHH", abi.PERF_RECORD_LOST, 0, 8)
    count, found = mended(other + symbol(more=64) + other + program(more=32) + other)
    assert count == 2
    for size_of, whole in ((symbol(more=64), symbol()), (program(more=32), program())):
        begin = found.index(size_of[:8])
        record = found[begin : begin + len(size_of)]
        body = len(whole) - len(TAIL)
        assert record[:body] == size_of[:body]
        assert (
            record
            == whole[:body]
            .replace(whole[:8], size_of[:8], 1)
            .ljust(len(size_of) - len(TAIL), b"\0")
            + TAIL
        )


@pytest.mark.parametrize(
    "data",
    [
        symbol() + program(),
        symbol(more=64, tail=TAIL[:-8] + bytes(8)),  # of no event of the recording
        b"x" * 24 + b"bpf_prog_ in a copy of a stack" + bytes(30),
        b"bpf_prog_",
        symbol(more=64)[:-8],
    ],
)
def test_all_else_stays_as_it_is(data):
    assert mended(data) == (0, data)


def sample(payload):
    """A sample with a copy of a stack in it."""
    body = TAIL[-8:] + TAIL[:-8] + payload
    return struct.pack("<IHH", abi.PERF_RECORD_SAMPLE, 0, 8 + len(body)) + body


def test_what_a_program_has_on_its_stack_is_no_record():
    made_up = struct.pack("<IHHQIHH", abi.PERF_RECORD_KSYMBOL, 0, 65528, 0, 64, 1, 0)
    made_up += b"bpf_prog".ljust(16, b"\0") + TAIL
    data = sample(made_up) + sample(bytes(64)) * 2000
    assert mended(data) == (0, data)
    behind = symbol(more=64) + program(more=32)
    count, found = mended(data + behind)
    assert count == 2
    assert found[: len(data)] == data


@pytest.mark.parametrize("name", [b"bpf_" + b"x" * 700, b"bpf_" + b"x" * 20])
def test_a_name_without_an_end_is_none(name):
    body = struct.pack("<QIHH", 0, 64, 1, 0) + name.ljust(-(-len(name) // 8) * 8, b"x")
    record = struct.pack("<IHH", abi.PERF_RECORD_KSYMBOL, 0, 8 + len(body)) + body
    data = TAIL + record
    assert mended(data) == (0, data)


def test_many_such_names_on_stacks_hide_no_record():
    data = sample(b"bpf_" * 12_000) + symbol(more=64)
    count, found = mended(data)
    assert count == 1
    assert found[-len(TAIL) :] == TAIL
