"""A recording's description of its timers → the clock of each sample, and when each clock ran.

The recording may come from any writer. Throttle and loss records show when clocks delivered no
samples: the `ClockStopTable`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.assembly_limits import MOST_CLOCKS
from prospect.assembly.extras import by_number, counts_of, is_i32, mapping_of
from prospect.columns.sorting import distinct, run_starts
from prospect.profile.model import NO_CPU, STOP_FULL, STOP_THROTTLED, ClockStopTable, ClockTable
from prospect.records import NamedTuple, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.abi.attr import EventAttr
    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.columns.array_types import I32, I64, U64
    from prospect.events.record_columns import Events, Losses
    from prospect.profile.run_info import RunInfo

_SECOND_NS = 1_000_000_000
_LARGEST_I64 = (1 << 63) - 1
_LOSSES = (abi.PERF_RECORD_LOST, abi.PERF_RECORD_LOST_SAMPLES)
_FOREVER_NS = 2**64 - 1
# A throttle ends with the scheduler's next tick. Source: perf_adjust_freq_unthr_context() in
# kernel/events/core.c; the lowest CONFIG_HZ is 100.
_LONGEST_TICK_NS = np.uint64(10_000_000)


class Clocks(NamedTuple):
    """The clocks of a profile, and the event id of each row; no ids if a CPU has one clock."""

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
    """A clock of the bank: its period, and the ids of its events with their CPUs.

    `copy_ids` are those of the events that wrote its samples of followed processes, in the same
    order; empty without.
    """

    period_ns: int
    ids: tuple[int, ...]
    cpus: tuple[int, ...]
    copy_ids: tuple[int, ...] = ()


def clock_of_id(info: RecordingInfo) -> dict[int, int]:
    """Return id → position of its clock in the bank; empty if the recording has no bank."""
    return {
        event_id: position
        for position, clock in enumerate(_bank(info))
        for event_id in (*clock.ids, *clock.copy_ids)
    }


def clock_count(info: RecordingInfo) -> int:
    """Return the number of clocks that count the same time, at least 1."""
    return max(len(_bank(info)), 1)


def with_clocks(events: Events, info: RecordingInfo) -> tuple[Events, RecordingInfo]:
    """Return records and description with all samples of a bank in one event, with their periods.

    See `with_one_clock_event` and `with_clock_periods`.
    """
    events, info = with_one_clock_event(events, info)
    return with_clock_periods(events, info), info


def with_one_clock_event(events: Events, info: RecordingInfo) -> tuple[Events, RecordingInfo]:
    """Return records and description with all samples of the clocks in one event.

    If only the stacks of some processes were copied, the file has the samples with copies in its
    first event, and the clocks' samples of all other processes in the second one.
    """
    bank = _bank(info)
    of_copies = {event_id for clock in bank for event_id in clock.copy_ids}
    of_clocks = {event_id for clock in bank for event_id in clock.ids}
    described = info.events
    if not of_copies or len(described) < 2:
        return events, info
    if (set(described[0].ids), set(described[1].ids)) != (of_copies, of_clocks):
        return events, info
    clock = described[0]._replace(ids=(*described[1].ids, *described[0].ids))
    event = events.samples.event
    samples = replace(events.samples, event=event - (event > 0))
    return (replace(events, samples=samples), info._replace(events=(clock, *described[2:])))


def with_clock_periods(events: Events, info: RecordingInfo) -> Events:
    """Give each sample of a bank the period of its clock, unless samples have periods.

    The attributes of such a bank have the period of all clocks together, for readers that add up
    periods and do not know clocks.
    """
    bank = _bank(info)
    if len(bank) < 2 or not _timer_period_ns(info.events[0].attr):
        return events
    attr, samples = info.events[0].attr, events.samples
    if attr.sample_type & abi.PERF_SAMPLE_PERIOD:
        return events
    # Without ids the clocks cannot be distinguished; they have this period on average.
    common_ns = min(attr.sample_period * len(bank), _LARGEST_I64)
    periods = [clock.period_ns if clock.ids else common_ns for clock in bank]
    period = np.array(periods, np.uint64).take(samples.clock)
    if len(info.events) > 1:
        period = np.where(samples.event == 0, period, samples.period)
    return replace(events, samples=replace(samples, period=period))


def describe_clocks(info: RecordingInfo, events: Events, run: RunInfo) -> Clocks:
    """Return the times of each timer on each CPU; empty if no fixed grid is known."""
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
    """Return the clocks of a recording by Prospect, each with the id of its event."""
    if not _timer_period_ns(info.events[0].attr):
        return []
    lost = by_number(info.extras["lost"] if "lost" in info.extras else _lost_by_records(events))
    rows: list[tuple[int, _Row]] = []
    for position, clock in enumerate(_bank(info)):
        spans = {cpu: _spans_online(info, cpu, run) for cpu in set(clock.cpus)}
        copies_of = dict(zip(clock.ids, zip(clock.copy_ids), strict=False))
        for event_id, cpu in zip(clock.ids, clock.cpus, strict=True):
            if not spans[cpu]:
                continue  # more openings than times online: a damaged description
            begin_ns, end_ns = spans[cpu].pop(0)
            counts = [lost.get(number, 0) for number in (event_id, *copies_of.get(event_id, ()))]
            count = sum(counts) if counts_of(counts) else 0
            row = _Row(0, position, cpu, clock.period_ns, begin_ns, end_ns, count)
            rows.append((event_id, row))
    return rows


def _bank(info: RecordingInfo) -> list[_Clock]:
    """Return the clocks in Prospect's section, none if any of it is invalid."""
    described = info.extras.get("clocks")
    if type(described) is not list or not 0 < len(described) <= MOST_CLOCKS:
        return []
    clocks = []
    for item in described:
        fields = mapping_of(item)
        period = counts_of([fields.get("period_ns")])
        ids, cpus = counts_of(fields.get("ids")), counts_of(fields.get("cpus"))
        if not (period and period[0] and ids and all(map(is_i32, cpus))):
            return []
        # Recordings of version 0.1.0 lack the CPU of each id.
        copy_ids = counts_of(fields.get("copy_ids"))
        copy_ids = copy_ids if len(copy_ids) == len(ids) else ()
        clocks.append(_Clock(period[0], ids, cpus if len(cpus) == len(ids) else (), copy_ids))
    if not all(clock.cpus for clock in clocks):
        return [clock._replace(ids=(), cpus=(), copy_ids=()) for clock in clocks]
    return clocks


