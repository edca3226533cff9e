"""Hits in a report's terms: their time in seconds, and their mode.

A mode is user, kernel, interrupt or other. The event's rule converts periods to seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import sums_with_rows
from prospect.profile.model import (
    CPUMODE_KERNEL,
    CPUMODE_USER,
    ENTRY_REASON_INTERRUPT,
    ENTRY_REASON_SOFTIRQ,
)
from prospect.records import Record

if TYPE_CHECKING:
    from prospect.columns.array_types import F64, I32, I64, Bools, Ints
    from prospect.profile.complete import ProfileByFunction
    from prospect.profile.model import ProcessTable
    from prospect.profile.run_info import EventInfo

MODE_USER = 0
MODE_KERNEL = 1
MODE_INTERRUPT = 2  # kernel time that interrupted the process and is not its work
MODE_OTHER = 3  # a guest, a hypervisor, or unknown
MODE_COUNT = 4
MODE_NAMES = ("user", "kernel", "interrupt", "other")
KERNEL_MODES = (MODE_KERNEL, MODE_INTERRUPT)
# Sums of periods are exact, but a product with 1e-9 may be just below a threshold.
ROUNDING_S = 1e-12
KSOFTIRQD = "ksoftirqd/"


class EventHits(Record):
    """The hits of one event, added up by process, function and mode.

    Attributes:
        process, function: i64[h] rows of the profile's tables.
        mode: i64[h] MODE_*.
        count: i64[h] samples.
        period: i64[h] sum of the samples' periods.
        row_of_hit: i32 row here of each hit of the profile, -1 for none.
    """

    event: EventInfo
    process: I64
    function: I64
    mode: I64
    count: I64
    period: I64
    row_of_hit: I32

    def of_processes(self, chosen: Bools) -> EventHits:
        """Return those of some processes, bool[p]."""
        rows = chosen.take(self.process)
        columns = (self.process, self.function, self.mode, self.count, self.period)
        number = np.where(rows, np.cumsum(rows) - 1, -1).astype(np.int32)
        row_of_hit = rows_of_rows(self.row_of_hit, number)
        process, function, mode, count, period = (column[rows] for column in columns)
        return EventHits(self.event, process, function, mode, count, period, row_of_hit)


def event_has_time(event: EventInfo) -> bool:
    """Return whether an event's hits can be converted to seconds."""
    return event.seconds_per_period > 0 or event.seconds_per_hit > 0


def event_seconds(event: EventInfo, count: I64, period: I64) -> F64:
    """Return f64 seconds of an event's hits and summed periods; zeros if it has no time."""
    if event.seconds_per_period > 0:
        # A damaged recording can overflow a sum; time is never negative.
        return np.maximum(period, 0) * np.float64(event.seconds_per_period)
    return count * np.float64(event.seconds_per_hit)


def event_weight(event: EventInfo, count: I64, period: I64) -> F64:
    """Return f64 amounts for shares: whole periods if they are time or vary, hits otherwise.

    Whole numbers, unlike seconds, have exact running sums (below 2**53: 100 days in ns).
    """
    by_period = event.seconds_per_period > 0 or event.weighs_periods
    # A damaged recording can overflow a sum.
    whole = np.maximum(period, 0) if by_period else count
    return whole.astype(np.float64)


def event_hits(profile: ProfileByFunction, event_index: int) -> EventHits:
    """Add up the hits of one event of a completed profile."""
    hits = profile.hits
    of_event = hits.event == event_index
    chosen = slice(None) if of_event.all() else of_event
    of_hit = profile.locations.function_index.take(hits.location_index[chosen])
    (process, mode, function), (count, period), row = sums_with_rows(
        (hits.process_index[chosen], hit_modes(profile)[chosen], of_hit),
        (hits.count[chosen], hits.period[chosen]),
    )
    row_of_hit = np.full(len(hits), -1, np.int32)
    row_of_hit[chosen] = row
    event = profile.run.events[event_index]
    return EventHits(event, process, function, mode, count, period, row_of_hit)


def rows_of_rows(row_of_hit: Ints, row_of_row: I32) -> I32:
    """Map each hit's row to a row of another table, i32[h]; -1 stays -1."""
    return np.append(row_of_row, np.int32(-1)).take(row_of_hit)


def hit_modes(profile: ProfileByFunction) -> I64:
    """Return the mode, i64[h] MODE_*, of every hit of a completed profile.

    Hard interrupts and softirqs are the interrupt mode of the process that was running, as in the
    kernel's accounting; the softirqs that ksoftirqd runs are that thread's own work.
    Source: ``kernel/sched/cputime.c`` irqtime_account_irq(), account_system_time() (Linux 6.18).
    """
    hits = profile.hits
    mode = np.full(len(hits), MODE_OTHER, np.int64)
    mode[hits.mode == CPUMODE_USER] = MODE_USER
    is_kernel = hits.mode == CPUMODE_KERNEL
    mode[is_kernel] = MODE_KERNEL
    entry_reason = profile.entry_reasons.kind.take(hits.entry_reason_index)
    is_softirq = entry_reason == ENTRY_REASON_SOFTIRQ
    if is_softirq.any():
        is_softirq &= ~is_ksoftirqd(profile.processes).take(hits.process_index)
    mode[is_kernel & (is_softirq | (entry_reason == ENTRY_REASON_INTERRUPT))] = MODE_INTERRUPT
    return mode


def is_kernel_mode(mode: I64) -> Bools:
    """Return bool[n]: modes that are time in the kernel."""
    is_kernel: Bools = (mode == MODE_KERNEL) | (mode == MODE_INTERRUPT)
    return is_kernel


def is_ksoftirqd(processes: ProcessTable) -> Bools:
    """Return bool[p]: the threads that run softirqs if there are too many for an interrupt."""
    is_named = np.array([name.startswith(KSOFTIRQD) for name in processes.name], np.bool_)
    return is_named & processes.is_kernel_thread
