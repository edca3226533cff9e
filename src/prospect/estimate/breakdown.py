"""Rows of hits by keys, the one with most time first: the rows to show, and their errors.

The first screen, *Programs* and *Functions*, `--sort`, `prospect top` and notebooks consist of
these rows. The tables of `--columns` have a column for each class of hits: one table an event, or
one of all events if these are the classes.
Source of classes: OProfile, ``libpp/arrange_profiles.h``: they differ along one axis.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import equal_rows, exact_sums, packed_keys, rows_in_groups
from prospect.dimensions import BY_NAME
from prospect.estimate.clocks.grid import tick_grid
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import error_bars, half_widths
from prospect.estimate.statistics.row_limits import needed_seconds, tied
from prospect.estimate.wall_seconds import wall_seconds
from prospect.figures.hit_keys import hit_keys, kept_apart
from prospect.figures.modes import event_has_time, event_seconds, event_weight
from prospect.figures.processes import chosen_hits, idle_hits
from prospect.profile.model import ENTRY_REASON_IDLE
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import F64, I32, I64, Bools
    from prospect.estimate.errors.design import Design
    from prospect.estimate.errors.error_bars import Parts
    from prospect.estimate.finished_report import EventReport
    from prospect.figures.report.report_view import ReportView
    from prospect.profile.complete import CompleteProfile, ProfileByFunction
    from prospect.profile.run_info import EventInfo

EVENT, OTHERS = "event", "others"
# JSON and CSV have this many columns at most; the text has fewer.
MOST_COLUMNS = 1000


class Bound(NamedTuple):
    """The rows to show.

    Attributes:
        most: the first ones.
        least_s: and all with as much time, in seconds; all of an event without time.
    """

    most: int = 0
    least_s: float = np.inf


class RowErrors(NamedTuple):
    """The errors of rows.

    Attributes:
        half_width_s: f64[r] half of the 95 % interval, NaN if unknown.
        is_like_above: bool[r] whether a row ties with the one above.
        needed_s: f64[r] the length of a run that would separate them; see `needed_seconds`.
    """

    half_width_s: F64
    is_like_above: Bools
    needed_s: F64


class Breakdown(Record):
    """Rows by descending time, or hits if the event has no time.

    Attributes:
        design: how the hits were sampled.
        chosen: bool[h] the hits that are added up.
        example: i64[r] a hit of each row.
        names: of each key a list with a name for each row; none if keys are not dimensions.
        hits: i64[r].
        seconds, share: f64[r] their time, and their share of all chosen hits, 0 to 1.
        row_of_hit: i32[h] row of each of the profile's hits, -1 for none.
        left_out, left_out_hits, left_out_s: rows that are not shown: their number, hits and time.
        total_hits, total_s: of all rows, shown or not.
    """

    profile: ProfileByFunction
    design: Design
    chosen: Bools
    example: I64
    names: tuple[list[str], ...]
    hits: I64
    seconds: F64
    share: F64
    row_of_hit: I32
    left_out: int
    left_out_hits: int
    left_out_s: float
    total_hits: int
    total_s: float

    def __len__(self) -> int:
        return len(self.hits)

    @property
    def event(self) -> EventInfo:
        """The owner of these hits."""
        return self.design.event

    @property
    def has_time(self) -> bool:
        """Whether they are worth seconds."""
        return self.design.has_time

    def sums_of(self, by_hit: F64) -> F64:
        """Add up an amount of each of the profile's hits, f64[h], by row, f64[r]."""
        member = self.row_of_hit >= 0
        sums = np.bincount(self.row_of_hit[member], by_hit[member], len(self))
        return sums.astype(np.float64)

    @cached_property
    def wall_s(self) -> F64 | None:
        """Their wall time, f64[r]; None if samples do not show it."""
        busy = self.chosen & ~idle_hits(self.profile)
        by_hit = wall_seconds(self.profile, self.design, busy)
        return None if by_hit is None else self.sums_of(by_hit)

    def ordered(self, rows: I64) -> Breakdown:
        """Return some of the rows, in another order, without the others."""
        rank = np.full(len(self) + 1, -1, np.int32)
        rank[rows] = np.arange(len(rows))
        hits, seconds = self.hits.take(rows), self.seconds.take(rows)
        return replace(
            self,
            example=self.example.take(rows),
            hits=hits,
            seconds=seconds,
            share=self.share.take(rows),
            row_of_hit=rank.take(self.row_of_hit),
            left_out=self.left_out + len(self) - len(rows),
            left_out_hits=self.total_hits - int(hits.sum()),
            left_out_s=self.total_s - float(seconds.sum()),
        )

    def errors(self, parts: Parts | None = None) -> RowErrors:
        """Estimate how sure the rows are."""
        if not (self.design.has_bars and len(self)):
            unknown = np.full(len(self), np.nan)
            return RowErrors(unknown, np.zeros(len(self), np.bool_), unknown)
        above = np.arange(len(self)) - 1
        bars = error_bars(self.design, self.row_of_hit, len(self), above, parts)
        difference_s, wall_s = bars.difference_half_width_s, self.profile.run.wall_seconds
        return RowErrors(
            bars.half_width_s,
            tied(bars.seconds, above, difference_s),
            needed_seconds(bars.seconds, above, difference_s, wall_s),
        )

    @cached_property
    def _errors(self) -> RowErrors:
        return self.errors()

    @property
    def half_width_s(self) -> F64:
        """Half of each row's 95 % interval, f64[r]; NaN if unknown."""
        return self._errors.half_width_s

    @property
    def is_like_above(self) -> Bools:
        """The rows that tie with the one above, bool[r]."""
        return self._errors.is_like_above

    @cached_property
    def total_half_width_s(self) -> float:
        """Half of the 95 % interval of all rows together; NaN if unknown."""
        return float(half_widths(self.design, np.where(self.chosen, 0, -1), 1)[0])