def _spans_online(info: RecordingInfo, cpu: int, run: RunInfo) -> list[tuple[int, int]]:
    """Return when a CPU was online in the interval, in order."""
    first_ns, last_ns = _buffer_read_ns(info, cpu, run)
    begin_ns: int | None = first_ns
    spans: list[tuple[int, int]] = []
    for position, (time_ns, word) in enumerate(_changes(info, cpu)):
        at_ns = min(max(time_ns, first_ns), last_ns)
        if word == "online":
            begin_ns = at_ns if begin_ns is None or not position else begin_ns
        elif begin_ns is not None:
            spans.append((begin_ns, at_ns))
            begin_ns = None
    if begin_ns is not None:
        spans.append((begin_ns, last_ns))
    return spans


def _buffer_read_ns(info: RecordingInfo, cpu: int, run: RunInfo) -> tuple[int, int]:
    """Return the times between which a CPU's samples are in the recording.

    A part of a live session begins and ends at one time, but each buffer was read before that, on a
    busy machine long before. Later samples are in the next part.
    """
    recorded = info.extras.get("buffers_read_ns")
    both = recorded if type(recorded) is list and len(recorded) == 2 else [{}, {}]
    first_ns, last_ns = (
        min((*counts_of([by_number(times).get(cpu)]), bound_ns))
        for times, bound_ns in zip(both, (run.begin_ns, run.end_ns), strict=True)
    )
    return first_ns, max(first_ns, last_ns)


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
    """Return the period of a timer's fixed grid, 0.0 for other events.

    For cpu-clock the kernel turns a rate into a fixed period once.
    Source: perf_swevent_init_hrtimer() in ``kernel/events/core.c``, Linux 6.18.
    """
    is_timer = attr.type == abi.PERF_TYPE_SOFTWARE and attr.config == abi.PERF_COUNT_SW_CPU_CLOCK
    if not is_timer or not attr.sample_period:
        return 0.0
    if attr.frequency_hz:
        return float(_SECOND_NS // attr.frequency_hz)
    return float(attr.sample_period)


def _lost_by_records(events: Events) -> dict[str, int]:
    """Return id → lost records, by the records of losses; for cut recordings."""
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


class _Throttles(NamedTuple):
    """Times at which clocks were throttled: i64, u64 and u64 columns."""

    clock_index: I64
    begin_ns: U64
    end_ns: U64


def describe_clock_stops(clocks: Clocks, losses: Losses) -> ClockStopTable:
    """Return when clocks were throttled, and when their CPU's buffer had been full."""
    row_of_loss = _clock_rows(clocks, losses)
    full_clock, full_ns = _full_buffers(clocks.table, losses, row_of_loss)
    throttles = _ended_unseen(_throttles(losses, row_of_loss), full_clock, full_ns)
    kind = np.repeat([STOP_THROTTLED, STOP_FULL], [len(throttles.clock_index), len(full_clock)])
    return ClockStopTable(
        kind=kind.astype(np.uint8),
        clock_index=np.concatenate((throttles.clock_index, full_clock)).astype(np.int32),
        begin_ns=np.concatenate((throttles.begin_ns, full_ns)),
        end_ns=np.concatenate((throttles.end_ns, full_ns)),
    )


def _clock_rows(clocks: Clocks, losses: Losses) -> I64:
    """Return i64[l] the clock of each record, -1 if it has none."""
    outside: U64 | I32
    known: U64 | I32
    if clocks.ids:
        known, outside = np.array(clocks.ids, np.uint64), losses.id
    else:
        known, outside = clocks.table.cpu, losses.cpu
    if not len(known):
        return np.full(len(outside), -1, np.int64)
    order = np.argsort(known, kind="stable")
    place = np.searchsorted(known, outside, sorter=order)
    found = order.take(np.minimum(place, len(order) - 1))
    return np.where(known.take(found) == outside, found, -1)


def _throttles(losses: Losses, row_of_loss: I64) -> _Throttles:
    """Pair each THROTTLE with the next UNTHROTTLE of its clock; one without lasts to the end."""
    is_throttle = losses.kind == abi.PERF_RECORD_THROTTLE
    chosen = is_throttle | (losses.kind == abi.PERF_RECORD_UNTHROTTLE)
    rows = np.flatnonzero(chosen & (row_of_loss >= 0))
    rows = rows[np.argsort(row_of_loss[rows], kind="stable")]  # records are in time order
    clock, begins = row_of_loss[rows], is_throttle[rows]
    # If several of a kind follow each other, the first one counts.
    kept = run_starts(clock, begins.view(np.uint8))
    rows, clock, begins = rows.take(kept), clock.take(kept), begins.take(kept)
    time_ns = losses.time_ns[rows]
    end_ns = np.append(time_ns[1:], np.uint64(_FOREVER_NS))
    is_last = np.append(clock[1:] != clock[:-1], True)
    end_ns = np.where(is_last[: len(rows)], np.uint64(_FOREVER_NS), end_ns[: len(rows)])
    return _Throttles(clock[begins], time_ns[begins], end_ns[begins])


def _ended_unseen(throttles: _Throttles, full_clock: I64, full_ns: U64) -> _Throttles:
    """End throttles after a tick if the record of their end may have been lost."""
    by_clock = np.lexsort((full_ns, full_clock))
    full_clock, full_ns = full_clock.take(by_clock), full_ns.take(by_clock)
    end_ns = throttles.end_ns.copy()
    for row in distinct(throttles.clock_index).tolist():
        first, behind = np.searchsorted(full_clock, (row, row + 1))
        own = np.flatnonzero(throttles.clock_index == row)
        begin_ns = throttles.begin_ns.take(own)
        lost_ns = np.append(full_ns[first:behind], np.uint64(_FOREVER_NS))
        next_lost_ns = lost_ns.take(np.searchsorted(lost_ns[:-1], begin_ns))
        tick_ns = begin_ns + np.minimum(_LONGEST_TICK_NS, np.uint64(_FOREVER_NS) - begin_ns)
        has_lost = next_lost_ns < end_ns.take(own)
        end_ns[own] = np.where(has_lost, np.minimum(end_ns.take(own), tick_ns), end_ns.take(own))
    return throttles._replace(end_ns=end_ns)


def _full_buffers(table: ClockTable, losses: Losses, row_of_loss: I64) -> tuple[I64, U64]:
    """Return clock rows and times: a loss record is about all clocks of its CPU's buffer."""
    is_loss = np.isin(losses.kind, _LOSSES)
    of_clock = np.append(table.cpu, -1).take(row_of_loss)
    cpu = np.where(losses.cpu >= 0, losses.cpu, of_clock)[is_loss]
    time_ns = losses.time_ns[is_loss]
    clocks, times = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    for row in np.flatnonzero(np.isin(table.cpu, cpu[cpu >= 0])).tolist():
        is_within = (time_ns >= table.begin_ns[row]) & (time_ns <= table.end_ns[row])
        stops = time_ns[(cpu == table.cpu[row]) & is_within]
        clocks.append(np.full(len(stops), row, np.int64))
        times.append(stops)
    return np.concatenate(clocks), np.concatenate(times)
