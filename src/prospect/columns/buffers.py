"""Columns under construction: values come in block by block, one array goes out.

A recording may hold hundreds of millions of samples, so a column takes no memory while all its
values are equal, and is never held twice for longer than it takes to grow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)


class Column(Generic[Scalar]):
    """A column that grows: one scalar until a second value is met, then an array."""

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
        """Return the first `count` rows, a broadcast scalar where all are equal and `broadcast`."""
        if self._rows is not None:
            return self._rows[:count]
        scalar = self._dtype() if self._scalar is None else self._scalar
        same = np.broadcast_to(scalar, (count,))
        return same if broadcast else same.copy()


def is_scalar(column: NDArray[np.generic]) -> bool:
    """Return whether a column is a broadcast scalar, so that its first row is all of them."""
    return column.strides == (0,)


def narrowed(column: NDArray[np.generic], dtype: type[Scalar]) -> NDArray[Scalar]:
    """Return a column in another type; a broadcast scalar stays one."""
    if is_scalar(column):
        return np.broadcast_to(column[:1].astype(dtype), column.shape)
    return column.astype(dtype)


def segments(start: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
    """Concatenate the ranges ``start[i] .. start[i] + length[i]`` (i64[n] each) into one index."""
    end = np.cumsum(length)
    index = np.repeat(start - (end - length), length)
    index += np.arange(len(index))
    return index
