"""Distinct values by sorting, which for whole columns of integers costs less than hashing."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Integer = TypeVar("_Integer", bound=np.integer)


def run_starts(column: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return where each run of equal neighbours begins, i64; nothing for an empty column."""
    return np.flatnonzero(np.concatenate(([len(column) > 0], column[1:] != column[:-1])))


def distinct(column: NDArray[_Integer]) -> NDArray[_Integer]:
    """Return the distinct values, ascending."""
    ordered = np.sort(column)
    return ordered.take(run_starts(ordered))
