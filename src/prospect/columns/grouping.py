"""Sums over groups of rows, and the rows of one group: what every table of a report is made of.

Comes in: integer key columns and integer value columns, equally long. Goes out: each distinct key
once, in ascending order, with the sums of its values. Nothing loops over rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.counting import counted
from prospect.columns.sorting import ascending
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_LEAST_TABLE = 1 << 16
_LEAST_TO_COUNT = 1 << 14


def group_sums(
    keys: Sequence[NDArray[Any]], values: Sequence[NDArray[np.int64]]
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Sum `values` over rows of equal `keys`.

    Args:
        keys: columns of integers [n], none negative; the product of their ranges fits in 64 bits
            (two row numbers of 31 bits and a portion of 2 do).
        values: i64[n] columns.

    Returns:
        The distinct keys, i64[g] a column, ascending with the first key leading, and i64[g] sums.
    """
    if len(keys[0]) < _LEAST_TO_COUNT:
        distinct, sums, _, _ = _grouped(keys, values)
        return distinct, sums
    packed, sizes = packed_keys(keys)
    found = counted(packed, may_spend=True)
    groups = len(found.value)
    return _unpacked(found.value, sizes), [
        exact_sums(found.place, column, groups) for column in values
    ]


def sums_with_rows(
    keys: Sequence[NDArray[Any]], values: Sequence[NDArray[np.int64]]
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]], NDArray[np.int32]]:
    """Sum as `group_sums` does, and return also the sum that each row went into, i32[n]."""
    distinct, sums, order, starts = _grouped(keys, values)
    return distinct, sums, rows_in_groups(order, starts)


def _grouped(
    keys: Sequence[NDArray[Any]], values: Sequence[NDArray[np.int64]]
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]], NDArray[np.int64], NDArray[np.int64]]:
    if not len(keys[0]):
        empty = np.empty(0, np.int64)
        return [empty for _ in keys], [empty for _ in values], empty, empty
    packed, sizes = packed_keys(keys)
    order, starts = equal_rows(packed)
    sums = [np.add.reduceat(column.take(order), starts) for column in values]
    return _unpacked(packed.take(order.take(starts)), sizes), sums, order, starts


def _unpacked(distinct: NDArray[np.uint64], sizes: list[int]) -> list[NDArray[np.int64]]:
    """Return the columns of keys that `packed_keys` made one number of."""
    unpacked: list[NDArray[np.int64]] = []
    for size in reversed(sizes[1:]):
        distinct, column = np.divmod(distinct, np.uint64(size))
        unpacked.append(column.astype(np.int64))
    unpacked.append(distinct.astype(np.int64))
    return unpacked[::-1]


def packed_keys(keys: Sequence[NDArray[Any]]) -> tuple[NDArray[np.uint64], list[int]]:
    """Return the keys of each row as one number, u64[n], and the size of each column's range.

    Args:
        keys: as for `group_sums`, with at least one row; the first leads.
    """
    sizes = [int(column.max()) + 1 for column in keys]
    packed = keys[0].astype(np.uint64)
    for column, size in zip(keys[1:], sizes[1:], strict=True):
        packed = packed * np.uint64(size) + column.astype(np.uint64)
    return packed, sizes


def equal_rows(packed: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows in ascending order of their keys, i64[n], and where each key begins there.

    Args:
        packed: u64[n] from `packed_keys`.
    """
    order = ascending(packed)
    ordered = packed.take(order)
    return order, np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))


def rows_in_groups(order: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the group of each row, i32[n], from what `equal_rows` returns."""
    group = np.empty(len(order), np.int32)
    sizes = np.diff(starts, append=len(order))
    group[order] = np.arange(len(starts), dtype=np.int32).repeat(sizes)
    return group


def exact_sums(
    index: NDArray[np.integer], values: NDArray[np.int64], size: int
) -> NDArray[np.int64]:
    """Add up integers by index, i64[size]: exactly, which bincount's floating point does not."""
    result = np.zeros(size, np.int64)
    np.add.at(result, index, values)
    return result


def distinct_keys(
    keys: NDArray[np.signedinteger], bound: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct keys, ascending, and the row of each key among them, i64[n].

    Args:
        keys: [n] none negative.
        bound: above all keys; where it is not much larger than n, nothing is sorted.
    """
    if bound > max(_LEAST_TABLE, 4 * len(keys)):
        found = counted(keys.astype(np.uint64))
        return found.value.view(np.int64), found.place.astype(np.int64)
    is_there = np.zeros(bound, np.bool_)
    is_there[keys] = True
    return np.flatnonzero(is_there), (np.cumsum(is_there) - 1).take(keys)


class RowsByGroup(Record):
    """Which rows belong to a group, as slices of `order`.

    Attributes:
        order: i64[n] rows, groups ascending.
        start: i64[g + 1] where each group begins in `order`.
    """

    order: NDArray[np.int64]
    start: NDArray[np.int64]

    def rows(self, group: int) -> NDArray[np.int64]:
        """Return the rows of `group`, i64, in the order that was asked for."""
        return self.order[self.start[group] : self.start[group + 1]]


def rows_by_group(
    group: NDArray[Any], group_count: int, order_by: Sequence[NDArray[Any]] = ()
) -> RowsByGroup:
    """Index rows by group.

    Args:
        group: [n] integers in 0..group_count; rows outside (-1) are in no group.
        group_count: how many groups there are, empty ones included.
        order_by: [n] columns that order the rows of a group, ascending, the first one leading.
    """
    order = np.lexsort((*reversed(order_by), group))
    start = np.searchsorted(group.take(order), np.arange(group_count + 1))
    return RowsByGroup(order, start)
