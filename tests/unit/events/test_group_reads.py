"""Samples of groups: every member counts where its leader is sampled, as perf delivers them."""

from __future__ import annotations

import numpy as np
import pytest

from builders import perfdata as build
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordBlock
from prospect.events.decode import decode

GROUP_ID = abi.PERF_FORMAT_GROUP | abi.PERF_FORMAT_ID
USER = 2**64 - 512
# Ids of two instances (CPUs) each of a leader and two members.
LEADER, FIRST, SECOND = (11, 12), (21, 22), (31, 32)


def recording(sample_type=build.USUAL | build.READ, read_format=GROUP_ID, flags=0):
    attr = EventAttr(
        sample_type=sample_type, read_format=read_format, flags=abi.FLAG_SAMPLE_ID_ALL | flags
    )
    described = [
        EventDescription(attr._replace(config=config), ids, name)
        for config, (ids, name) in enumerate(((LEADER, "a"), (FIRST, "b"), (SECOND, "c")))
    ]
    return described, build.RecordBuilder(sample_type, read_format=read_format)


def samples_of(described, *records):
    events = decode([RecordBlock(memoryview(b"".join(records)))], described)
    return events, events.samples


def rows_of(samples):
    columns = (samples.time_ns, samples.event, samples.period, samples.ip)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_members_count_what_they_gained_since_their_leaders_last_sample():
    described, make = recording()
    reads = (
        (11, 1, [3, 100, 11, 7, 21, 50, 31]),
        (12, 2, [3, 40, 12, 9, 22, 5, 32]),
        (11, 3, [3, 200, 11, 7, 21, 80, 31]),
        (12, 4, [3, 80, 12, 10, 22, 5, 32]),
    )
    _, samples = samples_of(
        described,
        *(make.sample(ip=t, time=t, id=id_, period=99, read=read) for id_, t, read in reads),
    )
    assert rows_of(samples) == [
        (1, 0, 99, 1),
        (1, 1, 7, 1),
        (1, 2, 50, 1),
        (2, 0, 99, 2),
        (2, 1, 9, 2),
        (2, 2, 5, 2),
        (3, 0, 99, 3),
        (3, 2, 30, 3),
        (4, 0, 99, 4),
        (4, 1, 1, 4),
    ]


def test_times_and_losses_in_a_read_are_passed_over():
    times = abi.PERF_FORMAT_TOTAL_TIME_ENABLED | abi.PERF_FORMAT_TOTAL_TIME_RUNNING
    described, make = recording(read_format=GROUP_ID | times | abi.PERF_FORMAT_LOST)
    read = [2, 1000, 900, 5, 11, 0, 6, 21, 0]
    _, samples = samples_of(described, make.sample(time=1, id=11, period=5, read=read))
    assert rows_of(samples) == [(1, 0, 5, 0), (1, 1, 6, 0)]


def test_inherited_counters_are_those_of_each_thread():
    described, make = recording(flags=abi.FLAG_INHERIT)
    records = [
        make.sample(pid=7, tid=tid, time=time, id=11, read=[2, 1, 11, value, 21])
        for tid, time, value in ((7, 1, 10), (8, 2, 4), (7, 3, 15), (8, 4, 5))
    ]
    _, samples = samples_of(described, *records)
    assert samples.period[samples.event == 1].tolist() == [10, 4, 5, 1]


def test_members_have_their_leaders_chain_registers_and_stack():
    kinds = build.USUAL | build.READ | build.CALLCHAIN | build.REGS_USER | build.STACK_USER
    described, make = recording(kinds)
    described = [
        event._replace(attr=event.attr._replace(sample_regs_user=0b11, sample_stack_user=16))
        for event in described
    ]
    records = [
        make.sample(
            time=time,
            id=11,
            read=[2, 1, 11, 10 * time, 21],
            chain=(USER, time, 5),
            regs_user=registers,
            stack_user=bytes([time]) * 16,
        )
        for time, registers in ((1, (3, 4)), (2, None), (3, (5, 6)))
    ]
    events, samples = samples_of(described, *records)
    assert events.damage == ()
    assert samples.event.tolist() == [0, 1] * 3
    chains = np.split(samples.chain, samples.chain_start[1:-1])
    assert [chain.tolist() for chain in chains] == [[USER, t, 5] for t in (1, 1, 2, 2, 3, 3)]
    assert samples.user.sample.tolist() == [0, 1, 4, 5]
    assert build.register_table(samples.user).tolist() == [[3, 4], [3, 4], [5, 6], [5, 6]]


@pytest.mark.parametrize("count", [3, 1 << 40, 2**64 - 1])
def test_a_group_that_ends_behind_its_sample_is_left_out(count):
    described, make = recording()
    whole = make.sample(time=2, id=11, read=[2, 1, 11, 7, 21])
    cut = make.sample(time=1, id=11, read=[count, 1, 11, 7, 21])
    events, samples = samples_of(described, cut, whole)
    assert events.damage == ("values of groups left out, longer than their record: 1",)
    assert [row[:2] for row in rows_of(samples)] == [(1, 0), (2, 0), (2, 1)]


def test_a_group_of_more_members_than_any_is_left_out():
    described, make = recording()
    read = [65, *(word for _ in range(65) for word in (7, 21))]
    events, samples = samples_of(described, make.sample(id=11, read=read))
    assert samples.event.tolist() == [0]
    assert events.damage


def test_ids_that_no_event_has_are_left_out():
    described, make = recording()
    _, samples = samples_of(described, make.sample(id=11, read=[2, 1, 11, 7, 99]))
    assert samples.event.tolist() == [0]
