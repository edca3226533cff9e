"""Rows of any table of columns: some of them, some after those of another, those of an index.

A table is a record whose fields are columns, numpy arrays or lists, or None.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from prospect.records import Record, asdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Table = TypeVar("_Table", bound=Record)
_Scalar = TypeVar("_Scalar", bound=np.generic)

_ROWS_AT_ONCE = 1 << 16


def gather(table: _Table, rows: NDArray[np.intp]) -> _Table:
    """Return these rows of a table, in this order."""

    def column(values: Any) -> Any:
        if isinstance(values, Sequence):
            return [values[row] for row in rows.tolist()]
        return None if values is None else values.take(rows)

    return type(table)(**{name: column(values) for name, values in asdict(table).items()})


def appended(table: _Table, other: _Table, rows: NDArray[np.intp]) -> _Table:
    """Return a table with these rows of another one after its own; all columns are new ones.

    A column that either lacks is None.
    """
    more = asdict(gather(other, rows))

    def column(values: Any, behind: Any) -> Any:
        if isinstance(values, Sequence):
            return [*values, *behind]
        return None if values is None or behind is None else np.concatenate((values, behind))

    columns = {name: column(values, more[name]) for name, values in asdict(table).items()}
    return type(table)(**columns)


def inserted(table: _Table, other: _Table, place: NDArray[np.intp]) -> _Table:
    """Return a table with each row of another one before its own row; columns are arrays.

    Args:
        table: to insert into.
        other: the rows, of which no column is None that the table has.
        place: i[n] ascending, as in `numpy.insert`.
    """
    more = asdict(other)
    columns = {
        name: None if values is None else np.insert(values, place, more[name])
        for name, values in asdict(table).items()
    }
    return type(table)(**columns)


def tuples(*columns: NDArray[np.integer]) -> Iterator[tuple[int, ...]]:
    """Return the rows of columns of integers, as numbers of Python's."""
    return zip(*(column.tolist() for column in columns), strict=True)


def looked_up(table: NDArray[_Scalar], index: NDArray[np.integer]) -> NDArray[_Scalar]:
    """Return ``table.take(index)``, part by part.

    Numpy makes 64-bit numbers of all of an index first, which for a long one of 32 bits is more
    memory than the result and the index together.
    """
    found = np.empty(len(index), table.dtype)
    for first in range(0, len(index), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        found[part] = table.take(index[part])
    return found
