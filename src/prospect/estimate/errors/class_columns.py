"""Rows by some keys and, side by side, what each class of hits has of them: opreport's columns.

There is a table for each event, or one of all if events are the classes.
Source: OProfile, ``libpp/arrange_profiles.h``: classes differ along one axis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import exact_sums
from prospect.dimensions import BY_NAME
from prospect.estimate.breakdown import combined
from prospect.estimate.clocks.grid import tick_grid
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import error_bars
from prospect.figures.hit_keys import hit_keys, kept_apart
from prospect.figures.modes import event_weight
from prospect.figures.processes import chosen_hits
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.estimate.errors.design import Design
    from prospect.figures.report.report_view import ReportView
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.run_info import EventInfo

EVENT, OTHERS = "event", "others"
# JSON and CSV have this many columns at most; the text has fewer.
MOST_COLUMNS = 1000


class ClassColumns(Record):
    """Hits by row and class; rows by descending share of time, or of hits where an event has none.

    Attributes:
        events: of each column; of the table where it has none, as nothing was chosen.
        classes: what each column is of; the last is `OTHERS` where there are any.
        others: how many classes the last column is of, 0 for none.
        names: of each key a list with a name for each row.
        hits: i64[r, c].
        seconds, half_width_s: f64[r, c] and half of the 95 % interval, NaN where unknown.
        share: f64[r, c] part of all that the column has, 0 to 1.
        total_hits: i64[c], of all rows, shown or not.
        total_s, total_half_width_s: f64[c] likewise.
        left_out: how many rows have less time than `-m`.
        left_out_hits: i64[c] what they hold.
        left_out_s: f64[c] likewise.
    """

    events: tuple[EventInfo, ...]
    classes: list[str]
    others: int
    names: tuple[list[str], ...]
    hits: NDArray[np.int64]
    seconds: NDArray[np.float64]
    half_width_s: NDArray[np.float64]
    share: NDArray[np.float64]
    total_hits: NDArray[np.int64]
    total_s: NDArray[np.float64]
    total_half_width_s: NDArray[np.float64]
    left_out: int
    left_out_hits: NDArray[np.int64]
    left_out_s: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.hits)

    def has_time(self, column: int) -> bool:
        """Whether hits of a column are worth seconds."""
        event = self.events[column]
        return event.seconds_per_period > 0 or event.seconds_per_hit > 0


class _Classes(NamedTuple):
    names: list[str]
    of_hit: NDArray[np.int64]
    others: int


class _Source(NamedTuple):
    """Columns whose hits were sampled alike: i64[h] which of them each hit is in, -1 for none."""

    design: Design
    column: NDArray[np.int64]
    columns: int


class _Cells(NamedTuple):
    """Hits, time, and half of its interval, by row and column."""

    hits: NDArray[np.int64]
    seconds: NDArray[np.float64]
    half_width_s: NDArray[np.float64]


def class_columns(
    view: ReportView, dimension: str, keys: Sequence[str], most: int
) -> list[ClassColumns]:
    """Add hits up by some keys for each class, and estimate the error of each sum.

    Args:
        view: the report.
        dimension: of `COLUMN_DIMENSIONS`.
        keys: of `SORT_KEYS`.
        most: how many columns there may be; classes beyond that are one. Events have one each, as
            what they count does not add up.

    Raises:
        UsageError: the profile does not say which class its hits are of.
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


def _classes(
    profile: CompleteProfile, chosen: NDArray[np.bool_], dimension: str, most: int
) -> _Classes:
    """Return the classes with most hits, by hits or in an order of their own, and the others."""
    numbers, _, name = hit_keys(profile, dimension)
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
    # By the mean share, as what events count does not add up; rows that are not shown behind all.
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


def _cells(source: _Source, row_of_hit: NDArray[np.int64], rows: int) -> _Cells:
    """Return the sums of each row and column of a source."""
    size = rows * source.columns
    is_in = (source.column >= 0) & (row_of_hit >= 0)
    cell = np.where(is_in, row_of_hit * source.columns + source.column, -1).astype(np.int32)
    bars = error_bars(source.design, cell, size)
    hits = exact_sums(cell[is_in], source.design.hits[is_in], size)
    half_width_s = bars.half_width_s if source.design.has_bars else np.full(size, np.nan)
    shape = (rows, source.columns)
    return _Cells(hits.reshape(shape), bars.seconds.reshape(shape), half_width_s.reshape(shape))
