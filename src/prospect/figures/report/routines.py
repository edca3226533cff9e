"""Tables of routines: (process, portion, function) → hits, seconds, share and accumulated share.

Comes in: an event's hits and a group for each. Goes out: one table a group, heaviest routine
first, and how far a threshold lets it be shown. docs/report.md says what the columns mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import sums_with_rows
from prospect.columns.sorting import falling_within
from prospect.figures.cut_rows import CutRows
from prospect.figures.portions import ROUNDING_S, rows_of_rows
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.figures.portions import EventHits


class RoutineTable(CutRows):
    """The routines of one group of hits.

    Attributes:
        function: i64[r] rows of the profile's functions.
        accumulated: f64[r] running sum of `share`.
    """

    function: NDArray[np.int64]
    accumulated: NDArray[np.float64]


class RoutineTables(Record):
    """The routine tables of all groups, as slices of common columns (see `RoutineTable`).

    `start` is i64[g + 1]: where each group's rows begin. `hits_sum` i64[g] and `seconds_sum`
    f64[g] are the groups' totals. `row_of_hit` is i32 the row of each hit of the profile, -1 for
    none: what makes any other column of the tables.
    """

    function: NDArray[np.int64]
    hits: NDArray[np.int64]
    seconds: NDArray[np.float64]
    share: NDArray[np.float64]
    accumulated: NDArray[np.float64]
    start: NDArray[np.int64]
    hits_sum: NDArray[np.int64]
    seconds_sum: NDArray[np.float64]
    has_time: bool
    row_of_hit: NDArray[np.int32]

    def table(self, group: int, threshold_s: float) -> RoutineTable:
        """Return one group's table; rows under `threshold_s` count as not shown."""
        rows = slice(int(self.start[group]), int(self.start[group + 1]))
        seconds = self.seconds[rows]
        shown = len(seconds)
        if self.has_time:
            shown = int(np.count_nonzero(seconds >= threshold_s - ROUNDING_S))
        return RoutineTable(
            function=self.function[rows],
            hits=self.hits[rows],
            seconds=seconds,
            share=self.share[rows],
            accumulated=self.accumulated[rows],
            shown=shown,
            total_hits=int(self.hits_sum[group]),
            total_seconds=float(self.seconds_sum[group]),
        )


def routine_tables(hits: EventHits, group: NDArray[np.int64], group_count: int) -> RoutineTables:
    """Build the routine tables of all groups at once.

    Args:
        hits: an event's hits.
        group: i64[h] the group of each hit, -1 for none.
        group_count: how many groups there are, empty ones included.
    """
    member = group >= 0
    chosen = slice(None) if member.all() else member
    (of_group, function), (count, period), sum_of_row = sums_with_rows(
        (group[chosen], hits.function[chosen]), (hits.count[chosen], hits.period[chosen])
    )
    seconds = hits.seconds(count, period)
    weight = hits.weight(count, period)
    # Rows of a group stand by function, and so do those alike in weight and hits.
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
    return RoutineTables(
        function=function,
        hits=count,
        seconds=seconds,
        share=share,
        accumulated=accumulated,
        start=start,
        hits_sum=_segment_sums(count, start),
        seconds_sum=np.bincount(of_group, seconds, group_count).astype(np.float64),
        has_time=hits.has_time,
        row_of_hit=rows_of_rows(hits.row_of_hit, row),
    )


def _shares(
    weight: NDArray[np.float64],
    of_group: NDArray[np.int64],
    start: NDArray[np.int64],
    weight_sum: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    running = np.append(0.0, np.cumsum(weight))
    divisor = np.where(weight_sum > 0, weight_sum, 1.0).take(of_group)
    before = running.take(start).take(of_group)
    return weight / divisor, (running[1:] - before) / divisor


def _segment_sums(column: NDArray[np.int64], start: NDArray[np.int64]) -> NDArray[np.int64]:
    running = np.append(np.int64(0), np.cumsum(column))
    sums: NDArray[np.int64] = np.diff(running.take(start))
    return sums
