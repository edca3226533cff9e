"""Distinct values of whole columns of integers, hashes of columns, and sets of words.

A hash finds candidates; callers compare what they find. To find a few thousand distinct words in
tens of millions, sorting takes seconds. A hash table that stays in the cache takes a fraction of a
tenth of that.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from prospect.columns.array_types import F64, I64, U64, Bools, Ints


_Integer = TypeVar("_Integer", bound=np.integer)

# Odd numbers with mixed bits; the first is 2^64 by the golden ratio. Source: Knuth, The Art of
# Computer Programming, volume 3, 6.4, "multiplicative hashing"; Steele, Lea and Flood, OOPSLA 2014.
_MULTIPLIERS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))
_LEAST_TO_HASH = 1 << 12
_WORD_BITS = 64


def run_starts(*columns: Ints) -> I64:
    """Return where each run of equal rows begins, i64; none without rows."""
    is_start = np.zeros(len(columns[0]), np.bool_)
    is_start[:1] = True
    for column in columns:
        is_start[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(is_start)


def run_lengths(start: I64, rows: int) -> I64:
    """Return the lengths of the runs that begin at `start`, i64[r]; there are `rows` in all.

    `numpy.diff` with an end appended would copy all starts.
    """
    length = np.empty_like(start)
    np.subtract(start[1:], start[:-1], out=length[:-1])
    length[-1:] = rows - start[-1:]
    return length


def ascending(key: U64) -> I64:
    """Return the rows in ascending order of their keys, i64[n]; rows of one key keep their order.

    If they fit, key and row are sorted as one number, in a third of the time of row numbers.
    """
    row_bits = max(len(key) - 1, 0).bit_length()
    if int(key.max(initial=0)).bit_length() + row_bits > _WORD_BITS:
        return np.argsort(key, kind="stable")
    packed = key << np.uint64(row_bits)
    packed |= np.arange(len(key), dtype=np.uint64)
    packed.sort()
    packed &= np.uint64((1 << row_bits) - 1)
    return packed.view(np.int64)


def falling_within(group: I64, weight: F64, count: I64) -> I64:
    """Return the rows by group, by descending weight, and by descending count, i64[n].

    Ties keep their order. If weights are counts in another unit, count and group are sorted as one
    number.
    """
    bits = int(count.max(initial=0)).bit_length()
    has_room = int(group.max(initial=0)).bit_length() + bits < _WORD_BITS
    if has_room and count[:1].any() and np.array_equal(weight * count[0], count * weight[0]):
        key = group.astype(np.uint64) << np.uint64(bits)
        key |= (count.max() - count).astype(np.uint64)
        return ascending(key)
    return np.lexsort((-count, -weight, group))


def numbered(column: Ints) -> tuple[I64, I64]:
    """Number the distinct values in the order in which they first occur.

    Returns:
        The number of each row's value, i64[n], and the row where each value first occurs, i64[d].
    """
    first = _first_rows(column)
    is_first = first == np.arange(len(first))
    return (np.cumsum(is_first) - 1).take(first), np.flatnonzero(is_first)


def _first_rows(column: Ints) -> I64:
    """Return i64[n]: the first row with the value of each row.

    A slot of a table holds the first row whose value hashes to it, for all rows with that value.
    Rows of other values get a second table, and the rest is sorted. For long columns that takes a
    tenth of the time of sorting all, and never much more than that.
    """
    first = np.empty(len(column), np.int64)
    rows: I64 | None = None
    left = column
    for multiplier in _MULTIPLIERS:
        if len(left) < _LEAST_TO_HASH:
            break
        winner = _first_of_slot(left, multiplier)
        is_found = left.take(winner) == left
        if rows is None:
            first[:] = winner
            rows = np.flatnonzero(~is_found)
        else:
            first[rows] = rows.take(winner)
            rows = rows[~is_found]
        left = column.take(rows)
    if not len(left):
        return first
    found = _first_rows_by_sorting(left)
    if rows is None:
        return found
    first[rows] = rows.take(found)
    return first


def _first_of_slot(column: Ints, multiplier: np.uint64) -> Ints:
    """Return i[n]: the first row whose value hashes to the same slot as each row's."""
    bits = (len(column) - 1).bit_length()
    slot = column.astype(np.uint64)
    slot *= multiplier
    slot >>= np.uint64(64 - bits)
    place = slot.view(np.int64)
    row_type = np.int32 if bits < 32 else np.int64
    table: Ints = np.empty(1 << bits, row_type)
    # The last assignment to a slot persists.
    table[place[::-1]] = np.arange(len(column) - 1, -1, -1, dtype=row_type)
    return table.take(place)


def _first_rows_by_sorting(column: Ints) -> I64:
    order = np.argsort(column)
    starts = run_starts(column.take(order))
    earliest = np.minimum.reduceat(order, starts)
    first = np.empty(len(order), np.int64)
    first[order] = earliest.repeat(run_lengths(starts, len(order)))
    return first


