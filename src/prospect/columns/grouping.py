"""Counts and sums over groups of rows, and the rows of a group: what tables are made of.

Keys and values are integer columns, equally long. Each distinct key comes out once, in ascending
order, with the sums of its values. Nothing loops over rows.

The addresses of millions of samples are a few thousand different words. A table of slots that stays
in the cache gives each word that comes first to a slot a number; what finds its slot taken goes to
the next table, whose slots another hash chooses, and what is left after the last one is sorted.
If a sample of the rows says that most words are rare, all are sorted at once: as one number of
word and row, which takes half of the time of sorting row numbers by word.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from prospect.columns.buffers import is_scalar
from prospect.columns.sorting import ascending, distinct, run_lengths, run_starts
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# Odd ones with mixed bits, one a table. Source: Knuth, The Art of Computer Programming, volume 3,
# 6.4, "multiplicative hashing"; Steele, Lea and Flood, OOPSLA 2014; MurmurHash3's finalizer.
_MULTIPLIERS = tuple(
    np.uint64(multiplier)
    for multiplier in (
        0x9E3779B97F4A7C15,
        0xBF58476D1CE4E5B9,
        0x94D049BB133111EB,
        0xFF51AFD7ED558CCD,
    )
)
# 2 MB of words a table: about a CPU's second-level cache.
_SLOT_BITS = 18
_LEAST_TO_HASH = 1 << 14
# If more than this part of so many rows are different words, most words are rare.
_TRIED = 1 << 14
_MOSTLY_RARE = 0.6
# Lower bits of a word that are packed as they are: of an address, those within some 256 MB.
_LOW_BITS = 28
_NO_SHIFT = np.uint64(0)
# A block's temporaries stay in the cache too.
_BLOCK = 1 << 16
# If a table leaves more than this part of its words, they are too many for the next one too.
_MOST_LEFT = 0.75


class Counted(NamedTuple):
    """The distinct values of a column.

    Attributes:
        value: u64[d] ascending.
        rows: i64[d] how many have the value.
        place: i32[n] of each row: which of the values it has.
    """

    value: NDArray[np.uint64]
    rows: NDArray[np.int64]
    place: NDArray[np.int32]


def counted(column: NDArray[np.uint64], *, may_spend: bool = False) -> Counted:
    """Count the distinct values of a column, of which there are at most 2^30.

    With `may_spend` nobody needs the column any more, and its memory may be used.
    """
    if len(column) >= _LEAST_TO_HASH:
        tried = column[:: -(-len(column) // _TRIED)]
        if len(distinct(tried)) > _MOSTLY_RARE * len(tried):
            packed = _packed_words(column, may_spend=may_spend)
            if packed is not None:
                return _sorted(*packed)
    return _hashed(column)


def tallied(column: NDArray[np.unsignedinteger]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the distinct values, u64[d] ascending, and how many rows have each, i64[d].

    Which rows these are is not asked: the values are sorted alone, u32 in half the time.

    The column is sorted in place.
    """
    column.sort()
    start = run_starts(column)
    return column.take(start).astype(np.uint64), run_lengths(start, len(column))


class _Packing(NamedTuple):
    """How rows are packed: `high` are the distinct upper parts of words, of `low_bits` lower ones.

    `place` i32[n] is of each row which upper part its word has; its memory is for the result.
    """

    high: NDArray[np.uint64]
    low_bits: int
    row_bits: int
    place: NDArray[np.int32]


def _packed_words(
    column: NDArray[np.uint64], *, may_spend: bool
) -> tuple[NDArray[np.uint64], _Packing] | None:
    """Return word and row as one number, u64[n]; None if they have too many bits."""
    row_bits = (len(column) - 1).bit_length()
    low_bits = min(_LOW_BITS, 64 - row_bits)
    shift = np.uint64(low_bits)
    high = _hashed(column, shift)
    if (len(high.value) - 1).bit_length() + low_bits + row_bits > 64:
        return None
    packed = column if may_spend else np.empty(len(column), np.uint64)
    row = np.arange(_BLOCK, dtype=np.uint64)
    for first in range(0, len(column), _BLOCK):
        low = column[first : first + _BLOCK] & np.uint64((1 << low_bits) - 1)
        part = packed[first : first + _BLOCK]
        part[:] = high.place[first : first + _BLOCK]
        part <<= shift
        part |= low
        part <<= np.uint64(row_bits)
        part |= row[: len(part)]
        row += np.uint64(_BLOCK)
    return packed, _Packing(high.value, low_bits, row_bits, high.place)


def _sorted(packed: NDArray[np.uint64], packing: _Packing) -> Counted:
    """Sort what `_packed_words` returned, and number the words in the order that they have then."""
    packed.sort()
    row_bits = np.uint64(packing.row_bits)
    is_start = np.ones(len(packed), np.bool_)
    for first in range(0, len(packed) - 1, _BLOCK):
        word = packed[first : first + _BLOCK + 1] >> row_bits
        np.not_equal(word[1:], word[:-1], out=is_start[first + 1 : first + len(word)])
    start = np.flatnonzero(is_start)
    low_bits, of_row = np.uint64(packing.low_bits), np.uint64((1 << packing.row_bits) - 1)
    value = np.empty(len(start), np.uint64)
    for first in range(0, len(start), _BLOCK):
        word = packed.take(start[first : first + _BLOCK]) >> row_bits
        part = value[first : first + _BLOCK]
        part[:] = packing.high.take((word >> low_bits).view(np.int64))
        part <<= low_bits
        part |= word & np.uint64((1 << packing.low_bits) - 1)
    place, before = packing.place, np.int32(-1)
    for first in range(0, len(packed), _BLOCK):
        number = np.cumsum(is_start[first : first + _BLOCK], dtype=np.int32)
        number += before
        before = number[-1]
        place[(packed[first : first + _BLOCK] & of_row).view(np.int64)] = number
    return Counted(value, run_lengths(start, len(packed)), place)


