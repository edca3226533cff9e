"""The pieces of code in a JVM's code cache: their places and contents.

Segment maps have the beginnings of pieces, and headers their kinds. The JVM runs meanwhile. A piece
is the same one as long as its length and its compilation number are the same. One look at all known
pieces costs a system call for 128 of them, and Python's time only for those that have changed. A
piece has a kind, a frame, instructions and debug information.

Defined by: ``src/hotspot/share/memory/heap.hpp`` (OpenJDK 8 to 25): the segment map has a byte for
each segment, 0 for the first one of a block; ``src/hotspot/share/code/codeBlob.hpp`` and
``nmethod.hpp``: up to 22 a compiled method is in one block; later ones have tables in other memory.
9 to 22 have addresses of the instructions, the others offsets.
"""

from __future__ import annotations

import struct
from itertools import chain, islice

from prospect.abi import hotspot as wire
from prospect.capture.capture_limits import (
    LARGEST_HEAP_BYTES,
    LONGEST_CODE_NAME,
    MOST_DEBUG_BYTES,
    MOST_FRAME_WORDS,
    MOST_HEAP_SEGMENTS,
    MOST_HEAPS,
    MOST_METADATA,
    MOST_PIECES,
)
from prospect.capture.java.vm_tables import UnknownError
from prospect.capture.runtimes.process_memory import PAGE, UnreadableError
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.java.vm_tables import VmTables
    from prospect.capture.runtimes.process_memory import ProcessMemory


_PIECE = struct.Struct("=QQ")
_SEGMENT_BITS = range(4, 14)
_MAP_PIECE_BYTES = 1 << 16
# The blocks that are read by one system call, two pieces of memory for each.
_AT_ONCE = 128
_ADDRESS_END = 1 << 47
_WORD, _HALF, _SHORT = struct.Struct("<Q"), struct.Struct("<i"), struct.Struct("<h")
_COMPILED, _NATIVE = b"nmethod", b"native nmethod"
# Kinds of code by the prefixes of its names, other than nmethods.
_KINDS = (
    (b"Interpreter", wire.CODE_INTERPRETER),
    (b"StubFunctions", wire.CODE_STUB),
    (b"I2C/C2I", wire.CODE_BARE),
    (b"vtable", wire.CODE_BARE),
    (b"MethodHandle", wire.CODE_BARE),
    (b"Initial stubs", wire.CODE_STUB),
    (b"Continuation stubs", wire.CODE_STUB),
    (b"Final stubs", wire.CODE_STUB),
    (b"Compiler stubs", wire.CODE_STUB),
)
_PIECE_BYTES = 1 << 16
_NOT_INSTALLED = -1


class Heap(NamedTuple):
    """A part of the code cache: its memory, its segment map, and the size of a segment."""

    low: int
    high: int
    segment_map: int
    shift: int