def breakdown(
    profile: ProfileByFunction, design: Design, chosen: Bools, keys: Sequence[I64], bound: Bound
) -> Breakdown:
    """Add hits up by keys, and return the rows with most time.

    `chosen`, bool[h], are hits of the design's event; `keys` are i64[h] each.
    """
    hits, at = profile.hits, np.flatnonzero(chosen)
    row_of, first_at = combined([key.take(at) for key in keys])
    count = exact_sums(row_of, hits.count.take(at), len(first_at))
    period = exact_sums(row_of, hits.period.take(at), len(first_at))
    weight = event_weight(design.event, count, period)
    seconds = event_seconds(design.event, count, period)
    order = np.lexsort((np.arange(len(count)), -count, -weight))
    shown = bound.most
    if bound.least_s < np.inf:
        is_enough = seconds >= bound.least_s if design.has_time else np.ones(len(count), np.bool_)
        shown = max(shown, int(np.count_nonzero(is_enough)))
    first = order[:shown]
    rank = np.full(len(count) + 1, -1, np.int32)
    rank[first] = np.arange(len(first))
    row_of_hit = np.full(len(hits), -1, np.int32)
    row_of_hit[at] = rank.take(row_of)
    rest = order[shown:]
    return Breakdown(
        profile=profile,
        design=design,
        chosen=chosen,
        example=at.take(first_at.take(first)),
        names=(),
        hits=count.take(first),
        seconds=seconds.take(first),
        share=weight.take(first) / max(float(weight.sum()), 1.0),
        row_of_hit=row_of_hit,
        left_out=len(rest),
        left_out_hits=int(count.take(rest).sum()),
        left_out_s=float(seconds.take(rest).sum()),
        total_hits=int(count.sum()),
        total_s=float(seconds.take(order).sum()),
    )


def rows_by_keys(
    event: EventReport, keys: Sequence[str], bound: Bound | None = None, *, idle: bool = True
) -> Breakdown:
    """Add an event's hits up by dimensions.

    Without a `bound` the rows are those that pass the report's threshold. Idle CPUs are in rows too
    if `idle`.
    """
    report = event.report
    profile = kept_apart(report.profile, keys)
    grid = report.grid if profile is report.profile else tick_grid(profile)
    chosen = chosen_hits(profile, report.detail) & (profile.hits.event == event.event_index)
    if not idle:
        chosen &= (
            profile.entry_reasons.kind.take(profile.hits.entry_reason_index) != ENTRY_REASON_IDLE
        )
    columns = [hit_keys(profile, key) for key in keys]
    bound = bound or Bound(least_s=report.user_threshold_s)
    design = sampling_design(profile, event.event_index, grid)
    rows = breakdown(profile, design, chosen, [column.number for column in columns], bound)
    return replace(rows, names=tuple(column.texts(rows.example) for column in columns))


