"""The estimates of one event of a report: error bars, marks and sentences for its tables.

The sentences give the assumptions of the error bars, the reason for marks, and a remedy. Each is
complete in itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.errors.error_bars import ErrorBars, alarms, error_bars, parts_of
from prospect.estimate.statistics.row_limits import needed_seconds, separation_sentence, tied
from prospect.figures.modes import MODE_COUNT, MODE_USER
from prospect.records import Record, asdict, field_names, replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prospect.columns.array_types import F64, I64, Bools
    from prospect.estimate.errors.design import Design
    from prospect.estimate.errors.error_bars import Parts
    from prospect.figures.report.report_view import EventView
    from prospect.figures.shown_rows import RankedRows

_FIRST_ROWS = 3
_NORMAL = 1.96

# A row with more of its hits on an idle CPU is not tested for rhythm.
_LARGEST_IDLE = 0.05
_FINEST = "functions"
_KERNEL = "kernel"
_PART = "kernel part "
_ENTRY_REASONS = "entry reasons "
# Rows of one table times rows of another: up to here, they share parts.
_MOST_TOGETHER = 1 << 24


class RowEstimates(Record):
    """The error of each row of a table; all columns are [r].

    Attributes:
        seconds: f64 the time that the estimates are of.
        half_width_s: f64 how far the 95 % interval reaches on its wider side, which is
            shown after ±. NaN if not estimated: in rows that are not shown, and of events without
            time.
        low_s, high_s: f64 the 95 % interval, which is asymmetric for a rare row.
        aliased: bool the program runs in step with a clock here: the time may be off by more.
        tied: bool indistinguishable from the row above at 95 %.
        needed_s: f64 the length of a run that would separate it from the row above; NaN if
            there is none, infinite if no run of reasonable length would do.
    """

    seconds: F64
    half_width_s: F64
    low_s: F64
    high_s: F64
    aliased: Bools
    tied: Bools
    needed_s: F64

    def __len__(self) -> int:
        return len(self.seconds)

    def rows(self, chosen: slice | I64) -> RowEstimates:
        """Return some of the rows, as their own table."""
        return RowEstimates(*(column[chosen] for column in asdict(self).values()))


def joined(tables: Sequence[RowEstimates]) -> RowEstimates:
    """Return the rows of several tables, concatenated."""
    return RowEstimates(
        *(
            np.concatenate([getattr(table, name) for table in tables])
            for name in field_names(RowEstimates)
        )
    )


def estimate_sentences(
    event: EventView, design: Design, tables: Mapping[str, RowEstimates]
) -> tuple[str, ...]:
    """Return the sentences about the error bars of one event; none if it has no bars."""
    if not (design.has_time and design.hits.any()):
        return ()
    if not design.has_bars:
        name = design.event.name
        return (f"The profile does not say how {name} was sampled: its times have no ±.",)
    sentences = [_assumption(design), _speed(design), _alarm(tables)]
    kept = event.processes.kept_rows[:_FIRST_ROWS] * MODE_COUNT + MODE_USER
    sentences.append(_separation(tables["processes"].rows(kept), "processes by user time"))
    for process in event.detailed[:1].tolist():
        group = process * MODE_COUNT + MODE_USER
        start = int(event.functions.start[group])
        end = min(int(event.functions.start[group + 1]), start + _FIRST_ROWS)
        name = event.report.profile.processes.name[process]
        what = f"functions of {name} in user mode"
        sentences.append(_separation(tables["functions"].rows(slice(start, end)), what))
    return tuple(sentence for sentence in sentences if sentence)


def _assumption(design: Design) -> str:
    if design.sees_rhythm:
        return ""
    if design.ticks is not None:
        return (
            "One clock took the samples: error bars hold for programs that are not in step with "
            "it, and a program in step goes unnoticed (--clocks 4 takes four, from -H 10 on)."
        )
    return (
        "The samples are not on the grid of a known clock: "
        "error bars assume that they fell at random times of the program."
    )


def _speed(design: Design) -> str:
    event = design.event
    if not (event.weighs_periods and event.seconds_per_period > 0):
        return ""
    mhz = 1e-6 / event.seconds_per_period
    words = (
        f"Samples of {event.name} represent different numbers of cycles: shares are of cycles, and "
        f"times take {mhz:.0f} million a second"
    )
    if not event.relative_error > 0:
        return f"{words}."
    return f"{words} (± {100.0 * _NORMAL * event.relative_error:.1f}%), as counted between samples."


def _alarm(tables: Mapping[str, RowEstimates]) -> str:
    marked = sum(int(np.count_nonzero(table.aliased)) for table in tables.values())
    if not marked:
        return ""
    return (
        "Marked rows run in step with one of the clocks, which the other clocks do not confirm: "
        "their error bars allow for it; another rate (-H) narrows them."
    )


def _separation(rows: RowEstimates, what: str) -> str:
    shown = ~np.isnan(rows.half_width_s) & (rows.seconds > 0)
    is_alike = rows.tied & shown
    return separation_sentence(is_alike[shown], rows.needed_s[shown], what)


class EventEstimates(Record):
    """The estimates of one event's tables.

    Attributes:
        processes: [p * MODE_COUNT], by process row and mode; `tied` compares user
            time in the order of the summary.
        totals, skipped: [MODE_COUNT] of all processes, and of those that pass no threshold.
        functions: as the columns of `EventView.functions`; rows under the threshold have no bars.
        kernel: as `EventView.kernel.whole`; None if that is None.
        kernel_parts: as `EventView.kernel.parts`.
        entry_reasons: kernel time by entry reason, in rows `EntryReasonRows.place`.
        sentences: about the error bars, each complete in itself.
    """

    processes: RowEstimates
    totals: RowEstimates
    skipped: RowEstimates
    functions: RowEstimates
    kernel: RowEstimates | None
    kernel_parts: tuple[RowEstimates, ...]
    entry_reasons: RowEstimates
    sentences: tuple[str, ...]

    def process_half_width_s(self, mode: int) -> F64:
        """Return the half widths of one mode of all processes, f64[p]."""
        return self.processes.half_width_s.reshape(-1, MODE_COUNT)[:, mode]

    def function_rows(self, view: EventView, process: int, mode: int) -> RowEstimates:
        """Return the estimates of one function table, in its order."""
        return self.functions.rows(view.function_rows(process, mode))

    def calls_half_width_s(self, view: EventView, names: Sequence[str], process: int = -1) -> F64:
        """Return the half widths of system calls' sampled time, f64[n]; NaN without a hit.

        The row of the process is -1 for the system.
        """
        place = view.entry_reasons.places_of_calls(names, process)
        return np.append(self.entry_reasons.half_width_s, np.nan).take(place)


def event_estimates(event: EventView, design: Design) -> EventEstimates:
    """Estimate the error of every time of an event."""
    profile = event.report.by_function
    is_idle = (profile.processes.pid == 0).take(profile.hits.process_index)
    ranked = _ranked_tables(event)
    parts = _parts_of_tables(design, ranked)
    wall_s = profile.run.wall_seconds
    made = {
        name: _estimated(design, rows, is_idle, wall_s, parts[name])
        for name, rows in ranked.items()
    }
    tables = _marked(made)
    return EventEstimates(
        processes=tables["processes"],
        totals=tables["totals"],
        skipped=tables["skipped"],
        functions=tables["functions"],
        kernel=tables.get(_KERNEL),
        kernel_parts=tuple(table for name, table in tables.items() if name.startswith(_PART)),
        entry_reasons=joined(
            [table for name, table in tables.items() if name.startswith(_ENTRY_REASONS)]
        ),
        sentences=estimate_sentences(event, design, tables),
    )


def _ranked_tables(event: EventView) -> dict[str, RankedRows]:
    """Return the rows of all tables of an event that have error bars, by name."""
    tables = {
        "processes": event.processes.by_mode(),
        "totals": event.processes.totals(),
        "skipped": event.processes.skipped(),
        _FINEST: event.ranked_functions(),
    }
    if event.kernel is not None:
        whole, *parts = event.kernel.ranked()
        tables[_KERNEL] = whole
        tables |= {f"{_PART}{number}": rows for number, rows in enumerate(parts)}
    tables |= {
        f"{_ENTRY_REASONS}{number}": rows
        for number, rows in enumerate(event.entry_reasons.ranked())
    }
    return tables


def _parts_of_tables(design: Design, ranked: dict[str, RankedRows]) -> dict[str, Parts]:
    """Return the parts for each table's error bars: few if tables share them.

    The functions of every process separate most hits, the other tables few: those of the kernel
    by function, and those by process, which together may separate many again.
    """
    of_kernel = [name for name in ranked if name == _KERNEL or name.startswith(_PART)]
    others = [name for name in ranked if name not in of_kernel and name != _FINEST]
    product = max(len(ranked[name].above) for name in others)
    product *= len(ranked[_KERNEL].above) if of_kernel else 1
    groups = [others, of_kernel] if product > _MOST_TOGETHER else [[*others, *of_kernel]]
    found: dict[str, Parts] = {}
    for names in ([_FINEST], *groups):
        if names:
            parts = parts_of(design, [ranked[name].row_of_hit for name in names])
            found |= dict.fromkeys(names, parts)
    return found


def _estimated(
    design: Design, table: RankedRows, is_idle: Bools, wall_s: float, parts: Parts
) -> tuple[RowEstimates, F64]:
    """Return a table's estimates without marks, and the p-values for marks."""
    rows, above = len(table.above), table.above
    bars = _bars(design, table, parts)
    known = table.is_shown & design.has_bars
    unknown = np.full(rows, np.nan)
    is_alike = tied(bars.seconds, above, bars.difference_half_width_s)
    estimates = RowEstimates(
        seconds=bars.seconds,
        half_width_s=np.where(known, bars.half_width_s, unknown),
        low_s=np.where(known, bars.low_s, unknown),
        high_s=np.where(known, bars.high_s, unknown),
        aliased=np.zeros(rows, np.bool_),
        tied=is_alike & known & known[above],
        needed_s=needed_seconds(bars.seconds, above, bars.difference_half_width_s, wall_s),
    )
    # Clocks of an idle CPU deliver different numbers of ticks, without a rhythm of a program.
    member = table.row_of_hit >= 0
    row = table.row_of_hit[member]
    idle = np.bincount(row, design.hits[member] * is_idle[member], rows)
    hits = np.bincount(row, design.hits[member], rows)
    return estimates, np.where(known & (idle <= _LARGEST_IDLE * hits), bars.alias_p, unknown)


