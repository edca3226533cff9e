"""One table in place of the report: time by the keys of ``--sort``, most first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from prospect.dimensions import BY_NAME
from prospect.estimate.errors.rows_by_keys import rows_by_keys
from prospect.render.encoding import encoded, listed, rounded
from prospect.render.figures_renderer import FiguresRenderer
from prospect.render.json.fields import event_fields, run_fields
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.estimate.errors.rows_by_keys import RowsByKeys
    from prospect.estimate.report import Report

SCHEMA = "prospect-rows/1"


class SortedJsonRenderer(FiguresRenderer):
    """Time by some keys of a sample, for programs."""

    suffix: ClassVar[str] = ".json"

    def pieces(self, report: Report) -> Iterator[bytes]:
        """Yield the document."""
        head = {
            "schema": SCHEMA,
            "prospect_version": __version__,
            "run": run_fields(report),
            "detail": report.detail,
            "keys": list(self.sort),
            "notes": list(report.notes),
            "warnings": list(report.warnings),
        }
        yield encoded(head)[:-1] + b',\n"events": ['
        for number, event in enumerate(report.events):
            rows = rows_by_keys(report, event, self.sort, report.grid)
            yield b",\n" if number else b"\n"
            yield encoded(_event_fields(rows))[:-1] + b', "rows": ['
            yield from listed(_row_fields(rows, self.sort))
            yield b"]}"
        yield b"]}\n"


def _event_fields(rows: RowsByKeys) -> dict[str, Any]:
    return {
        "event": event_fields(rows.event),
        "hits": rows.total_hits,
        "seconds": rounded(rows.total_s) if rows.has_time else None,
        "error_s": rounded(rows.total_half_s),
        "left_out": {
            "rows": rows.left_out,
            "hits": rows.left_out_hits,
            "seconds": rounded(rows.left_out_s) if rows.has_time else None,
        },
    }


def _row_fields(rows: RowsByKeys, keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for at in range(len(rows)):
        yield {
            **{key: key_value(key, names[at]) for key, names in zip(keys, rows.names, strict=True)},
            "hits": int(rows.hits[at]),
            "seconds": rounded(rows.seconds[at]) if rows.has_time else None,
            "error_s": rounded(rows.half_s[at]),
            "share": rounded(rows.share[at]),
            "is_like_above": bool(rows.is_like_above[at]),
        }


def key_value(key: str, name: str) -> str | int | None:
    """Return what a row has of a key; None for nothing."""
    if BY_NAME[key].is_number:
        return int(name) if name.isdigit() else None
    return name or None
