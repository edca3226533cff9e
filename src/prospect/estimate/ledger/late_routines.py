"""The late share of each routine of a report's kernel tables, row by row beside these.

Comes in: a `ReportView` and what is known of its samples' lateness. Goes out: columns as long as
the view's routine tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.estimate.ledger.lateness import late_shares, sample_lateness
from prospect.figures.portions import (
    KERNEL_PORTIONS,
    PORTION_COUNT,
    hit_portions,
    is_kernel_portion,
)
from prospect.figures.report.kernel import kernel_part
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.ledger.lateness import Lateness
    from prospect.figures.report.routines import RoutineTable
    from prospect.figures.report.view import ReportView
    from prospect.profile.complete import ProfileByRoutine

    Rows = NDArray[np.int64]
    Shares = NDArray[np.float64]

_WHOLE = -1


class _Groups(Record):
    """Late shares by group and function: i64[k] keys in ascending order, f64[k] shares."""

    function_count: int
    key: Rows
    share: Shares

    def of(self, group: int | Rows, functions: Rows) -> Shares:
        """Return the share of each function in a group, nan where it is not known.

        Args:
            group: of all the functions, or i64[k] of each.
            functions: i64[k] rows of the profile's functions.
        """
        wanted = group * self.function_count + functions
        if not len(self.key):
            return np.full(len(wanted), np.nan)
        place = np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)
        return np.where(self.key.take(place) == wanted, self.share.take(place), np.nan)


class LateRoutines(Record):
    """Late shares of one event's kernel routines."""

    _by_process: _Groups
    _whole: _Groups
    _by_part: _Groups

    def of_process(self, process: int, portion: int, table: RoutineTable) -> Shares:
        """Return f64[r] beside `EventView.routine_table(process, portion)`; nan outside the kernel.

        Args:
            process: row of the processes.
            portion: PORTION_*.
            table: the routines.
        """
        if portion not in KERNEL_PORTIONS:
            return np.full(len(table), np.nan)
        return self._by_process.of(process * PORTION_COUNT + portion, table.function)

    def of_processes(self, group: Rows, function: Rows) -> Shares:
        """Return the shares of functions of several processes, f64[r]; nan outside the kernel.

        Args:
            group: i64[r] processes times PORTION_COUNT, plus the portion.
            function: i64[r] rows of the profile's functions.
        """
        return self._by_process.of(group, function)

    def of_kernel(self, table: RoutineTable, part: int = _WHOLE) -> Shares:
        """Return f64[r] beside the kernel's profile, or beside its part PART_*."""
        if part == _WHOLE:
            return self._whole.of(0, table.function)
        return self._by_part.of(part, table.function)


def lateness_of_view(
    view: ReportView, lateness: Lateness | None = None
) -> tuple[LateRoutines | None, ...]:
    """Return the late shares of each of the view's events, None for those that have no timer.

    Args:
        view: the figures of the report.
        lateness: of the samples of `view.by_routine`, where that is known already.
    """
    profile = view.by_routine
    lateness = lateness or sample_lateness(profile)
    timed = set(distinct(profile.clocks.event).tolist())
    return tuple(
        _late_routines(profile, event.event_index, lateness)
        if lateness and event.event_index in timed
        else None
        for event in view.events
    )


def _late_routines(profile: ProfileByRoutine, event_index: int, lateness: Lateness) -> LateRoutines:
    hits = profile.hits
    portion = hit_portions(profile)
    is_kernel = is_kernel_portion(portion) & (hits.event == event_index)
    function = profile.locations.function_index.take(hits.location_index).astype(np.int64)
    process = hits.process_index.astype(np.int64)
    part = kernel_part(profile.processes).take(process)

    def grouped(group: Rows) -> _Groups:
        count = max(len(profile.functions), 1)
        key, row = np.unique((group * count + function)[is_kernel], return_inverse=True)
        row_of_hit = np.full(len(hits), -1, np.int64)
        row_of_hit[is_kernel] = row
        return _Groups(count, key, late_shares(lateness, row_of_hit, len(key)))

    return LateRoutines(
        grouped(process * PORTION_COUNT + portion), grouped(np.zeros_like(process)), grouped(part)
    )
