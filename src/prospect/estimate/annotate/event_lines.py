"""Hits of a report by instruction and by source line.

The report's profile must have `code`, or `lines`. Lines have a table for each process that is shown
in detail, and one of all together. A hit counts at the line of its own instruction, wherever that
was inlined. docs/report.md explains the figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.annotate.annotation_view import (
    AnnotatedFunction,
    FunctionSums,
    InstructionSums,
    annotated_function,
    event_sums,
    instruction_of_hits,
)
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import half_widths
from prospect.figures.modes import (
    MODE_COUNT,
    EventHits,
    event_seconds,
    event_weight,
    hit_modes,
    is_kernel_mode,
)
from prospect.figures.processes import chosen_hits
from prospect.figures.report.disassembly_choice import table_extent
from prospect.figures.report.function_profiles import function_tables
from prospect.profile.optional_tables import function_chains, innermost
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.columns.array_types import F64, I64, Bools
    from prospect.estimate.errors.design import Design
    from prospect.figures.report.function_profiles import FunctionProfile, FunctionProfiles
    from prospect.figures.report.report_view import EventView, ReportView
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.optional_tables import CodeTable, LineTable
    from prospect.profile.run_info import EventInfo


class SourceLine(NamedTuple):
    """A row of a table: a line of source, or all hits of an object with unknown lines.

    Attributes:
        file: path as the compiler recorded it, "" if unknown.
        line: 0 if unknown.
        object_path: of one object with hits there.
        functions: the function that contains the line, then those it is inlined into, innermost
            first; of the place with the most hits.
        other_places: how many other chains of inlined functions contain it.
        reason: why the line is unknown, "" if the reason is unknown, too.
        half_width_s: of the row's time; NaN if unknown.
    """

    file: str
    line: int
    object_path: str
    functions: tuple[str, ...]
    other_places: int
    reason: str
    half_width_s: float


class LinesOfGroup(Record):
    """The lines of one group of hits; `table` has a line where others have a function."""

    table: FunctionProfile
    rows: list[SourceLine]


class _Rows(NamedTuple):
    """Distinct source lines: row of the files or -1, line, row of the objects; each hit's row."""

    file: I64
    line: I64
    object: I64
    of_hit: I64


class _Tables(NamedTuple):
    """Tables of groups of hits, with the data for a `SourceLine` of each of their rows."""

    functions: FunctionProfiles
    location: I64
    places: I64
    half_width_s: F64


class EventLines(Record):
    """One event's hits by source line."""

    _profile: CompleteProfile
    _lines: LineTable
    _rows: _Rows
    _by_process: _Tables
    _of_all: _Tables
    _threshold_s: float

    def of_process(self, process: int) -> LinesOfGroup:
        """Return the lines of a process that is shown in detail."""
        return self._group(self._by_process, process)

    def of_all(self) -> LinesOfGroup:
        """Return the lines of all hits that `-V` chooses."""
        return self._group(self._of_all, 0)

    def _group(self, tables: _Tables, group: int) -> LinesOfGroup:
        table = tables.functions.table(group, self._threshold_s)
        first = int(tables.functions.start[group])
        rows = [
            self._source_line(tables, first + at, row)
            for at, row in enumerate(table.function[: table.shown].tolist())
        ]
        return LinesOfGroup(table, rows)

    def _source_line(self, tables: _Tables, at: int, row: int) -> SourceLine:
        lines, object_row = self._lines, int(self._rows.object[row])
        file = int(self._rows.file[row])
        is_known = file >= 0
        return SourceLine(
            file=lines.files[file] if is_known else "",
            line=int(self._rows.line[row]),
            object_path=self._profile.objects.path[object_row],
            functions=self._functions(int(tables.location[at])) if is_known else (),
            other_places=int(tables.places[at]) - 1 if is_known else 0,
            reason="" if is_known else lines.notes.get(object_row, ""),
            half_width_s=float(tables.half_width_s[at]),
        )

    def _functions(self, location: int) -> tuple[str, ...]:
        lines = self._lines
        first, last = lines.frame_start[location : location + 2].tolist()
        names = [
            lines.names[name] if name >= 0 else "" for name in lines.name_index[first:last].tolist()
        ]
        # A compiler may leave the function itself to the symbol table.
        function = int(self._profile.locations.function_index[location])
        names[0] = names[0] or self._profile.functions.name[function]
        return tuple(reversed(names))


