"""The rows of a table: how far a threshold shows them, and as sets of hits.

Each table of figures says which of its rows every hit of the profile is in, and which row is above
which, so that a column computed elsewhere, such as ±, has the rows of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from numpy.typing import NDArray


class CutRows(Record):
    """Rows by descending weight (see `EventHits.weight`), of which the first are shown.

    Attributes:
        hits: i64[r].
        seconds: f64[r].
        share: f64[r] part of the weight of all rows, 0 to 1.
        shown: how many rows, from the first, reach the threshold.
        total_hits, total_seconds: sums over all rows, shown or not.
    """

    hits: NDArray[np.int64]
    seconds: NDArray[np.float64]
    share: NDArray[np.float64]
    shown: int
    total_hits: int
    total_seconds: float

    def __len__(self) -> int:
        return len(self.hits)

    @property
    def skipped_hits(self) -> int:
        """Hits in the rows that are not shown."""
        return int(self.hits[self.shown :].sum())

    @property
    def skipped_seconds(self) -> float:
        """Seconds in the rows that are not shown."""
        return float(self.seconds[self.shown :].sum())


class RankedRows(NamedTuple):
    """The rows of a table.

    Attributes:
        row_of_hit: i32[h] the row of each of the profile's hits, -1 for none.
        above: i64[r] the row that each one is compared with; -1 for none: a table's first row.
        is_shown: bool[r].
    """

    row_of_hit: NDArray[np.int32]
    above: NDArray[np.int64]
    is_shown: NDArray[np.bool_]


def unranked(row_of_hit: NDArray[np.integer], rows: int) -> RankedRows:
    """Return rows without an order, all of them shown."""
    return RankedRows(
        row_of_hit.astype(np.int32, copy=False),
        np.full(rows, -1, np.int64),
        np.ones(rows, np.bool_),
    )


def ranked(row_of_hit: NDArray[np.int32], is_shown: NDArray[np.bool_]) -> RankedRows:
    """Return rows each below the one before it; hits of rows that are not shown are in none."""
    shown = np.append(is_shown, False).take(row_of_hit)  # -1 takes the last one
    return RankedRows(
        np.where(shown, row_of_hit, np.int32(-1)), np.arange(-1, len(is_shown) - 1), is_shown
    )
