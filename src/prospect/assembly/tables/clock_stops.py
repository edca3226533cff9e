"""Throttle and loss records → when, as the kernel says, clocks delivered nothing.

Comes in: `Clocks` and decoded loss records, both of a recording that anybody may have written. Goes
out: the `ClockStopTable` of a profile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.columns.sorting import distinct
from prospect.profile.model import STOP_FULL, STOP_THROTTLED, ClockStopTable
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.assembly.tables.clocks import Clocks
    from prospect.events.columns import Losses
    from prospect.profile.model import ClockTable

_LOSSES = (abi.PERF_RECORD_LOST, abi.PERF_RECORD_LOST_SAMPLES)
_FOREVER_NS = 2**64 - 1
# A throttle ends with the scheduler's next tick. Source: perf_adjust_freq_unthr_context() in
# kernel/events/core.c; the lowest CONFIG_HZ is 100.
_LONGEST_TICK_NS = np.uint64(10_000_000)


class _Throttles(NamedTuple):
    """From when to when which clock was throttled: i64, u64 and u64 columns."""

    clock_index: NDArray[np.int64]
    begin_ns: NDArray[np.uint64]
    end_ns: NDArray[np.uint64]


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


def _clock_rows(clocks: Clocks, losses: Losses) -> NDArray[np.int64]:
    """Return i64[l]: the clock that each record is of, -1 where it is of none."""
    outside: NDArray[np.uint64] | NDArray[np.int32]
    known: NDArray[np.uint64] | NDArray[np.int32]
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


def _throttles(losses: Losses, row_of_loss: NDArray[np.int64]) -> _Throttles:
    """Pair each THROTTLE with the next UNTHROTTLE of its clock; one without lasts to the end."""
    is_throttle = losses.kind == abi.PERF_RECORD_THROTTLE
    chosen = is_throttle | (losses.kind == abi.PERF_RECORD_UNTHROTTLE)
    rows = np.flatnonzero(chosen & (row_of_loss >= 0))
    rows = rows[np.argsort(row_of_loss[rows], kind="stable")]  # records are in time order
    clock, begins = row_of_loss[rows], is_throttle[rows]
    # Of several of a kind in a row, the first one counts.
    is_change = np.ones(len(rows), np.bool_)
    is_change[1:] = (clock[1:] != clock[:-1]) | (begins[1:] != begins[:-1])
    rows, clock, begins = rows[is_change], clock[is_change], begins[is_change]
    time_ns = losses.time_ns[rows]
    end_ns = np.append(time_ns[1:], np.uint64(_FOREVER_NS))
    is_last = np.append(clock[1:] != clock[:-1], True)
    end_ns = np.where(is_last[: len(rows)], np.uint64(_FOREVER_NS), end_ns[: len(rows)])
    return _Throttles(clock[begins], time_ns[begins], end_ns[begins])


def _ended_unseen(
    throttles: _Throttles, full_clock: NDArray[np.int64], full_ns: NDArray[np.uint64]
) -> _Throttles:
    """End throttles after a tick where the record of their end may be one of those lost since."""
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


def _full_buffers(
    table: ClockTable, losses: Losses, row_of_loss: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return clock rows and times: a loss record speaks for all clocks of its CPU's buffer."""
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
