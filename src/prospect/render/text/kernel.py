"""Sections on the kernel: its profiles, its time by entry reason, and processes' system calls.

The global profile is for `-V 4`; `-V k` shows its parts too, and their sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.figures.entry_reasons import ENTRY_REASON_KIND_NAMES
from prospect.figures.modes import ROUNDING_S
from prospect.profile.model import ENTRY_REASON_SYSCALL
from prospect.render.escape import escaped
from prospect.render.text.function_table import Rows
from prospect.render.text.style import microseconds, percent_column, percent_digits
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.columns.array_types import I64, Bools
    from prospect.figures.entry_reasons import EntryReasonRows
    from prospect.figures.report.function_profiles import KernelProfiles
    from prospect.figures.report.report_view import EventView
    from prospect.figures.report.syscalls import SyscallRows
    from prospect.render.text.function_table import FunctionFormatter
    from prospect.render.text.style import Page

_WHOLE_TITLE = "Global KERNEL Profile"
_PART_TITLES = {
    "kernel threads": "KERNEL Profile due to Kernel Threads",
    "user processes": "KERNEL Profile due to User Processes",
    "process zero": "KERNEL Profile of Process Zero (idle and interrupts)",
    "no process": "KERNEL Profile of Samples without a Process",
}
_CALLS_IN_ONE = "all, see System Calls"
_MANY = 0.01  # of all calls that were counted
# The whole system instead of the row of a process, as estimates call it.
_SYSTEM = -1
# The processes that -V chooses; their sum has no estimate.
_CHOSEN = -2


def kernel_lines(page: Page, kernel: KernelProfiles, functions: FunctionFormatter) -> Iterator[str]:
    """Yield the global profile, and with `-V k` its parts and their sum."""
    profiles = [(_WHOLE_TITLE, _whole(page, kernel))]
    if page.report.detail == "k":
        profiles += _parts(page, kernel)
    for title, rows in profiles:
        yield from page.style.section(page.style.words.term(title))
        yield from functions.lines(rows, "-k", page.report.kernel_threshold_s)
        if title == _WHOLE_TITLE and (code := page.event.code) is not None:
            from prospect.render.text.disassembly import disassembly_lines  # noqa: PLC0415 - rarely asked for

            annotated = code.of_kernel(rows.table, rows.estimates.half_width_s)
            yield from disassembly_lines(page, code.code, annotated)
        yield ""
    if page.report.detail == "k":
        terms = " + ".join(str(table.total_hits) for _, table in kernel.parts)
        names = " + ".join(name for name, _ in kernel.parts)
        yield f"{_WHOLE_TITLE} = {names}:"
        hits = page.style.words.term("samples, function by function.")
        yield f"{kernel.whole.total_hits} = {terms} {hits}"
        yield ""


def _whole(page: Page, kernel: KernelProfiles) -> Rows:
    estimates = page.event.estimates.kernel
    assert estimates is not None  # noqa: S101 - made wherever the view has the kernel's profiles
    return Rows(kernel.whole, estimates, page.event.late.kernel if page.event.late else None)


def _parts(page: Page, kernel: KernelProfiles) -> list[tuple[str, Rows]]:
    parts = []
    of_parts = page.event.late.kernel_parts if page.event.late else (None,) * len(kernel.parts)
    for (name, table), estimates, late in zip(
        kernel.parts, page.event.estimates.kernel_parts, of_parts, strict=True
    ):
        parts.append((_PART_TITLES[name], Rows(table, estimates, late)))
    return parts


def process_entry_reason_lines(page: Page, process: int) -> Iterator[str]:
    """Yield a process's block; nothing if it took no kernel time or no entry reasons are known."""
    if not page.event.entry_reasons.is_known:
        return
    rows = page.event.entry_reasons.of_process(process, calls_in_one=True)
    if len(rows):
        yield page.style.title(page.style.words.term("Kernel time by entry reason:"))
        yield from _entry_reason_table(page, rows)
        yield ""


def system_entry_reason_lines(page: Page) -> Iterator[str]:
    """Yield the section of the whole system; nothing if no entry reasons are known."""
    if page.event.entry_reasons.is_known:
        yield from page.style.section(
            page.style.words.term("KERNEL Time by Entry Reason, All Processes")
        )
        yield from _entry_reason_table(page, page.event.entry_reasons.of_system())
        yield ""


