"""Distinct values by sorting, which for whole columns of integers costs less than hashing."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Integer = TypeVar("_Integer", bound=np.integer)


def run_starts(*columns: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return where each run of rows that equal their neighbours begins, i64; none without rows."""
    is_start = np.zeros(len(columns[0]), np.bool_)
    is_start[:1] = True
    for column in columns:
        is_start[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(is_start)


def numbered(column: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the distinct values in the order in which they first occur.

    Returns:
        The number of each row's value, i64[n], and the row where each value first occurs, i64[d].
    """
    order = np.argsort(column)
    starts = run_starts(column.take(order))
    if not len(starts):
        return order, starts
    earliest = np.minimum.reduceat(order, starts)
    first = np.empty(len(order), np.int64)
    first[order] = earliest.repeat(np.diff(starts, append=len(order)))
    is_first = np.zeros(len(order), np.bool_)
    is_first[earliest] = True
    return (np.cumsum(is_first) - 1).take(first), np.flatnonzero(is_first)


def distinct(column: NDArray[_Integer]) -> NDArray[_Integer]:
    """Return the distinct values, ascending."""
    ordered = np.sort(column)
    return ordered.take(run_starts(ordered))
