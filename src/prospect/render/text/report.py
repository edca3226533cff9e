"""The text report as a whole: its sections in order, streamed.

Comes in: a Profile. Goes out: UTF-8 lines as docs/report.md describes them, after the sections
of Prospect 0.9's report (Tsariounov, OLS 2002).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from prospect.estimate.agreement import agreements
from prospect.estimate.books import run_books
from prospect.profile.view import report_view
from prospect.render.event_report import event_reports
from prospect.render.renderer import write_pieces
from prospect.render.text.accounting import accounting_lines
from prospect.render.text.causes import system_cause_lines
from prospect.render.text.details import details_lines
from prospect.render.text.escape import escaped
from prospect.render.text.header import header_lines
from prospect.render.text.kernel import kernel_lines
from prospect.render.text.ledger import ledger_lines
from prospect.render.text.numbers import Figures
from prospect.render.text.page import Page
from prospect.render.text.quality import quality_lines
from prospect.render.text.routines import RoutineFormatter
from prospect.render.text.statistics import statistics_lines
from prospect.render.text.style import RULE, Style
from prospect.render.text.summary import summary_lines
from prospect.render.text.syscalls import system_call_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from prospect.estimate.books import RunBooks
    from prospect.profile.model import Profile
    from prospect.profile.processes import Detail
    from prospect.profile.view import EventView, ReportView


@dataclass(frozen=True)
class TextRenderer:
    """Prospect's report, for people.

    Attributes:
        detail: `-V`: "2" the command, "3" its descendants too, "4" every process, "k" the kernel.
        user_threshold_s: `-m`: leave out rows under so much user time.
        kernel_threshold_s: `-k`: the same for kernel time.
        colour: mark titles, warnings and cut lines for a terminal.
    """

    name: ClassVar[str] = "text"
    suffix: ClassVar[str] = ".txt"
    media_type: ClassVar[str] = "text/plain; charset=utf-8"

    detail: Detail = "2"
    user_threshold_s: float = 0.02
    kernel_threshold_s: float = 0.02
    colour: bool = False

    def render(self, profile: Profile, out: BinaryIO) -> None:
        """Write the report to `out`, which stays open.

        Raises:
            RenderError: `out` cannot be written.
            UsageError: an option has no meaning.
        """
        view = report_view(profile, self.detail, self.user_threshold_s, self.kernel_threshold_s)
        lines = report_lines(view, Style(self.colour))
        write_pieces((f"{line}\n".encode() for line in lines), out)


def report_lines(view: ReportView, style: Style) -> Iterator[str]:
    """Yield the lines of a report without their ends."""
    yield from header_lines(view, style)
    books = run_books(view.profile)
    pages = _pages(view, books, style)
    yield from statistics_lines(view, style)
    yield from ledger_lines(view, books, style)
    for number, page in enumerate(pages, start=1):
        if len(pages) > 1:
            yield RULE
            yield style.title(
                f"Event {number} of {len(pages)} with hits: {escaped(page.event.event.name)}"
            )
        yield from _event_lines(page, books)


def _pages(view: ReportView, books: RunBooks, style: Style) -> list[Page]:
    return [
        Page(*report, _figures(report.event), style)
        for report in event_reports(view, books.lateness)
    ]


def _figures(event: EventView) -> Figures:
    return Figures(int(event.hits.sum()), float(event.seconds.sum()), has_time=event.has_time)


def _event_lines(page: Page, books: RunBooks) -> Iterator[str]:
    view, event, figures, style = page.view, page.event, page.figures, page.style
    routines = RoutineFormatter(view.profile, figures, style)
    yield from summary_lines(page)
    accounted = agreements(view.profile, event, books.ledger)
    yield from accounting_lines(accounted, figures, style)
    if view.detail != "k":
        yield from details_lines(page, routines)
    if event.kernel is not None:
        yield from kernel_lines(page, event.kernel, routines)
        yield from system_cause_lines(page)
        yield from system_call_lines(page)
    yield from quality_lines(view, event.quality, figures, style)
