"""Hashes of whole columns of 64-bit words, and a set of words that columns are looked up in.

A hash finds what may be equal; users compare what they find. Sorting tens of millions of words to
find the few thousand distinct ones among them costs seconds; hashing them into a table that stays
in the cache costs a fraction of a tenth of that.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_MOST_SLOT_BITS = 17
_LEAST_SLOT_BITS = 6
# A block of fewer words is sorted sooner than the table for it is cleared.
_SMALL_BLOCK = 1 << 14
# Knuth, The Art of Computer Programming, volume 3, 6.4: multiplicative hashing, golden ratio.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def random_seed() -> np.uint64:
    """Return a seed that who made a recording cannot know: he cannot make hashes collide."""
    return np.uint64(int.from_bytes(os.urandom(8)))


def mixed(words: NDArray[np.uint64], seed: np.uint64) -> NDArray[np.uint64]:
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


def mixed_at(
    words: NDArray[np.uint64], place: NDArray[np.int64], seed: np.uint64
) -> NDArray[np.uint64]:
    """Return a hash of each word and its place; sums of them distinguish sequences."""
    return mixed(words + (place + 1).view(np.uint64) * _MULTIPLIER, seed)


class WordSet(Record):
    """Distinct words other than 0.

    `slot_word` u64 has one of the words of each hash, 0 if there is none; `slot_row` i64 is its
    row, and `is_taken` bool whether there is one. Words that lost their slot to another are found
    by bisection.

    Attributes:
        words: u64[k] ascending.
    """

    words: NDArray[np.uint64]
    slot_word: NDArray[np.uint64]
    slot_row: NDArray[np.int64]
    is_taken: NDArray[np.bool_]

    def find(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the row of each word, i64[n]; -1 for those that are not in the set."""
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

    def may_hold(self, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return bool[n]: False for words that surely are not in the set; cheaper than `find`."""
        return self.is_taken.take(_slots(words, self._bits))

    @property
    def _bits(self) -> int:
        return len(self.slot_word).bit_length() - 1


def _slots(words: NDArray[np.uint64], bits: int) -> NDArray[np.int64]:
    slot = words * _MULTIPLIER
    slot >>= np.uint64(64 - bits)
    return slot.view(np.int64)


def word_set(words: NDArray[np.uint64]) -> WordSet:
    """Make a set of words u64[n], which may repeat; 0 is left out."""
    words = distinct(words)
    if len(words) and words[0] == 0:
        words = words[1:]
    # Four slots a word, as far as the table stays in the cache.
    bits = min(max(len(words).bit_length() + 2, _LEAST_SLOT_BITS), _MOST_SLOT_BITS)
    slot_word = np.zeros(1 << bits, np.uint64)
    slot_row = np.full(1 << bits, -1, np.int64)
    slot = _slots(words, bits)
    slot_word[slot] = words
    slot_row[slot] = np.arange(len(words))
    # If several words have one hash, the last written has the slot, in both columns alike.
    return WordSet(words, slot_word, slot_row, slot_row >= 0)


def collect_words(blocks: Iterable[NDArray[np.uint64]], at_most: int) -> WordSet:
    """Make a set of the words of all blocks.

    At most `at_most` words beyond those that have their own slot are kept.
    """
    slot_word = np.empty(0, np.uint64)
    others: list[NDArray[np.uint64]] = []
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
