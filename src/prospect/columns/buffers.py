"""Columns and tables under construction: blocks of values are added, rows are chosen or appended.

A recording may hold hundreds of millions of samples. So a column uses no memory while all its
values are equal, and there are two copies of it only while it grows. A table is a record whose
fields are columns: numpy arrays or lists, or None.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from prospect.records import Record, asdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.columns.array_types import I64, Ints

Scalar = TypeVar("Scalar", bound=np.generic)


class Column(Generic[Scalar]):
    """A column that grows: one scalar until a second value arrives, then an array."""

    def __init__(self, dtype: type[Scalar]) -> None:
        self._dtype = dtype
        self._capacity = 0
        self._scalar: Scalar | None = None
        self._rows: NDArray[Scalar] | None = None

    def reserve(self, used: int, capacity: int) -> None:
        """Make room for `capacity` rows, keeping the first `used` ones."""
        self._capacity = capacity
        if self._rows is not None and capacity > len(self._rows):
            grown = np.empty(capacity, self._dtype)
            grown[:used] = self._rows[:used]
            self._rows = grown

    def put(self, begin: int, values: NDArray[Scalar]) -> None:
        """Store `values` at the rows from `begin` on, within the reserved capacity."""
        if self._rows is None:
            if self._scalar is None:
                self._scalar = values[0]
            if is_scalar(values):
                if values[0] == self._scalar:
                    return
            elif (values == self._scalar).all():
                return
            self._rows = np.empty(self._capacity, self._dtype)
            self._rows[:begin] = self._scalar
        self._rows[begin : begin + len(values)] = values

    def finish(self, count: int, *, broadcast: bool = False) -> NDArray[Scalar]:
        """Return the first `count` rows; if `broadcast`, a broadcast scalar if all are equal."""
        if self._rows is not None:
            return self._rows[:count]
        scalar = self._dtype() if self._scalar is None else self._scalar
        same = np.broadcast_to(scalar, (count,))
        return same if broadcast else same.copy()


def is_scalar(column: NDArray[np.generic]) -> bool:
    """Return whether a column is a broadcast scalar, so that all rows equal the first."""
    return column.strides == (0,)


def narrowed(column: NDArray[np.generic], dtype: type[Scalar]) -> NDArray[Scalar]:
    """Return a column in another type; a broadcast scalar stays one."""
    if is_scalar(column):
        return np.broadcast_to(column[:1].astype(dtype), column.shape)
    return column.astype(dtype)


def segments(start: I64, length: I64) -> I64:
    """Concatenate the ranges ``start[i] .. start[i] + length[i]``, i64[n] each, into one index."""
    end = np.cumsum(length)
    index = np.repeat(start - (end - length), length)
    index += np.arange(len(index))
    return index


_Table = TypeVar("_Table", bound=Record)

_ROWS_AT_ONCE = 1 << 16


def gather(table: _Table, rows: Ints, *whole: str) -> _Table:
    """Return these rows of a table, in this order; the fields in `whole` are not columns."""

    def column(values: Any) -> Any:
        if isinstance(values, Sequence):
            return [values[row] for row in rows.tolist()]
        return None if values is None else values.take(rows)

    fields = asdict(table)
    taken = {name: column(values) for name, values in fields.items() if name not in whole}
    return type(table)(**fields | taken)


def appended(table: _Table, other: _Table, rows: NDArray[np.intp]) -> _Table:
    """Return a table and these rows of another one, concatenated; all columns are new.

    A column that one of the tables lacks is None.
    """
    more = asdict(gather(other, rows))

    def column(values: Any, others: Any) -> Any:
        if isinstance(values, Sequence):
            return [*values, *others]
        return None if values is None or others is None else np.concatenate((values, others))

    columns = {name: column(values, more[name]) for name, values in asdict(table).items()}
    return type(table)(**columns)


def inserted(table: _Table, other: _Table, place: NDArray[np.intp]) -> _Table:
    """Return a table with the rows of another one inserted before the rows `place`, i[n] ascending.

    Columns are arrays. The other table has each column that the table has.
    """
    more = asdict(other)
    columns = {
        name: None if values is None else np.insert(values, place, more[name])
        for name, values in asdict(table).items()
    }
    return type(table)(**columns)


def tuples(*columns: Ints) -> Iterator[tuple[int, ...]]:
    """Return the rows of columns of integers, as Python integers."""
    return zip(*(column.tolist() for column in columns), strict=True)


def looked_up(table: NDArray[Scalar], index: Ints) -> NDArray[Scalar]:
    """Return ``table.take(index)``, block by block.

    Numpy first converts a whole index to 64 bits, which for a long one of 32 bits is more memory
    than the result and the index together.
    """
    found = np.empty(len(index), table.dtype)
    for first in range(0, len(index), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        found[part] = table.take(index[part])
    return found
