"""The disassembled profile of a report: hits by table, routine and instruction.

The report's profile must have `code`. docs/report.md says what the figures mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.annotate.annotation_view import (
    AnnotatedRoutine,
    InstructionSums,
    RoutineSums,
    annotated_routine,
    instruction_of_hits,
)
from prospect.estimate.annotate.row_sums import event_sums
from prospect.figures.portions import (
    PORTION_COUNT,
    event_seconds,
    event_weight,
    hit_portions,
    is_kernel_portion,
)
from prospect.figures.report.disassembly_choice import table_extent
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.figures.report.routines import RoutineTable
    from prospect.figures.report.view import EventView, ReportView
    from prospect.profile.run_info import EventInfo
    from prospect.profile.source_tables import CodeTable


class _Cells(NamedTuple):
    """Hits by (group, instruction): i64[c] keys in ascending order, group * instructions + row."""

    key: NDArray[np.int64]
    hits: NDArray[np.int64]
    period: NDArray[np.int64]
    half_width_s: NDArray[np.float64] | None


class EventCode(Record):
    """One event's hits at the instructions of its routines.

    Attributes:
        extent: see `DisassemblyChoice`.
        routine_of: row in `code` by function.
    """

    code: CodeTable
    event: EventInfo
    extent: int
    routine_of: dict[int, int]
    _by_process: _Cells
    _of_kernel: _Cells

    def of_process(
        self, process: int, portion: int, table: RoutineTable, half_width_s: NDArray[np.float64]
    ) -> Iterator[AnnotatedRoutine]:
        """Yield the routines of a process's table, in its order.

        `half_width_s` f64[r] is of the times of the table's routines, NaN where unknown.
        """
        return self._routines(
            self._by_process, process * PORTION_COUNT + portion, table, half_width_s
        )

    def of_kernel(
        self, table: RoutineTable, half_width_s: NDArray[np.float64]
    ) -> Iterator[AnnotatedRoutine]:
        """Yield the routines of the kernel's profile, likewise."""
        return self._routines(self._of_kernel, 0, table, half_width_s)

    def _routines(
        self, cells: _Cells, group: int, table: RoutineTable, half_width_s: NDArray[np.float64]
    ) -> Iterator[AnnotatedRoutine]:
        for row in range(table_extent(table, self.extent)):
            routine = self.routine_of.get(int(table.function[row]))
            if routine is None:
                continue
            known_s = float(half_width_s[row])
            parts = self._instructions(cells, group, routine)
            # A table keeps seconds and hits only; shares are of whole periods or of hits.
            has_periods = self.event.seconds_per_period > 0
            seconds = float(table.seconds[row])
            periods = round(seconds / self.event.seconds_per_period) if has_periods else 0
            whole = RoutineSums(
                hits=int(table.hits[row]),
                seconds=seconds,
                half_width_s=None if np.isnan(known_s) else known_s,
                share=float(table.share[row]),
                weight=float(periods if has_periods else table.hits[row]),
            )
            yield annotated_routine(self.code, routine, self.event, whole, parts)

    def _instructions(self, cells: _Cells, group: int, routine: int) -> InstructionSums:
        first, last = self.code.start[routine : routine + 2].tolist()
        start = group * len(self.code.address)
        chosen = slice(*np.searchsorted(cells.key, (start + first, start + last)).tolist())
        at = cells.key[chosen] - (start + first)
        hits, period = np.zeros((2, last - first), np.int64)
        hits[at], period[at] = cells.hits[chosen], cells.period[chosen]
        error = None
        if cells.half_width_s is not None:
            error = np.full(last - first, np.nan)
            error[at] = cells.half_width_s[chosen]
        return InstructionSums(
            hits,
            event_seconds(self.event, hits, period),
            error,
            event_weight(self.event, hits, period),
        )


def event_code(view: ReportView, event: EventView, extent: int) -> EventCode:
    """Add up the hits of one event by the instructions of each table of routines."""
    profile, code = view.profile, view.profile.code
    if code is None:
        raise ValueError("the profile was made without code")
    instruction = instruction_of_hits(profile, code)
    member = (profile.hits.event == event.event_index) & (instruction >= 0)
    portion = hit_portions(profile)
    process = profile.hits.process_index.astype(np.int64)
    is_detailed = np.zeros(len(profile.processes), np.bool_)
    is_detailed[event.detailed] = True

    sums = event_sums(profile, event.event_index)

    def summed(chosen: NDArray[np.bool_], group: NDArray[np.int64]) -> _Cells:
        at = np.flatnonzero(member & chosen)
        packed = group.take(at) * len(code.address) + instruction.take(at)
        key, cell = np.unique(packed, return_inverse=True)
        found = sums.by(at, cell, len(key))
        return _Cells(key, found.hits, found.period, found.half_width_s)

    in_kernel = is_kernel_portion(portion) if event.kernel is not None else portion < 0
    return EventCode(
        code=code,
        event=event.event,
        extent=extent,
        routine_of={row: at for at, row in enumerate(code.function_index.tolist())},
        _by_process=summed(is_detailed.take(process), process * PORTION_COUNT + portion),
        _of_kernel=summed(in_kernel, np.zeros_like(process)),
    )
