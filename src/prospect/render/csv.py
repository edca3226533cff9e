"""CSV: one flat table, a row for each process, portion and routine.

Comes in: a Profile. Goes out: RFC 4180 in UTF-8, one header row, columns as docs/schema.md lists
them. Text is always quoted and numbers never are; names stand exactly as they were recorded, also
those that a spreadsheet would take for a formula.
"""

from __future__ import annotations

import csv
import functools
import io
import itertools
import math
import re
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from prospect.estimate.clocks.grid import tick_grid
from prospect.estimate.ledger.lateness import sample_lateness
from prospect.figures.portions import KERNEL_PORTIONS, PORTION_COUNT, PORTION_NAMES
from prospect.figures.processes import BIRTH_NAMES
from prospect.profile.model import KIND_NAMES
from prospect.profile.naming import NameSource
from prospect.render.event_report import event_reports
from prospect.render.figures_renderer import FiguresRenderer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from prospect.figures.report.routines import RoutineTable
    from prospect.figures.report.view import EventView, ReportView
    from prospect.render.event_report import EventReport

COLUMNS = (
    "event",
    "process",
    "pid",
    "parent_pid",
    "birth",
    "mode",
    "hits",
    "seconds",
    "error_seconds",
    "percent",
    "late_percent",
    "address",
    "routine",
    "binding",
    "object",
    "object_kind",
    "build_id",
    "source",
)
REMAINDER = "REMAINDER"
_NO_ROUTINE = ("", "", "", "", "", "")
_ROWS_AT_ONCE = 512
# Surrogates that stand for no byte, as JSON can carry them.
_NO_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")


class CsvRenderer(FiguresRenderer):
    """The routine tables of all processes in one, for spreadsheets and data frames.

    With `-V k` it has the kernel portions of every process. Routines under `-m` and `-k` go into
    one row, REMAINDER.
    """

    suffix: ClassVar[str] = ".csv"

    def pieces(self, view: ReportView) -> Iterator[bytes]:
        """Yield the lines of the table."""
        grid = tick_grid(view.by_routine)
        reports = event_reports(view, grid, sample_lateness(view.by_routine, grid))
        return _encoded(_rows(view, reports))


def _rows(view: ReportView, reports: list[EventReport]) -> Iterator[tuple[object, ...]]:
    yield COLUMNS
    portions = KERNEL_PORTIONS if view.detail == "k" else range(PORTION_COUNT)
    routine = functools.cache(functools.partial(_routine, view))  # a row a process asks for each
    for report in reports:
        for process in report.event.detailed.tolist():
            for portion in portions:
                if report.event.has_routines(process, portion):
                    yield from _portion_rows(report, process, portion, routine)


def _portion_rows(
    report: EventReport,
    process: int,
    portion: int,
    routine: Callable[[int], tuple[object, ...]],
) -> Iterator[tuple[object, ...]]:
    view, event = report.view, report.event
    table = event.routine_table(process, portion)
    bars = report.estimates.routine_rows(event, process, portion).half_width_s
    late = _late_shares(report, process, portion, table)
    processes = view.profile.processes
    first = (
        event.event.name,
        processes.name[process],
        int(processes.pid[process]),
        int(processes.parent_pid[process]),
        BIRTH_NAMES.get(int(processes.birth[process]), ""),
        PORTION_NAMES[portion],
    )
    columns = (table.hits, table.seconds, bars, table.share, late, table.function)
    for hits, seconds, bar, share, late_share, function in zip(
        *(column[: table.shown].tolist() for column in columns), strict=True
    ):
        times = (_seconds(event, seconds), _seconds(event, bar), *_percents(share, late_share))
        yield (*first, hits, *times, *routine(function))
    if table.shown < len(table):
        share = float(table.share[table.shown :].sum())
        times = (_seconds(event, table.skipped_seconds), "", *_percents(share, math.nan))
        yield (*first, table.skipped_hits, *times, *_NO_ROUTINE, REMAINDER)


def _late_shares(
    report: EventReport, process: int, portion: int, table: RoutineTable
) -> NDArray[np.float64]:
    if report.late is None:
        return np.full(len(table), np.nan)
    return report.late.of_process(process, portion, table)


def _seconds(event: EventView, seconds: float) -> object:
    return round(seconds, 9) if event.has_time and math.isfinite(seconds) else ""


def _percents(*shares: float) -> list[object]:
    return ["" if math.isnan(share) else round(share * 100.0, 6) for share in shares]


def _routine(view: ReportView, function: int) -> tuple[object, ...]:
    functions, objects = view.profile.functions, view.profile.objects
    source = NameSource(int(functions.source[function]))
    object_index = int(functions.object_index[function])
    binding = ("LOCAL", "GLOBAL")[bool(functions.is_global[function])] if source.named else ""
    return (
        f"0x{int(functions.address[function]):x}",
        functions.name[function],
        binding,
        objects.path[object_index],
        KIND_NAMES[int(objects.kind[object_index])],
        objects.build_id[object_index],
        source.name,
    )


def _encoded(rows: Iterator[tuple[object, ...]]) -> Iterator[bytes]:
    while some := list(itertools.islice(rows, _ROWS_AT_ONCE)):
        lines = io.StringIO()
        csv.writer(lines, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n").writerows(some)
        yield _bytes_of(lines.getvalue())


def _bytes_of(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        replaced = _NO_BYTE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
        return replaced.encode("utf-8", "surrogateescape")
