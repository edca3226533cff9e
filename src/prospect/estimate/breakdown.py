"""Rows of hits by keys, the one with most time first: which are shown, and how sure they are.

The first screen, *Programs* and *Functions*, `--sort`, `prospect top` and notebooks are made of
these rows, and the table of `--columns` has them with a column for each class.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import equal_rows, exact_sums, packed_keys, rows_in_groups
from prospect.estimate.clocks.grid import tick_grid
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import error_bars, half_widths
from prospect.estimate.statistics.ranks import alike, needed_seconds
from prospect.estimate.wall_seconds import wall_seconds
from prospect.figures.hit_keys import hit_keys, kept_apart
from prospect.figures.modes import event_seconds, event_weight
from prospect.figures.processes import chosen_hits, idle_hits
from prospect.profile.model import ENTRY_REASON_IDLE
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.estimate.errors.design import Design
    from prospect.estimate.errors.error_bars import Parts
    from prospect.estimate.finished_report import EventReport
    from prospect.profile.complete import ProfileByFunction
    from prospect.profile.run_info import EventInfo


class Bound(NamedTuple):
    """Which rows are shown.

    Attributes:
        most: the first ones.
        least_s: and all with so much time, in seconds; all of an event without time.
    """

    most: int = 0
    least_s: float = np.inf


class RowErrors(NamedTuple):
    """How sure the rows are.

    Attributes:
        half_width_s: f64[r] half of the 95 % interval, NaN where unknown.
        is_like_above: bool[r] whether a row cannot be told from the one above.
        needed_s: f64[r] how long a run would have to be to tell it from that; see `needed_seconds`.
    """

    half_width_s: NDArray[np.float64]
    is_like_above: NDArray[np.bool_]
    needed_s: NDArray[np.float64]


class Breakdown(Record):
    """Rows by descending time, or hits where the event has no time.

    Attributes:
        profile: whose hits these are.
        design: how they were sampled.
        chosen: bool[h] the hits that are added up.
        example: i64[r] a hit of each row.
        names: of each key a list with a name for each row; none if keys are no dimensions.
        hits: i64[r].
        seconds, share: f64[r] their time, and their part of all chosen hits, 0 to 1.
        row_of_hit: i32[h] row of each of the profile's hits, -1 for none.
        left_out, left_out_hits, left_out_s: how many rows are not shown, and what they hold.
        total_hits, total_s: of all rows, shown or not.
    """

    profile: ProfileByFunction
    design: Design
    chosen: NDArray[np.bool_]
    example: NDArray[np.int64]
    names: tuple[list[str], ...]
    hits: NDArray[np.int64]
    seconds: NDArray[np.float64]
    share: NDArray[np.float64]
    row_of_hit: NDArray[np.int32]
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

    def sums_of(self, by_hit: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return f64[r]: an amount of each of the profile's hits, f64[h], added up by row."""
        member = self.row_of_hit >= 0
        sums = np.bincount(self.row_of_hit[member], by_hit[member], len(self))
        return sums.astype(np.float64)

    @cached_property
    def wall_s(self) -> NDArray[np.float64] | None:
        """Their wall time, f64[r]; None where samples do not tell it."""
        busy = self.chosen & ~idle_hits(self.profile)
        by_hit = wall_seconds(self.profile, self.design, busy)
        return None if by_hit is None else self.sums_of(by_hit)

    def ordered(self, rows: NDArray[np.int64]) -> Breakdown:
        """Return some of the rows, in another order; the others are left out."""
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
        """Estimate how sure the rows are.

        Args:
            parts: of several tables, as of `error_bars`.
        """
        if not (self.design.has_bars and len(self)):
            unknown = np.full(len(self), np.nan)
            return RowErrors(unknown, np.zeros(len(self), np.bool_), unknown)
        above = np.arange(len(self)) - 1
        bars = error_bars(self.design, self.row_of_hit, len(self), above, parts)
        difference_s, wall_s = bars.difference_half_width_s, self.profile.run.wall_seconds
        return RowErrors(
            bars.half_width_s,
            alike(bars.seconds, above, difference_s),
            needed_seconds(bars.seconds, above, difference_s, wall_s),
        )

    @cached_property
    def _errors(self) -> RowErrors:
        return self.errors()

    @property
    def half_width_s(self) -> NDArray[np.float64]:
        """Half of each row's 95 % interval, f64[r]; NaN where unknown."""
        return self._errors.half_width_s

    @property
    def is_like_above(self) -> NDArray[np.bool_]:
        """Which rows cannot be told from the one above, bool[r]."""
        return self._errors.is_like_above

    @cached_property
    def total_half_width_s(self) -> float:
        """Half of the 95 % interval of all rows together; NaN where unknown."""
        return float(half_widths(self.design, np.where(self.chosen, 0, -1), 1)[0])


def breakdown(
    profile: ProfileByFunction,
    design: Design,
    chosen: NDArray[np.bool_],
    keys: Sequence[NDArray[np.int64]],
    bound: Bound,
) -> Breakdown:
    """Add hits up by keys, and take the rows with most time.

    Args:
        profile: completed.
        design: of the event whose hits are chosen.
        chosen: bool[h] the hits that are added up.
        keys: i64[h] each, what they are added up by.
        bound: which rows are shown.
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
    event: EventReport,
    keys: Sequence[str],
    bound: Bound | None = None,
    *,
    idle: bool = True,
) -> Breakdown:
    """Add an event's hits up by dimensions.

    Args:
        event: of a report.
        keys: of `SORT_KEYS`.
        bound: which rows are shown; None for those that pass the report's threshold.
        idle: whether CPUs with nothing to do are in rows, too.
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


def combined(columns: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Number the combinations of equally long columns, ascending with the first one leading.

    Returns:
        i64[n] the number of each place's combination, and for each number a place that has it.
    """
    number, first = np.zeros(len(columns[0]), np.int64), np.zeros(0, np.intp)
    for column in columns if len(number) else ():
        packed, _ = packed_keys((number, column))
        order, starts = equal_rows(packed)
        number = rows_in_groups(order, starts).astype(np.int64)
        first = order.take(starts)
    return number, first
