"""Kernel time by cause: why the CPU was in the kernel, for the system and for each process.

The rows add up to all kernel hits, interrupts included. docs/report.md says what the causes mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import RowsByGroup, group_sums, rows_by_group, sums_with_rows
from prospect.errors import RenderError
from prospect.figures.portions import (
    KERNEL_PORTIONS,
    PORTION_INTERRUPT,
    ROUNDING_S,
    event_has_time,
    event_seconds,
    event_weight,
    hit_portions,
    is_kernel_portion,
    rows_of_rows,
)
from prospect.figures.ranked_rows import CutRows, unranked
from prospect.profile.model import CAUSE_IDLE, CAUSE_NONE, CAUSE_SYSCALL, CAUSE_UNRECORDED
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.figures.processes import ProcessTotals
    from prospect.figures.ranked_rows import RankedRows
    from prospect.profile.complete import ProfileByRoutine
    from prospect.profile.model import CauseTable
    from prospect.profile.run_info import EventInfo

CAUSE_KIND_NAMES = (
    "none",
    "system call",
    "exception",
    "interrupt",
    "softirq",
    "kernel thread",
    "idle",
    "unclassified",
    "not recorded",
)


class CauseRows(CutRows):
    """A row a cause.

    Attributes:
        kind: i64[c] CAUSE_*.
        name: list[str] which of its kind; "" if the kind says all, or the row is all of it.
        place: i64[c] their rows in all tables of `CauseFigures.ranked`, concatenated.
    """

    kind: NDArray[np.int64]
    name: list[str]
    place: NDArray[np.int64]


class CauseFigures(Record):
    """Kernel time by cause of one event.

    Attributes:
        is_known: whether causes are known for most of it; they are not where no call chains were
            recorded.
        row_of_hit: i32 of each hit of the profile its sum by process and cause, -1 for none.
    """

    is_known: bool
    row_of_hit: NDArray[np.int32]
    _causes: CauseTable
    _event: EventInfo
    _process: NDArray[np.int64]
    _cause: NDArray[np.int64]
    _hits: NDArray[np.int64]
    _period: NDArray[np.int64]
    _by_process: RowsByGroup
    _threshold_s: float

    def of_system(self) -> CauseRows:
        """Return the causes of all processes together."""
        return self._rows(np.arange(len(self._cause)), self._cause, self._cause)

    def of_process(self, row: int, *, calls_in_one: bool = False) -> CauseRows:
        """Return the causes of a row of the process table.

        Args:
            row: the process.
            calls_in_one: whether all system calls are one row.
        """
        chosen = self._by_process.rows(row)
        cause, place = self._cause.take(chosen), len(self._causes) + chosen
        if calls_in_one:
            is_call = self._causes.kind.take(cause) == CAUSE_SYSCALL
            cause = np.where(is_call, len(self._causes), cause)
            place = np.where(is_call, len(self._causes) + len(self._cause) + row, place)
        return self._rows(chosen, cause, place)

    def ranked(self) -> tuple[RankedRows, RankedRows, RankedRows]:
        """Return the rows by cause, by process and cause, and of all system calls by process."""
        is_call = self._causes.kind.take(self._cause) == CAUSE_SYSCALL
        caller = np.where(is_call, self._process, -1).astype(np.int32)
        return (
            unranked(
                rows_of_rows(self.row_of_hit, self._cause.astype(np.int32)), len(self._causes)
            ),
            unranked(self.row_of_hit, len(self._cause)),
            unranked(rows_of_rows(self.row_of_hit, caller), len(self._by_process.start) - 1),
        )

    def places_of_calls(self, names: Sequence[str], process: int = -1) -> NDArray[np.int64]:
        """Find system calls as `CauseRows.place` does, i64[n]; -1 for those without a hit.

        Args:
            names: the system calls.
            process: the row of the process, -1 for all of them together.
        """
        if process == -1:
            cause = place = np.arange(len(self._causes))
        else:
            chosen = self._by_process.rows(process)
            cause, place = self._cause.take(chosen), len(self._causes) + chosen
        found = {
            self._causes.name[row]: at
            for row, at in zip(cause.tolist(), place.tolist(), strict=True)
            if self._causes.kind[row] == CAUSE_SYSCALL
        }
        return np.array([found.get(name, -1) for name in names], np.int64)

    def _rows(
        self, chosen: NDArray[np.int64], cause: NDArray[np.int64], place: NDArray[np.int64]
    ) -> CauseRows:
        """Add up sums by `cause`, where those of one cause have one place."""
        first = np.unique(cause, return_index=True)[1]
        (cause,), (hits, period) = group_sums(
            (cause,), (self._hits.take(chosen), self._period.take(chosen))
        )
        seconds = event_seconds(self._event, hits, period)
        weight = event_weight(self._event, hits, period)
        order = np.lexsort((cause, -hits, -weight))
        cause, seconds, weight = cause.take(order), seconds.take(order), weight.take(order)
        shown = len(cause)
        if event_has_time(self._event):
            shown = int(np.count_nonzero(seconds >= self._threshold_s - ROUNDING_S))
        names = [*self._causes.name, ""]
        return CauseRows(
            kind=np.append(self._causes.kind, np.uint8(CAUSE_SYSCALL)).take(cause).astype(np.int64),
            name=[names[row] for row in cause.tolist()],
            place=place.take(first).take(order),
            hits=hits.take(order),
            seconds=seconds,
            share=weight / (weight.sum() or 1.0),
            shown=shown,
            total_hits=int(hits.sum()),
            total_seconds=float(seconds.sum()),
        )


def cause_figures(
    profile: ProfileByRoutine, event_index: int, totals: ProcessTotals, threshold_s: float
) -> CauseFigures:
    """Add up the kernel time of a completed profile by process and cause.

    Args:
        profile: as `complete` returns it.
        event_index: the event whose samples count.
        totals: the hits of the same event by process.
        threshold_s: `-k`: rows of less time count as not shown.

    Raises:
        RenderError: the causes do not add up to the kernel's hits, which would be a defect here.
    """
    hits, causes = profile.hits, profile.causes
    is_kernel = (hits.event == event_index) & is_kernel_portion(hit_portions(profile))
    (process, cause), (count, period), row = sums_with_rows(
        (hits.process_index[is_kernel], hits.cause_index[is_kernel]),
        (hits.count[is_kernel], hits.period[is_kernel]),
    )
    row_of_hit = np.full(len(hits), -1, np.int32)
    row_of_hit[is_kernel] = row
    kernel = totals.hits[:, KERNEL_PORTIONS].sum(axis=1)
    if not np.array_equal(np.bincount(process, count, len(kernel)), kernel):
        raise RenderError(
            "the causes of kernel time do not add up to it; "
            "please report this, with the recording (--save FILE)"
        )
    kind = causes.kind.take(cause)
    unknown = int(count[(kind == CAUSE_UNRECORDED) | (kind == CAUSE_NONE)].sum())
    idle = int(count[kind == CAUSE_IDLE].sum())
    has_interrupts = bool(totals.hits[:, PORTION_INTERRUPT].any())
    return CauseFigures(
        is_known=bool(len(cause)) and (2 * unknown <= int(count.sum()) - idle or has_interrupts),
        row_of_hit=row_of_hit,
        _causes=causes,
        _event=profile.run.events[event_index],
        _process=process,
        _cause=cause,
        _hits=count,
        _period=period,
        _by_process=rows_by_group(process, len(profile.processes)),
        _threshold_s=threshold_s,
    )
