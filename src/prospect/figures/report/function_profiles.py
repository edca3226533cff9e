"""Tables of functions: of each process and mode, and the kernel's, whole and by part.

The heaviest function is first; a threshold limits how far a table is shown. The kernel's parts
(kernel threads, user processes, process zero) add up to the whole, which is checked. docs/report.md
explains the columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import sums_with_rows
from prospect.columns.sorting import falling_within
from prospect.errors import RenderError
from prospect.figures.modes import (
    ROUNDING_S,
    event_has_time,
    event_seconds,
    event_weight,
    is_kernel_mode,
    rows_of_rows,
)
from prospect.figures.shown_rows import CutRows, ranked
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import F64, I32, I64, Ints
    from prospect.figures.modes import EventHits
    from prospect.figures.shown_rows import RankedRows
    from prospect.profile.model import ProcessTable


class FunctionProfile(CutRows):
    """The functions of one group of hits.

    Attributes:
        function: i64[r] rows of the profile's functions.
        accumulated: f64[r] running sum of `share`.
    """

    function: I64
    accumulated: F64


class FunctionProfiles(Record):
    """The function tables of all groups, as slices of common columns (see `FunctionProfile`).

    Attributes:
        start: i64[g + 1] where each group's rows begin.
        hits_sum, seconds_sum: i64[g] and f64[g] of the groups.
        row_of_hit: i32 the row of each hit of the profile, -1 for none.
    """

    function: I64
    hits: I64
    seconds: F64
    share: F64
    accumulated: F64
    start: I64
    hits_sum: I64
    seconds_sum: F64
    has_time: bool
    row_of_hit: I32

    def table(self, group: int, threshold_s: float) -> FunctionProfile:
        """Return one group's table; rows under `threshold_s` count as not shown."""
        rows = slice(int(self.start[group]), int(self.start[group + 1]))
        seconds = self.seconds[rows]
        shown = len(seconds)
        if self.has_time:
            shown = int(np.count_nonzero(seconds >= threshold_s - ROUNDING_S))
        return FunctionProfile(
            function=self.function[rows],
            hits=self.hits[rows],
            seconds=seconds,
            share=self.share[rows],
            accumulated=self.accumulated[rows],
            shown=shown,
            total_hits=int(self.hits_sum[group]),
            total_seconds=float(self.seconds_sum[group]),
        )


def function_tables(hits: EventHits, group: I64, group_count: int) -> FunctionProfiles:
    """Build the function tables of all groups at once.

    `group`, i64[h], is the group of each hit, -1 for none; groups may be empty.
    """
    member = group >= 0
    chosen = slice(None) if member.all() else member
    (of_group, function), (count, period), sum_of_row = sums_with_rows(
        (group[chosen], hits.function[chosen]), (hits.count[chosen], hits.period[chosen])
    )
    seconds = event_seconds(hits.event, count, period)
    weight = event_weight(hits.event, count, period)
    # Ties in weight and hits stay in the order of functions.
    order = falling_within(of_group, weight, count)
    of_group, function, count = of_group.take(order), function.take(order), count.take(order)
    seconds, weight = seconds.take(order), weight.take(order)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    row = np.full(len(group), -1, np.int32)
    row[chosen] = place.take(sum_of_row)
    start = np.searchsorted(of_group, np.arange(group_count + 1))
    weight_sum = np.bincount(of_group, weight, group_count).astype(np.float64)
    share, accumulated = _shares(weight, of_group, start, weight_sum)
    return FunctionProfiles(
        function=function,
        hits=count,
        seconds=seconds,
        share=share,
        accumulated=accumulated,
        start=start,
        hits_sum=np.diff(np.append(np.int64(0), np.cumsum(count)).take(start)),
        seconds_sum=np.bincount(of_group, seconds, group_count).astype(np.float64),
        has_time=event_has_time(hits.event),
        row_of_hit=rows_of_rows(hits.row_of_hit, row),
    )


def _shares(weight: F64, of_group: I64, start: I64, weight_sum: F64) -> tuple[F64, F64]:
    running = np.append(0.0, np.cumsum(weight))
    divisor = np.where(weight_sum > 0, weight_sum, 1.0).take(of_group)
    before = running.take(start).take(of_group)
    return weight / divisor, (running[1:] - before) / divisor


PART_KERNEL_THREADS = 0
PART_USER_PROCESSES = 1
PART_PROCESS_ZERO = 2
PART_NO_PROCESS = 3
PART_NAMES = ("kernel threads", "user processes", "process zero", "no process")
_PART_COUNT = len(PART_NAMES)


class KernelProfiles(Record):
    """Every kernel hit, and the same hits by part.

    Attributes:
        whole: the functions of all kernel hits.
        parts: (name, functions) of the three parts, and of "no process" if there is any.
        row_of_hit: i32 row of `whole` of each hit of the profile, -1 for none.
        part_row_of_hit: i32 its row of the parts' concatenated functions.
    """

    whole: FunctionProfile
    parts: tuple[tuple[str, FunctionProfile], ...]
    row_of_hit: I32
    part_row_of_hit: I32

    def ranked(self) -> list[RankedRows]:
        """Return the rows of `whole`, then those of each part."""
        found = [_ranked(self.whole, self.row_of_hit)]
        first = 0
        for _, table in self.parts:
            row = self.part_row_of_hit - np.int32(first)
            found.append(_ranked(table, np.where(row < len(table), np.maximum(row, -1), -1)))
            first += len(table)
        return found


def _ranked(table: FunctionProfile, row_of_hit: Ints) -> RankedRows:
    return ranked(row_of_hit.astype(np.int32, copy=False), np.arange(len(table)) < table.shown)


def kernel_part(processes: ProcessTable) -> I64:
    """Return i64[p]: the PART_* of each process's kernel hits."""
    part = np.full(len(processes), PART_USER_PROCESSES, np.int64)
    part[processes.is_kernel_thread] = PART_KERNEL_THREADS
    part[processes.pid == 0] = PART_PROCESS_ZERO
    part[processes.pid < 0] = PART_NO_PROCESS
    return part


def kernel_profiles(processes: ProcessTable, hits: EventHits, threshold_s: float) -> KernelProfiles:
    """Build the kernel's profile and its parts.

    Raises:
        RenderError: the parts do not add up to the whole, which is a defect here.
    """
    is_kernel = is_kernel_mode(hits.mode)
    of_all = function_tables(hits, np.where(is_kernel, 0, -1), 1)
    whole = of_all.table(0, threshold_s)
    part = np.where(is_kernel, kernel_part(processes).take(hits.process), -1)
    tables = function_tables(hits, part, _PART_COUNT)
    parts = [(PART_NAMES[row], tables.table(row, threshold_s)) for row in range(_PART_COUNT)]
    if not len(parts[PART_NO_PROCESS][1]):
        del parts[PART_NO_PROCESS]
    check_sum(whole, [table for _, table in parts])
    return KernelProfiles(whole, tuple(parts), of_all.row_of_hit, tables.row_of_hit)


def check_sum(whole: FunctionProfile, parts: Sequence[FunctionProfile]) -> None:
    """Check that the parts of the kernel's profile add up to the whole, function by function.

    Raises:
        RenderError: they do not.
    """
    function = np.concatenate([whole.function, *(part.function for part in parts)])
    balance = np.concatenate([whole.hits, *(-part.hits for part in parts)])
    distinct, row = np.unique(function, return_inverse=True)
    if np.bincount(row, balance, len(distinct)).any():
        raise RenderError(
            "the parts of the kernel profile do not sum up to the whole; "
            "please report this, with the recording (--save FILE)"
        )
