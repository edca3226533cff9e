"""Samples of switches without a copy of their stack have that of another one with their key."""

from __future__ import annotations

import struct

import numpy as np

from builders import perfdata as build
from builders.sources import CLOCK, BuiltSource
from prospect.abi import constants as abi
from prospect.abi.attr import EventDescription
from prospect.abi.recorded_facts import RecordingInfo
from prospect.assembly.threads.waits import with_one_switch_event
from prospect.events.decode import decode

COPIED_ID, PLAIN_ID = 31, 32
REGISTERS = 1 << 7 | 1 << 8  # sp, ip
COPIED = CLOCK.attr._replace(
    type=abi.PERF_TYPE_SOFTWARE,
    config=abi.PERF_COUNT_SW_CONTEXT_SWITCHES,
    sample_period=1,
    sample_type=CLOCK.attr.sample_type
    | abi.PERF_SAMPLE_RAW
    | abi.PERF_SAMPLE_REGS_USER
    | abi.PERF_SAMPLE_STACK_USER,
    sample_regs_user=REGISTERS,
    sample_stack_user=32,
)
PLAIN = COPIED._replace(
    sample_type=CLOCK.attr.sample_type | abi.PERF_SAMPLE_RAW,
    sample_regs_user=0,
    sample_stack_user=0,
)
KEY = ((0, 8),)
EVENTS = (
    CLOCK,
    EventDescription(COPIED, (COPIED_ID,), "context-switches", KEY),
    EventDescription(PLAIN, (PLAIN_ID,), "context-switches", KEY),
)


def copied(time, key, sp):
    builder = build.RecordBuilder(COPIED.sample_type)
    raw, stack = struct.pack("<q", key), bytes([time]) * 32
    place = {"time": time, "id": COPIED_ID, "pid": 5, "tid": 5}
    return builder.sample(**place, raw=raw, regs_user=(sp, 0x1000), stack_user=stack)


def plain(time, key):
    builder = build.RecordBuilder(PLAIN.sample_type)
    return builder.sample(time=time, id=PLAIN_ID, pid=5, tid=5, raw=struct.pack("<q", key))


def tick(time):
    return build.RecordBuilder(CLOCK.attr.sample_type).sample(time=time, id=CLOCK.ids[0])


def joined(records, events=EVENTS):
    source = BuiltSource(records, RecordingInfo(arch="x86_64", events=events))
    return with_one_switch_event(decode(source.blocks(), events, []), source.info)


def test_a_sample_has_the_copy_of_its_key():
    # The rings of two CPUs are read in turn: a copy may come after a sample that has it.
    records = [plain(1, -7), tick(2), copied(3, 9, 0x90), plain(4, 9), copied(5, -7, 0x70)]
    events, info = joined([*records, plain(6, -7), plain(7, 8)])
    samples, states = events.samples, events.samples.user
    assert [event.ids for event in info.events] == [CLOCK.ids, (COPIED_ID, PLAIN_ID)]
    assert samples.event.tolist() == [1, 0, 1, 1, 1, 1, 1]
    assert samples.time_ns.tolist() == list(range(1, 8))
    assert states.sample.tolist() == [0, 2, 3, 4, 5]
    assert states.register(7, np.arange(5)).tolist() == [0x70, 0x90, 0x90, 0x70, 0x70]
    assert states.stack_bytes.tolist() == [32] * 5
    first = [
        int(states.blocks[block][begin])
        for block, begin in zip(states.stack_block, states.stack_begin, strict=True)
    ]
    assert first == [5, 3, 3, 5, 5]


def test_keys_that_no_copy_has_lead_nowhere():
    events, info = joined([tick(1), plain(2, 9)])
    assert events.samples.user is None
    assert events.samples.event.tolist() == [0, 1]
    assert len(info.events) == 2


def test_other_recordings_stay_as_they_are():
    alone = (CLOCK, EVENTS[1]._replace(fields=()), EVENTS[2]._replace(fields=()))
    events, info = joined([tick(1), copied(2, 9, 0x90)], alone)
    assert info.events == alone
    assert events.samples.event.tolist() == [0, 1]
