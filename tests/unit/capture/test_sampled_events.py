"""Chosen events take the clocks' place: what is said of them, and what of the clocks stays."""

from __future__ import annotations

import errno
import os

import pytest

from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.capture.events import event_opening
from prospect.capture.events.event_choice import (
    CLOCK_LIMITS,
    CLOCK_TIMER,
    SAMPLE_TYPE,
    SCOPE_SYSTEM,
    SIDE_BAND_FLAGS,
    ChosenEvent,
    EventPlan,
)
from prospect.capture.events.event_opening import sampled_bytes_a_second, with_sampled_events
from prospect.capture.events.event_parsing import parse_events
from prospect.capture.events.recorded_callers import sample_bytes
from prospect.errors import CaptureError

BASE = EventAttr(
    sample_period=5_000_000,
    sample_type=SAMPLE_TYPE,
    flags=abi.FLAG_DISABLED | SIDE_BAND_FLAGS | abi.FLAG_INHERIT,
)
PLAN = EventPlan(BASE, (5_000_000,), SCOPE_SYSTEM, CLOCK_TIMER, (CLOCK_LIMITS[0], "another"))
POINT = ChosenEvent("a:b", EventAttr(type=abi.PERF_TYPE_TRACEPOINT, config=7))
PROBE = ChosenEvent("./p:f", EventAttr(type=8, config2=64), path=b"/p")


@pytest.fixture
def opened(monkeypatch):
    """Open everything, and keep what was asked for."""
    asked = []

    def opens(event, pid, cpu, group_fd=-1):
        asked.append((event.name, pid, cpu))
        return os.open(os.devnull, os.O_RDONLY)

    monkeypatch.setattr(event_opening, "open_chosen", opens)
    return asked


def sampled(*events):
    return with_sampled_events(PLAN, events, 200, 4711, 1)


def test_a_leader_that_never_samples_carries_the_other_records(opened):
    plan = sampled(*parse_events("cycles,faults"))
    assert (plan.attr.type, plan.attr.config) == (1, abi.PERF_COUNT_SW_DUMMY)
    assert plan.attr.flags & SIDE_BAND_FLAGS == SIDE_BAND_FLAGS
    assert not any(event.attr.flags & SIDE_BAND_FLAGS for event in plan.beside)
    assert plan.redraw_interval_ns == 0
    assert plan.limits == ("another",)
    assert opened == [("cycles", -1, 1), ("faults", -1, 1)]


def test_clocks_and_counters_have_a_rate_and_the_rest_is_sampled_each_time(opened):
    events = (*parse_events("cycles,cpu-clock,faults,cs/period=9/,cycles/freq=50/"), POINT, PROBE)
    found = [
        (event.attr.sample_period, bool(event.attr.flags & abi.FLAG_FREQ))
        for event in sampled(*events).beside
    ]
    assert found == [
        (200, True),
        (200, True),
        (1, False),
        (9, False),
        (50, True),
        (1, False),
        (1, False),
    ]


def test_a_tracepoint_brings_its_fields_and_a_probe_is_not_inherited(opened):
    point, probe = sampled(POINT, PROBE).beside
    carried = SAMPLE_TYPE | abi.PERF_SAMPLE_PERIOD
    assert point.attr.sample_type == carried | abi.PERF_SAMPLE_RAW
    assert point.attr.flags & abi.FLAG_INHERIT
    assert not probe.attr.flags & abi.FLAG_INHERIT
    assert (probe.attr.config2, probe.path) == (64, b"/p")


@pytest.mark.parametrize(("can_count", "says"), [(True, "use prospect stat"), (False, "not have")])
def test_what_cannot_interrupt_is_told_from_what_is_not_there(monkeypatch, can_count, says):
    def opens(event, pid, cpu, group_fd=-1):
        if event.attr.sample_period or not can_count:
            raise OSError(errno.EINVAL, "no")
        return os.open(os.devnull, os.O_RDONLY)

    monkeypatch.setattr(event_opening, "open_chosen", opens)
    with pytest.raises(CaptureError, match=says):
        sampled(*parse_events("cycles"))


def test_a_probe_is_opened_by_its_descriptor(monkeypatch, tmp_path):
    program = tmp_path / "program"
    program.write_bytes(b"x")
    seen = []

    def opens(packed, pid, cpu, group_fd=-1):
        attr = EventAttr.unpack(packed)
        seen.append(event_opening.ctypes.string_at(attr.config1))
        return os.open(os.devnull, os.O_RDONLY)

    monkeypatch.setattr(event_opening.perf_syscalls, "perf_event_open", opens)
    event = PROBE._replace(path=os.fsencode(program))
    os.close(event_opening.open_chosen(event, -1, 0))
    assert seen[0].startswith(b"/proc/self/fd/")


@pytest.mark.parametrize(
    ("events", "samples_hz"),
    [
        ("page-faults", 100_000),
        ("page-faults,context-switches", 200_000),
        ("page-faults/period=100/", 1000),
        ("cpu-clock", 200),
        ("cpu-clock/period=1000000/", 4000),
        ("cpu-clock/period=1/", 100_000),
        ("page-faults/freq=50/", 50),
    ],
)
def test_rings_have_room_for_events_that_come_as_often_as_programs_entry_reason_them(
    opened, events, samples_hz
):
    beside = sampled(*parse_events(events)).beside
    assert sampled_bytes_a_second(beside) == samples_hz * sample_bytes(beside[0].attr)