def event_lines(view: ReportView, event: EventView) -> EventLines:
    """Add up the hits of one event by source line."""
    profile, lines = view.profile, view.profile.lines
    if lines is None:
        raise ValueError("the profile was made without lines")
    of_event = profile.hits.event == event.event_index
    at = np.flatnonzero(of_event & chosen_hits(profile, view.detail))
    is_detailed = np.zeros(len(profile.processes), np.bool_)
    is_detailed[event.detailed] = True
    process = profile.hits.process_index.astype(np.int64)
    rows = _source_rows(profile, lines)
    detailed = np.flatnonzero(of_event & is_detailed.take(process))
    sums = _Sums(profile, lines, sampling_design(profile, event.event_index), rows)
    return EventLines(
        profile,
        lines,
        rows,
        _by_process=sums.by(detailed, process.take(detailed), len(profile.processes)),
        _of_all=sums.by(at, np.zeros(len(at), np.int64), 1),
        _threshold_s=view.kernel_threshold_s if view.detail == "k" else view.user_threshold_s,
    )


def _source_rows(profile: CompleteProfile, lines: LineTable) -> _Rows:
    """Number the distinct source lines; hits without one have a row for each object."""
    location = profile.hits.location_index
    function = profile.locations.function_index.take(location)
    owner = profile.functions.object_index.take(function).astype(np.int64)
    file, line = innermost(lines, location)
    key = np.where(file >= 0, file.astype(np.int64) << 32 | line.astype(np.int64), -1 - owner)
    distinct, first, of_hit = np.unique(key, return_index=True, return_inverse=True)
    is_line = distinct >= 0
    return _Rows(
        np.where(is_line, distinct >> 32, -1),
        np.where(is_line, distinct & 0xFFFFFFFF, 0),
        owner.take(first),
        of_hit,
    )


class _Sums(Record):
    """The columns to add up."""

    profile: CompleteProfile
    lines: LineTable
    design: Design
    rows: _Rows

    def by(self, at: I64, group: I64, groups: int) -> _Tables:
        """Add up the hits `at`, i64[k], by their `group`, i64[k]."""
        hits, row = self.profile.hits, self.rows.of_hit.take(at)
        count, period = hits.count.take(at), hits.period.take(at)
        of_hit = np.full(len(hits), -1, np.int32)
        of_hit[at] = np.arange(len(at), dtype=np.int32)
        chosen = EventHits(self.design.event, group, row, np.zeros_like(row), count, period, of_hit)
        tables = function_tables(chosen, group, groups)
        table_row = tables.row_of_hit.take(at).astype(np.int64)
        location, places = self._places(at, table_row, event_weight(chosen.event, count, period))
        half = half_widths(self.design, tables.row_of_hit, len(tables.function))
        return _Tables(tables, location, places, half)

    def _places(self, at: I64, table_row: I64, weight: F64) -> tuple[I64, I64]:
        """Return the location of each row's heaviest place of inlining, and how many there are."""
        location = self.profile.hits.location_index.take(at).astype(np.int64)
        chain = np.append(function_chains(self.lines), -1).take(
            np.minimum(location, len(self.lines))
        )
        span = int(chain.max(initial=0)) + 2
        key = table_row * span + chain + 1
        distinct, first, place = np.unique(key, return_index=True, return_inverse=True)
        heaviest = np.lexsort((distinct, -np.bincount(place, weight, len(distinct))))
        row, of_row = np.unique((distinct // span).take(heaviest), return_index=True)
        found = location.take(first.take(heaviest.take(of_row)))
        return found, np.bincount(distinct // span, minlength=len(row))


class _Cells(NamedTuple):
    """Hits by (group, instruction): i64[c] ascending keys, group * instructions + row."""

    key: I64
    hits: I64
    period: I64
    half_width_s: F64 | None


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
        self, process: int, mode: int, table: FunctionProfile, half_width_s: F64
    ) -> Iterator[AnnotatedFunction]:
        """Yield the functions of a process's table, in its order.

        `half_width_s` f64[r] is of the times of the table's functions, NaN if unknown.
        """
        return self._functions(self._by_process, process * MODE_COUNT + mode, table, half_width_s)

    def of_kernel(self, table: FunctionProfile, half_width_s: F64) -> Iterator[AnnotatedFunction]:
        """Yield the functions of the kernel's profile, in the same way."""
        return self._functions(self._of_kernel, 0, table, half_width_s)

    def _functions(
        self, cells: _Cells, group: int, table: FunctionProfile, half_width_s: F64
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

    def summed(chosen: Bools, group: I64) -> _Cells:
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
