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


def distinct(column: NDArray[_Integer]) -> NDArray[_Integer]:
    """Return the distinct values, ascending."""
    ordered = np.sort(column)
    return ordered.take(run_starts(ordered))
