"""Time by any keys of a sample: program, process, thread, object, routine, mode, cause and others.

There is one row for each combination that was hit, most time first, of the processes that `-V` asks
for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import equal_rows, packed_keys, rows_in_groups
from prospect.estimate.clocks.grid import tick_grid
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import error_bars, half_widths
from prospect.estimate.errors.first_rows import Bound, first_rows
from prospect.estimate.statistics.ranks import alike
from prospect.figures.hit_keys import hit_keys, kept_apart_for
from prospect.figures.processes import chosen_hits
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.estimate.report import EventReport
    from prospect.profile.run_info import EventInfo


class RowsByKeys(Record):
    """One event's hits by some keys, by descending time, or hits where the event has no time.

    Attributes:
        event: whose hits these are.
        has_time: whether they are worth seconds.
        names: of each key a list with a name for each row.
        hits: i64[r].
        seconds, half_s: f64[r] and half of the 95 % interval, NaN where unknown.
        share: f64[r] part of all that is asked for, 0 to 1.
        is_like_above: bool[r] whether a row cannot be told from the one above.
        left_out, left_out_hits, left_out_s: rows of less time than `-m`, and what they hold.
        total_hits, total_s, total_half_s: of all rows, shown or not.
    """

    event: EventInfo
    has_time: bool
    names: tuple[list[str], ...]
    hits: NDArray[np.int64]
    seconds: NDArray[np.float64]
    half_s: NDArray[np.float64]
    share: NDArray[np.float64]
    is_like_above: NDArray[np.bool_]
    left_out: int
    left_out_hits: int
    left_out_s: float
    total_hits: int
    total_s: float
    total_half_s: float

    def __len__(self) -> int:
        return len(self.hits)


def rows_by_keys(event: EventReport, keys: Sequence[str]) -> RowsByKeys:
    """Add an event's hits up by some of `SORT_KEYS`, and estimate the error of each row."""
    report = event.report
    profile = kept_apart_for(report.profile, keys)
    grid = report.grid if profile is report.profile else tick_grid(profile)
    design = sampling_design(profile, event.event_index, grid)
    chosen = chosen_hits(profile, report.detail) & (profile.hits.event == event.event_index)
    at = np.flatnonzero(chosen)
    columns = [hit_keys(profile, key) for key in keys]
    row_of, first_at = combined([column.number.take(at) for column in columns])
    found = first_rows(profile, design, at, row_of, Bound(len(first_at)))
    is_shown = found.seconds >= report.user_threshold_s if design.has_time else found.hits > 0
    shown = int(np.count_nonzero(is_shown))  # the rows descend
    # All others are one row behind those shown; each hit is in one of them.
    row = np.minimum(found.row_of_hit, shown)
    above = np.append(np.arange(shown) - 1, -1)
    bars = error_bars(design, row, shown + 1, above)
    (total_half_s,) = half_widths(design, np.where(chosen, 0, -1), 1).tolist()
    unknown = np.full(shown, np.nan)
    is_alike = alike(bars.seconds, above, bars.difference_half_s)[:shown]
    example = at.take(first_at.take(found.key[:shown]))
    return RowsByKeys(
        event=event.event,
        has_time=design.has_time,
        names=tuple(column.texts(example) for column in columns),
        hits=found.hits[:shown],
        seconds=found.seconds[:shown],
        half_s=bars.half_width_s[:shown] if design.has_bars else unknown,
        share=found.share[:shown],
        is_like_above=is_alike & design.has_bars,
        left_out=len(found.key) - shown,
        left_out_hits=int(found.hits[shown:].sum()),
        left_out_s=float(found.seconds[shown:].sum()),
        total_hits=int(found.hits.sum()),
        total_s=float(found.seconds.sum()),
        total_half_s=total_half_s,
    )


def combined(columns: list[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Number the combinations of equally long columns.

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
