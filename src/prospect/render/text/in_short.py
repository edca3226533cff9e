"""In short: the first screen of a report, for a terminal of 80 columns and 24 lines.

The page, a notebook and JSON show these very lines.
"""

from __future__ import annotations

import math
import shlex
from textwrap import wrap
from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.estimate.short.in_short import in_short
from prospect.figures.nothing_chosen import nothing_chosen
from prospect.figures.processes import asked_for
from prospect.figures.routine_names import routine_names
from prospect.profile.model import KIND_PYTHON
from prospect.profile.naming import NameSource
from prospect.render.escape import display_width, escaped, shortened
from prospect.render.text.columns import Column, table_lines
from prospect.render.text.numbers import NO_TIME, Figures
from prospect.render.text.style import Style

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prospect.estimate.errors.design import Design
    from prospect.estimate.short.in_short import FunctionRow, InShort, ProgramRow
    from prospect.figures.report.view import ReportView

DEFAULT_RECORDING = "perf.data"
_WIDTH = 79
_PROGRAM_WIDTH = 24
# Where services are shown, of both.
_SERVICE_WIDTH = 18
_KERNEL_COLUMN = 5
# Of functions, of what calls them, and of their programs, with and without the callers.
_FUNCTION_WIDTHS = (30, 22)
_CALLER_WIDTH = 13
_NAME_WIDTHS = (14, 9)
_MOST_BLOCKERS = 3
_MS = 0.0005  # rounds to 0.001 s
_MOST_COMMANDS = 2
_COMMAND_WIDTH = 55
# Beside what it is for.
_SHORT_COMMAND_WIDTH = 22
_LEAST_LETTERS = 3  # of a part of a name that means a function
_LEAST_NAMELESS = 0.01
_LEAST_CUT = 0.05
# Where all was inlined, one function has at least this share of the time.
_LEAST_INLINING = 0.75
_INLINING = ("_Z", "_R")  # symbols of C++ and Rust, whose templates and closures are inlined
# Objects whose debug information may be there too.
_HAS_LINES = (NameSource.SYMTAB, NameSource.DEBUG_FILE)


def in_short_lines(
    view: ReportView, short: InShort, recording: str, style: Style, target: str = ""
) -> Iterator[str]:
    """Yield the summary of a report: the text that every format shows.

    Args:
        view: the report.
        short: what it says first.
        recording: what to call the recording in a command line, "" if it is not kept.
        style: of the terminal.
        target: the other machine that the command ran on, as `--target` names it.
    """
    figures = Figures(short.hits, short.seconds, has_time=short.has_time)
    run = view.profile.run
    what = escaped(shlex.join(run.command)) or escaped(run.origin) or "unknown"
    yield style.title(shortened(what, _WIDTH))
    yield from _whole_lines(view, short, figures)
    yield ""
    if not short.hits:
        yield from wrap(escaped(nothing_chosen(view.profile, view.detail)), _WIDTH)
        return
    yield from _program_lines(short, figures, style)
    yield ""
    yield from _function_lines(short, figures, style)
    yield ""
    yield from _cause_line(short, figures)
    yield _waits_line(view)
    yield _cut(_seen_line(view, short, style))
    yield from _next_lines(view, short.functions[0], recording, target)


def in_short_plain(
    view: ReportView, design: Design, recording: str, target: str = ""
) -> tuple[InShort, list[str]]:
    """Return what a report says first, and its lines as no terminal's.

    Args:
        view: the report.
        design: how the samples of its first event were taken.
        recording: see `in_short_lines`.
        target: likewise.
    """
    short = in_short(view, design)
    return short, list(in_short_lines(view, short, recording, Style(colour=False), target))


def _cut(line: str) -> str:
    return shortened(line, _WIDTH)


def _whole_lines(view: ReportView, short: InShort, figures: Figures) -> Iterator[str]:
    run = view.profile.run
    parts = []
    if run.wall_seconds > 0:
        parts.append(f"{run.wall_seconds:.2f} s on {counted(run.cpus, 'CPU')}")
    machine_s = run.wall_seconds * run.cpus
    if not math.isnan(short.busy_share):
        parts.append(f"{_percent(short.busy_share)} busy")
    if not short.has_time:
        yield _cut(
            f"{', '.join([*parts, counted(short.hits, 'hit')])} of {asked_for(run, view.detail)}"
        )
        return
    share = ""
    if machine_s > 0:
        share = f", {_percent(short.seconds / machine_s)} of the machine"
    whose = asked_for(run, view.detail).capitalize()
    time = figures.with_bar(short.seconds, short.half_s)
    whole = f"{whose}: {time} CPU s{share}"
    one_line = "; ".join([", ".join(parts), whole]) if parts else whole
    if display_width(one_line) <= _WIDTH:
        yield one_line
    else:
        yield ", ".join(parts)
        yield _cut(whole)


