"""Programs and functions of what `-V` asks for: the first screen's tables, as far as `-m` goes.

Processes of a name are one program, and a function is one row wherever it ran; `--separate process`
gives each process rows of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.estimate.in_short import functions_by_process
from prospect.figures.portions import PORTION_COUNT
from prospect.figures.processes import asked_for
from prospect.render.escape import escaped, shortened
from prospect.render.text.columns import Column, table_lines
from prospect.render.text.numbers import NO_TIME, percent, percent_column, percent_digits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.estimate.in_short import FunctionRow, InShort, ProgramRow
    from prospect.render.text.page import Page

_PORTIONS = ("User", "System", "Interrupt", "Other")
# Columns that are always there; the others only if there are any.
_USUAL = 2
_NAME_WIDTH = 24


def program_lines(page: Page, short: InShort) -> Iterator[str]:
    """Yield the section of programs, most time first; nothing if there was no hit."""
    rows, style = short.programs, page.style
    if not rows:
        return
    yield from style.section(f"Programs of {_asked_for(page)}")
    services = [_named(row.service or NO_TIME, row.other_services) for row in rows]
    columns = [
        *_figures(page, short, rows),
        *(_portion(page, [row.by_portion[at] for row in rows], at) for at in range(PORTION_COUNT)),
        Column("Processes", [str(row.processes) for row in rows]),
        Column("Service", services, right=False, when=short.has_services),
        Column("Program", [escaped(row.name) for row in rows], right=False),
    ]
    yield from style.hot_rows(table_lines(columns), _shares(short, rows))
    yield from _closing(page, short, rows, short.more_programs, "program")


def function_lines(page: Page, short: InShort, *, by_process: bool) -> Iterator[str]:
    """Yield the section of functions, most time of their own first; nothing without a hit.

    Args:
        page: the event's.
        short: made with the same threshold as the page.
        by_process: a row for each process that ran a function.
    """
    rows, more, style = short.functions, short.more_functions, page.style
    if by_process:
        rows, more = functions_by_process(page.event, page.report.user_threshold_s)
    if not rows:
        return
    yield from style.section(f"Functions of {_asked_for(page)}")
    ranks = [f"{at}{'=' * row.is_like_above}" for at, row in enumerate(rows, start=1)]
    pids = [str(row.pid) if row.pid >= 0 else "?" for row in rows]
    programs = [_named(row.program, row.other_programs) for row in rows]
    files = [_named(row.object_path.rpartition("/")[2] or row.object_path) for row in rows]
    callers = [_named(row.caller or NO_TIME) for row in rows]
    has_callers = any(row.caller for row in rows)
    columns = [
        Column("Rank", ranks),
        *_figures(page, short, rows),
        Column("Pid", pids, when=by_process),
        Column("Program", programs, right=False),
        Column("Object", files, right=False),
        Column("Called by", callers, right=False, when=has_callers),
        Column("Function", [escaped(row.name) for row in rows], right=False),
    ]
    yield from style.hot_rows(table_lines(columns), [row.share for row in rows])
    yield from _closing(page, short, rows, more, "function" if not by_process else "row")


def _figures(
    page: Page, short: InShort, rows: Sequence[ProgramRow] | Sequence[FunctionRow]
) -> list[Column]:
    """Return the columns that both tables begin with."""
    event, seconds, halves = (
        short.event,
        [row.seconds for row in rows],
        [row.half_s for row in rows],
    )
    times, bars = page.figures.time_columns(seconds, halves, escaped(event.time_title))
    return [
        times._replace(when=short.has_time),
        bars,
        Column(escaped(event.hits_title), [str(row.hits) for row in rows]),
        Column("Share", percent_column(_shares(short, rows), percent_digits(short.hits))),
    ]


def _portion(page: Page, amounts: list[float], portion: int) -> Column:
    """Return the column of a mode, which is left out if it is neither usual nor there."""
    figures = page.figures
    cells = [figures.seconds(one) if figures.has_time else f"{one:.0f}" for one in amounts]
    return Column(_PORTIONS[portion], cells, when=portion < _USUAL or any(amounts))


def _shares(short: InShort, rows: Sequence[ProgramRow] | Sequence[FunctionRow]) -> list[float]:
    if short.has_time:
        return [row.seconds / max(short.seconds, 1e-12) for row in rows]
    return [row.hits / max(short.hits, 1) for row in rows]


def _named(name: str, others: int = 0) -> str:
    """Return a name that fits its column, and how many others there are."""
    more = f" +{others}" if others else ""
    return shortened(escaped(name), _NAME_WIDTH - len(more)) + more


def _closing(
    page: Page,
    short: InShort,
    rows: Sequence[ProgramRow] | Sequence[FunctionRow],
    more: int,
    what: str,
) -> Iterator[str]:
    """Yield what is not shown, and an empty line."""
    if more:
        hits = short.hits - sum(row.hits for row in rows)
        time = f"{page.figures.seconds(short.seconds - sum(row.seconds for row in rows))} s, "
        amount = f"{time if short.has_time else ''}{counted(hits, 'hit')}"
        share = percent(hits / max(short.hits, 1), 1)
        option = f"- Left out by '-m {page.report.user_threshold_s:g}'"
        yield page.style.cut(f"{option}: {counted(more, what)} with {amount} ({share})")
    yield ""


def _asked_for(page: Page) -> str:
    return asked_for(page.report.profile.run, page.report.detail)
