"""The rows of the pages with tables: functions, processes, entry reasons, threads.

Each hit is in one row at most, so that rows add up, and their error bars are those of the report.
A process does not cause its interrupts: they are their own row next to the processes, as in
the report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.breakdown import Bound, breakdown
from prospect.records import NamedTuple
from prospect.tui.figures import BUCKET_S
from prospect.tui.groups import GROUPS, fitting, in_scope
from prospect.tui.rows import Page
from prospect.tui.screen_places import WAITING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.breakdown import Breakdown
    from prospect.tui.figures import LiveFigures
    from prospect.tui.groups import Group
    from prospect.tui.rows import Row
    from prospect.tui.screen_places import Place

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
    every = breakdown(figures.profile, figures.design, chosen, [group.of_hit], Bound(least_s=0.0))
    history = figures.history(every.row_of_hit, len(every))
    shown, rows = _shown(group, every, history, view)
    table = every.ordered(shown)
    return Page(
        rows=_with_figures(figures, rows, table, history[shown]),
        more=table.left_out,
        more_s=table.left_out_s,
        total_s=table.total_s,
    )


def _shown(
    group: Group, every: Breakdown, history: NDArray[np.int64], view: View
) -> tuple[NDArray[np.int64], list[Row]]:
    """Return which rows are shown, the first one first, and these rows without figures."""
    heaviest = np.arange(len(every))
    if view.order == BY_RECENT:
        recent = np.maximum(history[:, -_RECENT_BUCKETS:], 0).sum(axis=1)
        heaviest = np.argsort(-recent, kind="stable")
    heaviest = heaviest[:_MOST_ROWS]
    numbers = group.of_hit.take(every.example.take(heaviest)).tolist()
    rows = [group.row(number) for number in numbers]
    if view.order != BY_NAME:
        return heaviest, rows
    order = sorted(range(len(rows)), key=lambda one: (rows[one].name, rows[one].process))
    return heaviest.take(np.array(order, np.int64)), [rows[at] for at in order]


def _with_figures(
    figures: LiveFigures, rows: list[Row], table: Breakdown, history: NDArray[np.int64]
) -> tuple[Row, ...]:
    """Give rows their times and error bars."""
    recent = history[:, -_RECENT_BUCKETS:]
    recent_s = np.where((recent >= 0).all(axis=1), recent.sum(axis=1), np.nan)
    columns = (
        table.hits.tolist(),
        table.seconds.tolist(),
        table.half_width_s.tolist(),
        (recent_s * figures.seconds_per_sample).tolist(),
        history.tolist(),
        table.is_like_above.tolist(),
    )
    return tuple(
        row._replace(
            hits=count,
            seconds=seconds,
            half_width_s=half,
            recent_s=late,
            history=past,
            is_like_above=like,
        )
        for row, count, seconds, half, late, past, like in zip(rows, *columns, strict=True)
    )