def _program_lines(short: InShort, figures: Figures, style: Style) -> Iterator[str]:
    rows = short.first_programs
    times, bars = figures.timed_columns([row.seconds for row in rows], [row.half_s for row in rows])
    columns = [Column("Program", right=False), Column("CPU s"), Column("±"), Column("Hits")]
    columns += [Column("User"), Column("Kernel"), Column("Processes")]
    width = _SERVICE_WIDTH if short.has_services else _PROGRAM_WIDTH
    cells = [
        [_brief(row.name, width) for row in rows],
        times,
        bars,
        [str(row.hits) for row in rows],
        [_percent(row.user_share) for row in rows],
        [_percent(1.0 - row.user_share) for row in rows],
        [str(row.processes) for row in rows],
    ]
    if short.has_services:
        # In place of the kernel's share, which is what is not of the user.
        del columns[_KERNEL_COLUMN], cells[_KERNEL_COLUMN]
        columns.append(Column("Service", right=False))
        cells.append([_service_of(row) for row in rows])
    shares = [row.hits / max(short.hits, 1) for row in rows]
    yield from style.hot_rows(table_lines(columns, cells), shares)
    if short.programs_behind:
        yield f"... and {counted(short.programs_behind, 'program')} more"


def _function_lines(short: InShort, figures: Figures, style: Style) -> Iterator[str]:
    rows = short.first_functions
    times, bars = figures.timed_columns([row.seconds for row in rows], [row.half_s for row in rows])
    has_callers = any(row.caller for row in rows)
    columns = [Column(""), Column("Function", right=False), Column("Own s"), Column("±")]
    columns += [Column("Share"), Column("Program", right=False)]
    cells = [
        [f"{rank}{'=' if row.is_like_above else ''}" for rank, row in enumerate(rows, start=1)],
        [_brief(row.name, _FUNCTION_WIDTHS[has_callers]) for row in rows],
        times if short.has_time else [str(row.hits) for row in rows],
        bars,
        [_percent(row.share) for row in rows],
        [_program_of(row, _NAME_WIDTHS[has_callers]) for row in rows],
    ]
    if has_callers:
        columns.append(Column("Called by", right=False))
        cells.append([_brief(row.caller, _CALLER_WIDTH) if row.caller else NO_TIME for row in rows])
    if not short.has_time:
        columns[2] = Column("Hits")
    yield from style.hot_rows(table_lines(columns, cells), [row.share for row in rows])
    more = f"... and {short.functions_behind} more" if short.functions_behind else ""
    if behind := [part for part in (more, _separation(short)) if part]:
        yield _cut("; ".join(behind))


def _separation(short: InShort) -> str:
    if not short.needed_s:
        return ""
    if math.isinf(short.needed_s):
        return "= rows differ by too little to be told apart"
    seconds = float(f"{short.needed_s:.2g}")
    return f"= cannot be told from the row above in a run under {seconds:.0f} s"


def _service_of(row: ProgramRow) -> str:
    more = f" +{row.other_services}" if row.other_services else ""
    return _brief(row.service.removesuffix(".service") or "-", _SERVICE_WIDTH - len(more)) + more


def _program_of(row: FunctionRow, width: int) -> str:
    more = f" +{row.other_programs}" if row.other_programs else ""
    return _brief(row.program, width) + more


def _cause_line(short: InShort, figures: Figures) -> Iterator[str]:
    if not short.causes:
        return

    def amount(value: float) -> str:
        return figures.seconds(value) if short.has_time else f"{value:.0f}"

    unit = " s" if short.has_time else " hits"
    causes = ", ".join(f"{escaped(name)} {amount(value)}" for name, value in short.causes)
    yield _cut(f"Kernel: {amount(short.kernel_s)}{unit}: {causes}")


def _waits_line(view: ReportView) -> str:
    if view.waiting is None and view.profile.run.store_part:
        return "Waits:  not kept in this store"
    if view.waiting is None:
        return "Waits:  not recorded (--off-cpu)"
    blockers = view.waiting.blockers or ()
    if not blockers:
        return "Waits:  by thread, see Waiting"
    parts = []
    for idle, words in ((False, ""), (True, "idle: ")):
        waits = [(escaped(one.name), one.seconds) for one in blockers if one.idle == idle]
        if not idle:
            waits.append(("for a CPU", view.waiting.runnable_s))
        first = sorted(waits, key=lambda one: -one[1])[:_MOST_BLOCKERS]
        named = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in first if seconds >= _MS)
        if named:
            parts.append(f"{words}{named}")
    return _cut(f"Waits:  {'; '.join(parts) or 'none'}")


def _seen_line(view: ReportView, short: InShort, style: Style) -> str:
    """Say what the figures lack, in one line."""
    if view.warnings:
        more = f" (and {len(view.warnings) - 1} more)" if len(view.warnings) > 1 else ""
        return style.warning(_cut(f"Missing: {escaped(view.warnings[0])}{more}"))
    parts = []
    if short.nameless >= _LEAST_NAMELESS:
        parts.append(f"{_percent(short.nameless)} of hits unnamed")
    if view.profile.stack_copies is not None:
        parts += _cut_stacks(view)
    return f"Missing: {'; '.join(parts) or 'nothing was lost'}"


