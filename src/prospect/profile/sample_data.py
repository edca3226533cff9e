"""What samples say beside where they were taken, as columns: raw data that a plug-in decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class DataColumn(Record):
    """A column of some samples.

    Attributes:
        name: what a report calls it.
        values: f64[k] numbers, NaN for none; or, as f64 too, rows of `texts`, NaN for none.
        texts: what the values mean; empty for numbers.
    """

    name: str
    values: NDArray[np.float64]
    texts: tuple[str, ...] = ()


class SampleData(Record):
    """The columns of an event's samples.

    Attributes:
        event_index: row of `RunInfo.events`.
        source: the plug-in that decoded them.
        sample: i64[k] row of the profile's samples.
        columns: each of k values.
    """

    event_index: int
    source: str
    sample: NDArray[np.int64]
    columns: tuple[DataColumn, ...]
