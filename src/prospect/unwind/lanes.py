"""The samples that are being unwound: their registers, and the words of their stack copies.

A lane is a sample that has not ended; columns shrink as samples come to their end. Lanes stay in
the order of the blocks that have their copies, so that a read is one gather for each block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.unwind.memo import ADDRESS_BITS, CONTEXT_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.unwind.interface import UnwindInput

_WORD_SHIFT = np.uint64(3)
_LOW_SHIFT = np.uint64(61)
_CONTEXT_MASK = (1 << CONTEXT_BITS) - 1


class Lanes:
    """Samples under way.

    Attributes:
        sample: i64[l] which sample.
        pc, sp, fp: i64[l] of the frame that is looked at.
        second: i64[l] its second register; None if that is not followed.
        key: u64[l] the context's part of `SiteMemo.look_up`'s keys.
        origin: i64[l] address of the copy's first byte.
        words: u64[l] how many words the copy has.
        base: i64[l] where it begins in its block, in words.
        block: i32[l] which block; not kept up once all lanes read from one.
    """

    _COLUMNS = ("sample", "pc", "sp", "fp", "key", "origin", "words", "base")

    def __init__(
        self, given: UnwindInput, blocks: list[NDArray[np.uint64]], sample: NDArray[np.int64]
    ) -> None:
        self.sample = sample
        self.pc = given.pc.take(sample).view(np.int64)
        self.sp = given.sp.take(sample).view(np.int64)
        self.fp = given.fp.take(sample).view(np.int64)
        self.second: NDArray[np.int64] | None = None
        context = given.context.take(sample).astype(np.int64) & _CONTEXT_MASK
        self.key = (context << ADDRESS_BITS).view(np.uint64)
        self.origin = self.sp
        self.block = given.stack_block.take(sample)
        begin = given.stack_begin.take(sample).astype(np.int64)
        end = begin + given.stack_bytes.take(sample)
        # Only addresses in the block that begin at one of its words.
        block_bytes = np.array([8 * len(block) for block in blocks] + [0], np.int64)
        end = np.minimum(end, block_bytes.take(self.block, mode="wrap"))
        is_sound = (begin >= 0) & (begin & 7 == 0) & (end > begin)
        self.words = np.where(is_sound, (end - begin) >> 3, 0).view(np.uint64)
        self.base = np.where(is_sound, begin >> 3, 0)
        self._blocks = blocks
        # Words of a block, and the lanes that read from it: from the first to before the last.
        self._runs: list[tuple[NDArray[np.uint64], int, int]] = []
        self._find_runs()

    def __len__(self) -> int:
        return len(self.sample)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with these lanes alone."""
        for name in self._COLUMNS:
            setattr(self, name, getattr(self, name).take(rows))
        if self.second is not None:
            self.second = self.second.take(rows)
        if len(self._runs) == 1:
            self._runs = [(self._runs[0][0], 0, len(rows))]
            return
        self.block = self.block.take(rows)
        self._find_runs()

    def place(self, address: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Find words of the copies.

        Args:
            address: i64[l] one for each lane.

        Returns:
            i64[l] the word's number in the lane's copy, of no meaning where it is not there; and
            bool[l] whether it is there.
        """
        distance = (address - self.origin).view(np.uint64)
        # Turned by three bits, what is not aligned, or below the copy, is a large number too.
        word = distance >> _WORD_SHIFT | distance << _LOW_SHIFT
        return word.view(np.int64), word < self.words

    def read(self, word: NDArray[np.int64], is_there: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Read the words that `place` found, i64[l]; 0 or anything else if there is none."""
        # Absent words are read at the block's start, which is in the cache then.
        at = (self.base + word) * is_there
        if len(self._runs) == 1:
            return self._runs[0][0].take(at, mode="clip").view(np.int64)
        value = np.empty(len(at), np.int64)
        for words, low, high in self._runs:
            value[low:high] = words.take(at[low:high], mode="clip").view(np.int64)
        return value

    def read_some(
        self, rows: NDArray[np.int64], address: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Read a word for each of some lanes; return i64[r] and bool[r] whether it is there."""
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
        """Note which lanes read from which block."""
        low = np.flatnonzero(np.diff(self.block, prepend=-2))
        high = np.append(low, len(self.block))[1:]
        found = [self._blocks[row] if row >= 0 else _NOTHING for row in self.block[low].tolist()]
        blocks = [words if len(words) else _NOTHING for words in found]
        self._runs = list(zip(blocks, low.tolist(), high.tolist(), strict=True))


_NOTHING = np.zeros(1, np.uint64)
