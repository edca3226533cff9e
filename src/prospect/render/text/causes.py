"""Kernel time by cause: why the CPU was in the kernel, for a process and for the system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.figures.causes import CAUSE_KIND_NAMES
from prospect.profile.model import CAUSE_SYSCALL
from prospect.render.escape import escaped
from prospect.render.text.columns import Column, table_lines
from prospect.render.text.numbers import percent_column, percent_digits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.estimate.errors.event_estimates import RowEstimates
    from prospect.figures.causes import CauseRows
    from prospect.render.text.page import Page

_CALLS_IN_ONE = "all, see System Calls"


def process_cause_lines(page: Page, process: int) -> Iterator[str]:
    """Yield a process's block; nothing where it took no kernel time or no causes are known."""
    if not page.event.causes.is_known:
        return
    rows = page.event.causes.of_process(process, calls_in_one=True)
    if len(rows):
        yield page.style.title("Kernel time by cause:")
        yield from _lines(page, rows, page.event.estimates.causes.rows(rows.place))
        yield ""


def system_cause_lines(page: Page) -> Iterator[str]:
    """Yield the section of the whole system; nothing where no causes are known."""
    if page.event.causes.is_known:
        yield from page.style.section("KERNEL Time by Cause, All Processes")
        rows = page.event.causes.of_system()
        yield from _lines(page, rows, page.event.estimates.causes.rows(rows.place))
        yield ""


def _lines(page: Page, rows: CauseRows, estimates: RowEstimates) -> Iterator[str]:
    shown = rows.shown
    if shown:
        seconds, halves = rows.seconds[:shown].tolist(), estimates.half_width_s[:shown]
        shares = percent_column(rows.share[:shown].tolist(), percent_digits(rows.total_hits))
        kinds = [CAUSE_KIND_NAMES[kind] for kind in rows.kind[:shown].tolist()]
        yield from table_lines(
            [
                Column("Pcnt", shares),
                Column("Hits", [str(hits) for hits in rows.hits[:shown].tolist()]),
                *page.figures.time_columns(seconds, halves),
                Column("Cause", kinds, right=False),
                Column("Which", [_which(rows, row) for row in range(shown)], right=False),
            ]
        )
    if shown < len(rows):
        first_s = float(rows.seconds[shown])
        what = f"{counted(len(rows) - shown, 'cause')}, {counted(rows.skipped_hits, 'hit')}"
        threshold_s = page.report.kernel_threshold_s
        yield page.style.cut(page.style.words.skipped(first_s, "-k", threshold_s, what))


def _which(rows: CauseRows, row: int) -> str:
    if not rows.name[row] and rows.kind[row] == CAUSE_SYSCALL:
        return _CALLS_IN_ONE
    return escaped(rows.name[row])