def combined(columns: Sequence[I64]) -> tuple[I64, NDArray[np.intp]]:
    """Number the combinations of equally long columns, ascending with the first one leading.

    Returns:
        i64[n] the number of each place's combination, and a place of each combination.
    """
    number, first = np.zeros(len(columns[0]), np.int64), np.zeros(0, np.intp)
    for column in columns if len(number) else ():
        packed, _ = packed_keys((number, column))
        order, starts = equal_rows(packed)
        number = rows_in_groups(order, starts).astype(np.int64)
        first = order.take(starts)
    return number, first


class ClassColumns(Record):
    """Hits by row and class; rows by descending share of time, or of hits without time.

    Attributes:
        events: of each column; of the table if it has none, as nothing was chosen.
        classes: names of the columns; the last is `OTHERS` if there are any.
        others: how many classes the last column is of, 0 for none.
        names: of each key a list with a name for each row.
        hits: i64[r, c].
        seconds, half_width_s: f64[r, c] and half of the 95 % interval, NaN if unknown.
        share: f64[r, c] of the whole column, 0 to 1.
        total_hits: i64[c], of all rows, shown or not.
        total_s, total_half_width_s: f64[c] the same.
        left_out: how many rows have less time than `-m`.
        left_out_hits, left_out_s: i64[c] and f64[c] of these rows.
    """

    events: tuple[EventInfo, ...]
    classes: list[str]
    others: int
    names: tuple[list[str], ...]
    hits: I64
    seconds: F64
    half_width_s: F64
    share: F64
    total_hits: I64
    total_s: F64
    total_half_width_s: F64
    left_out: int
    left_out_hits: I64
    left_out_s: F64

    def __len__(self) -> int:
        return len(self.hits)

    def has_time(self, column: int) -> bool:
        """Whether hits of a column are time."""
        return event_has_time(self.events[column])


class _Classes(NamedTuple):
    names: list[str]
    of_hit: I64
    others: int


class _Source(NamedTuple):
    """Columns with the same sampling: i64[h] the column of each hit, -1 for none."""

    design: Design
    column: I64
    columns: int


class _Cells(NamedTuple):
    """Hits, time, and half of its interval, by row and column."""

    hits: I64
    seconds: F64
    half_width_s: F64


def class_columns(
    view: ReportView, dimension: str, keys: Sequence[str], most: int
) -> list[ClassColumns]:
    """Add hits up by some keys for each class, and estimate the error of each sum.

    Args:
        dimension: of `COLUMN_DIMENSIONS`.
        keys: of `SORT_KEYS`.
        most: the number of columns; further classes are merged into one. Events have one each, as
            their counts do not add up.

    Raises:
        UsageError: the profile lacks the classes of its hits.
    """
    profile = kept_apart(view.profile, keys, dimension)
    grid = tick_grid(profile)
    chosen = chosen_hits(profile, view.detail)
    is_of = [chosen & (profile.hits.event == event.event_index) for event in view.events]
    designs = [sampling_design(profile, event.event_index, grid) for event in view.events]
    if dimension == EVENT:
        sources = [
            _Source(design, np.where(is_in, 0, -1), 1)
            for design, is_in in zip(designs, is_of, strict=True)
        ]
        classes = _Classes([event.event.name for event in view.events], chosen.astype(np.int64), 0)
        return [_table(view, profile, keys, classes, sources)]
    classes = _classes(profile, chosen, dimension, most)
    return [
        _table(
            view,
            profile,
            keys,
            classes,
            [_Source(design, np.where(is_in, classes.of_hit, -1), len(classes.names))],
        )
        for design, is_in in zip(designs, is_of, strict=True)
    ]


