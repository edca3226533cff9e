"""Sums over groups of rows, and the rows of one group: what every table of a report is made of.

Keys and values are integer columns, equally long. Each distinct key comes out once, in ascending
order, with the sums of its values. Nothing loops over rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from prospect.columns.buffers import is_scalar
from prospect.columns.counting import counted, first_rows, tallied
from prospect.columns.sorting import ascending, run_lengths
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_Unsigned = TypeVar("_Unsigned", np.uint32, np.uint64)

_LEAST_TABLE = 1 << 16
_LEAST_TO_COUNT = 1 << 14
_MOST_KEYS = 1 << 63
# A block's temporaries stay in the cache.
_BLOCK = 1 << 15


def group_sums(
    keys: Sequence[NDArray[Any]], values: Sequence[NDArray[np.int64]]
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Sum `values` over rows of equal `keys`.

    Args:
        keys: columns of integers [n], none negative; the product of their ranges fits in 64 bits
            (two row numbers of 31 bits and a mode of 2 do).
        values: i64[n] columns; a broadcast scalar, for all that is the same, takes no time.

    Returns:
        The distinct keys, i64[g] a column, ascending with the first key leading, and i64[g] sums.
    """
    if len(keys[0]) < _LEAST_TO_COUNT:
        distinct, sums, _, _ = _grouped(keys, values)
        return distinct, sums
    if all(map(is_scalar, values)):
        sizes = [int(column.max()) + 1 for column in keys]
        is_small = math.prod(sizes) < 1 << 32
        packed = _packed(keys, sizes, np.uint32) if is_small else _packed(keys, sizes, np.uint64)
        value, rows = tallied(packed)
        return _unpacked(value, sizes), [rows * column[0] for column in values]
    words, sizes = packed_keys(keys)
    found = counted(words, may_spend=True)
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

    There is at least one row; the first key leads.
    """
    sizes = [int(column.max()) + 1 for column in keys]
    return _packed(keys, sizes, np.uint64), sizes


def _packed(
    keys: Sequence[NDArray[Any]], sizes: list[int], dtype: type[_Unsigned]
) -> NDArray[_Unsigned]:
    packed = np.empty(len(keys[0]), dtype)
    for first in range(0, len(packed), _BLOCK):
        part = packed[first : first + _BLOCK]
        part[:] = keys[0][first : first + _BLOCK]
        for column, size in zip(keys[1:], sizes[1:], strict=True):
            part *= dtype(size)
            part += column[first : first + _BLOCK].astype(dtype)
    return packed


def equal_rows(packed: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows in ascending order of their keys, i64[n], and where each key begins there."""
    order = ascending(packed)
    ordered = packed.take(order)
    return order, np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))


def rows_in_groups(order: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the group of each row, i32[n], from what `equal_rows` returns."""
    group = np.empty(len(order), np.int32)
    sizes = run_lengths(starts, len(order))
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

    No key is negative, and `bound` is above all; if it is not much larger than n, nothing is
    sorted.
    """
    if bound > max(_LEAST_TABLE, 4 * len(keys)):
        found = counted(keys.astype(np.uint64))
        return found.value.view(np.int64), found.place.astype(np.int64)
    is_there = np.zeros(bound, np.bool_)
    is_there[keys] = True
    number = np.cumsum(is_there, dtype=np.int32)
    number -= 1
    return np.flatnonzero(is_there), number.take(keys).astype(np.int64)


def without_gaps(
    number: NDArray[np.int32], bound: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the numbers that occur, ascending, and each row's place among them, i32[n].

    `bound` is above all numbers, and not much larger than they are many.
    """
    is_there = np.bincount(number, minlength=bound) > 0
    if is_there.all():
        return np.arange(bound), number
    place = np.cumsum(is_there, dtype=np.int32)
    place -= 1
    return np.flatnonzero(is_there), place.take(number)


class Alike(NamedTuple):
    """Rows that are equal in all of some columns.

    Attributes:
        row: i64[d] the first of each.
        place: i32[n] of each row: which of them it equals.
    """

    row: NDArray[np.int64]
    place: NDArray[np.int32]


def alike(columns: Sequence[NDArray[np.integer] | NDArray[np.bool_]]) -> Alike:
    """Return which rows are equal in all columns, [n] each of integers or truth values.

    If none is negative they ascend, the first column leading.
    """
    if not len(columns[0]):
        return Alike(np.empty(0, np.int64), np.empty(0, np.int32))
    if min(int(column.min()) for column in columns) >= 0:
        bound = math.prod(int(column.max()) + 1 for column in columns)
        if bound < _MOST_KEYS:
            packed, _ = packed_keys(columns)
            _, of_row = distinct_keys(packed.view(np.int64), bound)
            place = of_row.astype(np.int32)
            return Alike(first_rows(place), place)
    place = np.zeros(len(columns[0]), np.int32)
    for column in columns:
        own = counted(column.astype(np.uint64))
        key = place.astype(np.uint64) * np.uint64(len(own.value))
        key += own.place.astype(np.uint64)
        place = counted(key).place
    return Alike(first_rows(place), place)


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
