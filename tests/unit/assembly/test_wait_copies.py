"""Copies of stacks of switches are put together from pieces that are recorded once each."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from builders import perfdata as build
from builders.sources import CLOCK, BuiltSource
from prospect.abi import constants as abi
from prospect.abi.attr import EventDescription
from prospect.abi.recorded_facts import RecordingInfo
from prospect.assembly.threads import wait_copies
from prospect.assembly.threads.waits import with_copies_of_waits
from prospect.events.decode import decode

SWITCH_ID = 31
REGISTERS = 1 << 7 | 1 << 8  # sp, ip
SWITCH = CLOCK.attr._replace(
    type=abi.PERF_TYPE_SOFTWARE,
    config=abi.PERF_COUNT_SW_CONTEXT_SWITCHES,
    sample_period=1,
    sample_type=CLOCK.attr.sample_type | abi.PERF_SAMPLE_RAW | abi.PERF_SAMPLE_REGS_USER,
    sample_regs_user=REGISTERS,
    sample_stack_user=1024,
)
EVENTS = (CLOCK, EventDescription(SWITCH, (SWITCH_ID,), "context-switches"))
PIECE = 512


def switch(time, sp, *words, pieces=()):
    builder = build.RecordBuilder(SWITCH.sample_type)
    raw = struct.pack(f"<{len(words)}Q", *words) + b"".join(bytes([p]) * PIECE for p in pieces)
    place = {"time": time, "id": SWITCH_ID, "pid": 5, "tid": 5}
    return builder.sample(**place, raw=raw, regs_user=(sp, 0x1000))


def tick(time):
    return build.RecordBuilder(CLOCK.attr.sample_type).sample(time=time, id=CLOCK.ids[0])


def put_together(records, events=EVENTS):
    source = BuiltSource(records, RecordingInfo(arch="x86_64", events=events))
    return with_copies_of_waits(decode(source.blocks(), events, []), source.info)


def copies(events):
    """Return the copy of each sample that has registers, as pairs of a byte and its number."""
    states = events.samples.user
    found = []
    for block, begin, size in zip(
        states.stack_block, states.stack_begin, states.stack_bytes, strict=True
    ):
        copy = states.blocks[block][begin : begin + size] if size else np.zeros(0, np.uint8)
        found.append([(int(byte), int((copy == byte).sum())) for byte in dict.fromkeys(copy)])
    return found


def test_a_sample_has_the_pieces_that_others_recorded():
    # The rings of two CPUs are read in turn: pieces may come after samples that have them.
    records = [
        switch(1, 0x7010, 9),
        tick(2),
        switch(3, 0x7010, 9, 0x20 | 1, 0x30, 0, pieces=[2]),
        switch(4, 0x7200, 11, 0x30 | 1, 0x50 | 1, 0x60 | 1, pieces=[3, 5, 6]),
        switch(5, 0x7008, 13, 0x40 | 1, 0x30, 0x50, pieces=[4]),
    ]
    events = put_together(records)
    assert events.samples.data is None
    assert events.samples.user.sample.tolist() == [0, 2, 3, 4]
    first = [(2, PIECE - 0x10), (3, PIECE)]
    assert copies(events) == [
        first,
        first,
        [(3, PIECE), (5, PIECE), (6, PIECE)],
        [(4, PIECE - 8), (3, PIECE), (5, PIECE)],
    ]


def test_a_copy_ends_at_a_piece_that_is_missing():
    records = [
        switch(1, 0x7000, 9, 0x20 | 1, 0x30, 0x20, pieces=[2]),
        switch(2, 0x7000, 11),
        switch(3, 0x7000, 13, 0, 0, 0),
    ]
    assert copies(put_together(records)) == [[(2, PIECE)], [], []]


@pytest.mark.parametrize(
    "damaged",
    [
        switch(2, 0x7000, 11, 0x20 | 1, 0x40 | 1, 0, pieces=[7]),  # one piece of two
        switch(2, 0x7000, 11, 0x20, 0, 0, pieces=[7, 8]),
        switch(2, 0x7000),
        switch(2, 0x7004, 9),  # not at a word
    ],
)
def test_damaged_data_gives_no_copy(damaged):
    records = [switch(1, 0x7000, 9, 0x20 | 1, 0, 0, pieces=[2]), damaged]
    assert copies(put_together(records)) == [[(2, PIECE)], []]


@pytest.mark.parametrize("most", [0, 3 * PIECE])
def test_more_copies_than_there_is_room_for_are_left_out(monkeypatch, most):
    monkeypatch.setattr(wait_copies, "MOST_COPIED_BYTES", most)
    records = [
        switch(1, 0x7000, 9, 0x20 | 1, 0, 0, pieces=[2]),
        switch(2, 0x7000, 11, 0x30 | 1, 0, 0, pieces=[3]),
    ]
    assert copies(put_together(records)) == ([[(2, PIECE)], []] if most else [[], []])


def test_copies_beyond_what_memory_is_for_are_in_a_file(monkeypatch):
    monkeypatch.setattr(wait_copies, "_HELD_BYTES", PIECE)
    records = [switch(1, 0x7000, 9, 0x20 | 1, 0x30 | 1, 0, pieces=[2, 3])]
    assert copies(put_together(records)) == [[(2, PIECE), (3, PIECE)]]


def test_keys_that_no_stack_has_lead_nowhere():
    events = put_together([tick(1), switch(2, 0x7000, 9)])
    assert copies(events) == [[]]
    assert events.samples.data is None


def test_other_recordings_stay_as_they_are():
    plain = SWITCH._replace(sample_stack_user=0)
    alone = (CLOCK, EventDescription(plain, (SWITCH_ID,), "context-switches"))
    events = put_together([tick(1), switch(2, 0x7000, 9)], alone)
    assert copies(events) == [[]]