def _classes(profile: CompleteProfile, chosen: Bools, dimension: str, most: int) -> _Classes:
    """Return the classes with most hits, by hits or in their own order, and the others."""
    keys = hit_keys(profile, dimension)
    numbers, name = keys.number, keys.shown
    hits = exact_sums(numbers[chosen], profile.hits.count[chosen], int(numbers.max(initial=0)) + 1)
    ranked = np.lexsort((np.arange(len(hits)), -hits))[: np.count_nonzero(hits)].tolist()
    shown = ranked if len(ranked) <= most else ranked[: most - 1]
    if BY_NAME[dimension].is_ordered:
        shown = sorted(shown, key=lambda one: _in_order(name(one)))
    others = len(ranked) - len(shown)
    column = np.full(len(hits), len(shown), np.int64)
    column[shown] = np.arange(len(shown))
    names = [name(one) for one in shown] + [OTHERS] * (others > 0)
    return _Classes(names, column.take(numbers), others)


def _in_order(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdigit() else (0, name)


def _table(
    view: ReportView,
    profile: CompleteProfile,
    keys: Sequence[str],
    classes: _Classes,
    sources: Sequence[_Source],
) -> ClassColumns:
    is_in = np.logical_or.reduce([source.column >= 0 for source in sources])
    at = np.flatnonzero(is_in)
    columns = [hit_keys(profile, key) for key in keys]
    row_of, first_at = combined([column.number.take(at) for column in columns])
    is_shown, part = np.zeros(len(first_at), np.bool_), np.zeros(len(first_at))
    for design in (source.design for source in sources):
        hits = exact_sums(row_of, design.hits.take(at), len(first_at))
        period = np.where(design.hits > 0, profile.hits.period, 0).take(at)
        weight = event_weight(design.event, hits, exact_sums(row_of, period, len(hits)))
        part += weight / max(float(weight.sum()), 1.0)
        row_s = np.bincount(row_of, design.seconds.take(at), len(first_at))
        is_shown |= row_s >= view.user_threshold_s if design.has_time else hits > 0
    # By the mean share, as counts of events do not add up; rows that are not shown come last.
    order = np.lexsort((first_at, -part, ~is_shown))
    shown = int(np.count_nonzero(is_shown))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    row_of_hit = np.full(len(profile.hits), -1, np.int64)
    row_of_hit[at] = np.minimum(rank, shown).take(row_of)
    cells = [_cells(source, row_of_hit, shown + 1) for source in sources]
    hits = np.hstack([one.hits for one in cells])
    seconds = np.hstack([one.seconds for one in cells])
    half_width_s = np.hstack([one.half_width_s for one in cells])
    totals = [_cells(source, np.where(source.column >= 0, 0, -1), 1) for source in sources]
    total_hits = np.hstack([one.hits for one in totals])[0]
    total_s = np.hstack([one.seconds for one in totals])[0]
    has_time = np.repeat([one.design.has_time for one in sources], [one.columns for one in sources])
    whole = np.where(has_time, total_s, total_hits)
    example = at.take(first_at.take(order[:shown]))
    return ClassColumns(
        events=tuple(one.design.event for one in sources for _ in range(max(one.columns, 1))),
        classes=classes.names,
        others=classes.others,
        names=tuple(column.texts(example) for column in columns),
        hits=hits[:shown],
        seconds=seconds[:shown],
        half_width_s=half_width_s[:shown],
        share=np.where(has_time, seconds, hits)[:shown] / np.where(whole > 0, whole, 1.0),
        total_hits=total_hits,
        total_s=total_s,
        total_half_width_s=np.hstack([one.half_width_s for one in totals])[0],
        left_out=len(order) - shown,
        left_out_hits=hits[shown],
        left_out_s=seconds[shown],
    )


def _cells(source: _Source, row_of_hit: I64, rows: int) -> _Cells:
    """Return the sums of each row and column of a source."""
    size = rows * source.columns
    is_in = (source.column >= 0) & (row_of_hit >= 0)
    cell = np.where(is_in, row_of_hit * source.columns + source.column, -1).astype(np.int32)
    bars = error_bars(source.design, cell, size)
    hits = exact_sums(cell[is_in], source.design.hits[is_in], size)
    half_width_s = bars.half_width_s if source.design.has_bars else np.full(size, np.nan)
    shape = (rows, source.columns)
    return _Cells(hits.reshape(shape), bars.seconds.reshape(shape), half_width_s.reshape(shape))
