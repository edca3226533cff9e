"""What a recording says of its timers → which clock took a sample, and when each clock ran.

Comes in: `abi.recording.RecordingInfo`, whose `extras` anybody may have written. Goes out: the
clock of each event id, for `events.decode`, and the clocks of a profile, for which `clock_stops`
finds out when they stood still.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.extras import by_number, counts_of, is_i32, mapping_of
from prospect.columns.sorting import distinct, run_starts
from prospect.profile.model import NO_CPU, ClockTable
from prospect.records import NamedTuple, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.abi.attr import EventAttr
    from prospect.abi.recording import RecordingInfo
    from prospect.events.columns import Events
    from prospect.profile.run_info import RunInfo

# `Samples.clock` has 8 bits; no recorder of ours has more than a few.
_MOST_CLOCKS = 64
_NS_PER_S = 1_000_000_000
_LARGEST_I64 = (1 << 63) - 1


class Clocks(NamedTuple):
    """The clocks of a profile, and the event id of each row; no ids where a CPU has one clock."""

    table: ClockTable
    ids: tuple[int, ...]


class _Row(NamedTuple):
    """One row of a `ClockTable`."""

    event: int
    clock: int
    cpu: int
    period_ns: float
    begin_ns: int
    end_ns: int
    lost: int


class _Clock(NamedTuple):
    """A clock of the bank: its period, and the ids of its events with their CPUs."""

    period_ns: int
    ids: tuple[int, ...]
    cpus: tuple[int, ...]


def clock_of_id(info: RecordingInfo) -> dict[int, int]:
    """Return id → position of its clock in the bank; empty where the recording has no bank."""
    return {
        event_id: position for position, clock in enumerate(_bank(info)) for event_id in clock.ids
    }


def clock_count(info: RecordingInfo) -> int:
    """Return how many clocks count the same time, at least 1."""
    return max(len(_bank(info)), 1)


def with_clock_periods(events: Events, info: RecordingInfo) -> Events:
    """Give each sample of a bank the period of its own clock, where it carries none itself.

    The attributes of such a bank have the period of all clocks together, for readers that add
    periods up and know nothing of clocks.
    """
    bank = _bank(info)
    if len(bank) < 2 or not _timer_period_ns(info.events[0].attr):
        return events
    attr, samples = info.events[0].attr, events.samples
    if attr.sample_type & abi.PERF_SAMPLE_PERIOD:
        return events
    # Without ids the clocks cannot be told apart; they have this period on average.
    common_ns = min(attr.sample_period * len(bank), _LARGEST_I64)
    periods = [clock.period_ns if clock.ids else common_ns for clock in bank]
    period = np.array(periods, np.uint64).take(samples.clock)
    if len(info.events) > 1:
        period = np.where(samples.event == 0, period, samples.period)
    return replace(events, samples=replace(samples, period=period))


def describe_clocks(info: RecordingInfo, events: Events, run: RunInfo) -> Clocks:
    """Return when which timer ran on which CPU; empty where no fixed grid is known."""
    if not (run.system_wide and run.end_ns > run.begin_ns and info.events):
        return Clocks(_table([]), ())
    if info.extras:
        found = _own_rows(info, events, run)
        return Clocks(_table([row for _, row in found]), tuple(number for number, _ in found))
    period_ns = _timer_period_ns(info.events[0].attr)
    if not period_ns or len(info.events) > 1:
        return Clocks(_table([]), ())
    cpu = events.samples.cpu
    # A ring is drained many samples at a time.
    cpus = distinct(cpu.take(run_starts(cpu)))
    rows = [
        _Row(0, 0, cpu, period_ns, run.begin_ns, run.end_ns, _lost_on(events, cpu))
        for cpu in cpus.tolist()
        if cpu != NO_CPU
    ]
    return Clocks(_table(rows), ())


def _own_rows(info: RecordingInfo, events: Events, run: RunInfo) -> list[tuple[int, _Row]]:
    """Return the clocks of a recording of ours, each with the id of its event."""
    if not _timer_period_ns(info.events[0].attr):
        return []
    lost = by_number(info.extras["lost"] if "lost" in info.extras else _lost_by_records(events))
    rows: list[tuple[int, _Row]] = []
    for position, clock in enumerate(_bank(info)):
        spans = {cpu: _spans_online(info, cpu, run) for cpu in set(clock.cpus)}
        for event_id, cpu in zip(clock.ids, clock.cpus, strict=True):
            if not spans[cpu]:
                continue  # more openings than times on line: a damaged description
            begin_ns, end_ns = spans[cpu].pop(0)
            count = lost.get(event_id, 0)
            count = count if counts_of([count]) else 0
            row = _Row(0, position, cpu, clock.period_ns, begin_ns, end_ns, count)
            rows.append((event_id, row))
    return rows


def _bank(info: RecordingInfo) -> list[_Clock]:
    """Return the clocks that Prospect's section describes, none unless all of it makes sense."""
    described = info.extras.get("clocks")
    if type(described) is not list or not 0 < len(described) <= _MOST_CLOCKS:
        return []
    clocks = []
    for item in described:
        fields = mapping_of(item)
        period = counts_of([fields.get("period_ns")])
        ids, cpus = counts_of(fields.get("ids")), counts_of(fields.get("cpus"))
        if not (period and period[0] and ids and all(map(is_i32, cpus))):
            return []
        # A recording of version 0.1.0 does not say which id was on which CPU.
        clocks.append(_Clock(period[0], ids, cpus if len(cpus) == len(ids) else ()))
    if not all(clock.cpus for clock in clocks):
        return [clock._replace(ids=(), cpus=()) for clock in clocks]
    return clocks