class HeapLayout:
    """The layout of the code cache's heaps, and of their blocks.

    Raises:
        UnknownError: this JVM has another layout.
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
        words = self._low, self._high, self._map_low, self._map_high
        self._heap_bytes = max(8 + max(words), self._shift + 4)
        header = tables.offset("HeapBlock::_header")
        length = header + tables.offset("HeapBlock::Header::_length")
        self.used = header + tables.offset("HeapBlock::Header::_used")
        self.block_bytes = tables.size("HeapBlock")
        self.compile_id = self.block_bytes + tables.offset("nmethod::_compile_id")
        if not 0 <= length < self.used < self.block_bytes <= PAGE:
            raise UnknownError("HeapBlock")

    def heaps(self, memory: ProcessMemory) -> list[Heap]:
        """Return the heaps; none before the JVM has made them.

        Raises:
            UnreadableError: the process has ended.
            UnknownError: they are invalid.
        """
        at = memory.number(self._heaps)
        if not at:
            return []
        if self.is_one:
            places = [at]
        else:
            # GrowableArray: length, capacity and address.
            head = memory.read(at, self._listed + _WORD.size)
            (count,), (data,) = _HALF.unpack_from(head), _WORD.unpack_from(head, self._listed)
            if not 0 <= count <= MOST_HEAPS:
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
            return Heap(0, 0, 0, 0)  # the JVM has not made it yet
        if (
            not 0 < low <= high < _ADDRESS_END
            or high - low > LARGEST_HEAP_BYTES
            or shift not in _SEGMENT_BITS
            or (high - low) >> shift > min(MOST_HEAP_SEGMENTS, map_high - map_low)
        ):
            raise UnknownError("CodeHeap")
        return Heap(low, high, map_low, shift)

    def blocks(self, memory: ProcessMemory, heap: Heap) -> Iterator[int]:
        """Give the addresses of a heap's blocks, used and free; raises as `heaps`."""
        count = (heap.high - heap.low) >> heap.shift
        for first in range(0, count, _MAP_PIECE_BYTES):
            part = memory.read(heap.segment_map + first, min(_MAP_PIECE_BYTES, count - first))
            at = part.find(0)
            while at >= 0:
                yield heap.low + ((first + at) << heap.shift)
                at = part.find(0, at + 1)


class Changes(NamedTuple):
    """Blocks with new code at a look at the code cache, and blocks whose code is gone.

    The mark of each differs from that of other code at the place.
    """

    new: dict[int, bytes]
    gone: dict[int, bytes]


class CodeHeaps:
    """The blocks of a JVM's code cache at the last look."""

    def __init__(self, memory: ProcessMemory, layout: HeapLayout) -> None:
        self._memory = memory
        self._layout = layout
        self._known: dict[int, bytes] = {}
        self._blocks: list[int] = []
        self._questions: list[tuple[bytes, int]] = []
        self._answers: list[bytes] = []

    def forget(self, block: int) -> None:
        """Forget a block: it is new at the next look."""
        self._known.pop(block, None)
        self._answers = []

    def look(self) -> Changes | None:
        """Look at all blocks; None before there is a code cache.

        Raises:
            UnreadableError: the process has ended.
            UnknownError: its structures are invalid.
        """
        heaps = self._layout.heaps(self._memory)
        if not heaps:
            return None
        every = chain.from_iterable(self._layout.blocks(self._memory, heap) for heap in heaps)
        blocks = list(islice(every, MOST_PIECES))
        if blocks != self._blocks:
            self._blocks = blocks
            self._questions = [
                self._question(blocks[first : first + _AT_ONCE])
                for first in range(0, len(blocks), _AT_ONCE)
            ]
            self._answers = []
        answers = [self._answer(*question) for question in self._questions]
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

    def _answer(self, question: bytes, count: int) -> bytes:
        """Return the marks of the blocks of a question, zeros for those that are gone."""
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
        each, used = self._layout.block_bytes + 4, self._layout.used
        data = b"".join(answers)
        marks = (data[at : at + each] for at in range(0, len(data), each))
        return {
            block: mark for block, mark in zip(self._blocks, marks, strict=True) if mark[used] == 1
        }


class Piece(NamedTuple):
    """A piece of code.

    Attributes:
        kind: CODE_*.
        name: the JVM's name of its kind.
        begin, end: of its instructions.
        frame_words: the size of its frame, with the return address.
        complete: offset from which on its frame is complete, negative if it never is.
        entry: offset of the entry from an interpreted loop, -1 without.
        method: address of the Method; 0 without.
        level: of its compilation, 1 to 3 by C1, 4 by C2.
        metadata: address and number of its pointers to metadata.
        positions, scopes: address and size of its PcDesc structures, and of the scopes.
    """

    kind: int
    name: bytes
    begin: int
    end: int
    frame_words: int
    complete: int
    entry: int = -1
    method: int = 0
    level: int = 0
    metadata: tuple[int, int] = (0, 0)
    positions: tuple[int, int] = (0, 0)
    scopes: tuple[int, int] = (0, 0)