def _entry_reason_table(page: Page, rows: EntryReasonRows) -> Iterator[str]:
    shown, words = rows.shown, page.style.words
    if shown:
        estimates = page.event.estimates.entry_reasons.rows(rows.place)
        seconds, halves = rows.seconds[:shown].tolist(), estimates.half_width_s[:shown]
        shares = percent_column(rows.share[:shown].tolist(), percent_digits(rows.total_hits))
        kinds = rows.kind[:shown].tolist()
        names = [
            _CALLS_IN_ONE if kind == ENTRY_REASON_SYSCALL and not name else escaped(name)
            for kind, name in zip(kinds, rows.name[:shown], strict=True)
        ]
        yield from table_lines(
            Column("Pcnt", shares),
            Column(words.term("Samples"), [str(hits) for hits in rows.hits[:shown].tolist()]),
            *page.figures.time_columns(seconds, halves),
            Column(
                words.term("Entry reason"),
                [ENTRY_REASON_KIND_NAMES[kind] for kind in kinds],
                right=False,
            ),
            Column("Which", names, right=False),
        )
    if shown < len(rows):
        first_s = float(rows.seconds[shown])
        left_out = pluralize(len(rows) - shown, words.term("entry reason"))
        what = f"{left_out}, {pluralize(rows.skipped_hits, words.term('sample'))}"
        threshold_s = page.report.kernel_threshold_s
        yield page.style.cut(words.skipped(first_s, "-k", threshold_s, what))


def syscall_lines(page: Page, process: int) -> Iterator[str]:
    """Yield a process's section; nothing if it made no known system call."""
    if page.event.calls.is_counted or page.event.entry_reasons.is_known:
        calls = page.event.calls.of_process(process)
        yield from _call_section(page, page.style.words.system_calls, calls, process)


def chosen_call_lines(page: Page) -> Iterator[str]:
    """Yield the section of what `-V 3` chooses, whose numbers are sums over these processes."""
    if page.event.calls.is_counted and page.report.detail == "3":
        title = "System Calls, the Command and Its Descendants"
        yield from _call_section(page, title, page.event.chosen_calls, _CHOSEN)


def system_call_lines(page: Page) -> Iterator[str]:
    """Yield the section of all processes; entry reasons have uncounted calls."""
    if page.event.calls.is_counted:
        yield from _call_section(
            page, "System Calls, All Processes", page.event.calls.system, _SYSTEM
        )


def _call_section(page: Page, title: str, rows: SyscallRows, process: int) -> Iterator[str]:
    view, event, style = page.report, page.event, page.style
    is_known = event.calls.is_counted or event.entry_reasons.is_known
    if not is_known or not len(rows):
        return
    yield from style.section(title)
    is_shown = _shown_calls(rows, view.kernel_threshold_s, event)
    chosen = np.flatnonzero(is_shown)
    if len(chosen):
        yield from _call_table(page, process, rows, chosen)
    left = np.flatnonzero(~is_shown)
    if len(left):
        first_s = float(rows.sampled_s[left[0]])
        hits = pluralize(int(rows.hits[left].sum()), style.words.term("sample"))
        what = f"{pluralize(len(left), 'call')}, {hits}"
        yield style.cut(style.words.skipped(first_s, "-k", view.kernel_threshold_s, what))
    yield ""


def _shown_calls(rows: SyscallRows, threshold_s: float, event: EventView) -> Bools:
    """Return bool[c]: calls whose sampled or inside time reaches the threshold; frequent calls."""
    least_s = threshold_s - ROUNDING_S
    if not event.has_time:
        return np.ones(len(rows), np.bool_)
    are_many = (rows.calls > 0) & (rows.calls >= _MANY * rows.calls.sum())
    shown: Bools = (rows.sampled_s >= least_s) | (rows.time_s >= least_s) | are_many
    return shown


def _call_table(page: Page, process: int, rows: SyscallRows, chosen: I64) -> Iterator[str]:
    event, is_counted = page.event, page.event.calls.is_counted
    samples = page.style.words.term("Samples")
    names = [rows.name[row] for row in chosen.tolist()]
    digits = percent_digits(int(rows.hits.sum()))
    calls = rows.calls.take(chosen).tolist()
    inside = [f"{seconds:.6f}" for seconds in rows.time_s.take(chosen).tolist()]
    means = [microseconds(seconds) for seconds in rows.mean_s.take(chosen).tolist()]
    columns = [
        Column("Pcnt", percent_column(rows.share.take(chosen).tolist(), digits)),
        Column(samples, [str(number) for number in rows.hits.take(chosen).tolist()]),
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
        sums = {"Calls": str(rows.calls.sum()), samples: str(rows.hits.sum())}
        total = {**sums, "System call": "total"}
        columns = [
            column._replace(cells=[*column.cells, total.get(column.title, "")])
            for column in columns
        ]
    yield from table_lines(*columns)
