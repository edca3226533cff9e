"""The text report: its sections in order, streamed as UTF-8 lines.

docs/report.md describes them: the answer in short, where the time went, then the evidence.
`--classic` gives the same sections in the order of Prospect 0.9's report (Tsariounov, OLS 2002).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, ClassVar

from prospect.estimate.summary import summary
from prospect.render.escape import escaped
from prospect.render.renderer import FiguresRenderer, encoded
from prospect.render.text.details import details_lines, memory_map_lines
from prospect.render.text.first_screen import in_short_lines
from prospect.render.text.function_table import FunctionFormatter
from prospect.render.text.kernel import kernel_lines, system_call_lines, system_entry_reason_lines
from prospect.render.text.programs import function_lines, program_lines, summary_lines
from prospect.render.text.quality_sections import (
    accounting_lines,
    header_lines,
    quality_lines,
    sample_accounting_lines,
    statistics_lines,
)
from prospect.render.text.style import RULE, Figures, Page, Style, Words, note_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.estimate.finished_report import EventReport, Report
    from prospect.estimate.summary import Summary


class TextRenderer(FiguresRenderer):
    """Prospect's report, for people."""

    shows_code: ClassVar[bool] = True
    shows_lines: ClassVar[bool] = True

    def pieces(self, report: Report) -> Iterator[bytes]:
        """Yield the lines of the report."""
        style = Style(self.colour, Words(self.classic))
        pages = [Page(event, _figures(event), style) for event in report.events]
        calls = _calls(report, self.calls, style)
        if self.classic:
            lines = itertools.chain(_classic(report, pages, style), calls)
        else:
            shorts = [summary(event, report.user_threshold_s) for event in report.events]
            by_process = "process" in self.separate
            lines = itertools.chain(
                in_short_lines(report, shorts[0], self.recording, style, self.repeated),
                _figures_first(
                    report, list(zip(pages, shorts, strict=True)), style, by_process=by_process
                ),
                calls,
                _evidence(report, pages, style),
            )
        return encoded(lines)


def _classic(report: Report, pages: list[Page], style: Style) -> Iterator[str]:
    """Yield all sections in the order of Prospect 0.9's."""
    yield from header_lines(report, style)
    yield from note_lines(report.notes)
    yield from style.warnings(report.warnings)
    yield ""
    yield from statistics_lines(report, style)
    yield from sample_accounting_lines(report, style)
    yield from _stack_quality(report, style)
    yield from _rare_lines(report, style)
    for page in pages:
        yield from _event_title(page, pages)
        yield from summary_lines(page)
        yield from accounting_lines(page.event.accounting, page.figures, style)
        functions = _functions(page)
        yield from _details(page, functions)
        yield from _of_all_lines(page, functions)
        yield from quality_lines(report, page.event.quality, page.figures, style)


def _figures_first(
    report: Report, pages: list[tuple[Page, Summary]], style: Style, *, by_process: bool
) -> Iterator[str]:
    """Yield where the time went, of all chosen processes and of each."""
    yield from ["", *style.warnings(report.warnings)]
    for page, short in pages:
        yield from _event_title(page, [one for one, _ in pages])
        yield from program_lines(page, short)
        yield from function_lines(page, short, by_process=by_process)
        functions = _functions(page)
        yield from _of_all_lines(page, functions)
        yield from summary_lines(page)
        yield from _details(page, functions)
    yield from _rare_lines(report, style)


def _evidence(report: Report, pages: list[Page], style: Style) -> Iterator[str]:
    """Yield what was recorded, how, and the quality of the samples."""
    yield from style.section("The Run")
    yield from header_lines(report, style)
    yield from note_lines(report.notes)
    yield ""
    yield from statistics_lines(report, style)
    yield from sample_accounting_lines(report, style)
    for page in pages:
        yield from _event_title(page, pages)
        yield from accounting_lines(page.event.accounting, page.figures, style)
    yield from _stack_quality(report, style)
    for page in pages:
        yield from quality_lines(report, page.event.quality, page.figures, style)
    detailed = {process: None for page in pages for process in page.event.detailed.tolist()}
    for process in detailed if report.detail != "k" else ():
        yield from memory_map_lines(report, process, style)


def _stack_quality(report: Report, style: Style) -> Iterator[str]:
    """Yield the quality of call stacks, if some are cut."""
    if report.has_short_stacks:
        from prospect.render.text.quality_sections import stack_quality_lines  # noqa: PLC0415 - rarely there

        yield from stack_quality_lines(report.stack_quality, style)


def _rare_lines(report: Report, style: Style) -> Iterator[str]:
    """Yield the sections that few recordings have: data of event sources, waits, several events."""
    if report.data:
        from prospect.render.text.event_sections import sample_data_lines  # noqa: PLC0415 - rarely there

        yield from sample_data_lines(report.data, style)
    if report.wall is not None:
        from prospect.render.text.wall import wall_lines  # noqa: PLC0415 - rarely there

        yield from wall_lines(report, style)
    if report.turns is not None:
        from prospect.render.text.turns_section import turns_lines  # noqa: PLC0415 - rarely there

        yield from turns_lines(report, style)
    if report.waiting is not None:
        from prospect.render.text.waiting_section import waiting_lines  # noqa: PLC0415 - rarely there

        yield from waiting_lines(report, style)
    if len(report.events) > 1:
        from prospect.render.text.event_sections import side_by_side_lines  # noqa: PLC0415 - rarely there

        yield from side_by_side_lines(report, style)


def _calls(report: Report, sections: tuple[str, ...], style: Style) -> Iterator[str]:
    """Yield who called whom."""
    if not sections:
        return
    yield from ["", RULE]
    found = report.calls(sections)
    if found is None:
        yield "Note: no sample has a call chain, so there are no callers or callees."
        return
    from prospect.render.text.call_sections import calls_lines  # noqa: PLC0415 - rarely asked for

    yield from calls_lines(*found, style)


def _figures(event: EventReport) -> Figures:
    return Figures(int(event.hits.sum()), float(event.seconds.sum()), has_time=event.has_time)


def _event_title(page: Page, pages: list[Page]) -> Iterator[str]:
    """Yield the title of an event, if there are several."""
    if len(pages) > 1:
        name, samples = escaped(page.event.event.name), page.style.words.term("samples")
        yield RULE
        yield page.style.title(
            f"Event {pages.index(page) + 1} of {len(pages)} with {samples}: {name}"
        )


def _functions(page: Page) -> FunctionFormatter:
    return FunctionFormatter(page.report.profile, page.figures, page.style)


def _details(page: Page, functions: FunctionFormatter) -> Iterator[str]:
    """Yield the details of each process."""
    if page.event.code is not None:
        from prospect.render.text.disassembly import disassembly_note  # noqa: PLC0415 - rarely asked for

        yield from disassembly_note(page)
    if page.report.detail != "k":
        yield from details_lines(page, functions)


def _of_all_lines(page: Page, functions: FunctionFormatter) -> Iterator[str]:
    """Yield the sections on all processes together: the kernel, source lines, counted calls."""
    if page.event.kernel is not None:
        yield from kernel_lines(page, page.event.kernel, functions)
        yield from system_entry_reason_lines(page)
        yield from system_call_lines(page)
    if page.event.lines is not None:
        from prospect.render.text.source_lines import all_source_lines  # noqa: PLC0415 - rarely asked for

        yield from all_source_lines(page)
    if page.report.profile.call_counts is not None:
        from prospect.render.text.call_sections import call_count_lines  # noqa: PLC0415 - rarely asked for

        yield from call_count_lines(page)