def _bars(design: Design, table: RankedRows, parts: Parts) -> ErrorBars:
    """Return the error bars of a table; rows that are not shown have none, and no hits."""
    rows, shown = len(table.above), np.flatnonzero(table.is_shown)
    if 2 * len(shown) > rows:
        return error_bars(design, table.row_of_hit, rows, table.above, parts)
    # One row after those shown is for all others; the last entry is for hits in no row.
    number = np.full(rows + 1, len(shown), np.int64)
    number[shown] = np.arange(len(shown))
    number[-1] = -1
    above = np.append(number.take(table.above[shown]), -1)
    row_of_hit = number.astype(np.int32).take(table.row_of_hit)
    bars = error_bars(design, row_of_hit, len(above), above, parts)
    expanded = {}
    for name, column in asdict(bars).items():
        expanded[name] = np.zeros(rows, column.dtype)
        expanded[name][shown] = column[:-1]
    return ErrorBars(**expanded)


def _marked(tables: dict[str, tuple[RowEstimates, F64]]) -> dict[str, RowEstimates]:
    """Mark the rows in step with a clock; false discoveries are controlled over all tables."""
    p_values = [values for _, values in tables.values()]
    marks = np.split(
        alarms(np.concatenate(p_values)), np.cumsum([len(values) for values in p_values])[:-1]
    )
    return {
        name: replace(estimates, aliased=mark)
        for (name, (estimates, _)), mark in zip(tables.items(), marks, strict=True)
    }
