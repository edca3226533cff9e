"""The pieces of code in a JVM's code cache: found by its segment maps, told apart by their headers.

The JVM goes on meanwhile. A piece counts as the same one as long as its length and its compilation
number are the same. One look at all known pieces costs a system call for 128 of them, and Python's
time only for those that have changed.

Defined by: ``src/hotspot/share/memory/heap.hpp`` (OpenJDK 8 to 25): the segment map has a byte for
each segment, 0 for the first one of a block; ``src/hotspot/share/code/codeBlob.hpp``.
"""

from __future__ import annotations

import struct

from prospect.capture.java.vm_tables import UnknownError
from prospect.capture.runtimes.process_memory import PAGE, UnreadableError
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.java.vm_tables import VmTables
    from prospect.capture.runtimes.process_memory import ProcessMemory

_WORD, _HALF = struct.Struct("<Q"), struct.Struct("<i")
_PIECE = struct.Struct("=QQ")
# A segmented code cache has three heaps.
_MOST_HEAPS = 8
_LARGEST_HEAP_BYTES = 1 << 31
_MOST_SEGMENTS = 1 << 23
_SEGMENT_BITS = range(4, 14)
_MAP_PIECE_BYTES = 1 << 16
MOST_PIECES = 1 << 16
# Two pieces of memory for each.
_AT_ONCE = 128
_ADDRESS_END = 1 << 47


class Heap(NamedTuple):
    """A part of the code cache: its memory, its segment map, and the size of a segment."""

    low: int
    high: int
    segment_map: int
    shift: int


class HeapLayout:
    """Places of the code cache's heaps, and of their blocks.

    Raises:
        UnknownError: this JVM has them in another way.
    """

    def __init__(self, tables: VmTables) -> None:
        self._heaps = tables.static("CodeCache::_heaps", "CodeCache::_heap")
        # Up to 15 a GrowableArray begins with more.
        listed = "GrowableArray<int>::_data"
        self._listed = tables.offset(listed) if tables.has(listed) else _WORD.size
        self.is_one = "CodeCache::_heap" in tables.statics
        memory = tables.offset("CodeHeap::_memory")
        segment_map = tables.offset("CodeHeap::_segmap")
        low, high = tables.offset("VirtualSpace::_low"), tables.offset("VirtualSpace::_high")
        self._low, self._high = memory + low, memory + high
        self._map_low, self._map_high = segment_map + low, segment_map + high
        self._shift = tables.offset("CodeHeap::_log2_segment_size")
        self._heap_bytes = 8 + max(self._low, self._high, self._map_low, self._map_high)
        self._heap_bytes = max(self._heap_bytes, self._shift + 4)
        header = tables.offset("HeapBlock::_header")
        self.length = header + tables.offset("HeapBlock::Header::_length")
        self.used = header + tables.offset("HeapBlock::Header::_used")
        self.block_bytes = tables.size("HeapBlock")
        self.compile_id = self.block_bytes + tables.offset("nmethod::_compile_id")
        self.is_wide = self.used - self.length == _WORD.size
        if not 0 <= self.length < self.used < self.block_bytes <= PAGE:
            raise UnknownError("HeapBlock")

    def heaps(self, memory: ProcessMemory) -> list[Heap]:
        """Return the heaps; none as long as the JVM has not made them.

        Raises:
            UnreadableError: the process has ended.
            UnknownError: they cannot be right.
        """
        at = memory.number(self._heaps)
        if not at:
            return []
        if self.is_one:
            places = [at]
        else:
            # GrowableArray: how many there are, how many fit, and where they are.
            head = memory.read(at, self._listed + _WORD.size)
            (count,), (data,) = _HALF.unpack_from(head), _WORD.unpack_from(head, self._listed)
            if not 0 <= count <= _MOST_HEAPS:
                raise UnknownError("CodeCache::_heaps")
            listed = memory.read(data, 8 * count) if count else b""
            places = [place for (place,) in _WORD.iter_unpack(listed)]
        found = (self._heap(memory.read(place, self._heap_bytes)) for place in places if place)
        return [heap for heap in found if heap.low]

    def _heap(self, content: bytes) -> Heap:
        low, high, map_low, map_high = (
            _WORD.unpack_from(content, offset)[0]
            for offset in (self._low, self._high, self._map_low, self._map_high)
        )
        (shift,) = _HALF.unpack_from(content, self._shift)
        if not low:
            return Heap(0, 0, 0, 0)  # it is not made yet
        if (
            not 0 < low <= high < _ADDRESS_END
            or high - low > _LARGEST_HEAP_BYTES
            or shift not in _SEGMENT_BITS
            or (high - low) >> shift > min(_MOST_SEGMENTS, map_high - map_low)
        ):
            raise UnknownError("CodeHeap")
        return Heap(low, high, map_low, shift)

    def blocks(self, memory: ProcessMemory, heap: Heap) -> Iterator[int]:
        """Give the addresses of a heap's blocks, used and free ones.

        Raises:
            UnreadableError: the process has ended.
        """
        count = (heap.high - heap.low) >> heap.shift
        for first in range(0, count, _MAP_PIECE_BYTES):
            part = memory.read(heap.segment_map + first, min(_MAP_PIECE_BYTES, count - first))
            at = part.find(0)
            while at >= 0:
                yield heap.low + ((first + at) << heap.shift)
                at = part.find(0, at + 1)


