"""CSV: flat tables, RFC 4180 in UTF-8 with one header row; docs/schema.md lists the columns.

Text is always quoted and numbers never are. Names are written exactly as they were recorded, also
those that a spreadsheet would take for a formula.
"""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.buffers import segments
from prospect.columns.sorting import distinct
from prospect.estimate.breakdown import EVENT, MOST_COLUMNS, class_columns, rows_by_keys
from prospect.figures.modes import KERNEL_MODES, MODE_COUNT, MODE_NAMES
from prospect.figures.processes import BIRTH_NAMES
from prospect.profile.model import KIND_NAMES
from prospect.profile.naming import NameSource, gather
from prospect.render.renderer import FiguresRenderer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import I64
    from prospect.estimate.breakdown import ClassColumns
    from prospect.estimate.finished_report import EventReport, Report
    from prospect.figures.report.report_view import EventView

COLUMNS = (
    "event",
    "process",
    "pid",
    "parent_pid",
    "birth",
    "control_group",
    "mode",
    "samples",
    "seconds",
    "error_seconds",
    "percent",
    "late_percent",
    "address",
    "function",
    "binding",
    "object",
    "object_kind",
    "build_id",
    "source",
)
_FIGURES = ("samples", "seconds", "error_seconds", "percent")
REMAINDER = "REMAINDER"
END = "\r\n"
NONE = '""'
_NO_FUNCTION = ",".join([NONE] * 6 + [f'"{REMAINDER}"'])
_ROWS_AT_ONCE = 1 << 13
# Surrogates that are no byte, as JSON can carry them.
_NO_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")


class CsvRenderer(FiguresRenderer):
    """The function tables of all processes in one, for spreadsheets and data frames.

    With `-V k` it has the kernel modes of every process. Functions under `-m` and `-k` go into
    one row, REMAINDER.
    """

    def pieces(self, report: Report) -> Iterator[bytes]:
        """Yield the lines of the table."""
        return map(bytes_of, _lines(report))


class SortedCsvRenderer(FiguresRenderer):
    """One table instead of the report: time by the keys of ``--sort``, most first.

    Rows under `-m` go into one, REMAINDER.
    """

    def pieces(self, report: Report) -> Iterator[bytes]:
        """Yield the lines of the table."""
        titles = _titles(self.sort)
        yield bytes_of(",".join(map(quoted, (*titles, *_FIGURES, "wall_seconds"))) + END)
        for event in report.events:
            name, seconds = event.event.name, functools.partial(_seconds, event)
            rows = rows_by_keys(event, self.sort)
            for at, names in enumerate(_named(self.sort, rows.names)):
                times = (seconds(rows.seconds[at]), seconds(rows.half_width_s[at]))
                wall = NONE if rows.wall_s is None else seconds(rows.wall_s[at])
                share = percent_text(float(rows.share[at]))
                yield _line(name, names, (str(rows.hits[at]), *times, share, wall))
            if rows.left_out:
                rest = percent_text(1.0 - float(rows.share.sum()))
                figures = (str(rows.left_out_hits), seconds(rows.left_out_s), NONE, rest, NONE)
                yield _line(name, (REMAINDER,) * len(titles[1:]), figures)