def _cut_stacks(view: ReportView) -> Iterator[str]:
    from prospect.figures.stacks.stack_quality import stack_quality  # noqa: PLC0415 - seldom there

    quality = stack_quality(view.profile, view.detail)
    if quality is not None and quality.size_for_99:
        share = quality.cut / (quality.samples - quality.without_copy)
        if share >= _LEAST_CUT:
            size = quality.size_to_ask_for
            remedy = f"dwarf,{size}" if size else "fp"
            yield f"{_percent(share)} of stacks cut (--call-graph {remedy})"


def _next_lines(view: ReportView, first: FunctionRow, recording: str, target: str) -> Iterator[str]:
    """Give the commands that are worth typing now."""
    if part := view.profile.run.store_part:
        yield from _next_of_store(view, first, part)
        return
    if not recording:
        command = escaped(shlex.join(view.profile.run.command))
        if not command:
            yield "Next:   again with --save FILE, then prospect annotate, calls, view FILE"
            return
        there = f"--target {escaped(shlex.quote(target))} " if target else ""
        how = _repeated(there + command, there, _COMMAND_WIDTH)
        if _may_be_inlined(view, first):
            how = _repeated(there + command, there, _SHORT_COMMAND_WIDTH)
            yield f"Next:   prospect --lines {how}  (inlined functions, if built with -g)"
            yield f"        prospect record {how}, then prospect annotate, prospect view"
            return
        yield f"Next:   prospect record {how}"
        yield "        then prospect annotate, prospect view"
        return
    file = "" if recording == DEFAULT_RECORDING else f" {escaped(shlex.quote(recording))}"
    name = _typed_name(view, first.function)
    commands = [f"view{file}"]
    if name:
        kind = view.profile.objects.kind[view.profile.functions.object_index[first.function]]
        source = "--source " if kind == KIND_PYTHON else ""  # its bytecode is not disassembled
        commands.insert(0, f"annotate {source}{name}{file}")
        if view.profile.stacks is not None or view.profile.run.has_user_callers:
            commands.insert(0, f"calls --callers-of {name}{file}")
        if _may_be_inlined(view, first):
            commands.insert(0, f"report --lines{file}  (inlined functions, if built with -g)")
    for number, command in enumerate(commands[:_MOST_COMMANDS]):
        yield f"{'        ' if number else 'Next:   '}prospect {command}"


def _repeated(words: str, options: str, width: int) -> str:
    return words if display_width(words) <= width else f"{options}COMMAND"


def _next_of_store(view: ReportView, first: FunctionRow, part: tuple[str, ...]) -> Iterator[str]:
    words = escaped(shlex.join(part))
    name = _typed_name(view, first.function)
    if name and view.profile.run.has_user_callers:
        yield f"Next:   prospect calls --callers-of {name} {words}"
    else:
        yield f"Next:   prospect report -V k {words}"
    store = escaped(shlex.join(part[:2]))
    yield f"        prospect diff {store} since:FROM until:TO --against since:FROM until:TO"


def _typed_name(view: ReportView, function: int) -> str:
    """Return the least that means a function in a command line; "" where it has no name."""
    names = routine_names(view.profile, function)
    if not names:
        return ""
    # What stands before parameters and templates, behind its namespaces.
    plain = names[0].partition("(")[0].partition("<")[0].split()[-1:]
    part = plain[0].rpartition("::")[2] if plain else ""
    functions = view.profile.functions
    rows: Iterable[int] = range(len(functions))
    if part in functions.raw_name[function]:
        # What a program calls something stands in the names that linkers see too.
        rows = (row for row, symbol in enumerate(functions.raw_name) if part in symbol)
    meant = [name for row in rows if part in (name := functions.name[row]).partition("(")[0]]
    # Half of a bracket, `0x6e90]`, is nothing that anybody would type.
    is_enough = len(part) >= _LEAST_LETTERS and len(set(meant)) == 1 and "]" not in part
    return escaped(shlex.quote(part if is_enough else min(names, key=len)))


def _may_be_inlined(view: ReportView, first: FunctionRow) -> bool:
    """Say whether one function has so much of the time that what was inlined into it may matter."""
    functions, objects = view.profile.functions, view.profile.objects
    symbol = functions.raw_name[first.function]
    has_symbols = int(objects.source[int(functions.object_index[first.function])]) in _HAS_LINES
    is_inlining = symbol == "main" or symbol.startswith(_INLINING)
    return (
        view.profile.lines is None
        and first.share >= _LEAST_INLINING
        and has_symbols
        and is_inlining
    )


def _brief(name: str, width: int) -> str:
    return shortened(escaped(name), width)


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"
