"""Figures → the rows of the pages with tables: routines, processes, causes, threads.

Comes in: `LiveFigures`, a `Place` and a filter. Goes out: a `Page`. Each hit is in one row at most,
so that rows add up, and their error bars are those of the report. What interrupted a process is
not its doing: interrupts are a row of their own beside the processes, as in the report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import distinct_keys
from prospect.estimate.statistics.ranks import alike
from prospect.records import NamedTuple
from prospect.tui.figures import BUCKET_S
from prospect.tui.groups import GROUPS, fitting, in_scope
from prospect.tui.places import WAITING
from prospect.tui.rows import Page

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.tui.figures import LiveFigures
    from prospect.tui.groups import Group
    from prospect.tui.places import Place
    from prospect.tui.rows import Row

BY_TIME = "time"
BY_RECENT = "recent"
BY_NAME = "name"
BY_READY = "ready"
BY_BLOCKED = "blocked"
RECENT_S = 10
_RECENT_BUCKETS = RECENT_S // BUCKET_S
_MOST_ROWS = 150


def orders_of(page: str) -> tuple[str, ...]:
    """Return what the rows of a page can be ordered by, the usual first."""
    if page == WAITING:
        return (BY_TIME, BY_READY, BY_BLOCKED, BY_NAME)
    return (BY_TIME, BY_RECENT, BY_NAME)


class View(NamedTuple):
    """How a table is looked at: `words` is the filter."""

    words: str = ""
    order: str = BY_TIME


def table_page(figures: LiveFigures, place: Place, view: View) -> Page:
    """Return the rows of a table, the heaviest at the top."""
    chosen = figures.is_shown & in_scope(figures, place)
    if view.words:
        chosen &= fitting(figures, place.page, view.words)
    group = GROUPS[place.page](figures, place, chosen)
    at = np.flatnonzero(chosen)
    numbers, row = distinct_keys(group.of_hit.take(at), group.bound)
    row_of_hit = np.full(len(chosen), -1, np.int32)
    row_of_hit[at] = row
    hits = np.bincount(row, figures.design.hits.take(at), len(numbers)).astype(np.int64)
    seconds = np.bincount(row, figures.seconds.take(at), len(numbers)).astype(np.float64)
    history = figures.history(row_of_hit, len(numbers))
    shown, rows = _chosen(group, numbers, _weights(view.order, seconds, history), view)
    rank = np.full(len(numbers) + 1, -1, np.int32)
    rank[shown] = np.arange(len(shown))
    return Page(
        rows=_with_figures(figures, rows, rank.take(row_of_hit), hits[shown], history[shown]),
        more=len(numbers) - len(shown),
        more_s=float(seconds.sum() - seconds[shown].sum()),
        total_s=float(seconds.sum()),
    )


def _weights(
    order: str, seconds: NDArray[np.float64], history: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the figure by which rows are ordered: the one that they show."""
    if order != BY_RECENT:
        return seconds
    recent: NDArray[np.int64] = np.maximum(history[:, -_RECENT_BUCKETS:], 0).sum(axis=1)
    return recent.astype(np.float64)


def _chosen(
    group: Group, numbers: NDArray[np.int64], weight: NDArray[np.float64], view: View
) -> tuple[NDArray[np.int64], list[Row]]:
    """Return which rows are shown, the first one first, and these rows without figures."""
    heaviest = np.argsort(-weight, kind="stable")[:_MOST_ROWS]
    rows = [group.row(number) for number in numbers.take(heaviest).tolist()]
    if view.order != BY_NAME:
        return heaviest, rows
    order = sorted(range(len(rows)), key=lambda one: (rows[one].name, rows[one].process))
    return heaviest.take(np.array(order, np.int64)), [rows[at] for at in order]


def _with_figures(
    figures: LiveFigures,
    rows: list[Row],
    row_of_hit: NDArray[np.int32],
    hits: NDArray[np.int64],
    history: NDArray[np.int64],
) -> tuple[Row, ...]:
    """Give rows their times and error bars."""
    if not rows:
        return ()
    above = np.arange(-1, len(rows) - 1)
    bars = figures.bars(row_of_hit, len(rows), above)
    recent = history[:, -_RECENT_BUCKETS:]
    recent_s = np.where((recent >= 0).all(axis=1), recent.sum(axis=1), np.nan)
    columns = (
        hits.tolist(),
        bars.seconds.tolist(),
        bars.half_width_s.tolist(),
        (recent_s * figures.seconds_per_sample).tolist(),
        history.tolist(),
        alike(bars.seconds, above, bars.difference_half_s).tolist(),
    )
    return tuple(
        row._replace(
            hits=count,
            seconds=seconds,
            half_s=half,
            recent_s=late,
            history=past,
            is_like_above=like,
        )
        for row, count, seconds, half, late, past, like in zip(rows, *columns, strict=True)
    )