def _spans_online(info: RecordingInfo, cpu: int, run: RunInfo) -> list[tuple[int, int]]:
    """Return when a CPU was on line in the interval, in order."""
    begin_ns: int | None = run.begin_ns
    spans: list[tuple[int, int]] = []
    for position, (time_ns, word) in enumerate(_changes(info, cpu)):
        at_ns = min(max(time_ns, run.begin_ns), run.end_ns)
        if word == "online":
            begin_ns = at_ns if begin_ns is None or not position else begin_ns
        elif begin_ns is not None:
            spans.append((begin_ns, at_ns))
            begin_ns = None
    if begin_ns is not None:
        spans.append((begin_ns, run.end_ns))
    return spans


def _changes(info: RecordingInfo, cpu: int) -> list[tuple[int, str]]:
    recorded = info.extras.get("cpu_changes")
    changes: list[Any] = recorded if type(recorded) is list else []
    return [
        (change[0], change[2])
        for change in changes
        if type(change) is list
        and len(change) == 3
        and counts_of(change[:1])
        and change[1] == cpu
        and change[2] in ("online", "offline")
    ]


def _timer_period_ns(attr: EventAttr) -> float:
    """Return the period of a timer's fixed grid, 0.0 for what has none.

    For cpu-clock the kernel turns a rate into a fixed period once.
    Source: perf_swevent_init_hrtimer() in ``kernel/events/core.c``, Linux 6.18.
    """
    is_timer = attr.type == abi.PERF_TYPE_SOFTWARE and attr.config == abi.PERF_COUNT_SW_CPU_CLOCK
    if not is_timer or not attr.sample_period:
        return 0.0
    if attr.frequency_hz:
        return float(_NS_PER_S // attr.frequency_hz)
    return float(attr.sample_period)


def _lost_by_records(events: Events) -> dict[str, int]:
    """Return id → records lost, by the records that report it: what a cut recording has."""
    ids, place = np.unique(events.losses.id, return_inverse=True)
    count = np.minimum(np.bincount(place, events.losses.count, len(ids)), 2.0**62)
    return dict(zip(map(str, ids.tolist()), count.astype(np.int64).tolist(), strict=True))


def _lost_on(events: Events, cpu: int) -> int:
    losses = events.losses
    return int(min(losses.count[losses.cpu == cpu].astype(np.float64).sum(), 2.0**62))


def _table(rows: Sequence[_Row]) -> ClockTable:
    columns = list(zip(*rows, strict=True)) or [()] * len(_Row._fields)
    dtypes = (np.uint16, np.uint8, np.int32, np.float64, np.uint64, np.uint64, np.int64)
    return ClockTable(
        *(np.array(column, dtype) for column, dtype in zip(columns, dtypes, strict=True))
    )
