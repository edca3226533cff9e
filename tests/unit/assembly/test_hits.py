"""Losses by CPU, from records and from the recorder's counters."""

from __future__ import annotations

import time

from builders import perfdata as build
from builders.sources import CLOCK, CLOCK_ID
from prospect.abi import constants as abi
from prospect.abi.recorded_facts import RecordBlock, RecordingInfo
from prospect.assembly.tables.hit_tables import describe_losses
from prospect.events.decode import decode

RECORDS = build.RecordBuilder()


def losses_of(records, by_cpu=None):
    events = decode([RecordBlock(memoryview(b"".join(records)))], (CLOCK,))
    info = RecordingInfo(events=(CLOCK,), extras={"lost_by_cpu": by_cpu})
    table = describe_losses(events, info)
    columns = (table.cpu, table.lost, table.throttled)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_losses_add_up_by_cpu_and_throttling_is_counted_once_each_time():
    records = [
        RECORDS.lost(CLOCK_ID, 3, cpu=1, time=1),
        RECORDS.lost(CLOCK_ID, 4, cpu=1, time=2),
        RECORDS.lost_samples(5, cpu=2, time=3),
        RECORDS.throttle(4, CLOCK_ID, cpu=0),
        RECORDS.throttle(5, CLOCK_ID, undo=True, cpu=0),
        RECORDS.throttle(6, CLOCK_ID, undo=True, cpu=3),
    ]
    assert losses_of(records) == [(0, 0, 1), (1, 7, 0), (2, 5, 0)]


def test_sums_of_events_without_samples_are_no_lost_samples():
    dummy = CLOCK._replace(
        attr=CLOCK.attr._replace(type=1, config=abi.PERF_COUNT_SW_DUMMY), ids=(CLOCK_ID + 1,)
    )
    records = [
        RECORDS.lost_samples(n, id=number) for n, number in ((5, CLOCK_ID), (9, CLOCK_ID + 1))
    ]
    events = decode([RecordBlock(memoryview(b"".join(records)))], (CLOCK, dummy))
    table = describe_losses(events, RecordingInfo(events=(CLOCK, dummy)))
    assert table.lost.tolist() == [5]


def test_the_counters_win_where_they_say_more():
    records = [RECORDS.lost(CLOCK_ID, 3, cpu=cpu, time=1) for cpu in (0, 1)]
    assert losses_of(records, {"0": 10, "1": 2, "5": 1, "6": 0}) == [
        (0, 10, 0),
        (1, 3, 0),
        (5, 1, 0),
    ]


def test_a_damaged_count_is_large_and_no_error():
    records = [RECORDS.lost(CLOCK_ID, (1 << 64) - 1, cpu=0, time=t) for t in (1, 2)]
    ((_, lost, _),) = losses_of(records)
    assert lost >= 1 << 62


def test_as_many_cpus_as_records_cost_one_pass():
    records = [RECORDS.throttle(time_ns, CLOCK_ID, cpu=time_ns) for time_ns in range(100_000)]
    began_s = time.process_time()
    assert len(losses_of(records)) == 100_000
    assert time.process_time() - began_s < 2.5
