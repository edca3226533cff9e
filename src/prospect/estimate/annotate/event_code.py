"""The disassembled profile of a report: hits by table, function and instruction.

The report's profile must have `code`. docs/report.md says what the figures mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.annotate.annotation_view import (
    AnnotatedFunction,
    FunctionSums,
    InstructionSums,
    annotated_function,
    instruction_of_hits,
)
from prospect.estimate.annotate.row_sums import event_sums
from prospect.figures.modes import (
    MODE_COUNT,
    event_seconds,
    event_weight,
    hit_modes,
    is_kernel_mode,
)
from prospect.figures.report.disassembly_choice import table_extent
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.figures.report.function_profiles import FunctionProfile
    from prospect.figures.report.report_view import EventView, ReportView
    from prospect.profile.run_info import EventInfo
    from prospect.profile.source_tables import CodeTable


class _Cells(NamedTuple):
    """Hits by (group, instruction): i64[c] keys in ascending order, group * instructions + row."""

    key: NDArray[np.int64]
    hits: NDArray[np.int64]
    period: NDArray[np.int64]
    half_width_s: NDArray[np.float64] | None


class EventCode(Record):
    """One event's hits at the instructions of its functions.

    Attributes:
        extent: see `DisassemblyChoice`.
        function_of: row in `code` by function.
    """

    code: CodeTable
    event: EventInfo
    extent: int
    function_of: dict[int, int]
    _by_process: _Cells
    _of_kernel: _Cells

    def of_process(
        self, process: int, mode: int, table: FunctionProfile, half_width_s: NDArray[np.float64]
    ) -> Iterator[AnnotatedFunction]:
        """Yield the functions of a process's table, in its order.

        `half_width_s` f64[r] is of the times of the table's functions, NaN if unknown.
        """
        return self._functions(self._by_process, process * MODE_COUNT + mode, table, half_width_s)

    def of_kernel(
        self, table: FunctionProfile, half_width_s: NDArray[np.float64]
    ) -> Iterator[AnnotatedFunction]:
        """Yield the functions of the kernel's profile, in the same way."""
        return self._functions(self._of_kernel, 0, table, half_width_s)

    def _functions(
        self, cells: _Cells, group: int, table: FunctionProfile, half_width_s: NDArray[np.float64]
    ) -> Iterator[AnnotatedFunction]:
        for row in range(table_extent(table, self.extent)):
            function = self.function_of.get(int(table.function[row]))
            if function is None:
                continue
            known_s = float(half_width_s[row])
            parts = self._instructions(cells, group, function)
            # A table keeps seconds and hits only; shares are of whole periods or of hits.
            has_periods = self.event.seconds_per_period > 0
            seconds = float(table.seconds[row])
            periods = round(seconds / self.event.seconds_per_period) if has_periods else 0
            whole = FunctionSums(
                hits=int(table.hits[row]),
                seconds=seconds,
                half_width_s=None if np.isnan(known_s) else known_s,
                share=float(table.share[row]),
                weight=float(periods if has_periods else table.hits[row]),
            )
            yield annotated_function(self.code, function, self.event, whole, parts)

    def _instructions(self, cells: _Cells, group: int, function: int) -> InstructionSums:
        first, last = self.code.start[function : function + 2].tolist()
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
    """Add up the hits of one event by the instructions of each table of functions."""
    profile, code = view.profile, view.profile.code
    if code is None:
        raise ValueError("the profile was made without code")
    instruction = instruction_of_hits(profile, code)
    member = (profile.hits.event == event.event_index) & (instruction >= 0)
    mode = hit_modes(profile)
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

    in_kernel = is_kernel_mode(mode) if event.kernel is not None else mode < 0
    return EventCode(
        code=code,
        event=event.event,
        extent=extent,
        function_of={row: at for at, row in enumerate(code.function_index.tolist())},
        _by_process=summed(is_detailed.take(process), process * MODE_COUNT + mode),
        _of_kernel=summed(in_kernel, np.zeros_like(process)),
    )
