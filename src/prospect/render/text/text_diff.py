"""The text of a comparison, as docs/diff.md describes it: the largest changes first, with ±."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.figures.modes import MODE_NAMES
from prospect.render.comparison_words import compared_line, percent_change, unit_of, verdict_line
from prospect.render.encoding import significant
from prospect.render.escape import escaped, shortened
from prospect.render.name_parts import short_names
from prospect.render.text.style import NO_NAME, Style, note_lines
from prospect.render.text.text_table import Column, table_lines
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.columns.array_types import F64
    from prospect.estimate.compare.changes import ChangeTable
    from prospect.estimate.compare.comparison import ComparedRecording, Comparison
    from prospect.render.comparison_words import Unit

_TITLES = {
    "process": "Process",
    "object": "Object",
    "function": "Function",
    "inclusive": "Function, with All That It Calls",
}
_NAME_WIDTH = 60
_MOST_DIGITS = 6
_WIDTH = 79
# The first screen has neither intervals nor objects, and modes only as names of rows.
_ONLY_IN_FULL = ("95% from", "to", "Mode", "Object")
_SHORT_NAME_WIDTH = 34
_MOST_FUNCTIONS = 5


def diff_text(comparison: Comparison, rows: int, *, colour: bool) -> Iterator[bytes]:
    """Yield a comparison for people; see `diff_registry.diff_writer`."""
    for line in _lines(comparison, rows, Style(colour)):
        yield f"{line}\n".encode(errors="backslashreplace")


def _lines(comparison: Comparison, rows: int, style: Style) -> Iterator[str]:
    unit = unit_of(comparison)
    yield from _in_short(comparison, rows, unit, style)
    yield ""
    yield from style.section("The comparison")
    yield from _evidence_lines(comparison, style)
    yield ""
    yield from style.section("Total")
    yield from table_lines(*total_columns(comparison, unit))
    yield ""
    for table in (comparison.processes, comparison.objects, comparison.functions):
        yield from style.section(f"By {table.kind}")
        yield from _rows_lines(table, rows, unit, style)
        yield ""
    if comparison.inclusive is not None:
        yield from style.section("By function, with all that it calls")
        yield from _rows_lines(comparison.inclusive, rows, unit, style)
        yield ""
    if comparison.wall is not None:
        from prospect.render.text.wall import wall_change_lines  # noqa: PLC0415 - of switches only

        yield from style.section("By what the command's exit had to wait for")
        yield from wall_change_lines(comparison.wall, rows, style)
        yield ""
    if comparison.turns:
        from prospect.render.text.turns_section import turn_change_lines  # noqa: PLC0415 - of switches only

        yield from style.section("Turns, by program and kind")
        yield from turn_change_lines(comparison.turns, style)
        yield ""
    if comparison.verdict is not None:
        yield from style.section("Condition")
        line = verdict_line(comparison.verdict)
        yield style.warning(line) if comparison.verdict.outcome == "met" else line


def _in_short(comparison: Comparison, rows: int, unit: Unit, style: Style) -> Iterator[str]:
    """Yield the answer: it fits a terminal of 80 columns and 24 lines."""
    yield style.title("Difference: B - A")
    for side, recordings in (("A", comparison.before), ("B", comparison.after)):
        more = f", and {pluralize(len(recordings) - 1, 'more recording')}"
        first = f"{side}: {_recording(recordings[0], comparison)}"
        yield _fitted(first + more * (len(recordings) > 1))
    yield compared_line(comparison)
    yield ""
    table = comparison.functions
    total = _joined(comparison.total, comparison.modes)
    for part, title, most in (
        (total, "", 1),
        (table, "Function", min(table.shown(rows), _MOST_FUNCTIONS)),
    ):
        yield from _short_table(part, title, unit, most)
        yield ""
    if comparison.wall is not None:
        from prospect.render.text.wall import wall_change_line  # noqa: PLC0415 - of switches only

        yield wall_change_line(comparison.wall, _WIDTH)
    found = int(np.count_nonzero(table.significant))
    yield f"{pluralize(found, 'significant change')} (*) in {pluralize(len(table), 'function')}"
    if comparison.verdict is not None:
        line = verdict_line(comparison.verdict)
        yield style.warning(line) if comparison.verdict.outcome == "met" else line
    warnings, unnamed = comparison.warnings, comparison.unnamed
    more = f" (and {len(warnings) - 1} more)" if len(warnings) > 1 else ""
    missing = unnamed.in_short if unnamed else "nothing was lost"
    missing = escaped(warnings[0]) + more if warnings else missing
    yield style.warning(_fitted(f"Missing: {missing}")) if warnings else f"Missing: {missing}"


def _short_table(table: ChangeTable, title: str, unit: Unit, most: int) -> Iterator[str]:
    """Yield the first rows of a table, without intervals, modes and objects."""
    columns = change_columns(table, unit, title, slice(0, most))
    *figures, names = (one for one in columns if one.when and one.title not in _ONLY_IN_FULL)
    short = [shortened(name, _SHORT_NAME_WIDTH) for name in names.cells]
    yield from table_lines(*figures, names._replace(cells=short))


def _fitted(line: str) -> str:
    return shortened(line, _WIDTH)


def _evidence_lines(comparison: Comparison, style: Style) -> Iterator[str]:
    options = comparison.options
    yield f"Prospect: {__version__}"
    for side, recordings in (("A", comparison.before), ("B", comparison.after)):
        for recording in recordings:
            yield f"{side}: {_recording(recording, comparison)}"
    yield compared_line(comparison)
    yield "Intervals: 95%"
    yield (
        f"Significant: rows with a *; of {pluralize(comparison.tested, 'row')} tested, at most "
        f"{options.fdr * 100:g}% of those marked are expected to be wrong (--fdr)"
    )
    yield from note_lines(comparison.notes)
    yield from style.warnings(comparison.warnings)


def _recording(recording: ComparedRecording, comparison: Comparison) -> str:
    run = recording.run
    scope = "every process" if run.system_wide else "attached processes"
    what = escaped(shlex.join(run.command)) or scope
    hits = pluralize(recording.hits, "sample")
    parts = [f"{escaped(run.origin)}: {what}", f"{run.wall_seconds:.3f} Sec", hits]
    if comparison.work.kind == "count":
        parts.append(f"{recording.work:g} {escaped(comparison.work.unit)}")
    return ", ".join(parts)


def _joined(first: ChangeTable, second: ChangeTable) -> ChangeTable:
    """Return the rows of both tables, the first one's named Total."""
    columns = {
        name: np.concatenate([column, getattr(second, name)])
        for name, column in vars(first).items()
        if isinstance(column, np.ndarray)
    }
    names = ["Total"] * len(first) + [MODE_NAMES[row] for row in second.mode.tolist()]
    return type(first)(kind="total", name=names, object=[""] * len(names), **columns)


