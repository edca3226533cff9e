"""The samples that are being unwound (`Lanes`), and the places of their frames (`SiteMemo`).

A lane is a sample that has not ended: its registers, and the words of its stack copy. Columns
shrink as samples end. Lanes stay in the order of the blocks that have their copies, so a read is
one gather for each block.

Rules are as `elf.frame_rules` packs them, sites are rows of a `SiteTable`. Stacks of a program
consist of the same few thousand places, so a direct-mapped table, `SiteMemo`, answers nearly all
look-ups: a slot holds the last site that hashed to it. Places that evict each other get several
rows. Keys and rules are columns by site, so those in use stay in the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import gather
from prospect.columns.sorting import distinct
from prospect.elf import frame_rules as rules
from prospect.records import replace
from prospect.unwind.interface import SiteTable

if TYPE_CHECKING:
    from prospect.columns.array_types import I32, I64, U64, Bools
    from prospect.elf.frame_rows import FrameRows
    from prospect.unwind.interface import CodeFinder, UnwindInput

ADDRESS_BITS = 48
CONTEXT_BITS = 64 - ADDRESS_BITS
_SLOT_BITS = 20
_FIRST_SITE_BITS = 14
# Fibonacci hashing: Knuth, The Art of Computer Programming, volume 3, 6.4.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SLOT_SHIFT = np.uint64(64 - _SLOT_BITS)
_ADDRESS = np.uint64((1 << ADDRESS_BITS) - 1)
# Context 65535, and no address of user space on x86-64 or arm64: it sorts last.
_NO_KEY = np.uint64(2**64 - 1)


class SiteMemo:
    """A direct-mapped table of places, and all places found so far.

    Keys have the low 16 bits of contexts; `begin_contexts` selects which 65536 contexts these are.
    """

    def __init__(self, finder: CodeFinder) -> None:
        self._finder = finder
        self._frame_rows: dict[int, FrameRows | None] = {}
        self._site = np.zeros(1 << _SLOT_BITS, np.int32)
        # By site, with room for more of them.
        self._key = np.full(1 << _FIRST_SITE_BITS, _NO_KEY)
        self._rule = np.zeros(1 << _FIRST_SITE_BITS, np.int64)
        self._tables: list[SiteTable] = []
        self._count = 0
        self._first_context = 0

    def begin_contexts(self, first: int) -> None:
        """Select the 65536 contexts from `first` on, a multiple of 65536."""
        if first != self._first_context:
            self._first_context = first
            self._key[:] = _NO_KEY

    def look_up(self, key: U64) -> tuple[I64, I32]:
        """Return the rule and the site of each key: context << 48 | address.

        Returns:
            i64[n] rules, `NO_MAP` if nothing is mapped; i32[n] rows of the sites.
        """
        site = self._site.take(_slots(key))
        missed = np.flatnonzero(self._key.take(site) != key)
        if len(missed):
            met, which = np.unique(key.take(missed), return_inverse=True)
            found = self._find(met)
            # If several sites share a slot, the last one remains.
            self._site[_slots(met)] = found
            site[missed] = found.take(which)
        return self._rule.take(site), site

    def interrupted(self, site: I32) -> I32:
        """Return the sites, i32[n], of frames that signals interrupted at some sites."""
        met, place = np.unique(site, return_inverse=True)
        rows = gather(self.sites(), met.astype(np.int64))
        self._tables.append(replace(rows, is_interrupted=np.ones(len(rows), np.bool_)))
        # No look-up finds them.
        return self._add(np.full(len(rows), _NO_KEY), rows.rule).take(place)

    def sites(self) -> SiteTable:
        """Return all places found so far."""
        if len(self._tables) != 1:
            names = ("context", "address", "object", "svma", "rule", "is_interrupted")
            columns = (np.concatenate([getattr(t, n) for t in self._tables] or [[]]) for n in names)
            dtypes = (np.int32, np.uint64, np.int32, np.uint64, np.int64, np.bool_)
            table = SiteTable(*(c.astype(d) for c, d in zip(columns, dtypes, strict=True)))
            self._tables = [table]
        return self._tables[0]

    def _find(self, key: U64) -> I32:
        """Find the code at distinct places; return their new sites."""
        address = key & _ADDRESS
        context = (key >> np.uint64(ADDRESS_BITS)).astype(np.int32) + np.int32(self._first_context)
        found, svma, is_mapped = self._finder.locate(context, address)
        rule = np.where(is_mapped, rules.NO_ROW, rules.NO_MAP)
        for row in distinct(found[found >= 0]).tolist():
            if row not in self._frame_rows:
                self._frame_rows[row] = self._finder.rows_of(row)
            table = self._frame_rows[row]
            if table is not None:
                at = np.flatnonzero((found == row) & is_mapped)
                rule[at] = table.look_up(svma.take(at))
        is_interrupted = np.zeros(len(key), np.bool_)
        self._tables.append(SiteTable(context, address, found, svma, rule, is_interrupted))
        return self._add(key, rule)

    def _add(self, key: U64, rule: I64) -> I32:
        """Store keys and rules of new sites; return their numbers."""
        site = np.arange(self._count, self._count + len(key), dtype=np.int32)
        self._count += len(key)
        if self._count > len(self._key):
            room = 2 * self._count - len(self._key)
            self._key = np.append(self._key, np.full(room, _NO_KEY))
            self._rule = np.append(self._rule, np.zeros(room, np.int64))
        self._key[site], self._rule[site] = key, rule
        return site


def _slots(key: U64) -> I64:
    return ((key * _MULTIPLIER) >> _SLOT_SHIFT).view(np.int64)


_WORD_SHIFT = np.uint64(3)
_LOW_SHIFT = np.uint64(61)
_CONTEXT_MASK = (1 << CONTEXT_BITS) - 1


class Lanes:
    """Samples that have not ended.

    Attributes:
        sample: i64[l] row of the sample.
        pc, sp, fp: i64[l] of its current frame.
        second: i64[l] its second register; None if that is not followed.
        key: u64[l] the context's part of `SiteMemo.look_up`'s keys.
        origin: i64[l] address of the copy's first byte.
        words: u64[l] the size of the copy, in words.
        base: i64[l] the offset of the copy in its block, in words.
        block: i32[l] its block; out of date once all lanes read from one.
    """

    _COLUMNS = ("sample", "pc", "sp", "fp", "key", "origin", "words", "base")

    def __init__(self, given: UnwindInput, blocks: list[U64], sample: I64) -> None:
        self.sample = sample
        self.pc = given.pc.take(sample).view(np.int64)
        self.sp = given.sp.take(sample).view(np.int64)
        self.fp = given.fp.take(sample).view(np.int64)
        self.second: I64 | None = None
        context = given.context.take(sample).astype(np.int64) & _CONTEXT_MASK
        self.key = (context << ADDRESS_BITS).view(np.uint64)
        self.origin = self.sp
        self.block = given.stack_block.take(sample)
        begin = given.stack_begin.take(sample).astype(np.int64)
        end = begin + given.stack_bytes.take(sample)
        # Copies must begin at a word, and end in the block.
        block_bytes = np.array([8 * len(block) for block in blocks] + [0], np.int64)
        end = np.minimum(end, block_bytes.take(self.block, mode="wrap"))
        is_sound = (begin >= 0) & (begin & 7 == 0) & (end > begin)
        self.words = np.where(is_sound, (end - begin) >> 3, 0).view(np.uint64)
        self.base = np.where(is_sound, begin >> 3, 0)
        self._blocks = blocks
        # Words of a block, the first lane that reads from it, and the one after the last.
        self._runs: list[tuple[U64, int, int]] = []
        self._find_runs()

    def __len__(self) -> int:
        return len(self.sample)

    def keep(self, rows: I64) -> None:
        """Keep only these lanes."""
        for name in self._COLUMNS:
            setattr(self, name, getattr(self, name).take(rows))
        if self.second is not None:
            self.second = self.second.take(rows)
        if len(self._runs) == 1:
            self._runs = [(self._runs[0][0], 0, len(rows))]
            return
        self.block = self.block.take(rows)
        self._find_runs()

    def place(self, address: I64) -> tuple[I64, Bools]:
        """Find a word of each lane's copy, at i64[l] addresses.

        Returns:
            i64[l] the word's number in the lane's copy, and bool[l] whether it is there; if not,
            the number is undefined.
        """
        distance = (address - self.origin).view(np.uint64)
        # Rotated by three bits, distances that are not aligned or are negative are large too.
        word = distance >> _WORD_SHIFT | distance << _LOW_SHIFT
        return word.view(np.int64), word < self.words

    def read(self, word: I64, is_there: Bools) -> I64:
        """Read the words that `place` found, i64[l]; undefined for those that are not there."""
        # Absent words are read at the block's start, which stays in the cache.
        at = (self.base + word) * is_there
        if len(self._runs) == 1:
            return self._runs[0][0].take(at, mode="clip").view(np.int64)
        value = np.empty(len(at), np.int64)
        for words, low, high in self._runs:
            value[low:high] = words.take(at[low:high], mode="clip").view(np.int64)
        return value

    def read_some(self, rows: I64, address: I64) -> tuple[I64, Bools]:
        """Read a word of each of some lanes; return i64[r], and bool[r] whether it is there."""
        distance = (address - self.origin.take(rows)).view(np.uint64)
        word = distance >> _WORD_SHIFT | distance << _LOW_SHIFT
        is_there = word < self.words.take(rows)
        at = self.base.take(rows) + np.where(is_there, word, 0).astype(np.int64)
        value = np.zeros(len(rows), np.int64)
        for words, low, high in self._runs:
            first, last = np.searchsorted(rows, (low, high)).tolist()
            value[first:last] = words.take(at[first:last], mode="clip").view(np.int64)
        return value, is_there

    def _find_runs(self) -> None:
        low = np.flatnonzero(np.diff(self.block, prepend=-2))
        high = np.append(low, len(self.block))[1:]
        found = [self._blocks[row] if row >= 0 else _NOTHING for row in self.block[low].tolist()]
        blocks = [words if len(words) else _NOTHING for words in found]
        self._runs = list(zip(blocks, low.tolist(), high.tolist(), strict=True))


_NOTHING = np.zeros(1, np.uint64)
