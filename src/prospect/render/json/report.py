"""JSON: every figure of the report, under a versioned schema.

Comes in: a Profile. Goes out: one JSON document (RFC 8259) in UTF-8, a line for each process and
each table; docs/schema.md describes its fields and docs/report.schema.json checks them. Bytes of a
name that are no UTF-8 stand as the escapes U+DC80 to U+DCFF, as Python's `os.fsdecode` makes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from prospect.figures.stacks.stack_quality import stack_quality
from prospect.render.encoding import encoded, listed
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

    from prospect.estimate.report import EventReport, Report

SCHEMA = "prospect-report/1"


class JsonRenderer(FiguresRenderer):
    """Every figure of the report, for programs."""

    suffix: ClassVar[str] = ".json"
    shows_code: ClassVar[bool] = True
    shows_lines: ClassVar[bool] = True

    def pieces(self, report: Report) -> Iterator[bytes]:
        """Yield the document; its big lists piece by piece, so that no big string is built."""
        return _document(report, self)


def _document(report: Report, options: JsonRenderer) -> Iterator[bytes]:
    short, lines = in_short_plain(report, options.recording, options.repeated)
    head = {
        "schema": SCHEMA,
        "generator": f"prospect {__version__}",
        "options": {
            "detail": report.detail,
            "user_threshold_s": report.user_threshold_s,
            "kernel_threshold_s": report.kernel_threshold_s,
            **({"disassemble": report.disassemble} if report.disassemble else {}),
        },
        "in_short": {**in_short_fields(short), "lines": lines},
        "run": run_fields(report),
        "notes": list(report.notes),
        "warnings": list(report.warnings),
        "statistics": report.counters,
        "losses": loss_fields(report),
        "ledger": ledger_fields(report.ledger),
        "lateness": lateness_fields(report.lateness),
        "own_cost": cost_fields(report.cost),
        **stack_quality_fields(stack_quality(report.profile, report.detail)),
        **waiting_fields(report),
        **throttled_fields(report),
        **sample_data_fields(report.data),
        **_calls(report, options.calls),
    }
    yield b"{"
    for key, value in head.items():
        yield encoded(key) + b": " + encoded(value) + b",\n"
    yield b'"events": ['
    for number, event in enumerate(report.events):
        yield b",\n{" if number else b"\n{"
        yield from _event(event)
        yield b"}"
    yield b"\n]}\n"


def _calls(report: Report, sections: tuple[str, ...]) -> dict[str, Any]:
    if not sections:
        return {}
    found = report.calls(sections)
    return {"calls": found and calls_fields(*found)}


def _event(event: EventReport) -> Iterator[bytes]:
    report, estimates = event.report, event.estimates
    processes = event.processes
    kept, skipped = processes.kept_rows, processes.skipped_rows
    head = {
        **event_fields(event.event),
        "has_time": event.has_time,
        "total": portion_fields(event.hits.tolist(), event.seconds.tolist(), estimates.totals),
        "accounting": accounting_fields(event.accounting),
        "kernel_causes": cause_fields(event) if event.causes.is_known else None,
        "system_calls": syscall_fields(event),
        "system_calls_counted": counting_fields(event),
        "call_counts": call_count_fields(event),
        "symbol_quality": quality_fields(report, event.quality),
        "processes_skipped": {
            "processes": len(skipped),
            **portion_fields(
                processes.hits.take(skipped, axis=0).sum(axis=0).tolist(),
                processes.seconds.take(skipped, axis=0).sum(axis=0).tolist(),
                estimates.skipped,
            ),
        },
        "details_skipped": event.detail_skipped,
        **({"source_lines": source_line_fields(event.lines.of_all())} if event.lines else {}),
        "remarks_on_errors": list(estimates.sentences),
    }
    for key, value in head.items():
        yield encoded(key) + b": " + encoded(value) + b",\n"
    yield b'"processes": ['
    yield from listed(process_fields(event, row) for row in kept.tolist())
    yield b'],\n"details": ['
    if report.detail != "k":
        yield from listed(detail_fields(event, row) for row in event.detailed.tolist())
    yield b'],\n"kernel_profiles": ['
    yield from listed(kernel_fields(event))
    yield b"]"
