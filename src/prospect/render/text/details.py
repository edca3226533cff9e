"""Details of Processes: birth and end, profile, system calls and memory map of each process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.figures.modes import KERNEL_MODES, MODE_INTERRUPT, MODE_KERNEL, MODE_OTHER, MODE_USER
from prospect.figures.processes import BIRTH_NAMES, STILL_RUNNING_NS
from prospect.render.escape import escaped
from prospect.render.text.function_table import Rows
from prospect.render.text.kernel import chosen_call_lines, process_entry_reason_lines, syscall_lines
from prospect.render.text.style import RULE, pid_text
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.columns.array_types import I64
    from prospect.figures.report.report_view import EventView, ReportView
    from prospect.profile.optional_tables import MemoryMap
    from prospect.render.text.function_table import FunctionFormatter
    from prospect.render.text.style import Page, Style

_MODES = (
    (MODE_USER, "USER", "-m"),
    (MODE_KERNEL, "KERNEL", "-k"),
    (MODE_INTERRUPT, "INTERRUPT", "-k"),
    (MODE_OTHER, "OTHER", "-k"),
)
# Shown only if there is any.
_OCCASIONAL = (MODE_INTERRUPT, MODE_OTHER)
_NOT_ITS_DOING = "Interrupts and softirqs while the process ran; usually it did not cause them."
_INDENT = " " * 16
# A browser has thousands: all with code or samples are listed, and the largest of the others.
_MOST_OF_DATA = 64


def details_lines(page: Page, functions: FunctionFormatter) -> Iterator[str]:
    """Yield the section: each process that `-V` asks for and that passes a threshold."""
    view, event, style = page.report, page.event, page.style
    yield from style.section(f"Details of Processes Specified with '-V {view.detail}' Option")
    yield ""
    for process in event.detailed.tolist():
        yield from _birth_lines(view, process, style)
        yield ""
        yield from _time_lines(page, process)
        yield ""
        yield from _intersection_lines(page, process, functions)
        if page.event.lines is not None:
            from prospect.render.text.source_lines import process_source_lines  # noqa: PLC0415 - rarely asked for

            yield from process_source_lines(page, process)
        yield from syscall_lines(page, process)
        yield from process_entry_reason_lines(page, process)
        if style.words.is_classic:
            yield from memory_map_lines(view, process, style)
    if event.detail_skipped:
        yield style.cut(_cut_line(view, event, style))
        yield ""
    yield from chosen_call_lines(page)


def _cut_line(view: ReportView, event: EventView, style: Style) -> str:
    processes = pluralize(event.detail_skipped, "process")
    skipped = f"- {style.words.left_out} {processes}"
    if not event.has_time:
        return f"{skipped} without a {style.words.term('sample')}"
    if not style.words.is_classic:
        options = f"'-m {view.user_threshold_s:g}' and '-k {view.kernel_threshold_s:g}'"
        return f"- Left out by {options}: {processes}"
    return (
        f"{skipped} of user time <= '-m {view.user_threshold_s:.5f}' "
        f"and system time <= '-k {view.kernel_threshold_s:.5f}' Sec"
    )


def _birth_lines(view: ReportView, process: int, style: Style) -> Iterator[str]:
    processes = view.profile.processes
    birth = BIRTH_NAMES.get(int(processes.birth[process]), "unknown")
    ids = (
        (label, int(column[process]))
        for label, column in (
            ("PPID", processes.parent_pid),
            ("GPID", processes.group_pid),
            ("SID", processes.session_pid),
        )
    )
    born = " ".join(f"{label}({pid_text(number)})" for label, number in ids)
    name = escaped(processes.name[process])
    yield RULE
    pid = pid_text(int(processes.pid[process]))
    yield style.title(f"{name:<14} {pid:<6} {style.words.birth(birth)}: {born}")
    parent = int(view.parents[process])
    if parent >= 0:
        yield f"{_INDENT}Parent was {escaped(processes.name[parent])}."
    if view.ended_by_exec[process]:
        end = style.words.end(by_exec=True)
    elif int(processes.end_ns[process]) == STILL_RUNNING_NS:
        end = "Still running"
    else:
        end = style.words.end(by_exec=False)
    yield _INDENT + end


def _time_lines(page: Page, process: int) -> Iterator[str]:
    event = page.event
    for mode, label in (
        (MODE_USER, "user run"),
        (MODE_KERNEL, "system run"),
        (MODE_INTERRUPT, "interrupt"),
        (MODE_OTHER, "other run"),
    ):
        hits = int(event.processes.hits[process, mode])
        if mode in _OCCASIONAL and not hits:
            continue
        time = page.figures.milliseconds_with_bar(
            float(event.processes.seconds[process, mode]),
            float(page.event.estimates.process_half_width_s(mode)[process]),
        )
        title = f"Extrapolated {label} time:"
        yield f"{title:<30}{time:>15}   (from {hits:>8} {page.style.words.term('samples')})."


def _intersection_lines(page: Page, process: int, functions: FunctionFormatter) -> Iterator[str]:
    view, event, style = page.report, page.event, page.style
    yield from style.section(style.words.profile)
    for mode, title, option in _MODES:
        table = event.function_table(process, mode)
        if mode in _OCCASIONAL and not len(table):
            continue
        threshold_s = view.user_threshold_s if option == "-m" else view.kernel_threshold_s
        yield style.title(style.words.mode(title))
        if mode == MODE_INTERRUPT:
            yield _NOT_ITS_DOING
        if mode == MODE_KERNEL and event.event.excludes_kernel:
            yield "Not sampled."
        else:
            rows = _rows(page, process, mode)
            yield from functions.lines(rows, option, threshold_s)
            if (code := page.event.code) is not None:
                from prospect.render.text.disassembly import disassembly_lines  # noqa: PLC0415 - rarely asked for

                halves = rows.estimates.half_width_s
                annotated = code.of_process(process, mode, rows.table, halves)
                yield from disassembly_lines(page, code.code, annotated)
        yield ""


def _rows(page: Page, process: int, mode: int) -> Rows:
    table = page.event.function_table(process, mode)
    late = None
    if page.event.late and mode in KERNEL_MODES:
        late = page.event.late.functions[page.event.function_rows(process, mode)]
    return Rows(
        table=table,
        estimates=page.event.estimates.function_rows(page.event, process, mode),
        late=late,
        half_width_s=float(page.event.estimates.process_half_width_s(mode)[process]),
    )


def memory_map_lines(view: ReportView, process: int, style: Style) -> Iterator[str]:
    """Yield the section; nothing for a process without mappings."""
    mapped = view.memory_map(process)
    if not len(mapped):
        return
    processes = view.profile.processes
    name, pid = escaped(processes.name[process]), int(processes.pid[process])
    yield from style.section(style.words.memory_map(name, pid))
    rows = _listed(mapped)
    start, end, pgoff = (
        [f"0x{value:08x}" for value in column[rows].tolist()]
        for column in (mapped.start, mapped.end, mapped.pgoff)
    )
    may_do = mapped.permissions
    yield from table_lines(
        Column(style.words.term("Samples"), [str(hits) for hits in mapped.hits[rows].tolist()]),
        Column("Start", start),
        Column("End", end),
        Column("KiB", [_kibibytes(size) for size in mapped.size_bytes[rows].tolist()]),
        Column("Perm", [may_do[row] or "?" for row in rows.tolist()], right=False),
        Column("Offset", pgoff),
        Column("Filename", [escaped(mapped.path[row]) for row in rows.tolist()], right=False),
    )
    skipped = len(mapped) - len(rows)
    if skipped:
        smaller = pluralize(skipped, "smaller mapping")
        size = _kibibytes(int(mapped.size_bytes.sum() - mapped.size_bytes[rows].sum()))
        yield style.cut(f"- Left out: {smaller} of data, {size} KiB")
    total = f"- {pluralize(len(mapped), 'mapping')}, {_kibibytes(mapped.mapped_bytes)} KiB"
    if mapped.read_ns is None:
        yield f"{total}; executable ones only: the recording has none of data"
    else:
        read_s = (mapped.read_ns - view.profile.run.begin_ns) / 1e9
        yield f"{total}; those of data as they were {read_s:.2f} s after recording began"
    yield ""


def _listed(mapped: MemoryMap) -> I64:
    """Return the rows that are shown."""
    data = np.flatnonzero(mapped.is_data & (mapped.hits == 0))
    smaller = np.argsort(-mapped.size_bytes[data].astype(np.float64), kind="stable")[_MOST_OF_DATA:]
    is_listed = np.ones(len(mapped), np.bool_)
    is_listed[data[smaller]] = False
    return np.flatnonzero(is_listed)


def _kibibytes(size_bytes: int) -> str:
    """Return a size, without decimals if it is whole KiB: only a JIT's code is not."""
    return str(size_bytes // 1024) if size_bytes % 1024 == 0 else f"{size_bytes / 1024:.1f}"
