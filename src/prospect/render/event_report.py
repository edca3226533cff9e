"""The figures of an event with what is estimated of them: what every format writes down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.errors import UsageError
from prospect.estimate.clocks.grid import tick_grid
from prospect.estimate.errors.report import estimate_report
from prospect.estimate.ledger.books import run_books
from prospect.estimate.ledger.late_routines import lateness_of_view
from prospect.records import Record

if TYPE_CHECKING:
    from prospect.estimate.annotate.disassembly import EventCode
    from prospect.estimate.annotate.source_lines import EventLines
    from prospect.estimate.clocks.grid import Grid
    from prospect.estimate.errors.report import EventEstimates
    from prospect.estimate.ledger.books import RunBooks
    from prospect.estimate.ledger.late_routines import LateRoutines
    from prospect.estimate.ledger.lateness import Lateness
    from prospect.figures.report.view import EventView, ReportView


class EventReport(Record):
    """One event of a report.

    Attributes:
        view: of the whole report.
        event: of this event.
        estimates: its error bars and marks.
        late: the late shares of its kernel routines, None where its clock is no timer.
        code: its hits by instruction, None unless asked for.
        lines: its hits by source line, likewise.
    """

    view: ReportView
    event: EventView
    estimates: EventEstimates
    late: LateRoutines | None
    code: EventCode | None
    lines: EventLines | None


def books_and_events(
    view: ReportView, disassemble: int = 0, *, lines: bool = False
) -> tuple[RunBooks, list[EventReport]]:
    """Balance the books of a report and estimate its errors, both on one grid of ticks.

    Args, Raises: those of `event_reports`.
    """
    grid = tick_grid(view.by_routine)
    books = run_books(view.by_routine, grid)
    return books, event_reports(view, grid, books.lateness, disassemble, lines=lines)


def event_reports(
    view: ReportView,
    grid: Grid | None,
    lateness: Lateness | None,
    disassemble: int = 0,
    *,
    lines: bool = False,
) -> list[EventReport]:
    """Estimate the errors of a report.

    Args:
        view: the report.
        grid: the `tick_grid` of `view.by_routine`.
        lateness: of its samples, None where it is not known.
        disassemble: whether instructions are shown: not at all, of the routines that pass the
            thresholds (1) or of every one (2).
        lines: whether hits are shown by source line.

    Raises:
        UsageError: instructions or lines are asked for, and the profile was made without.
    """
    if disassemble and view.profile.code is None:
        raise UsageError(
            "the profile has no instructions: one of another tool never has; "
            "in Python, open a recording with code=True"
        )
    if lines and view.profile.lines is None:
        raise UsageError(
            "the profile has no source lines: one of another tool never has; "
            "in Python, open a recording with lines=True"
        )
    estimates = estimate_report(view, grid).events
    late = lateness_of_view(view, lateness)
    return [
        EventReport(
            view=view,
            event=event,
            estimates=of_event,
            late=routines,
            code=_code(view, event, disassemble) if disassemble else None,
            lines=_lines(view, event) if lines else None,
        )
        for event, of_event, routines in zip(view.events, estimates, late, strict=True)
    ]


def _code(view: ReportView, event: EventView, disassemble: int) -> EventCode:
    from prospect.estimate.annotate.disassembly import event_code  # noqa: PLC0415 - seldom asked for

    return event_code(view, event, disassemble)


def _lines(view: ReportView, event: EventView) -> EventLines:
    from prospect.estimate.annotate.source_lines import event_lines  # noqa: PLC0415 - seldom asked for

    return event_lines(view, event)
