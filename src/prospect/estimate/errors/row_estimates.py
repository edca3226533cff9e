"""What is known about the error of the rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.records import Record, contents, field_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class RowEstimates(Record):
    """What is known about the error of each row of a table; all columns are [r].

    Attributes:
        seconds: f64 the time that the estimates are of.
        half_width_s: f64 how far the 95 % interval reaches on its wider side: what stands behind
            ±. NaN where not estimated: in rows that are not shown, and of events without time.
        low_s, high_s: f64 the 95 % interval, which is not even around the time of a rare row.
        in_step: bool the program runs in step with a clock here: the time may be off by more.
        like_above: bool cannot be told from the row above at 95 %.
        needed_s: f64 how long a run would have to be to tell it from the row above; NaN where
            there is none, infinite where no run of reasonable length would do.
    """

    seconds: NDArray[np.float64]
    half_width_s: NDArray[np.float64]
    low_s: NDArray[np.float64]
    high_s: NDArray[np.float64]
    in_step: NDArray[np.bool_]
    like_above: NDArray[np.bool_]
    needed_s: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.seconds)

    def rows(self, chosen: slice | NDArray[np.int64]) -> RowEstimates:
        """Return some of the rows, as a table of their own."""
        return RowEstimates(*(column[chosen] for column in contents(self).values()))


def joined(tables: Sequence[RowEstimates]) -> RowEstimates:
    """Return the rows of several tables, one behind the other."""
    return RowEstimates(
        *(
            np.concatenate([getattr(table, name) for table in tables])
            for name in field_names(RowEstimates)
        )
    )
