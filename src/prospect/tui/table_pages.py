"""The pages with tables (functions, processes, entry reasons, threads): their rows and columns.

Each hit is in one row at most, so that rows add up; their error bars are those of the report. A
process does not cause its interrupts: they have a row of their own, as in the report.

On a narrow terminal rows have fewer columns; the name, the time and its error bar stay longest.

The instructions of a function with its samples are the lines of ``prospect annotate``. The code is
read once, from the image that is mapped on this machine or from the running kernel's memory;
samples are new each time.
"""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING

import numpy as np

from prospect.assembly.code.code import CodeChoice, describe_code
from prospect.assembly.code.recorded_objects import RecordedObjects
from prospect.columns.sorting import distinct
from prospect.estimate.annotate.annotation_view import annotation_view
from prospect.estimate.breakdown import Bound, breakdown
from prospect.estimate.statistics.row_limits import decimals
from prospect.figures.function_choice import FunctionChoice
from prospect.lines.finder import LineFinder
from prospect.profile.model import KIND_ELF, KIND_VDSO
from prospect.records import NamedTuple, Record, field, replace
from prospect.render.text.listing import BOXES, Form, Listing
from prospect.render.text.style import Figures, Style
from prospect.symbols.naming_options import SymbolOptions
from prospect.symbols.objects import ObjectKey
from prospect.symbols.symbolizer import Symbolizer
from prospect.symbols.table_cache import SymbolCache
from prospect.tui.figures import BUCKET_S
from prospect.tui.groups import GROUPS, fitting, functions_of, in_scope
from prospect.tui.lines import CURSOR, FAINT, HISTORY, OF_PAINT, TITLE, Span, fitted, name_fitted
from prospect.tui.rows import (
    CALLEES,
    CALLERS,
    ENTRY_REASONS,
    FUNCTIONS,
    HOT,
    PROCESSES,
    TABLES,
    THREADS,
    WAIT_STACKS,
    WAITING,
    Page,
    Row,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import I64
    from prospect.estimate.breakdown import Breakdown
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.optional_tables import CodeTable
    from prospect.tui.figures import LiveFigures
    from prospect.tui.groups import Group
    from prospect.tui.rows import Function, Place


BY_TIME = "time"
BY_RECENT = "recent"
BY_NAME = "name"
BY_READY = "ready"
BY_BLOCKED = "blocked"
RECENT_S = 10
_RECENT_BUCKETS = RECENT_S // BUCKET_S
_MOST_ROWS = 150


_RANK = "rank"
_SHARE = "% CPU"
_BAR = "±"
_RECENT = "last 10 s"
_HISTORY = "history"
_SECONDS = "seconds"
_READY = "ready"
_BLOCKED = "blocked"
_PROCESS = "process"
_NAME = "name"
_PLACE = "place"

# After the title of the column that orders rows, most first.
_MARK = "↓"
_ORDERED_BY = {
    BY_TIME: _SHARE,
    BY_RECENT: _RECENT,
    BY_READY: _READY,
    BY_BLOCKED: _BLOCKED,
    BY_NAME: _NAME,
}
_NAME_TITLES = {
    FUNCTIONS: "Function",
    PROCESSES: "Process",
    ENTRY_REASONS: "Program, or the kernel and why",
    THREADS: "Thread",
    WAITING: "Thread",
    WAIT_STACKS: "Function that waited, and who called it",
    CALLERS: "Function, and who called it",
    CALLEES: "Function, and what it called",
}
_MOST_DECIMALS = 2
_UNKNOWN_HALF = 0.5
_LEAST_NAME = 16
_LEAST_USUAL_NAME, _NAME_STEP = 32, 16
_NEVER = 10_000
_WIDE, _WIDER, _WIDEST = 110, 120, 150
BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII = " .:-=+*#%"  # for terminals whose font has no blocks

# If the largest number is less, the line stays low: a single sample is no peak.
_LEAST_FULL = 8


def orders_of(page: str) -> tuple[str, ...]:
    """Return the orders of the rows of a page, the usual one first."""
    if page == WAITING:
        return (BY_TIME, BY_READY, BY_BLOCKED, BY_NAME)
    return (BY_TIME, BY_RECENT, BY_NAME)


class View(NamedTuple):
    """The filter of a table, and the order of its rows."""

    words: str = ""
    order: str = BY_TIME


def table_page(figures: LiveFigures, place: Place, view: View) -> Page:
    """Return the rows of a table, the heaviest at the top."""
    chosen = figures.is_shown & in_scope(figures, place)
    if view.words:
        chosen &= fitting(figures, place.page, view.words)
    group = GROUPS[place.page](figures, place, chosen)
    every = breakdown(figures.profile, figures.design, chosen, [group.of_hit], Bound(least_s=0.0))
    history = figures.history(every.row_of_hit, len(every))
    shown, rows = _shown(group, every, history, view)
    table = every.ordered(shown)
    return Page(
        rows=_with_figures(figures, rows, table, history[shown]),
        more=table.left_out,
        more_s=table.left_out_s,
        total_s=table.total_s,
    )


def _shown(group: Group, every: Breakdown, history: I64, view: View) -> tuple[I64, list[Row]]:
    """Return the numbers of the rows that are shown, in order, and these rows without figures."""
    heaviest = np.arange(len(every))
    if view.order == BY_RECENT:
        recent = np.maximum(history[:, -_RECENT_BUCKETS:], 0).sum(axis=1)
        heaviest = np.argsort(-recent, kind="stable")
    heaviest = heaviest[:_MOST_ROWS]
    numbers = group.of_hit.take(every.example.take(heaviest)).tolist()
    rows = [group.row(number) for number in numbers]
    if view.order != BY_NAME:
        return heaviest, rows
    order = sorted(range(len(rows)), key=lambda one: (rows[one].name, rows[one].process))
    return heaviest.take(np.array(order, np.int64)), [rows[at] for at in order]


def _with_figures(
    figures: LiveFigures, rows: list[Row], table: Breakdown, history: I64
) -> tuple[Row, ...]:
    """Give rows their times and error bars."""
    design = figures.design
    seconds_per_sample = float(design.seconds.sum()) / max(int(design.hits.sum()), 1)
    recent = history[:, -_RECENT_BUCKETS:]
    recent_s = np.where((recent >= 0).all(axis=1), recent.sum(axis=1), np.nan)
    columns = (
        table.hits.tolist(),
        table.seconds.tolist(),
        table.half_width_s.tolist(),
        (recent_s * seconds_per_sample).tolist(),
        history.tolist(),
        table.is_like_above.tolist(),
    )
    return tuple(
        row._replace(
            hits=count,
            seconds=seconds,
            half_width_s=half,
            recent_s=late,
            history=past,
            is_like_above=like,
        )
        for row, count, seconds, half, late, past, like in zip(rows, *columns, strict=True)
    )


class _Column(NamedTuple):
    """A column: its contents, title and width, and the least width of the screen that has it."""

    what: str
    title: str
    width: int
    from_width: int


class Layout(NamedTuple):
    """The columns of a page, and the rest of the width after them."""

    columns: tuple[_Column, ...]
    rest: int = 0


class Scale(NamedTuple):
    """The scale of figures: `span_s` is the time that 100 % of a CPU is."""

    span_s: float
    ramp: str = BLOCKS


def layout(page: str, width: int, order: str = "", names: int = _NEVER) -> Layout:
    """Choose the columns of a page.

    Args:
        page: of a `Place`.
        order: of the rows; its column is shown if it fits at all.
        names: the width of the widest name. If a column follows, that of names is not much wider:
            a wide gap would separate figures of one row.
    """
    is_table, is_waiting = page in TABLES, page in (WAITING, WAIT_STACKS)
    has_process = page in (FUNCTIONS, THREADS, WAITING)
    recent = 50 if order == BY_RECENT else 90
    history = 30 if width >= _WIDEST else 15 if width >= _WIDER else 10
    wanted = (
        _Column(_RANK, "", 4, 50 if is_table else _NEVER),
        _Column(_SHARE, "% CPU", 7, _NEVER if page == WAIT_STACKS else 0),
        _Column(_READY, "% ready", 8, 0 if page == WAITING else _NEVER),
        _Column(_BLOCKED, "% blocked", 10, 0 if is_waiting else _NEVER),
        _Column(_BAR, "±", 5, _NEVER if is_waiting else 0),
        _Column(_RECENT, "10 s", 6, recent if is_table else _NEVER),
        _Column(
            _HISTORY,
            "last minute" if history > 10 else "minute",
            history,
            70 if is_table else _NEVER,
        ),
        _Column(_SECONDS, "Secs", 8, _NEVER if is_waiting else 130),
        _Column(_PROCESS, "Process", 16, 60 if has_process else _NEVER),
        _Column(_NAME, _NAME_TITLES.get(page, ""), 0, 0),
        _Column(_PLACE, *_place_column(page, width)),
    )
    shown = tuple(column for column in wanted if width >= column.from_width)
    rest = max(width - sum(column.width + 1 for column in shown if column.width) - 1, _LEAST_NAME)
    name = rest
    if shown[-1].width:
        # In steps, so that columns do not move with each name.
        name = min(rest, max(-(-(names + 2) // _NAME_STEP) * _NAME_STEP, _LEAST_USUAL_NAME))
    return Layout(
        tuple(column._replace(width=name) if column.what == _NAME else column for column in shown),
        rest - name,
    )


def _place_column(page: str, width: int) -> tuple[str, int, int]:
    if page == PROCESSES:
        return "Pid", 16, 60
    if page in (ENTRY_REASONS, THREADS, WAIT_STACKS):
        return "", 1, _NEVER
    if page == WAITING:
        return "", 12, _WIDE
    return "Object", 30 if width >= _WIDEST else 18, _WIDE


def title_line(form: Layout, order: str) -> list[Span]:
    """Return the titles of columns; the one that rows are ordered by is marked."""
    marked = _ORDERED_BY.get(order)
    spans = []
    for column in form.columns:
        right = column.what in (_SHARE, _READY, _BLOCKED, _BAR, _RECENT, _SECONDS)
        style = TITLE if column.what == marked else FAINT
        title = f"{column.title}{_MARK}" if column.what == marked else column.title
        title = fitted(title, column.width, right=right)
        spans += [Span(title, style), Span(" ")]
    return spans


def row_lines(
    rows: Sequence[Row], first: int, form: Layout, scale: Scale, cursor: int
) -> list[list[Span]]:
    """Return rows as lines of spans.

    `first` is the place of the first row on the page, from 0; `cursor` is that of the row that keys
    act on.
    """
    percent = 100.0 / scale.span_s
    digits = [bar_digits(row.half_width_s * percent) for row in rows]
    lines = []
    for place, (row, points) in enumerate(zip(rows, digits, strict=True), start=first):
        cells = [_cell(column, row, place, points, scale) for column in form.columns]
        cells.append(Span(" " * form.rest))
        if place == cursor:
            cells = [Span(text, CURSOR) for text, _ in cells]
        lines.append(cells)
    return lines


def _cell(column: _Column, row: Row, place: int, digits: int, scale: Scale) -> Span:  # noqa: PLR0911 - a column each
    """Return the cell of a column, with the space after it."""
    what, _, width, _ = column
    if what == _NAME:
        return Span(name_fitted(row.name, width, row.lead) + " ", OF_PAINT[row.paint])
    if what == _SHARE:
        return Span(_pointed(row.seconds * 100.0 / scale.span_s, digits).rjust(width) + " ")
    if what in (_READY, _BLOCKED):
        share = (row.ready_s if what == _READY else row.blocked_s) * 100.0 / scale.span_s
        return Span(("" if math.isnan(share) else f"{share:.1f}").rjust(width) + " ")
    if what == _BAR:
        half = row.half_width_s * 100.0 / scale.span_s
        text = "" if math.isnan(half) else _pointed(half, digits)
        return Span(text.rjust(width) + " ", FAINT)
    if what == _HISTORY:
        return Span(sparkline(row.history, width, scale.ramp) + " ", HISTORY)
    if what == _PROCESS:
        return Span(fitted(row.process, width) + " ")
    if what == _PLACE:
        return Span(fitted(row.place, width) + " ", FAINT)
    if what == _RECENT:
        share = row.recent_s * 100.0 / RECENT_S
        return Span(("" if math.isnan(share) else f"{share:.1f}").rjust(width) + " ")
    if what == _SECONDS:
        return Span(f"{row.seconds:.2f}".rjust(width) + " ")
    return Span(f"{place + 1}{'=' if row.is_like_above else ' '}".rjust(width) + " ", FAINT)


def bar_digits(half_percent: float) -> int:
    """Return the number of decimals that an error bar supports."""
    usable = _UNKNOWN_HALF if math.isnan(half_percent) else half_percent
    return min(decimals(usable), _MOST_DECIMALS)


def _pointed(value: float, digits: int) -> str:
    """Return a number whose point is aligned with those of other rows."""
    return f"{value:.{digits}f}" + " " * (_MOST_DECIMALS - digits + (digits == 0))


def text_lines(rows: Sequence[Row], width: int) -> list[list[Span]]:
    """Return rows that are lines of text; remarks begin with a dash."""
    styles = (FAINT if row.name.lstrip().startswith("- ") else OF_PAINT[row.paint] for row in rows)
    return [[Span(fitted(row.name, width), style)] for row, style in zip(rows, styles, strict=True)]


def sparkline(history: Sequence[int], width: int, ramp: str = BLOCKS) -> str:
    """Draw a history, the latest at the right.

    Args:
        history: a number for each stretch, oldest first; -1 if it was not seen.
        width: in characters, a divisor of the history's length.
        ramp: a character for nothing, then for rising parts of the largest number.
    """
    joined = max(len(history) // width, 1)
    sums = [
        sum(part) if min(part) >= 0 else -1
        for part in (history[at : at + joined] for at in range(0, len(history), joined))
    ]
    full = max(max(sums, default=0), _LEAST_FULL * joined)
    top = len(ramp) - 1
    # Only zero is blank.
    return "".join(ramp[-(-max(number, 0) * top // full)] for number in sums)


_NO_HITS = "This function has no samples here yet."
_MOST_LINES = 2000
_OPTION = " with -L"
_SKID = "A sample is at the instruction after the one that took the time."


def function_code(profile: CompleteProfile, function: int, *, use_cache: bool = True) -> CodeTable:
    """Disassemble a function of a profile that was made on this machine a moment ago."""
    row = int(profile.functions.object_index[function])
    objects = profile.objects
    kind = int(objects.kind[row])
    here = SymbolOptions(
        recorded_until=time.time(), kernel_release=os.uname().release, use_cache=use_cache
    )
    keys = {}
    if kind in (KIND_ELF, KIND_VDSO):
        path = objects.path[row].encode("utf-8", "surrogateescape")
        keys[row] = ObjectKey(path, bytes.fromhex(objects.build_id[row]), kind=kind)
    recorded = RecordedObjects(
        keys=keys,
        pids={row: _pids(profile, function)},
        options=here,
        symbolizer=Symbolizer(here),
        lines=LineFinder(SymbolCache.of_user() if use_cache else None),
    )
    choice = CodeChoice(lambda _: np.array([function], np.int64))
    return describe_code(profile, recorded, choice)


def _pids(profile: CompleteProfile, function: int) -> list[int]:
    """Return the pids of processes with samples in a function."""
    of_hit = profile.locations.function_index.take(profile.hits.location_index) == function
    processes = distinct(profile.hits.process_index[of_hit])
    pids = profile.processes.pid.take(processes)
    found: list[int] = distinct(pids[pids > 0]).tolist()
    return found


class CodeMemory(Record, frozen=False):
    """The code of functions that were shown; it does not change between refreshes."""

    use_cache: bool = True
    _known: dict[tuple[Function, str], CodeTable] = field(default_factory=dict)

    def page(self, figures: LiveFigures, shown: Function) -> Page:
        """Return the instructions of a function, with the samples of all its processes."""
        functions = functions_of(figures.profile, shown)
        if not len(functions):
            return Page((), is_text=True, note=_NO_HITS)
        profile = figures.profile
        # A program that is rebuilt meanwhile is another object of the same path.
        hits = np.bincount(figures.function, profile.hits.count, len(profile.functions))
        function = int(functions[hits.take(functions).argmax()])
        build = shown, profile.objects.build_id[int(profile.functions.object_index[function])]
        code = self._known.get(build)
        if code is None or code.reason[0]:
            code = function_code(profile, function, use_cache=self.use_cache)
            self._known[build] = code
        code = replace(code, function_index=np.array([function], np.int32))
        return _listing(replace(figures.profile, code=code), code, figures.event_index)


def _listing(profile: CompleteProfile, code: CodeTable, event_index: int) -> Page:
    if reason := code.reason[0]:
        # The options of some reasons are those of another command.
        how = " to prospect annotate, of the recording that s saves" if _OPTION in reason else ""
        return Page((), is_text=True, note=f"No instructions: {reason}{how}.")
    view = annotation_view(profile, FunctionChoice(detail="4"))
    event_name = profile.run.events[event_index].name
    found = [event for event in view.events if event.event.name == event_name]
    if not found:
        return Page((), is_text=True, note=_NO_HITS)
    event = found[0]
    numbers = Figures(event.hits, event.seconds, has_time=event.has_time)
    start = int(view.profile.functions.address[event.functions[0].function])
    form = Form(whole=False, glyphs=BOXES, figures=numbers, style=Style(colour=False))
    shown = event.functions[0]
    listing = Listing(code, shown, start, form)
    lines = list(listing.lines())
    hottest = next((at for at, line in enumerate(lines) if line[1:3] == (shown.hottest, 0)), 0)
    begin = max(min(hottest - _MOST_LINES // 2, len(lines) - _MOST_LINES), 0)
    rows = tuple(
        Row(key=(line.instruction, line.part), name=line.text, paint=HOT if line.is_hot else "")
        for line in lines[begin : begin + _MOST_LINES]
    )
    return Page(
        rows,
        more=len(lines) - len(rows),
        is_text=True,
        title=listing.title,
        opens_at=hottest - begin,
        note=_SKID if event.skid else "",
    )