def _titles(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the titles of the columns of keys: the event, and each other key."""
    return (EVENT, *(key for key in keys if key != EVENT))


def _named(keys: tuple[str, ...], names: tuple[list[str], ...]) -> Iterator[tuple[str, ...]]:
    """Yield each row's names by all keys but the event."""
    for row in zip(*names, strict=True):
        yield tuple(name for key, name in zip(keys, row, strict=True) if key != EVENT)


def _lines(report: Report) -> Iterator[str]:
    """Yield the lines of the table, a few thousand at a time."""
    yield ",".join(map(quoted, COLUMNS)) + END
    modes = KERNEL_MODES if report.detail == "k" else range(MODE_COUNT)
    # A function has a row in each process that ran it.
    name_of = functools.cache(functools.partial(_function, report))
    for event in report.events:
        groups = event.detailed[:, None] * MODE_COUNT + np.array(modes)
        starts = event.functions.start
        groups = groups[starts[groups] < starts[groups + 1]]
        # Groups with about _ROWS_AT_ONCE rows together, one group at least.
        ends = np.cumsum(starts[groups + 1] - starts[groups])
        cuts = np.flatnonzero(np.diff(ends // _ROWS_AT_ONCE)) + 1
        for some in np.split(groups, cuts):
            if len(some):
                yield _mode_lines(event, some, name_of)


def _mode_lines(event: EventReport, groups: I64, name_of: Callable[[int], str]) -> str:
    """Return the lines of some processes' modes, each process times MODE_COUNT + mode."""
    table = event.functions
    begin, end = table.start[groups], table.start[groups + 1]
    shown = event.shown_functions(groups)
    rows = segments(begin, shown)
    function = table.function[rows]
    seconds = functools.partial(_seconds, event)
    late = event.late.functions[rows] if event.late else None
    # All names are made at once here; `name_of` then asks for them one by one.
    gather(event.report.profile.functions.name, distinct(function).tolist())
    first = _firsts(event, groups)
    columns: tuple[Iterable[str], ...] = (
        np.repeat(np.array(first, object), shown).tolist(),
        _texts(table.hits[rows], str),
        _texts(table.seconds[rows], seconds),
        _texts(event.estimates.functions.half_width_s[rows], seconds),
        _texts(table.share[rows], percent_text),
        [f",{NONE}"] * len(rows) if late is None else _texts(late, percent_text),
        map(name_of, function.tolist()),
    )
    # Column by column: a line at a time would take twice as long.
    pieces = [""] * (len(columns) * len(rows))
    for place, column in enumerate(columns):
        pieces[place :: len(columns)] = column
    ends = np.cumsum(shown).tolist()
    # From the last group on, so that the places of those before stay valid.
    for group in np.flatnonzero(shown < end - begin)[::-1].tolist():
        process, mode = divmod(int(groups[group]), MODE_COUNT)
        rest = event.function_table(process, mode)
        share = float(rest.share[rest.shown :].sum())
        times = f"{_seconds(event, rest.skipped_seconds)},{NONE},{percent_text(share)},{NONE}"
        line = f"{first[group]},{rest.skipped_hits},{times},{_NO_FUNCTION}{END}"
        pieces.insert(len(columns) * ends[group], line)
    return "".join(pieces)


def _firsts(event: EventReport, groups: I64) -> list[str]:
    """Return the first fields of the lines of each group."""
    processes = event.report.profile.processes
    process, mode = np.divmod(groups, MODE_COUNT)
    name, rows = quoted(event.event.name), process.tolist()
    births = {number: quoted(name) for number, name in BIRTH_NAMES.items()}
    modes = [quoted(name) for name in MODE_NAMES]
    names, control_groups = processes.name, processes.control_group
    columns = zip(
        rows,
        processes.pid.take(process).tolist(),
        processes.parent_pid.take(process).tolist(),
        processes.birth.take(process).tolist(),
        mode.tolist(),
        strict=True,
    )
    return [
        f"{name},{quoted(names[row])},{pid},{parent},{births.get(birth, NONE)},"
        f"{quoted(control_groups[row]) if control_groups else NONE},{modes[of]}"
        for row, pid, parent, birth, of in columns
    ]


def _texts(values: NDArray[Any], text: Callable[[Any], str]) -> list[str]:
    """Return each value as a further field; each distinct value is formatted once."""
    met, place = np.unique(values, return_inverse=True)
    texts: list[str] = np.array([f",{text(one)}" for one in met.tolist()], object)[place].tolist()
    return texts


def _seconds(event: EventView, seconds: float) -> str:
    return seconds_text(seconds, has_time=event.has_time)


def seconds_text(seconds: float, *, has_time: bool) -> str:
    """Return a time; nothing if it is not known."""
    return repr(round(float(seconds), 9)) if has_time and math.isfinite(seconds) else NONE


def percent_text(share: float) -> str:
    """Return a share of 0 to 1 in percent; nothing if it is not known."""
    return NONE if math.isnan(share) else repr(round(share * 100.0, 6))


def _function(report: Report, function: int) -> str:
    """Return the fields of a function, which end a line."""
    functions, objects = report.profile.functions, report.profile.objects
    source = NameSource(int(functions.source[function]))
    object_index = int(functions.object_index[function])
    binding = ("LOCAL", "GLOBAL")[bool(functions.is_global[function])] if source.named else ""
    fields = (
        f"0x{int(functions.address[function]):x}",
        functions.name[function],
        binding,
        objects.path[object_index],
        KIND_NAMES[int(objects.kind[object_index])],
        objects.build_id[object_index],
        source.name,
    )
    return f",{','.join(map(quoted, fields))}{END}"


def quoted(text: str) -> str:
    """Return text as a field."""
    return '"' + text.replace('"', '""') + '"'


def bytes_of(text: str) -> bytes:
    """Encode lines, with names as they were recorded."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        replaced = _NO_BYTE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
        return replaced.encode("utf-8", "surrogateescape")


class ClassCsvRenderer(FiguresRenderer):
    """Hits by some keys, for each class of hits side by side; REMAINDER has rows under `-m`."""

    def pieces(self, report: Report) -> Iterator[bytes]:
        """Yield the lines of the table."""
        tables = class_columns(report, self.columns, self.sort, MOST_COLUMNS)
        classes = [f"{self.columns} {name}" for name in tables[0].classes]
        titles = [f"{one} {figure}" for one in classes for figure in _FIGURES]
        yield bytes_of(",".join(map(quoted, (*_titles(self.sort), *titles))) + END)
        for table in tables:
            event = "" if self.columns == EVENT else table.events[0].name
            for row, names in enumerate(_named(self.sort, table.names)):
                yield _line(event, names, _row_figures(table, row))
            if table.left_out:
                names = (REMAINDER,) * len(_titles(self.sort)[1:])
                yield _line(event, names, _left_figures(table))


def _line(event: str, names: Sequence[str], figures: Iterable[str]) -> bytes:
    return bytes_of(",".join((*map(quoted, (event, *names)), *figures)) + END)


def _row_figures(table: ClassColumns, row: int) -> Iterator[str]:
    for at in range(len(table.classes)):
        has_time = table.has_time(at)
        yield str(table.hits[row, at])
        yield seconds_text(float(table.seconds[row, at]), has_time=has_time)
        yield seconds_text(float(table.half_width_s[row, at]), has_time=has_time)
        yield percent_text(float(table.share[row, at]))


def _left_figures(table: ClassColumns) -> Iterator[str]:
    for at in range(len(table.classes)):
        yield str(table.left_out_hits[at])
        yield seconds_text(float(table.left_out_s[at]), has_time=table.has_time(at))
        yield NONE
        whole = table.total_hits[at]
        yield percent_text(1.0 - float(table.share[:, at].sum()) if whole else 0.0)
