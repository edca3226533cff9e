"""What tables of hits have in common as plain values: sums, rows, and what was left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from prospect.figures.cut_rows import CutRows


def shown_figures(table: CutRows, accumulated: NDArray[np.float64]) -> Iterator[dict[str, Any]]:
    """Yield what each row that is shown begins with.

    Args:
        table: its figures.
        accumulated: f64[r] its shares, added up from the first row on.
    """
    columns = (table.share, accumulated, table.hits, table.seconds)
    for share, sum_so_far, hits, seconds in zip(
        *(column[: table.shown].tolist() for column in columns), strict=True
    ):
        yield {
            "share": share,
            "accumulated": sum_so_far,
            "hits": hits,
            "seconds": round(seconds, 9),
        }


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
