"""JSON: every figure of the report, under a versioned schema.

Comes in: a Profile. Goes out: one JSON document (RFC 8259) in UTF-8, a line for each process and
each table; docs/schema.md describes its fields and docs/report.schema.json checks them. Bytes of a
name that are no UTF-8 stand as the escapes U+DC80 to U+DCFF, as Python's `os.fsdecode` makes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from prospect.estimate.errors.calls import estimate_calls
from prospect.estimate.ledger.agreement import agreements
from prospect.figures.calls.calls_view import CallsChoice, calls_view
from prospect.figures.calls.sample_choice import SampleChoice
from prospect.figures.stacks.stack_quality import stack_quality
from prospect.render.encoding import encoded, listed
from prospect.render.event_report import books_and_events
from prospect.render.figures_renderer import FiguresRenderer
from prospect.render.json.call_counts import call_count_fields
from prospect.render.json.calls import calls_fields
from prospect.render.json.causes import cause_fields, counting_fields, syscall_fields
from prospect.render.json.fields import (
    detail_fields,
    event_fields,
    kernel_fields,
    loss_fields,
    portion_fields,
    process_fields,
    quality_fields,
    run_fields,
    stack_quality_fields,
)
from prospect.render.json.in_short import in_short_fields
from prospect.render.json.ledger import (
    accounting_fields,
    cost_fields,
    lateness_fields,
    ledger_fields,
)
from prospect.render.json.sample_data import sample_data_fields
from prospect.render.json.source_lines import source_line_fields
from prospect.render.json.waiting import throttled_fields, waiting_fields
from prospect.render.text.in_short import in_short_plain
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.estimate.ledger.books import RunBooks
    from prospect.figures.report.view import ReportView
    from prospect.render.event_report import EventReport

SCHEMA = "prospect-report/1"


class JsonRenderer(FiguresRenderer):
    """Every figure of the report, for programs."""

    suffix: ClassVar[str] = ".json"

    def pieces(self, view: ReportView) -> Iterator[bytes]:
        """Yield the document; its big lists piece by piece, so that no big string is built."""
        return _document(view, self)


def _document(view: ReportView, options: JsonRenderer) -> Iterator[bytes]:
    disassemble = options.disassemble
    books, reports = books_and_events(view, disassemble, lines=options.lines)
    design = reports[0].estimates.design
    short, lines = in_short_plain(view, design, options.recording, options.repeated)
    head = {
        "schema": SCHEMA,
        "generator": f"prospect {__version__}",
        "options": {
            "detail": view.detail,
            "user_threshold_s": view.user_threshold_s,
            "kernel_threshold_s": view.kernel_threshold_s,
            **({"disassemble": disassemble} if disassemble else {}),
        },
        "in_short": {**in_short_fields(short), "lines": lines},
        "run": run_fields(view),
        "notes": list(view.notes),
        "warnings": list(view.warnings),
        "statistics": view.counters,
        "losses": loss_fields(view),
        "ledger": ledger_fields(books.ledger),
        "lateness": lateness_fields(books.lateness),
        "own_cost": cost_fields(books.cost),
        **stack_quality_fields(stack_quality(view.profile, view.detail)),
        **waiting_fields(view),
        **throttled_fields(view),
        **sample_data_fields(view.data),
        **_calls(view, options.calls),
    }
    yield b"{"
    for key, value in head.items():
        yield encoded(key) + b": " + encoded(value) + b",\n"
    yield b'"events": ['
    for number, report in enumerate(reports):
        yield b",\n{" if number else b"\n{"
        yield from _event(report, books)
        yield b"}"
    yield b"\n]}\n"


def _calls(view: ReportView, sections: tuple[str, ...]) -> dict[str, Any]:
    if not sections:
        return {}
    if view.profile.stacks is None:
        return {"calls": None}
    calls = calls_view(view.profile, CallsChoice(SampleChoice(view.detail), sections))
    return {"calls": calls_fields(calls, estimate_calls(calls))}


def _event(report: EventReport, books: RunBooks) -> Iterator[bytes]:
    view, event, estimates = report.view, report.event, report.estimates
    processes = event.processes
    kept, skipped = processes.kept_rows, processes.skipped_rows
    head = {
        **event_fields(event.event),
        "has_time": event.has_time,
        "total": portion_fields(event.hits.tolist(), event.seconds.tolist(), estimates.totals),
        "accounting": accounting_fields(agreements(view.profile, event, books.ledger)),
        "kernel_causes": cause_fields(report) if event.causes.is_known else None,
        "system_calls": syscall_fields(report),
        "system_calls_counted": counting_fields(event),
        "call_counts": call_count_fields(view, event),
        "symbol_quality": quality_fields(view, event.quality),
        "processes_skipped": {
            "processes": len(skipped),
            **portion_fields(
                processes.hits.take(skipped, axis=0).sum(axis=0).tolist(),
                processes.seconds.take(skipped, axis=0).sum(axis=0).tolist(),
                estimates.skipped,
            ),
        },
        "details_skipped": event.detail_skipped,
        **({"source_lines": source_line_fields(report.lines.of_all())} if report.lines else {}),
        "remarks_on_errors": list(estimates.sentences),
    }
    for key, value in head.items():
        yield encoded(key) + b": " + encoded(value) + b",\n"
    yield b'"processes": ['
    yield from listed(process_fields(report, row) for row in kept.tolist())
    yield b'],\n"details": ['
    if view.detail != "k":
        yield from listed(detail_fields(report, row) for row in event.detailed.tolist())
    yield b'],\n"kernel_profiles": ['
    yield from listed(kernel_fields(report))
    yield b"]"