class Changes(NamedTuple):
    """What a look at the code cache found: blocks with new code, and those whose code is gone.

    Each comes with what tells its code from other code at the place.
    """

    new: dict[int, bytes]
    gone: dict[int, bytes]


class CodeHeaps:
    """Knows which blocks a JVM's code cache had at the last look."""

    def __init__(self, memory: ProcessMemory, layout: HeapLayout) -> None:
        self._memory = memory
        self._layout = layout
        self._known: dict[int, bytes] = {}
        self._blocks: list[int] = []
        self._questions: list[tuple[bytes, int]] = []
        self._answers: list[bytes] = []
        self.left_out = 0

    def forget(self, block: int) -> None:
        """Forget a block, so that the next look finds it new."""
        self._known.pop(block, None)
        self._answers = []

    def look(self) -> Changes | None:
        """Look at all blocks; None as long as there is no code cache.

        Raises:
            UnreadableError: the process has ended.
            UnknownError: its structures cannot be right.
        """
        heaps = self._layout.heaps(self._memory)
        if not heaps:
            return None
        blocks: list[int] = []
        for heap in heaps:
            for block in self._layout.blocks(self._memory, heap):
                if len(blocks) >= MOST_PIECES:
                    self.left_out += 1
                    break
                blocks.append(block)
        if blocks != self._blocks:
            self._blocks = blocks
            self._questions = [
                self._question(blocks[first : first + _AT_ONCE])
                for first in range(0, len(blocks), _AT_ONCE)
            ]
            self._answers = []
        answers = [self._answer(number) for number in range(len(self._questions))]
        if answers == self._answers:
            return Changes({}, {})
        found = self._in(answers)
        new = {block: mark for block, mark in found.items() if self._known.get(block) != mark}
        gone = {block: mark for block, mark in self._known.items() if found.get(block) != mark}
        self._known, self._answers = found, answers
        return Changes(new, gone)

    def is_same(self, block: int, mark: bytes) -> bool:
        """Return whether a block has the code that it had at the last look."""
        try:
            content = self._memory.read(block, self._layout.compile_id + 4)
        except UnreadableError:
            return False
        head = content[: self._layout.block_bytes]
        return head + content[self._layout.compile_id :] == mark

    def _question(self, blocks: list[int]) -> tuple[bytes, int]:
        layout = self._layout
        return b"".join(
            _PIECE.pack(block, layout.block_bytes) + _PIECE.pack(block + layout.compile_id, 4)
            for block in blocks
        ), len(blocks)

    def _answer(self, number: int) -> bytes:
        """Return length and number of the blocks of a question, zeros for those that are gone."""
        question, count = self._questions[number]
        each = self._layout.block_bytes + 4
        try:
            return self._memory.read_packed(question, 2 * count, each * count)
        except UnreadableError:
            return b"".join(self._single(question, row, each) for row in range(count))

    def _single(self, question: bytes, row: int, each: int) -> bytes:
        pair = question[2 * row * _PIECE.size : 2 * (row + 1) * _PIECE.size]
        try:
            return self._memory.read_packed(pair, 2, each)
        except UnreadableError:
            return bytes(each)

    def _in(self, answers: list[bytes]) -> dict[int, bytes]:
        """Return the marks of the used blocks."""
        each, used = self._layout.block_bytes + 4, self._layout.used
        data = b"".join(answers)
        marks = (data[at : at + each] for at in range(0, len(data), each))
        return {
            block: mark for block, mark in zip(self._blocks, marks, strict=True) if mark[used] == 1
        }