def distinct(column: NDArray[_Integer]) -> NDArray[_Integer]:
    """Return the distinct values, ascending."""
    ordered = np.sort(column)
    return ordered.take(run_starts(ordered))


_MOST_SLOT_BITS = 17
_LEAST_SLOT_BITS = 6
# Sorting a block of fewer words takes less time than clearing the table.
_SMALL_BLOCK = 1 << 14
# Knuth, The Art of Computer Programming, volume 3, 6.4: multiplicative hashing, golden ratio.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def random_seed() -> np.uint64:
    """Return a seed that the author of a recording cannot predict, to make hashes collide."""
    return np.uint64(int.from_bytes(os.urandom(8)))


def mixed(words: U64, seed: np.uint64) -> U64:
    """Return a hash of each word, u64[n].

    Source: Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014:
    the finalizer of SplitMix64, in the constants of Stafford's variant 13.
    """
    result = words + seed
    result ^= result >> np.uint64(30)
    result *= np.uint64(0xBF58476D1CE4E5B9)
    result ^= result >> np.uint64(27)
    result *= np.uint64(0x94D049BB133111EB)
    result ^= result >> np.uint64(31)
    return result


def mixed_at(words: U64, place: I64, seed: np.uint64) -> U64:
    """Return a hash of each word and its place; sums of these distinguish sequences."""
    return mixed(words + (place + 1).view(np.uint64) * _GOLDEN, seed)


class WordSet(Record):
    """Distinct words other than 0.

    `slot_word` u64 has one of the words of each hash, 0 for none; `slot_row` i64 is its row, -1 for
    none, and `is_taken` whether there is one. Other words of the same hash are found by bisection.

    Attributes:
        words: u64[k] ascending.
    """

    words: U64
    slot_word: U64
    slot_row: I64
    is_taken: Bools

    def find(self, words: U64) -> I64:
        """Return the row of each word, i64[n]; -1 for words that are not in the set."""
        slot = _slots(words, self._bits)
        row = self.slot_row.take(slot)
        missed = np.flatnonzero(self.slot_word.take(slot) != words)
        if len(missed):
            wanted = words.take(missed)
            place = np.searchsorted(self.words, wanted)
            np.minimum(place, len(self.words) - 1, out=place)
            is_there = self.words.take(place) == wanted if len(self.words) else wanted < 0
            row[missed] = np.where(is_there, place, -1)
        return row

    def may_hold(self, words: U64) -> Bools:
        """Return bool[n]: False for words that cannot be in the set; cheaper than `find`."""
        return self.is_taken.take(_slots(words, self._bits))

    @property
    def _bits(self) -> int:
        return len(self.slot_word).bit_length() - 1


def _slots(words: U64, bits: int) -> I64:
    slot = words * _GOLDEN
    slot >>= np.uint64(64 - bits)
    return slot.view(np.int64)


def word_set(words: U64) -> WordSet:
    """Make a set of words u64[n], which may repeat, without 0."""
    words = distinct(words)
    if len(words) and words[0] == 0:
        words = words[1:]
    # Four slots a word, as long as the table stays in the cache.
    bits = min(max(len(words).bit_length() + 2, _LEAST_SLOT_BITS), _MOST_SLOT_BITS)
    slot_word = np.zeros(1 << bits, np.uint64)
    slot_row = np.full(1 << bits, -1, np.int64)
    slot = _slots(words, bits)
    slot_word[slot] = words
    slot_row[slot] = np.arange(len(words))
    # The last word of a hash has its slot, in both columns.
    return WordSet(words, slot_word, slot_row, slot_row >= 0)


def collect_words(blocks: Iterable[U64], at_most: int) -> WordSet:
    """Make a set of the words of all blocks.

    It keeps at most `at_most` words besides those that have their own slot.
    """
    slot_word = np.empty(0, np.uint64)
    others: list[U64] = []
    for words in blocks:
        if len(words) < _SMALL_BLOCK:
            others.append(distinct(words))
            continue
        if not len(slot_word):
            slot_word = np.zeros(1 << _MOST_SLOT_BITS, np.uint64)
        slot = _slots(words, _MOST_SLOT_BITS)
        missed = slot_word.take(slot) != words
        if not missed.any():
            continue
        new = distinct(words[missed])
        slot = _slots(new, _MOST_SLOT_BITS)
        is_free = slot_word.take(slot) == 0
        slot_word[slot[is_free]] = new[is_free]
        others.append(new[slot_word.take(slot) != new])
        if sum(map(len, others)) > 2 * at_most:
            others = [distinct(np.concatenate(others))[:at_most]]
    return word_set(np.concatenate([slot_word, *others]))
