"""Waits that perf's --off-cpu writes: their raw data says who waited, since when, and where."""

from __future__ import annotations

import struct

import pytest

from builders import perfdata
from builders.perfdata import RecordBuilder
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordBlock
from prospect.events.decode import decode

KINDS = perfdata.IDENTIFIER | perfdata.IP | perfdata.TID | perfdata.TIME | perfdata.PERIOD
CLOCK_KINDS, WAIT_KINDS = KINDS | perfdata.CALLCHAIN, KINDS | perfdata.RAW
CLOCK = EventDescription(
    EventAttr(type=1, config=0, sample_type=CLOCK_KINDS, flags=1 << 18), (7,), "cpu-clock"
)
WAIT = EventDescription(
    EventAttr(type=1, config=10, sample_type=WAIT_KINDS, flags=1 << 18), (8,), "offcpu-time"
)
MAKE = RecordBuilder(CLOCK_KINDS)
MAKE_WAIT = RecordBuilder(WAIT_KINDS)
USER = abi.PERF_CONTEXT_USER % 2**64
TIMELESS = abi.PERF_OFF_CPU_TIMESTAMP + 1


def raw(pid, tid, waited_ns, chain, *, count=None):
    count = len(chain) if count is None else count
    return struct.pack(f"<IIQQ{len(chain)}QQ", pid, tid, waited_ns, count, *chain, 99)


def decoded(*waits, names=(CLOCK, WAIT)):
    ran = MAKE.sample(id=7, ip=0x100, pid=10, tid=11, time=1000, chain=[USER, 0x100, 0x200])
    # The kernel gives the sample to the task that runs as it is written.
    records = [
        MAKE_WAIT.sample(id=8, ip=0x900, pid=66, tid=66, time=time, raw=data, misc=1)
        for time, data in waits
    ]
    return decode([RecordBlock(memoryview(b"".join([ran, *records])))], names)


def rows_of(samples):
    return [
        (int(task) & 0xFFFF_FFFF, int(task) >> 32, int(time), int(period), int(ip), int(mode))
        for task, time, period, ip, mode in zip(
            samples.task, samples.time_ns, samples.period, samples.ip, samples.mode, strict=True
        )
    ]


def test_the_task_that_waited_has_the_sample_and_its_stack():
    found = decoded((900, raw(10, 12, 5000, [USER, 0x300, 0x400]))).samples
    assert rows_of(found)[1] == (10, 12, 900, 5000, 0x300, 2)
    chains = [
        found.chain[a:b].tolist()
        for a, b in zip(found.chain_start[:-1], found.chain_start[1:], strict=True)
    ]
    assert chains == [[USER, 0x100, 0x200], [USER, 0x300, 0x400]]
    assert found.data is None


def test_waits_without_a_time_are_at_the_end_of_the_recording():
    found = decoded((TIMELESS, raw(10, 11, 5, [USER, 0x300]))).samples
    assert rows_of(found)[1] == (10, 11, 1000, 5, 0x300, 2)


def test_ids_in_the_wrong_order_are_exchanged_where_that_task_is_known():
    found = decoded((900, raw(11, 10, 5, [USER, 1])), (900, raw(31, 30, 5, [USER, 1]))).samples
    assert [row[:2] for row in rows_of(found)[1:]] == [(10, 11), (31, 30)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        raw(10, 11, 5, [])[:24],
        raw(10, 11, 5, [USER, 1], count=3),
        raw(10, 11, 5, [USER, 1], count=2**64 - 1),
    ],
)
def test_damaged_raw_data_leaves_the_sample_as_it_is(data):
    assert rows_of(decoded((900, data)).samples)[1] == (66, 66, 900, 1, 0x900, 1)


def test_a_wait_without_addresses_has_none():
    found = decoded((900, raw(10, 11, 5, [USER])), (900, raw(10, 11, 5, []))).samples
    assert [row[4] for row in rows_of(found)] == [0x100, 0, 0]


def test_other_events_of_bpf_programs_keep_their_tasks():
    other = WAIT._replace(name="mine")
    found = decoded((900, raw(10, 12, 5, [USER, 1])), names=(CLOCK, other)).samples
    assert rows_of(found)[1] == (66, 66, 900, 1, 0x900, 1)
