"""Counts and sums over groups of rows, and the rows of a group, from which tables are made.

Keys and values are integer columns of one length. Each distinct key appears once, in ascending
order, with the sums of its values. No loop runs over rows.

The addresses of millions of samples are a few thousand different words. A table of slots that stays
in the cache numbers the first word of each slot. Words whose slot is occupied go to the next table,
which another hash fills; the words left after the last table are sorted. If a sample of the rows
shows that most words are rare, all are sorted at once, each word and its row as one number. That
takes half as long as sorting row numbers by word.
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

    from prospect.columns.array_types import I32, I64, U64, Bools, Ints

# Odd numbers with mixed bits, one a table. Source: Knuth, The Art of Computer Programming, volume
# 3, 6.4, "multiplicative hashing"; Steele, Lea and Flood, OOPSLA 2014; MurmurHash3's finalizer.
_MULTIPLIERS = tuple(
    np.uint64(multiplier)
    for multiplier in (
        0x9E3779B97F4A7C15,
        0xBF58476D1CE4E5B9,
        0x94D049BB133111EB,
        0xFF51AFD7ED558CCD,
    )
)
# 2 MB of words a table: about the size of a second-level cache.
_SLOT_BITS = 18
_LEAST_TO_HASH = 1 << 14
# If more than this share of so many rows are different words, most words are rare.
_TRIED = 1 << 14
_MOSTLY_RARE = 0.6
# Lower bits of a word, which are packed unchanged: they distinguish addresses within 256 MB.
_LOW_BITS = 28
_NO_SHIFT = np.uint64(0)
# A block's temporaries stay in the cache too.
_BLOCK = 1 << 16
# If a table leaves more than this share of its words, they are too many for the next one too.
_MOST_LEFT = 0.75


class Counted(NamedTuple):
    """The distinct values of a column.

    Attributes:
        value: u64[d] ascending.
        rows: i64[d] how many rows have the value.
        place: i32[n] the place of each row's value in `value`.
    """

    value: U64
    rows: I64
    place: I32


def counted(column: U64, *, may_spend: bool = False) -> Counted:
    """Count the distinct values of a column, at most 2^30 of them.

    `may_spend` allows to overwrite the column.
    """
    if len(column) >= _LEAST_TO_HASH:
        tried = column[:: -(-len(column) // _TRIED)]
        if len(distinct(tried)) > _MOSTLY_RARE * len(tried):
            packed = _packed_words(column, may_spend=may_spend)
            if packed is not None:
                return _numbered(*packed)
    return _hashed(column)


def tallied(column: NDArray[np.unsignedinteger]) -> tuple[U64, I64]:
    """Return the distinct values, u64[d] ascending, and how many rows have each, i64[d].

    This sorts the column in place, without its row numbers: u32 in half the time of `counted`.
    """
    column.sort()
    start = run_starts(column)
    return column.take(start).astype(np.uint64), run_lengths(start, len(column))


def _packed_words(column: U64, *, may_spend: bool) -> tuple[U64, Counted, int, int] | None:
    """Pack each word and its row into one number, u64[n].

    Returns:
        The numbers, the upper parts of the words, the bits of a word's lower part, and those of a
        row; None if a number would have too many bits.
    """
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
    return packed, high, low_bits, row_bits


def _numbered(packed: U64, high: Counted, low_bits: int, row_bits: int) -> Counted:
    """Sort the numbers of `_packed_words`, and number the words in that order.

    The result reuses the memory of `high.place`.
    """
    packed.sort()
    row_shift, low_shift = np.uint64(row_bits), np.uint64(low_bits)
    is_start = np.ones(len(packed), np.bool_)
    for first in range(0, len(packed) - 1, _BLOCK):
        word = packed[first : first + _BLOCK + 1] >> row_shift
        np.not_equal(word[1:], word[:-1], out=is_start[first + 1 : first + len(word)])
    start = np.flatnonzero(is_start)
    value = np.empty(len(start), np.uint64)
    for first in range(0, len(start), _BLOCK):
        word = packed.take(start[first : first + _BLOCK]) >> row_shift
        part = value[first : first + _BLOCK]
        part[:] = high.value.take((word >> low_shift).view(np.int64))
        part <<= low_shift
        part |= word & np.uint64((1 << low_bits) - 1)
    place, before, row_mask = high.place, np.int32(-1), np.uint64((1 << row_bits) - 1)
    for first in range(0, len(packed), _BLOCK):
        number = np.cumsum(is_start[first : first + _BLOCK], dtype=np.int32)
        number += before
        before = number[-1]
        place[(packed[first : first + _BLOCK] & row_mask).view(np.int64)] = number
    return Counted(value, run_lengths(start, len(packed)), place)


def _hashed(column: U64, shift: np.uint64 = _NO_SHIFT) -> Counted:
    """Count the distinct values of a column without its `shift` lowest bits."""
    code = np.empty(len(column), np.int32)
    rows: I64 | None = None
    left, bound = column, 0
    values, codes = [], []
    for multiplier in _MULTIPLIERS:
        if len(left) < _LEAST_TO_HASH:
            break
        met, value, slot, late = _first_of_slots(left, multiplier, shift)
        slot += np.int32(bound)
        if rows is None:
            code, rows = slot, late
        else:
            code[rows] = slot
            rows = rows.take(late)
        values.append(value)
        codes.append(met + bound)
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


def first_rows(place: I32) -> I64:
    """Return the first row of each place, i64[d]; each number up to the largest is a place."""
    row = np.zeros(int(place.max(initial=-1)) + 1, np.int64)
    # The last assignment to a place persists.
    row[place[::-1]] = np.arange(len(place))[::-1]
    return row


def _first_of_slots(
    column: U64, multiplier: np.uint64, shift: np.uint64
) -> tuple[I64, U64, I32, I64]:
    """Give each slot to one of the first values that hash to it.

    Returns:
        i64[t] the slots in use, u64[t] their values, i32[n] the slot of each row, and i64 the rows
        whose slot has another value.
    """
    # The value of a free slot never hashes to it: 0 hashes to slot 0, and 1 does not.
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
    return taken, table.take(taken), slot_of_row, np.concatenate(late)


def _ranked(value: U64, codes: list[I64], code: I32) -> Counted:
    """Number the values in ascending order; replace each row's code by its value's number."""
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


def group_sums(keys: Sequence[NDArray[Any]], values: Sequence[I64]) -> tuple[list[I64], list[I64]]:
    """Sum `values` over rows of equal `keys`.

    Args:
        keys: columns of integers [n], none negative; the product of their ranges fits in 64 bits
            (two row numbers of 31 bits and a mode of 2 do).
        values: i64[n] columns; a broadcast scalar takes no time.

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
    keys: Sequence[NDArray[Any]], values: Sequence[I64]
) -> tuple[list[I64], list[I64], I32]:
    """Sum as `group_sums` does, and return also the number of each row's sum, i32[n]."""
    distinct, sums, order, starts = _grouped(keys, values)
    return distinct, sums, rows_in_groups(order, starts)


