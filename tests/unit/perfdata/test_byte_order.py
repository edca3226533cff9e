"""Samples with every field before the user stack, written big-endian and mended."""

from __future__ import annotations

import pytest

from builders import perfdata as build
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.perfdata import byteorder
from prospect.perfdata.byteorder import to_little_endian

EVERYTHING = (1 << 14) - 1 | build.IDENTIFIER
FULL = {
    "ip": 0x0102030405060708,
    "pid": 1,
    "tid": -1,
    "time": 5,
    "cpu": 3,
    "id": 10,
    "chain": [abi.PERF_CONTEXT_KERNEL, 0x1122, 0x3344],
    "raw": b"raw bytes of a tracepoint",
    "branches": [(1, 2, 3), (4, 5, 6)],
    "regs_user": [7, 8, 9],
    "stack_user": b"the bytes of a stack",
}


def event(**attr):
    attr = {"sample_type": EVERYTHING, "sample_regs_user": 0b111, "flags": 1 << 18} | attr
    return EventDescription(EventAttr(**attr), (10,))


@pytest.mark.parametrize(
    ("read_format", "read"),
    [
        (0, [1]),
        (0b10111, [1, 2, 3, 4, 5]),
        (0b01000, [2, 11, 22]),
        (0b11111, [2, 2, 3, *(4, 5, 6), *(7, 8, 9)]),
        (0b01100, [3, *(4, 5), *(6, 7), *(8, 9)]),
    ],
)
def test_all_fields_stand_where_their_predecessors_end(read_format, read):
    little, big = (
        build.RecordBuilder(EVERYTHING, order, read_format=read_format).sample(**FULL, read=read)
        for order in "<>"
    )
    assert to_little_endian(big * 3, [event(read_format=read_format)]) == little * 3


def test_events_that_differ_only_in_their_read_format_are_told_apart():
    events = [event(), event(read_format=8)._replace(ids=(11,))]
    little, big = (
        build.RecordBuilder(EVERYTHING, order).sample(**FULL, read=[1])
        + build.RecordBuilder(EVERYTHING, order).sample(**FULL | {"id": 11}, read=[3, 1, 2, 3])
        for order in "<>"
    )
    assert to_little_endian(big, events) == little


def test_events_that_have_no_samples_cost_none_a_look(monkeypatch):
    looks = []
    mend = byteorder._mend_samples
    monkeypatch.setattr(
        byteorder, "_mend_samples", lambda *args: looks.append(len(args[2])) or mend(*args)
    )
    # Each has samples of another layout, so that they are told apart by their ids.
    events = [event(read_format=8 * (n % 2))._replace(ids=(n,)) for n in range(1000)]
    little, big = (
        b"".join(
            build.RecordBuilder(EVERYTHING, order).sample(**FULL | {"id": n}, read=read)
            for n, read in ((700, [1]), (3, [3, 1, 2, 3]), (700, [2]))
        )
        for order in "<>"
    )
    assert to_little_endian(big, events) == little
    assert sorted(looks) == [1, 2]


def test_counts_beyond_the_record_change_nothing_outside_it():
    big = bytearray(build.RecordBuilder(EVERYTHING, ">").sample(**FULL, read=[1]))
    good = build.RecordBuilder(EVERYTHING, ">").sample(**FULL, read=[1])
    little = build.RecordBuilder(EVERYTHING).sample(**FULL, read=[1])
    for at in range(8, len(big), 8):
        broken = bytearray(big)
        broken[at : at + 8] = b"\xff" * 8
        mended = to_little_endian(good + broken + good, [event()])
        assert mended[: len(little)] == mended[-len(little) :] == little
