"""Samples of switches that another profiler's event prepared keep their event and their time."""

from __future__ import annotations

import numpy as np
import pytest

from builders.sources import CLOCK, CLOCK_ID, BuiltSource
from builders.switches import FAULTS, RECORDS, SWITCH, SWITCH_ID
from prospect.abi import constants as abi
from prospect.abi.recorded_facts import RecordingInfo
from prospect.events.decode import decode

FOREIGN_ID = 4_000
# The other profiler's clock is behind ours by so much.
APART = 7_000_000_000
BEGIN = 20_000_000_000
SAMPLED = SWITCH._replace(
    attr=SWITCH.attr._replace(flags=SWITCH.attr.flags | abi.FLAG_CONTEXT_SWITCH)
)


def sampled(time, tid, event_id):
    return RECORDS.sample(time=time, pid=5, tid=tid, ip=0x40, id=event_id, period=1)


def decoded(records, *events):
    source = BuiltSource(list(records), RecordingInfo(events=events))
    return decode(source.blocks(), events, [])


def out(time, tid):
    return RECORDS.switch(out=True, other=(0, 0), pid=5, tid=tid, time=time)


@pytest.mark.parametrize("event_id", [FOREIGN_ID, SWITCH_ID])
def test_the_record_of_the_switch_has_the_time(event_id):
    """Perf's event may have no id of its own to lend, and lends its time all the same."""
    records = [
        sampled(BEGIN - APART, 6, event_id),
        out(BEGIN + 900, 6),
        sampled(BEGIN + 2_000, 7, SWITCH_ID),
        out(BEGIN + 3_000, 7),
    ]
    events = decoded(records, CLOCK, SAMPLED)
    assert events.damage == ()
    assert events.samples.event.tolist() == [1, 1]
    assert events.samples.time_ns.tolist() == [BEGIN + 900, BEGIN + 2_000]


def test_where_the_next_record_is_of_somebody_else_the_clocks_differ_as_elsewhere():
    records = [
        sampled(BEGIN - APART, 6, FOREIGN_ID),
        out(BEGIN + 1_000, 6),
        sampled(BEGIN + 5_000 - APART, 7, FOREIGN_ID),
        out(BEGIN + 9_000, 8),
        # Its own id and its own time, and the ring was emptied behind it.
        sampled(BEGIN + 6_000, 9, SWITCH_ID),
    ]
    events = decoded(records, CLOCK, SAMPLED)
    assert events.samples.time_ns.tolist() == [BEGIN + 1_000, BEGIN + 6_000, BEGIN + 6_000]


def test_times_of_the_clock_stay():
    records = [RECORDS.sample(time=BEGIN, pid=5, tid=6, ip=1, id=CLOCK_ID, period=1), out(1, 6)]
    events = decoded(records, CLOCK, SAMPLED)
    assert events.samples.time_ns.tolist() == [BEGIN]


def test_an_unknown_id_is_damage_where_two_events_may_have_been_meant():
    events = decoded([sampled(BEGIN, 6, FOREIGN_ID)], CLOCK, SAMPLED, FAULTS)
    assert len(events.samples) == 0
    assert events.damage == ("samples left out, with an id that no event has: 1",)


def test_an_unknown_id_is_damage_where_only_clocks_are_sampled():
    other = CLOCK._replace(ids=(77,), attr=CLOCK.attr._replace(config=abi.PERF_COUNT_SW_TASK_CLOCK))
    events = decoded([sampled(BEGIN, 6, FOREIGN_ID)], CLOCK, other)
    assert np.array_equal(events.samples.event, [])
    assert events.damage