class _Field(NamedTuple):
    """The offset and the format of a field."""

    offset: int
    form: struct.Struct

    def of(self, content: bytes) -> int:
        return int(self.form.unpack_from(content, self.offset)[0])


class PieceLayout:
    """The layout of code blobs and nmethods.

    Raises:
        UnknownError: this JVM has another layout.
    """

    def __init__(self, tables: VmTables) -> None:
        self._tables = tables
        self.size_bytes = tables.size("nmethod")
        self.blob_bytes = tables.size("CodeBlob")
        self.is_late = is_late = tables.has("nmethod::_immutable_data")
        self.has_offsets = not tables.has("CodeBlob::_code_begin")
        self.name = self._word("CodeBlob::_name")
        self.size = self._half("CodeBlob::_size")
        self.frame_words = self._half("CodeBlob::_frame_size")
        self.data = self._half("CodeBlob::_data_offset")
        complete = tables.offset("CodeBlob::_frame_complete_offset")
        self.complete = _Field(complete, _SHORT if is_late else _HALF)
        self.method = self._word("nmethod::_method", "CompiledMethod::_method")
        self.osr_entry = self._word("nmethod::_osr_entry_point")
        self.entry_bci = self._half("nmethod::_entry_bci")
        # The state is a byte, whatever its type.
        self.state = tables.offset("nmethod::_state")
        self.level = tables.offset("nmethod::_comp_level")
        self.positions = self._half("nmethod::_scopes_pcs_offset")
        if self.has_offsets:
            self.code = self._half("CodeBlob::_code_offset")
        else:
            self.code = self._word("CodeBlob::_code_begin")
            self.code_end = self._word("CodeBlob::_code_end")
        if is_late:
            self.scopes = self._half("nmethod::_scopes_data_offset")
            self.tables_at = self._word("nmethod::_immutable_data")
            self.tables_bytes = self._half("nmethod::_immutable_data_size")
        else:
            self.metadata = self._half("nmethod::_metadata_offset")
            address = "CompiledMethod::_scopes_data_begin"
            self.scopes_have_address = tables.has(address)
            self.scopes = (
                self._word(address)
                if self.scopes_have_address
                else self._half("nmethod::_scopes_data_offset")
            )
            self.after_positions = self._half("nmethod::_dependencies_offset")
        self.has_mutable_data = tables.has("CodeBlob::_mutable_data")
        if self.has_mutable_data:
            self.mutable = self._word("CodeBlob::_mutable_data")
            self.mutable_bytes = self._half("CodeBlob::_mutable_data_size")
            self.relocation = self._half("CodeBlob::_relocation_size")
        elif is_late:
            self.metadata = self._half("nmethod::_metadata_offset")

    def _word(self, *names: str) -> _Field:
        return _Field(self._tables.offset(*names), _WORD)

    def _half(self, *names: str) -> _Field:
        return _Field(self._tables.offset(*names), _HALF)


