"""What tables of hits have in common as plain values: sums, rows, and what was left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prospect.profile.cut_rows import CutRows


def cut_fields(table: CutRows, rows: list[dict[str, Any]], noun: str) -> dict[str, Any]:
    """Return a table.

    Args:
        table: its figures.
        rows: those that are shown.
        noun: what its rows are, for the number of those that are not.
    """
    return {
        "hits": table.total_hits,
        "seconds": round(table.total_seconds, 9),
        "rows": rows,
        "skipped": {
            noun: len(table) - table.shown,
            "hits": table.skipped_hits,
            "seconds": round(table.skipped_seconds, 9),
        },
    }