def _hashed(column: NDArray[np.uint64], shift: np.uint64 = _NO_SHIFT) -> Counted:
    """Count the distinct values of a column without its `shift` lowest bits."""
    code = np.empty(len(column), np.int32)
    rows: NDArray[np.int64] | None = None
    left, bound = column, 0
    values, codes = [], []
    for multiplier in _MULTIPLIERS:
        if len(left) < _LEAST_TO_HASH:
            break
        found, slot, late = _first_of_slots(left, multiplier, shift)
        slot += np.int32(bound)
        if rows is None:
            code, rows = slot, late
        else:
            code[rows] = slot
            rows = rows.take(late)
        values.append(found.value)
        codes.append(found.slot + bound)
        bound += 1 << _SLOT_BITS
        was, left = len(left), left.take(late)
        if len(left) > _MOST_LEFT * was:
            break
    if len(left):
        others, place = np.unique(left >> shift, return_inverse=True)
        code[slice(None) if rows is None else rows] = place + bound
        values.append(others)
        codes.append(np.arange(bound, bound + len(others)))
    return _ranked(np.concatenate(values or [column[:0]]), codes, code)


def first_rows(place: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the first row of each place, i64[d]; every number below the largest is a place."""
    row = np.zeros(int(place.max(initial=-1)) + 1, np.int64)
    # If there are several, the last one stays.
    row[place[::-1]] = np.arange(len(place))[::-1]
    return row


class _Slots(NamedTuple):
    """The slots that are taken, i64[t], and the value of each, u64[t]."""

    slot: NDArray[np.int64]
    value: NDArray[np.uint64]


def _first_of_slots(
    column: NDArray[np.uint64], multiplier: np.uint64, shift: np.uint64
) -> tuple[_Slots, NDArray[np.int32], NDArray[np.int64]]:
    """Give each slot to the first value, or nearly, that falls on it.

    Returns:
        The slots taken, i32[n] the slot of each row, and i64 the rows whose slot another value has.
    """
    # The value of a free slot never falls on it: 0 does on slot 0, and 1 does not.
    table = np.zeros(1 << _SLOT_BITS, np.uint64)
    table[0] = 1
    slot_of_row = np.empty(len(column), np.int32)
    to_slot = np.uint64(64 - _SLOT_BITS)
    late = [np.empty(0, np.int64)]
    for first in range(0, len(column), _BLOCK):
        value = column[first : first + _BLOCK] >> shift
        mixed = value * multiplier
        mixed >>= to_slot
        slot = mixed.view(np.int64)
        slot_of_row[first : first + _BLOCK] = slot
        row = np.flatnonzero(table.take(slot) != value)
        if len(row):
            new, its_slot = value.take(row), slot.take(row)
            is_free = table.take(its_slot) == (its_slot == 0)
            table[its_slot[is_free]] = new[is_free]
            late.append(first + row[table.take(its_slot) != new])
    is_taken = table != 0
    is_taken[0] = table[0] != 1
    taken = np.flatnonzero(is_taken)
    return _Slots(taken, table.take(taken)), slot_of_row, np.concatenate(late)


def _ranked(
    value: NDArray[np.uint64], codes: list[NDArray[np.int64]], code: NDArray[np.int32]
) -> Counted:
    """Number the values in ascending order, and each row, by its code, like its value."""
    if not len(value):
        return Counted(value, np.empty(0, np.int64), code)
    order = np.argsort(value)
    known = np.concatenate(codes).take(order)
    rank = np.empty(int(known.max()) + 1, np.int32)
    rank[known] = np.arange(len(known), dtype=np.int32)
    # Part by part: numpy would make 64-bit numbers of all codes first.
    rows = np.zeros(len(value), np.int64)
    for first in range(0, len(code), _BLOCK):
        part = rank.take(code[first : first + _BLOCK])
        code[first : first + _BLOCK] = part
        if len(value) <= _BLOCK:
            rows += np.bincount(part, minlength=len(value))
        else:
            np.add.at(rows, part, 1)
    return Counted(value.take(order), rows, code)


_Unsigned = TypeVar("_Unsigned", np.uint32, np.uint64)

_LEAST_TABLE = 1 << 16
_LEAST_TO_COUNT = 1 << 14
_MOST_KEYS = 1 << 63
# A block's temporaries stay in the cache.
_KEY_BLOCK = 1 << 15


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
    for first in range(0, len(packed), _KEY_BLOCK):
        part = packed[first : first + _KEY_BLOCK]
        part[:] = keys[0][first : first + _KEY_BLOCK]
        for column, size in zip(keys[1:], sizes[1:], strict=True):
            part *= dtype(size)
            part += column[first : first + _KEY_BLOCK].astype(dtype)
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
