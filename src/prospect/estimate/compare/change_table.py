"""What changed from one side of a comparison to the other, a row for each thing compared.

docs/diff.md says what the figures mean and what they claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.records import Record, replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.compare.matching import Kind


_DECIMALS = 9


class ChangeTable(Record):
    """The rows of one kind: significant ones first, by the size of their change, then by time.

    Rows with too few hits to be tested come last.

    Times are seconds per unit of work. NaN stands for what does not exist.

    Attributes:
        kind: "total", "portion", "process", "object", "routine", or "inclusive": routines with all
            that they call, of all portions together.
        name, object: list[str]; "" for a routine without a name, and where there is none.
        portion: i64[r] PORTION_*.
        hits: i64[r, 2] of all recordings of a side.
        mean: f64[r, 2] time of A and of B.
        change, half_width: f64[r] B - A, and half the width of its 95 % interval.
        relative, relative_low, relative_high: f64[r] the change as a part of A's time, with its
            interval; infinite where there is no bound.
        p_value, q_value: f64[r] how likely by chance; NaN for rows that are not tested.
        significant: bool[r] whether q_value is within the rate of false discoveries.
    """

    kind: Kind
    name: list[str]
    object: list[str]
    portion: NDArray[np.int64]
    hits: NDArray[np.int64]
    mean: NDArray[np.float64]
    change: NDArray[np.float64]
    half_width: NDArray[np.float64]
    relative: NDArray[np.float64]
    relative_low: NDArray[np.float64]
    relative_high: NDArray[np.float64]
    p_value: NDArray[np.float64]
    q_value: NDArray[np.float64]
    significant: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.name)

    def shown(self, rows: int) -> int:
        """Return how many rows, from the first, a report of `rows` rows a table shows.

        All that are significant; no others with too few hits to be tested.
        """
        tested = int(np.count_nonzero(~np.isnan(self.p_value)))
        return max(int(np.count_nonzero(self.significant)), min(rows, tested))


def in_order(table: ChangeTable) -> ChangeTable:
    """Put significant rows first, the biggest change leading; then the others, by their time.

    Of equal ones, to the nanosecond, the surer leads: what sums lose in their last digits differs
    by CPU, and orders nothing.
    """
    size = np.where(table.significant, np.abs(table.change), table.mean.max(axis=1, initial=0.0))
    surer, larger = np.round(table.p_value, _DECIMALS), -np.round(size, _DECIMALS)
    order = np.lexsort((surer, larger, np.isnan(table.p_value), ~table.significant))
    columns: dict[str, Any] = {
        name: column.take(order, axis=0)
        for name, column in vars(table).items()
        if isinstance(column, np.ndarray)
    }
    names = [table.name[row] for row in order.tolist()]
    objects = [table.object[row] for row in order.tolist()]
    return replace(table, name=names, object=objects, **columns)
