"""What every table of hits says of the rows that its threshold leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import Record

if TYPE_CHECKING:
    import numpy as np
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
