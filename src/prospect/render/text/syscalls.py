"""System calls of a process: kernel time by call, and what was counted beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import counted
from prospect.figures.portions import ROUNDING_S
from prospect.render.escape import escaped
from prospect.render.text.columns import Column, table_lines
from prospect.render.text.numbers import microseconds, percent_column, percent_digits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.figures.report.syscalls import SyscallRows
    from prospect.figures.report.view import EventView
    from prospect.render.text.page import Page

_MANY = 0.01  # of all calls that were counted
# What estimates call the whole system instead of the row of a process.
_SYSTEM = -1
# The processes that -V chooses, for whose sum there is no estimate.
_CHOSEN = -2


def syscall_lines(page: Page, process: int) -> Iterator[str]:
    """Yield a process's section; nothing where it made no system call that is known."""
    if page.event.calls.is_counted or page.event.causes.is_known:
        calls = page.event.calls.of_process(process)
        yield from _section(page, page.style.words.system_calls, calls, process)


def chosen_call_lines(page: Page) -> Iterator[str]:
    """Yield the section of what `-V 3` chooses, whose numbers are sums over these processes."""
    if page.event.calls.is_counted and page.report.detail == "3":
        title = "System Calls, the Command and Its Descendants"
        yield from _section(page, title, page.event.chosen_calls, _CHOSEN)


def system_call_lines(page: Page) -> Iterator[str]:
    """Yield the section of all processes; where no calls were counted, the causes say it all."""
    if page.event.calls.is_counted:
        yield from _section(page, "System Calls, All Processes", page.event.calls.system, _SYSTEM)


def _section(page: Page, title: str, rows: SyscallRows, process: int) -> Iterator[str]:
    view, event, style = page.report, page.event, page.style
    is_known = event.calls.is_counted or event.causes.is_known
    if not is_known or not len(rows):
        return
    yield from style.section(title)
    is_shown = _shown(rows, view.kernel_threshold_s, event)
    chosen = np.flatnonzero(is_shown)
    if len(chosen):
        yield from _table(page, process, rows, chosen)
    left = np.flatnonzero(~is_shown)
    if len(left):
        first_s = float(rows.sampled_s[left[0]])
        hits = counted(int(rows.hits[left].sum()), "hit")
        what = f"{counted(len(left), 'call')}, {hits}"
        yield style.cut(style.words.skipped(first_s, "-k", view.kernel_threshold_s, what))
    yield ""


def _shown(rows: SyscallRows, threshold_s: float, event: EventView) -> NDArray[np.bool_]:
    """Return bool[c]: calls whose time, sampled or inside, reaches the threshold, or that are many.

    A call that takes little time a thousand times is what counting is for.
    """
    least_s = threshold_s - ROUNDING_S
    if not event.has_time:
        return np.ones(len(rows), np.bool_)
    are_many = (rows.calls > 0) & (rows.calls >= _MANY * rows.calls.sum())
    shown: NDArray[np.bool_] = (rows.sampled_s >= least_s) | (rows.time_s >= least_s) | are_many
    return shown


def _table(page: Page, process: int, rows: SyscallRows, chosen: NDArray[np.int64]) -> Iterator[str]:
    event, is_counted = page.event, page.event.calls.is_counted
    names = [rows.name[row] for row in chosen.tolist()]
    digits = percent_digits(int(rows.hits.sum()))
    calls = rows.calls.take(chosen).tolist()
    inside = [f"{seconds:.6f}" for seconds in rows.time_s.take(chosen).tolist()]
    means = [microseconds(seconds) for seconds in rows.mean_s.take(chosen).tolist()]
    columns = [
        Column("Pcnt", percent_column(rows.share.take(chosen).tolist(), digits)),
        Column("Hits", [str(number) for number in rows.hits.take(chosen).tolist()]),
        *page.figures.time_columns(
            rows.sampled_s.take(chosen).tolist(),
            page.event.estimates.calls_half_width_s(event, names, process),
        ),
        Column("Calls", [str(number) for number in calls], when=is_counted),
        Column("Secs inside", inside, when=is_counted),
        Column("Mean usec", means, when=is_counted),
        Column("System call", [escaped(name) for name in names], right=False),
    ]
    if is_counted and process in (_SYSTEM, _CHOSEN):
        sums = {"Calls": str(rows.calls.sum()), "Hits": str(rows.hits.sum())}
        total = {**sums, "System call": "total"}
        columns = [
            column._replace(cells=[*column.cells, total.get(column.title, "")])
            for column in columns
        ]
    yield from table_lines(columns)