class PieceReader:
    """Reads pieces of code of one process."""

    def __init__(self, memory: ProcessMemory, block_bytes: int, layout: PieceLayout) -> None:
        """Prepare; `block_bytes` is the size of a block's header."""
        self._memory = memory
        self._block_bytes = block_bytes
        self._layout = layout
        self._names: dict[int, bytes] = {}

    def read(self, block: int) -> Piece | None:
        """Return the piece in a block; None if it is invalid or not complete yet.

        Raises:
            UnreadableError: it cannot be read.
        """
        begin = block + self._block_bytes
        layout = self._layout
        content = self._memory.read(begin, layout.size_bytes)
        size = layout.size.of(content)
        name = self._name(layout.name.of(content))
        if not layout.blob_bytes <= size <= wire.MOST_CODE_BYTES * 8 or not name:
            return None
        if layout.has_offsets:
            code = begin + layout.code.of(content)
            end = begin + layout.data.of(content)
        else:
            code, end = layout.code.of(content), layout.code_end.of(content)
        words = layout.frame_words.of(content)
        if not begin < code < end <= begin + size or not -1 <= words < MOST_FRAME_WORDS:
            return None
        complete = layout.complete.of(content)
        if name in {_COMPILED, _NATIVE}:
            return self._compiled(content, begin, Piece(0, name, code, end, words, complete))
        kind = next((kind for prefix, kind in _KINDS if name.startswith(prefix)), -1)
        if kind < 0:
            kind = wire.CODE_RUNTIME if words > 0 else wire.CODE_STUB
        return Piece(kind, name, code, end, words, complete)

    def read_code(self, piece: Piece) -> bytes:
        """Return the instructions of a piece, or their beginning.

        Raises:
            UnreadableError: they are gone.
        """
        return self.read_range(piece.begin, min(piece.end - piece.begin, wire.MOST_CODE_BYTES))

    def read_range(self, begin: int, size: int) -> bytes:
        """Return memory of any size.

        Raises:
            UnreadableError: it is not there.
        """
        return b"".join(
            self._memory.read(begin + at, min(_PIECE_BYTES, size - at))
            for at in range(0, size, _PIECE_BYTES)
        )

    def read_metadata(self, piece: Piece) -> list[int]:
        """Return a piece's pointers to metadata; raises as `read_range`."""
        at, count = piece.metadata
        return [one for (one,) in _WORD.iter_unpack(self.read_range(at, 8 * count))]

    def _compiled(self, content: bytes, begin: int, piece: Piece) -> Piece | None:
        layout = self._layout
        (state,) = struct.unpack_from("b", content, layout.state)
        if state == _NOT_INSTALLED:
            return None
        entry = layout.osr_entry.of(content) - piece.begin
        has_entry = layout.entry_bci.of(content) >= 0 and 0 <= entry < piece.end - piece.begin
        if layout.is_late:
            positions, scopes, metadata = self._late_tables(content, begin)
        else:
            scopes_at = layout.scopes.of(content)
            scopes_at += 0 if layout.scopes_have_address else begin
            at, after = layout.positions.of(content), layout.after_positions.of(content)
            positions = begin + at, after - at
            scopes = scopes_at, begin + at - scopes_at
            first = begin + layout.metadata.of(content)
            metadata = first, (scopes_at - first) // 8
        if any(not 0 <= size <= MOST_DEBUG_BYTES for _, size in (positions, scopes)):
            positions = scopes = 0, 0
        return piece._replace(
            kind=wire.CODE_NATIVE if piece.name == _NATIVE else wire.CODE_COMPILED,
            entry=entry if has_entry else -1,
            method=layout.method.of(content),
            level=content[layout.level],
            metadata=metadata if 0 <= metadata[1] <= MOST_METADATA else (0, 0),
            positions=positions,
            scopes=scopes,
        )

    def _late_tables(
        self, content: bytes, begin: int
    ) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Return address and size of positions, scopes and metadata that are in other memory."""
        layout = self._layout
        at, size = layout.tables_at.of(content), layout.tables_bytes.of(content)
        first, second = layout.positions.of(content), layout.scopes.of(content)
        positions = at + first, second - first
        scopes = at + second, size - second
        if layout.has_mutable_data:
            skipped = layout.relocation.of(content)
            metadata = (
                layout.mutable.of(content) + skipped,
                (layout.mutable_bytes.of(content) - skipped) // 8,
            )
        else:
            offset = layout.data.of(content) + layout.metadata.of(content)
            metadata = begin + offset, (layout.size.of(content) - offset) // 8
        return positions, scopes, metadata

    def _name(self, address: int) -> bytes:
        """Return the name of a kind of code, a constant of the library."""
        if address not in self._names:
            if len(self._names) >= 1024:
                self._names.clear()
            try:
                text = self._memory.read(address, LONGEST_CODE_NAME)
            except UnreadableError:
                return b""
            self._names[address] = text.split(b"\0", 1)[0]
        return self._names[address]
