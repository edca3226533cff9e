"""CSV of rows by ``--sort``, with four columns for each class of hits side by side.

Comes in: a Profile. Goes out: a table as docs/schema.md describes it, quoted as `render.csv` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from prospect.estimate.errors.class_columns import EVENT, MOST_COLUMNS, class_columns
from prospect.render.csv import END, NONE, REMAINDER, bytes_of, percent_text, quoted, seconds_text
from prospect.render.figures_renderer import FiguresRenderer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.estimate.errors.class_columns import ClassColumns
    from prospect.estimate.report import Report

_FIGURES = ("hits", "seconds", "error_seconds", "percent")


class ClassCsvRenderer(FiguresRenderer):
    """Hits by some keys, for each class of hits side by side; REMAINDER has rows under `-m`."""

    suffix: ClassVar[str] = ".csv"

    def pieces(self, report: Report) -> Iterator[bytes]:
        """Yield the lines of the table."""
        tables = class_columns(report, self.columns, self.sort, MOST_COLUMNS)
        classes = [f"{self.columns} {name}" for name in tables[0].classes]
        titles = [f"{one} {figure}" for one in classes for figure in _FIGURES]
        yield bytes_of(",".join(map(quoted, ("event", *self.sort, *titles))) + END)
        for table in tables:
            event = "" if self.columns == EVENT else table.events[0].name
            for row, names in enumerate(zip(*table.names, strict=True)):
                yield _line(event, names, _row_figures(table, row))
            if table.left_out:
                yield _line(event, (REMAINDER,) * len(self.sort), _left_figures(table))


def _line(event: str, names: Sequence[str], figures: Iterator[str]) -> bytes:
    return bytes_of(",".join((*map(quoted, (event, *names)), *figures)) + END)


def _row_figures(table: ClassColumns, row: int) -> Iterator[str]:
    for at in range(len(table.classes)):
        has_time = table.has_time(at)
        yield str(table.hits[row, at])
        yield seconds_text(float(table.seconds[row, at]), has_time=has_time)
        yield seconds_text(float(table.half_s[row, at]), has_time=has_time)
        yield percent_text(float(table.share[row, at]))


def _left_figures(table: ClassColumns) -> Iterator[str]:
    for at in range(len(table.classes)):
        yield str(table.left_out_hits[at])
        yield seconds_text(float(table.left_out_s[at]), has_time=table.has_time(at))
        yield NONE
        whole = table.total_hits[at]
        yield percent_text(1.0 - float(table.share[:, at].sum()) if whole else 0.0)
