"""The JSON of `--sort` and `--columns`: one table of an event, by keys of its samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.dimensions import BY_NAME
from prospect.estimate.breakdown import EVENT as EVENT_DIMENSION
from prospect.estimate.breakdown import MOST_COLUMNS, class_columns, rows_by_keys
from prospect.records import NamedTuple
from prospect.render.json.common_fields import DETAIL, EVENT, NOTES_AND_WARNINGS, RUN
from prospect.render.json.document_fields import (
    COUNT,
    FLAG,
    ROUNDED,
    TEXT,
    TEXTS,
    Columns,
    Field,
    Kind,
    Object,
    Part,
    Rows,
    document,
    itself,
    schema,
)
from prospect.render.renderer import FiguresRenderer
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prospect.estimate.breakdown import Breakdown, ClassColumns
    from prospect.estimate.finished_report import Report

_KEY = Columns(
    Kind({"type": ["string", "integer", "null"]}),
    "of each key: `null` if there is none, a number for `cpu`, `pid` and `tid`",
)


def _key_columns(keys: tuple[str, ...], names: tuple[list[str], ...]) -> dict[str, Iterable[Any]]:
    return {
        key: [
            (int(name) if name.isdigit() else None) if BY_NAME[key].is_number else name or None
            for name in of_key
        ]
        for key, of_key in zip(keys, names, strict=True)
    }


class _Report(NamedTuple):
    report: Report
    keys: tuple[str, ...]
    dimension: str = ""

    @property
    def tables(self) -> Iterator[_Classes]:
        for table in class_columns(self.report, self.dimension, self.keys, MOST_COLUMNS):
            yield _Classes(table, self.keys, self.dimension)

    @property
    def events(self) -> Iterator[_Sorted]:
        for event in self.report.events:
            yield _Sorted(rows_by_keys(event, self.keys), self.keys)


def _head(name: str, **asked: Field) -> dict[str, Field | Part]:
    return {
        "schema": schema(name),
        "prospect_version": TEXT("version that wrote the document", lambda _: __version__),
        "run": RUN("facts of the run, as in the report", "report.profile.run"),
        "detail": DETAIL("the `-V` that is shown", "report.detail"),
        **asked,
        "keys": TEXTS("the keys that were asked for"),
        "notes_and_warnings": Part(NOTES_AND_WARNINGS, "report"),
    }


# --sort


class _Sorted(NamedTuple):
    rows: Breakdown
    keys: tuple[str, ...]

    def wall_s(self) -> Any:
        """Return a column of wall times."""
        return [None] * len(self.rows) if self.rows.wall_s is None else self.rows.wall_s

    def seconds(self, name: str) -> Any:
        """Return a time, or a column of times; None if hits are not time."""
        found = getattr(self.rows, name)
        if self.rows.has_time:
            return found
        return [None] * len(self.rows) if hasattr(found, "tolist") else None


_SORTED_ROW = Object(
    "sorted_row",
    key=Part(_KEY, lambda table: _key_columns(table.keys, table.rows.names)),
    samples=COUNT("samples", "rows.hits"),
    seconds=ROUNDED.or_null(
        "their time, `null` if the event has none, and its ±",
        lambda table: table.seconds("seconds"),
    ),
    half_width_s=ROUNDED.or_null(get="rows.half_width_s"),
    wall_s=ROUNDED.or_null(
        "their wall time, `null` if samples do not tell it", lambda table: table.wall_s()
    ),
    share=ROUNDED("0 to 1", "rows.share"),
    is_like_above=FLAG("indistinguishable from the row above", "rows.is_like_above"),
)
SORTED_ROWS = Object(
    "sorted_rows",
    b" ",
    **_head("prospect-rows/2"),
    events=Rows(
        Object(
            "sorted_event",
            b" ",
            event=EVENT("an event", "rows.event"),
            samples=COUNT("of all rows", "rows.total_hits"),
            seconds=ROUNDED.or_null(get=lambda table: table.seconds("total_s")),
            half_width_s=ROUNDED.or_null(get="rows.total_half_width_s"),
            left_out=Object(
                "",
                rows=COUNT(get="rows.left_out"),
                samples=COUNT(get="rows.left_out_hits"),
                seconds=ROUNDED.or_null(get=lambda table: table.seconds("left_out_s")),
            )("what is under `-m`", itself),
            rows=Rows(_SORTED_ROW, by_column=True, in_pieces=True)("most time first", itself),
        ),
        in_pieces=True,
        before=b"\n",
    )("a table of each event"),
)


class SortedJsonRenderer(FiguresRenderer):
    """Time by some keys of a sample, for programs."""

    def pieces(self, report: Report) -> Iterator[bytes]:
        """Yield the document."""
        return document(SORTED_ROWS, _Report(report, self.sort))


# --columns


class _Classes(NamedTuple):
    table: ClassColumns
    keys: tuple[str, ...]
    dimension: str

    def seconds(self, seconds: Any) -> list[Any]:
        """Return times by class, None for classes whose hits are not time."""
        return [one if self.table.has_time(at) else None for at, one in enumerate(seconds.tolist())]

    @property
    def cells(self) -> list[_Cells]:
        return [_Cells(self, row) for row in range(len(self.table))]


class _Cells(NamedTuple):
    of: _Classes
    row: int


def _cells(name: str) -> Any:
    return lambda cells: getattr(cells.of.table, name)[cells.row]


_CELL = Object(
    "",
    samples=COUNT(get=_cells("hits")),
    seconds=ROUNDED.or_null(get=lambda cells: cells.of.seconds(cells.of.table.seconds[cells.row])),
    half_width_s=ROUNDED.or_null(get=_cells("half_width_s")),
    share=ROUNDED.or_null("0 to 1", _cells("share")),
)
_CLASS = Object(
    "",
    **{"class": TEXT("its name", "table.classes")},
    is_others=FLAG(
        "it is of several classes",
        lambda classes: [
            bool(classes.table.others) and at == len(classes.table.classes) - 1
            for at in range(len(classes.table.classes))
        ],
    ),
    samples=COUNT("of all rows", "table.total_hits"),
    seconds=ROUNDED.or_null(get=lambda classes: classes.seconds(classes.table.total_s)),
    half_width_s=ROUNDED.or_null(get="table.total_half_width_s"),
)
CLASS_COLUMNS = Object(
    "class_columns",
    b" ",
    **_head("prospect-columns/2", dimension=TEXT("what classes differ in")),
    tables=Rows(
        Object(
            "class_table",
            b" ",
            event=EVENT.or_null(
                "of the table; `null` if events are the classes",
                lambda classes: (
                    None if classes.dimension == EVENT_DIMENSION else classes.table.events[0]
                ),
            ),
            classes=Rows(_CLASS, by_column=True)("each class", itself),
            others=COUNT("how many classes the last one is of", "table.others"),
            left_out=Object(
                "",
                rows=COUNT(get="table.left_out"),
                samples=Rows(COUNT)("by class", "table.left_out_hits"),
                seconds=Rows(ROUNDED.or_null)(
                    "by class", lambda classes: classes.seconds(classes.table.left_out_s)
                ),
            )("what is under `-m`", itself),
            rows=Rows(
                Object(
                    "class_row",
                    key=Part(_KEY, lambda classes: _key_columns(classes.keys, classes.table.names)),
                    columns=Rows(_CELL, by_column=True)("what each class has of it", "cells"),
                ),
                by_column=True,
                in_pieces=True,
            )("largest share first", itself),
        ),
        in_pieces=True,
        before=b"\n",
    )("one for each event, one of all if events are the classes"),
)


class ClassJsonRenderer(FiguresRenderer):
    """Hits by some keys, for each class of hits side by side, for programs."""

    def pieces(self, report: Report) -> Iterator[bytes]:
        """Yield the document."""
        return document(CLASS_COLUMNS, _Report(report, self.sort, self.columns))
