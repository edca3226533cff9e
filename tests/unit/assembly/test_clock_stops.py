"""Throttle and loss records, told clock by clock."""

from __future__ import annotations

import numpy as np

from builders.ticks import clock_table
from prospect.abi import constants as abi
from prospect.assembly.tables.clocks import Clocks, describe_clock_stops
from prospect.events.record_columns import Losses
from prospect.profile.model import STOP_FULL, STOP_THROTTLED

STOP, GO = abi.PERF_RECORD_THROTTLE, abi.PERF_RECORD_UNTHROTTLE
LOST, LOST_SAMPLES = abi.PERF_RECORD_LOST, abi.PERF_RECORD_LOST_SAMPLES
FOREVER = 2**64 - 1
# Two clocks on CPU 0, one on CPU 1.
TABLE = clock_table(
    [(0, 0, 0, 4e6, 0, 1000, 0), (0, 1, 0, 5e6, 0, 1000, 0), (0, 0, 1, 4e6, 0, 1000, 0)]
)
OURS = Clocks(TABLE, (11, 21, 12))


def stops(clocks, *records):
    """Return (kind, clock, begin, end) of records (time, kind, id, cpu)."""
    losses = Losses(
        time_ns=np.array([record[0] for record in records], np.uint64),
        kind=np.array([record[1] for record in records], np.uint8),
        count=np.ones(len(records), np.uint64),
        id=np.array([record[2] for record in records], np.uint64),
        cpu=np.array([record[3] for record in records], np.int32),
    )
    table = describe_clock_stops(clocks, losses)
    columns = (table.kind, table.clock_index, table.begin_ns, table.end_ns)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_throttles_are_paired_clock_by_clock():
    found = stops(OURS, (10, STOP, 11, 0), (15, STOP, 21, 0), (20, GO, 11, 0), (30, GO, 21, 0))
    assert found == [(STOP_THROTTLED, 0, 10, 20), (STOP_THROTTLED, 1, 15, 30)]


def test_throttle_without_an_end_has_none():
    found = stops(OURS, (10, STOP, 12, 1), (20, GO, 11, 0), (25, STOP, 12, 1))
    assert found == [(STOP_THROTTLED, 2, 10, FOREVER)]


def test_a_throttle_whose_end_may_be_lost_lasts_a_tick():
    tick_ns = 10_000_000
    late, end = 10 + 5 * tick_ns, 10 * tick_ns
    table = clock_table([(0, 0, 0, 4e6, 0, end, 0), (0, 0, 1, 4e6, 0, end, 0)])
    ours, lost = Clocks(table, (11, 12)), (late, LOST, 11, 0)
    found = stops(ours, (10, STOP, 11, 0), lost)
    assert found[0] == (STOP_THROTTLED, 0, 10, 10 + tick_ns)
    found = stops(ours, (10, STOP, 11, 0), lost, (late + 9, GO, 11, 0))
    assert found[0] == (STOP_THROTTLED, 0, 10, 10 + tick_ns)
    # Where nothing is lost between, or on another CPU, or sooner than a tick, its end was recorded.
    assert stops(ours, (10, STOP, 11, 0), (20, GO, 11, 0), lost)[0] == (STOP_THROTTLED, 0, 10, 20)
    assert stops(ours, (10, STOP, 12, 1), lost)[0] == (STOP_THROTTLED, 1, 10, FOREVER)
    soon = stops(ours, (10, STOP, 11, 0), (15, LOST, 11, 0), (20, GO, 11, 0))
    assert soon[0] == (STOP_THROTTLED, 0, 10, 20)


def test_clock_throttled_again_has_two_stops():
    found = stops(OURS, *((at, STOP if at % 20 else GO, 11, 0) for at in (10, 20, 30, 40)))
    assert found == [(STOP_THROTTLED, 0, 10, 20), (STOP_THROTTLED, 0, 30, 40)]


def test_loss_is_of_all_clocks_of_its_cpu():
    assert stops(OURS, (50, LOST, 11, 0)) == [(STOP_FULL, 0, 50, 50), (STOP_FULL, 1, 50, 50)]
    assert stops(OURS, (50, LOST_SAMPLES, 0, 1)) == [(STOP_FULL, 2, 50, 50)]


def test_loss_that_does_not_say_its_cpu_is_where_its_clock_is():
    assert stops(OURS, (50, LOST, 12, -1)) == [(STOP_FULL, 2, 50, 50)]


def test_records_of_no_clock_and_of_no_time_say_nothing():
    assert stops(OURS, (50, STOP, 99, 7), (60, LOST, 99, 7), (5000, LOST, 11, 0)) == []


def test_recording_by_perf_has_one_clock_a_cpu():
    table = clock_table([(0, 0, 0, 4e6, 0, 1000, 0), (0, 0, 1, 4e6, 0, 1000, 0)])
    found = stops(Clocks(table, ()), (10, STOP, 5, 1), (20, GO, 5, 1), (30, LOST, 5, 0))
    assert found == [(STOP_THROTTLED, 1, 10, 20), (STOP_FULL, 0, 30, 30)]


def test_no_clocks_have_no_stops():
    assert stops(Clocks(clock_table([]), ()), (10, STOP, 5, 1), (30, LOST, 5, 0)) == []