def _grouped(
    keys: Sequence[NDArray[Any]], values: Sequence[I64]
) -> tuple[list[I64], list[I64], I64, I64]:
    if not len(keys[0]):
        empty = np.empty(0, np.int64)
        return [empty for _ in keys], [empty for _ in values], empty, empty
    packed, sizes = packed_keys(keys)
    order, starts = equal_rows(packed)
    sums = [np.add.reduceat(column.take(order), starts) for column in values]
    return _unpacked(packed.take(order.take(starts)), sizes), sums, order, starts


def _unpacked(distinct: U64, sizes: list[int]) -> list[I64]:
    """Return the columns of keys that `packed_keys` packed."""
    unpacked: list[I64] = []
    for size in reversed(sizes[1:]):
        distinct, column = np.divmod(distinct, np.uint64(size))
        unpacked.append(column.astype(np.int64))
    unpacked.append(distinct.astype(np.int64))
    return unpacked[::-1]


def packed_keys(keys: Sequence[NDArray[Any]]) -> tuple[U64, list[int]]:
    """Pack the keys of each row into one number, u64[n], the first key leading.

    There is at least one row. The second result is the size of each column's range.
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


def equal_rows(packed: U64) -> tuple[I64, I64]:
    """Return the rows in ascending order of their keys, i64[n], and where each key begins there."""
    order = ascending(packed)
    ordered = packed.take(order)
    return order, np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))


def rows_in_groups(order: I64, starts: I64) -> I32:
    """Return the group of each row, i32[n], from what `equal_rows` returns."""
    group = np.empty(len(order), np.int32)
    sizes = run_lengths(starts, len(order))
    group[order] = np.arange(len(starts), dtype=np.int32).repeat(sizes)
    return group


def exact_sums(index: Ints, values: I64, size: int) -> I64:
    """Sum integers by index, i64[size], exactly; bincount sums in floating point."""
    result = np.zeros(size, np.int64)
    np.add.at(result, index, values)
    return result


def distinct_keys(keys: NDArray[np.signedinteger], bound: int) -> tuple[I64, I64]:
    """Return the distinct keys, ascending, and the place of each row's key in them, i64[n].

    No key is negative, and all are below `bound`. If `bound` is not much larger than n, this sorts
    nothing.
    """
    if bound > max(_LEAST_TABLE, 4 * len(keys)):
        found = counted(keys.astype(np.uint64))
        return found.value.view(np.int64), found.place.astype(np.int64)
    is_there = np.zeros(bound, np.bool_)
    is_there[keys] = True
    number = np.cumsum(is_there, dtype=np.int32)
    number -= 1
    return np.flatnonzero(is_there), number.take(keys).astype(np.int64)


def without_gaps(number: I32, bound: int) -> tuple[I64, I32]:
    """Return the numbers that occur, ascending, and the place of each row's number in them, i32[n].

    All numbers are below `bound`, which is not much larger than their count.
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
        row: i64[d] the first of each kind.
        place: i32[n] the kind of each row.
    """

    row: I64
    place: I32


def alike(columns: Sequence[Ints | Bools]) -> Alike:
    """Find the rows that are equal in all columns, [n] each of integers or truth values.

    If no value is negative the kinds ascend, the first column leading.
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
    """The rows of each group, as slices of `order`.

    Attributes:
        order: i64[n] rows, groups ascending.
        start: i64[g + 1] where each group begins in `order`.
    """

    order: I64
    start: I64

    def rows(self, group: int) -> I64:
        """Return the rows of `group`, i64, in the order of `rows_by_group`."""
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
