"""A piece of code in the code cache: its kind, its frame, its instructions and debug information.

Defined by: ``src/hotspot/share/code/codeBlob.hpp`` and ``nmethod.hpp``, OpenJDK 8 to 25: up to 22
all of a compiled method is in one block; later ones have tables of addresses in their own
memory. 9 to 22 have addresses of the instructions, the others offsets.
"""

from __future__ import annotations

import struct

from prospect.abi import hotspot as wire
from prospect.capture.java.vm_tables import UnknownError
from prospect.capture.runtimes.process_memory import UnreadableError
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.capture.java.code_heaps import HeapLayout
    from prospect.capture.java.vm_tables import VmTables
    from prospect.capture.runtimes.process_memory import ProcessMemory

_WORD, _HALF, _SHORT = struct.Struct("<Q"), struct.Struct("<i"), struct.Struct("<h")
_COMPILED, _NATIVE = b"nmethod", b"native nmethod"
# Prefixes of names of code, and its kinds here. Names of nmethods are those above.
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
_LONGEST_NAME = 64
_MOST_FRAME_WORDS = 1 << 20
# A large method has 100 KB of these.
_MOST_TABLE_BYTES = 4 << 20
_MOST_METADATA = 1 << 14
_PIECE_BYTES = 1 << 16
_NOT_INSTALLED = -1


class Piece(NamedTuple):
    """A piece of code.

    Attributes:
        kind: CODE_*.
        name: its kind's.
        begin, end: of its instructions.
        frame_words: of its frame, with the return address.
        complete: offset in it from which on its frame is complete, negative if it never is.
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
    """A field: its offset, and how it is read."""

    offset: int
    form: struct.Struct

    def of(self, content: bytes) -> int:
        return int(self.form.unpack_from(content, self.offset)[0])


class PieceLayout:
    """Where a code blob and an nmethod have what `PieceReader` reads.

    Raises:
        UnknownError: this JVM has something elsewhere.
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
        # A byte: larger types only have room around it.
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
            is_address = tables.has("CompiledMethod::_scopes_data_begin")
            of_scopes = "CompiledMethod::_scopes_data_begin"
            self.scopes = (
                self._word(of_scopes) if is_address else self._half("nmethod::_scopes_data_offset")
            )
            self.behind_positions = self._half("nmethod::_dependencies_offset")
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

    def __init__(self, memory: ProcessMemory, heaps: HeapLayout, layout: PieceLayout) -> None:
        self._memory = memory
        self._heaps = heaps
        self._layout = layout
        self._names: dict[int, bytes] = {}

    def read(self, block: int, mark: bytes) -> Piece | None:
        """Return what a block has; None if it cannot be right, or is not finished yet.

        Args:
            block: its address.
            mark: what `CodeHeaps` found of it.

        Raises:
            UnreadableError: it cannot be read.
        """
        begin = block + self._heaps.block_bytes
        length = mark[self._heaps.length : self._heaps.used if self._heaps.is_wide else None]
        del length
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
        if not begin < code < end <= begin + size or not -1 <= words < _MOST_FRAME_WORDS:
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
        positions, scopes, metadata = self._late(content, begin)
        if not layout.is_late:
            scopes_at = layout.scopes.of(content)
            scopes_at += 0 if layout.scopes.form is _WORD else begin
            at, behind = layout.positions.of(content), layout.behind_positions.of(content)
            positions = begin + at, behind - at
            scopes = scopes_at, begin + at - scopes_at
            first = begin + layout.metadata.of(content)
            metadata = first, (scopes_at - first) // 8
        tables = (positions, scopes)
        if any(not 0 <= size <= _MOST_TABLE_BYTES for _, size in tables):
            positions = scopes = 0, 0
        return piece._replace(
            kind=wire.CODE_NATIVE if piece.name == _NATIVE else wire.CODE_COMPILED,
            entry=entry if has_entry else -1,
            method=layout.method.of(content),
            level=content[layout.level],
            metadata=metadata if 0 <= metadata[1] <= _MOST_METADATA else (0, 0),
            positions=positions,
            scopes=scopes,
        )

    def _late(
        self, content: bytes, begin: int
    ) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Return the places of tables that are in their own memory."""
        layout = self._layout
        if not layout.is_late:
            return (0, 0), (0, 0), (0, 0)
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
        """Return the name of a kind of code, which the library has for good."""
        if address not in self._names:
            if len(self._names) >= 1024:
                self._names.clear()
            try:
                text = self._memory.read(address, _LONGEST_NAME)
            except UnreadableError:
                return b""
            self._names[address] = text.split(b"\0", 1)[0]
        return self._names[address]


def layouts_of(tables: VmTables) -> PieceLayout:
    """Return the layout of pieces; raises as `PieceLayout`."""
    try:
        return PieceLayout(tables)
    except KeyError as error:
        raise UnknownError(str(error)) from error
