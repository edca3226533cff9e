"""One table in place of the report: rows by ``--sort``, and for each class of hits its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from prospect.estimate.errors.class_columns import EVENT, MOST_COLUMNS, class_columns
from prospect.render.encoding import encoded, listed, rounded
from prospect.render.figures_renderer import FiguresRenderer
from prospect.render.json.fields import event_fields, run_fields
from prospect.render.json.sorted_rows import key_value
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.estimate.errors.class_columns import ClassColumns
    from prospect.estimate.report import Report

SCHEMA = "prospect-columns/1"


class ClassJsonRenderer(FiguresRenderer):
    """Hits by some keys, for each class of hits side by side, for programs."""

    suffix: ClassVar[str] = ".json"

    def pieces(self, report: Report) -> Iterator[bytes]:
        """Yield the document."""
        tables = class_columns(report, self.columns, self.sort, MOST_COLUMNS)
        head = {
            "schema": SCHEMA,
            "prospect_version": __version__,
            "run": run_fields(report),
            "detail": report.detail,
            "dimension": self.columns,
            "keys": list(self.sort),
            "notes": list(report.notes),
            "warnings": list(report.warnings),
        }
        yield encoded(head)[:-1] + b',\n"tables": ['
        for number, table in enumerate(tables):
            yield b",\n" if number else b"\n"
            yield encoded(_table_fields(table, self.columns))[:-1] + b', "rows": ['
            yield from listed(_row_fields(table, self.sort))
            yield b"]}"
        yield b"]}\n"


def _table_fields(table: ClassColumns, dimension: str) -> dict[str, Any]:
    every = range(len(table.classes))
    return {
        "event": None if dimension == EVENT else event_fields(table.events[0]),
        "classes": [
            {
                "class": table.classes[at],
                "is_others": bool(table.others) and at == every[-1],
                "hits": int(table.total_hits[at]),
                "seconds": rounded(table.total_s[at]) if table.has_time(at) else None,
                "error_s": rounded(table.total_half_s[at]),
            }
            for at in every
        ],
        "others": table.others,
        "left_out": {
            "rows": table.left_out,
            "hits": table.left_out_hits.tolist(),
            "seconds": [
                rounded(table.left_out_s[at]) if table.has_time(at) else None for at in every
            ],
        },
    }


def _row_fields(table: ClassColumns, keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    timed = [table.has_time(at) for at in range(len(table.classes))]
    for row in range(len(table)):
        names = zip(keys, table.names, strict=True)
        yield {
            **{key: key_value(key, texts[row]) for key, texts in names},
            "columns": [
                {
                    "hits": int(table.hits[row, at]),
                    "seconds": rounded(table.seconds[row, at]) if has_time else None,
                    "error_s": rounded(table.half_s[row, at]),
                    "share": rounded(table.share[row, at]),
                }
                for at, has_time in enumerate(timed)
            ],
        }
