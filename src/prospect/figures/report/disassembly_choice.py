"""The functions that a report disassembles: those of its tables that it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.figures.modes import MODE_COUNT
from prospect.figures.report.report_view import ReportView
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.columns.array_types import I64
    from prospect.figures.report.function_profiles import FunctionProfile
    from prospect.figures.report.report_view import EventView
    from prospect.options import Detail
    from prospect.profile.model import Profile

SHOWN_FUNCTIONS = 1
EVERY_FUNCTION = 2


class DisassemblyChoice(Record):
    """The functions of a report to disassemble.

    Attributes:
        detail: `-V`.
        user_threshold_s, kernel_threshold_s: `-m` and `-k`.
        extent: SHOWN_FUNCTIONS (`-e`), those that pass the thresholds, or EVERY_FUNCTION (`-ee`).
    """

    detail: Detail = "3"
    user_threshold_s: float = 0.02
    kernel_threshold_s: float = 0.02
    extent: int = SHOWN_FUNCTIONS


def disassembled_functions(profile: Profile, choice: DisassemblyChoice) -> I64:
    """Return i64[c] the functions that a report of `choice` disassembles, each once.

    Raises:
        UsageError: an unknown detail, or an invalid threshold.
    """
    thresholds_s = choice.user_threshold_s, choice.kernel_threshold_s
    with ReportView(profile, choice.detail, *thresholds_s) as view:
        found = [
            table.function[: table_extent(table, choice.extent)]
            for event in view.events
            for table in _tables(event)
        ]
    functions = distinct(np.concatenate([np.zeros(0, np.int64), *found]))
    # The last rows of a completed profile are for missing ones, without code.
    return functions[functions < len(profile.functions)]


def table_extent(table: FunctionProfile, extent: int) -> int:
    """Return how many functions of a table, from the first, are disassembled."""
    return len(table) if extent >= EVERY_FUNCTION else table.shown


def _tables(event: EventView) -> Iterator[FunctionProfile]:
    for process in event.detailed.tolist():
        for mode in range(MODE_COUNT):
            yield event.function_table(process, mode)
    if event.kernel is not None:
        yield event.kernel.whole