def _rows_lines(table: ChangeTable, rows: int, unit: Unit, style: Style) -> Iterator[str]:
    shown = table.shown(rows)
    found = int(np.count_nonzero(table.significant))
    yield f"{pluralize(found, 'significant change')} in {pluralize(len(table), 'row')}."
    if shown:
        yield from table_lines(*change_columns(table, unit, _TITLES[table.kind], slice(0, shown)))
    if table.kind == "inclusive" and shown < len(table):
        left = pluralize(len(table) - shown, "row")
        yield style.cut(f"- Left out by --rows {rows}: {left} not significant")
    elif shown < len(table):
        before, after = (table.mean[shown:].sum(axis=0) * unit.per_second).tolist()
        yield style.cut(
            f"- Left out by --rows {rows}: {pluralize(len(table) - shown, 'row')} not significant"
            f" or of few samples: A {before:.3g}, B {after:.3g}, change {after - before:+.3g}"
        )


def total_columns(comparison: Comparison, unit: Unit) -> list[Column]:
    """Return the columns of the table of the total and the modes."""
    return change_columns(_joined(comparison.total, comparison.modes), unit, "", slice(None))


def change_columns(table: ChangeTable, unit: Unit, title: str, shown: slice) -> list[Column]:
    """Return the columns of a table of changes, with some of its rows."""
    scale = unit.per_second
    half_width = table.half_width[shown] * scale
    digits = _digits(half_width)
    if table.kind == "total":  # a small side shows a digit, even if the change is less certain
        digits = max(digits, _digits(table.mean[:1] * scale))
    relative, low, high = _relative(table, shown)
    names = [escaped(name) or NO_NAME for name in table.name[shown]]
    modes = [MODE_NAMES[row] for row in table.mode[shown].tolist()]
    objects = [escaped(name) for name in table.object[shown]]
    # Those of the total are "Total" and modes.
    short = names if table.kind == "total" else short_names(names, _NAME_WIDTH)
    has_modes = table.kind not in ("total", "inclusive")
    has_objects = table.kind in ("function", "inclusive")
    marks = ["*" if mark else "" for mark in table.significant[shown].tolist()]
    return [
        Column("", marks, right=False),
        Column("A", _numbers(table.mean[shown, 0] * scale, digits, "")),
        Column("B", _numbers(table.mean[shown, 1] * scale, digits, "")),
        Column("Change", _numbers(table.change[shown] * scale, digits, "+")),
        Column("±", _numbers(half_width, digits, "")),
        Column("Relative", relative),
        Column("95% from", low),
        Column("to", high),
        Column("Mode", modes, right=False, when=has_modes),
        Column(title, short, right=False),
        Column("Object", objects, right=False, when=has_objects),
    ]


def _digits(values: F64) -> int:
    """Return the number of decimals at which the smallest of these is not rounded to zero."""
    least = float(values[values > 0].min(initial=np.inf))
    if not math.isfinite(least):
        return 0
    return min(max(math.ceil(-math.log10(least)), 0), _MOST_DIGITS)


def _numbers(values: F64, digits: int, sign: str) -> list[str]:
    return [f"{significant(value):{sign}.{digits}f}" for value in values.tolist()]


def _relative(table: ChangeTable, shown: slice) -> tuple[list[str], list[str], list[str]]:
    """Return the cells of the relative change and of both ends of its interval."""
    rows = zip(table.relative[shown].tolist(), table.hits[shown].tolist(), strict=True)
    relative = [
        "new" if not before else percent_change(value) if after else "gone"
        for value, (before, after) in rows
    ]
    low = [percent_change(v) if v > -1.0 else "" for v in table.relative_low[shown].tolist()]
    high = [
        percent_change(v) if math.isfinite(v) else "" for v in table.relative_high[shown].tolist()
    ]
    return relative, low, high
