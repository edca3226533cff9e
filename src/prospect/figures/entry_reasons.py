"""Kernel time by entry reason: why the CPU was in the kernel, for the system and for each process.

The rows add up to all kernel hits, interrupts included. docs/report.md says what the entry reasons
mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import RowsByGroup, group_sums, rows_by_group, sums_with_rows
from prospect.errors import RenderError
from prospect.figures.modes import (
    KERNEL_MODES,
    MODE_INTERRUPT,
    ROUNDING_S,
    event_has_time,
    event_seconds,
    event_weight,
    hit_modes,
    is_kernel_mode,
    rows_of_rows,
)
from prospect.figures.shown_rows import CutRows, unranked
from prospect.profile.model import (
    ENTRY_REASON_IDLE,
    ENTRY_REASON_NONE,
    ENTRY_REASON_SYSCALL,
    ENTRY_REASON_UNRECORDED,
)
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import I32, I64
    from prospect.figures.processes import ProcessTotals
    from prospect.figures.shown_rows import RankedRows
    from prospect.profile.complete import ProfileByFunction
    from prospect.profile.model import EntryReasonTable
    from prospect.profile.run_info import EventInfo

ENTRY_REASON_KIND_NAMES = (
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


class EntryReasonRows(CutRows):
    """A row an entry reason.

    Attributes:
        kind: i64[c] ENTRY_REASON_*.
        name: the entry reason of its kind; "" if the kind is enough, or the row is all of it.
        place: i64[c] their rows in the concatenated tables of `EntryReasonFigures.ranked`.
    """

    kind: I64
    name: list[str]
    place: I64


class EntryReasonFigures(Record):
    """Kernel time by entry reason of one event.

    Attributes:
        is_known: whether most entry reasons are known; they are not without call chains.
        row_of_hit: i32 the sum by process and entry reason of each hit of the profile, -1 for none.
    """

    is_known: bool
    row_of_hit: I32
    _entry_reasons: EntryReasonTable
    _event: EventInfo
    _process: I64
    _entry_reason: I64
    _hits: I64
    _period: I64
    _by_process: RowsByGroup
    _threshold_s: float

    def of_system(self) -> EntryReasonRows:
        """Return the entry reasons of all processes together."""
        return self._rows(
            np.arange(len(self._entry_reason)), self._entry_reason, self._entry_reason
        )

    def of_process(self, row: int, *, calls_in_one: bool = False) -> EntryReasonRows:
        """Return the entry reasons of a row of the process table.

        All system calls are one row if `calls_in_one`.
        """
        chosen = self._by_process.rows(row)
        entry_reason, place = self._entry_reason.take(chosen), len(self._entry_reasons) + chosen
        if calls_in_one:
            is_call = self._entry_reasons.kind.take(entry_reason) == ENTRY_REASON_SYSCALL
            entry_reason = np.where(is_call, len(self._entry_reasons), entry_reason)
            place = np.where(
                is_call, len(self._entry_reasons) + len(self._entry_reason) + row, place
            )
        return self._rows(chosen, entry_reason, place)

    def ranked(self) -> tuple[RankedRows, RankedRows, RankedRows]:
        """Return rows by entry reason, by process too, and of all system calls by process."""
        is_call = self._entry_reasons.kind.take(self._entry_reason) == ENTRY_REASON_SYSCALL
        caller = np.where(is_call, self._process, -1).astype(np.int32)
        return (
            unranked(
                rows_of_rows(self.row_of_hit, self._entry_reason.astype(np.int32)),
                len(self._entry_reasons),
            ),
            unranked(self.row_of_hit, len(self._entry_reason)),
            unranked(rows_of_rows(self.row_of_hit, caller), len(self._by_process.start) - 1),
        )

    def places_of_calls(self, names: Sequence[str], process: int = -1) -> I64:
        """Return the `EntryReasonRows.place` of system calls, i64[n]; -1 for those without a hit.

        `process` is a row of the process table, -1 for all processes together.
        """
        if process == -1:
            entry_reason = place = np.arange(len(self._entry_reasons))
        else:
            chosen = self._by_process.rows(process)
            entry_reason, place = self._entry_reason.take(chosen), len(self._entry_reasons) + chosen
        found = {
            self._entry_reasons.name[row]: at
            for row, at in zip(entry_reason.tolist(), place.tolist(), strict=True)
            if self._entry_reasons.kind[row] == ENTRY_REASON_SYSCALL
        }
        return np.array([found.get(name, -1) for name in names], np.int64)

    def _rows(self, chosen: I64, entry_reason: I64, place: I64) -> EntryReasonRows:
        """Add up sums by `entry_reason`; those of one entry reason have one place."""
        first = np.unique(entry_reason, return_index=True)[1]
        (entry_reason,), (hits, period) = group_sums(
            (entry_reason,), (self._hits.take(chosen), self._period.take(chosen))
        )
        seconds = event_seconds(self._event, hits, period)
        weight = event_weight(self._event, hits, period)
        order = np.lexsort((entry_reason, -hits, -weight))
        entry_reason, seconds, weight = (
            entry_reason.take(order),
            seconds.take(order),
            weight.take(order),
        )
        shown = len(entry_reason)
        if event_has_time(self._event):
            shown = int(np.count_nonzero(seconds >= self._threshold_s - ROUNDING_S))
        names = [*self._entry_reasons.name, ""]
        return EntryReasonRows(
            kind=np.append(self._entry_reasons.kind, np.uint8(ENTRY_REASON_SYSCALL))
            .take(entry_reason)
            .astype(np.int64),
            name=[names[row] for row in entry_reason.tolist()],
            place=place.take(first).take(order),
            hits=hits.take(order),
            seconds=seconds,
            share=weight / (weight.sum() or 1.0),
            shown=shown,
            total_hits=int(hits.sum()),
            total_seconds=float(seconds.sum()),
        )


def entry_reason_figures(
    profile: ProfileByFunction, event_index: int, totals: ProcessTotals, threshold_s: float
) -> EntryReasonFigures:
    """Add up the kernel time of a completed profile by process and entry reason.

    Rows of less time than `threshold_s` (`-k`) count as not shown.

    Raises:
        RenderError: the entry reasons do not add up to the kernel's hits, which is a defect here.
    """
    hits, entry_reasons = profile.hits, profile.entry_reasons
    is_kernel = (hits.event == event_index) & is_kernel_mode(hit_modes(profile))
    (process, entry_reason), (count, period), row = sums_with_rows(
        (hits.process_index[is_kernel], hits.entry_reason_index[is_kernel]),
        (hits.count[is_kernel], hits.period[is_kernel]),
    )
    row_of_hit = np.full(len(hits), -1, np.int32)
    row_of_hit[is_kernel] = row
    kernel = totals.hits[:, KERNEL_MODES].sum(axis=1)
    if not np.array_equal(np.bincount(process, count, len(kernel)), kernel):
        raise RenderError(
            "the entry reasons of kernel time do not add up to it; "
            "please report this, with the recording (--save FILE)"
        )
    kind = entry_reasons.kind.take(entry_reason)
    unknown = int(count[(kind == ENTRY_REASON_UNRECORDED) | (kind == ENTRY_REASON_NONE)].sum())
    idle = int(count[kind == ENTRY_REASON_IDLE].sum())
    has_interrupts = bool(totals.hits[:, MODE_INTERRUPT].any())
    return EntryReasonFigures(
        is_known=bool(len(entry_reason))
        and (2 * unknown <= int(count.sum()) - idle or has_interrupts),
        row_of_hit=row_of_hit,
        _entry_reasons=entry_reasons,
        _event=profile.run.events[event_index],
        _process=process,
        _entry_reason=entry_reason,
        _hits=count,
        _period=period,
        _by_process=rows_by_group(process, len(profile.processes)),
        _threshold_s=threshold_s,
    )
