"""How often each value of a long u64 column occurs, and which of the values each row has.

The addresses of millions of samples are a few thousand different words. A table of slots that stays
in the cache gives each word that comes first to a slot a number; what finds its slot taken goes to
the next table, whose slots another hash chooses, and what is left after the last one is sorted.
If a sample of the rows says that most words are rare, all are sorted at once: as one number of
word and row, which takes half of the time of sorting row numbers by word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct, run_lengths, run_starts
from prospect.records import NamedTuple

if TYPE_CHECKING:
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
            packed = _packed(column, may_spend=may_spend)
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


def _packed(
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
    """Sort what `_packed` returned, and number the words in the order that they have then."""
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
