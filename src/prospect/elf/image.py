"""Bytes of an ELF file → its headers, checked against the size of the file.

The whole file is in a buffer; nothing is opened or copied here. There are three kinds of addresses:
an offset in the file, an SVMA (the address that the image states for itself), and an AVMA (the
address in a process), which this room never has.

Source: System V gABI, "Object Files", "Program Loading" and "Note Section" (build id); the GDB
manual, "Debugging Information in Separate Files" (.gnu_debuglink).
"""

from __future__ import annotations

import struct
import zlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.elf import elf_layout
from prospect.elf.elf_layout import NT_GNU_BUILD_ID
from prospect.elf.elf_limits import (
    LONGEST_BUILD_ID_BYTES,
    LONGEST_SECTION_NAME_BYTES,
    MOST_NOTE_SEGMENTS,
    MOST_NOTES,
    MOST_SECTIONS,
)
from prospect.errors import ElfError
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from prospect.columns.array_types import U64

NO_ADDRESS = 2**64 - 1
"""The result of `svma_of_offset` and `offset_of_svma` if no segment contains the address."""

_NOTE_HEADER = struct.Struct("<III")


class ElfImage(Record, eq=False):
    """The headers of one ELF file; use `ElfImage.parse`.

    Attributes:
        is_64: whether its class is ELFCLASS64.
        type: ET_*.
        machine: EM_*.
        segments: PHDR_64, also for 32-bit images; empty if damaged or none.
        sections: SHDR_64, also for 32-bit images; empty if damaged or none.
        section_names: the section header string table.
        damage: sentences about missing parts, empty for a whole file.
    """

    data: memoryview
    is_64: bool
    type: int
    machine: int
    segments: NDArray[np.void]
    sections: NDArray[np.void]
    section_names: memoryview
    damage: tuple[str, ...] = ()

    @classmethod
    def parse(cls, buffer: bytes | bytearray | memoryview) -> ElfImage:
        """Read the headers of a whole ELF file.

        Header tables beyond the end of the file are empty and named in `damage`.

        Raises:
            ElfError: not ELF, cut off within the first header, or big-endian.
        """
        data = memoryview(buffer).cast("B")
        is_64 = _check_ident(bytes(data[:16]))
        header_type = elf_layout.EHDR_64 if is_64 else elf_layout.EHDR_32
        if len(data) < header_type.itemsize:
            raise ElfError("ELF file is cut off within its header; restore the whole file")
        header = np.frombuffer(data, header_type, 1)[0]
        damage: list[str] = []
        sections = _read_headers(data, header, "sh", damage)
        segments = _read_headers(data, header, "ph", damage, sections)
        names = int(header["shstrndx"])
        if names == elf_layout.SHN_XINDEX and len(sections):
            names = int(sections[0]["link"])
        section_names = data[:0]
        if 0 < names < len(sections):
            offset, size = int(sections[names]["offset"]), int(sections[names]["size"])
            section_names = _slice(data, offset, size)
        return cls(
            data=data,
            is_64=is_64,
            type=int(header["type"]),
            machine=int(header["machine"]),
            segments=segments,
            sections=sections,
            section_names=section_names,
            damage=tuple(damage),
        )

    def find_section(self, name: bytes) -> int:
        """Return the row of the first section of this name, -1 if there is none."""
        return next(iter(self.find_sections(name)), -1)

    def find_sections(self, name: bytes) -> list[int]:
        """Return the rows of the sections of this name: object files may have several."""
        return self._rows_by_name.get(name, [])

    @cached_property
    def _rows_by_name(self) -> dict[bytes, list[int]]:
        names = self.section_names
        rows: dict[bytes, list[int]] = {}
        for row, start in enumerate(self.sections["name"][:MOST_SECTIONS].tolist()):
            end = start + LONGEST_SECTION_NAME_BYTES
            name, nul, _ = bytes(names[start:end]).partition(b"\0")
            if nul:
                rows.setdefault(name, []).append(row)
        return rows

    def section_data(self, row: int) -> memoryview:
        """Return a section's bytes: none if it has none, or the file does not have all of them."""
        if not 0 <= row < len(self.sections):
            return self.data[:0]
        section = self.sections[row]
        if section["type"] == elf_layout.SHT_NOBITS or section["flags"] & elf_layout.SHF_COMPRESSED:
            return self.data[:0]
        return _slice(self.data, int(section["offset"]), int(section["size"]))

    @cached_property
    def build_id(self) -> bytes | None:
        """The linker's identity of this image, None if it carries none."""
        return find_build_id(self._notes())

    @property
    def entry(self) -> int:
        """SVMA of the entry point, 0 if there is none."""
        header_type = elf_layout.EHDR_64 if self.is_64 else elf_layout.EHDR_32
        return int(np.frombuffer(self.data, header_type, 1)[0]["entry"])

    @cached_property
    def debug_link(self) -> DebugLink | None:
        """The separate debug file in .gnu_debuglink; None for no plain name, or no checksum."""
        section = bytes(self.section_data(self.find_section(b".gnu_debuglink")))
        name, _, _ = section.partition(b"\0")
        checksum = _align(len(name) + 1)
        # The name is joined to directories: it must not lead out of them.
        if name in {b"", b".", b".."} or b"/" in name or checksum + 4 > len(section):
            return None
        return DebugLink(name, int.from_bytes(section[checksum : checksum + 4], "little"))

    def has_note(self, owner: bytes, kind: int) -> bool:
        """Return whether a segment of notes has a note of this owner, with its NULs, and kind."""
        return find_note(self._notes(), owner, kind) is not None

    def without_contents(self) -> ElfImage:
        """Return an image with the build id and the addresses, without the file's bytes."""
        nothing = memoryview(b"")
        kept = replace(
            self,
            data=nothing,
            segments=self.segments.copy(),
            sections=self.sections[:0].copy(),
            section_names=nothing,
        )
        vars(kept)["build_id"] = self.build_id  # of the cached property
        return kept

    def svma_of_offset(self, offset: U64) -> U64:
        """Turn offsets in the file into SVMAs.

        Returns:
            u64[n], `NO_ADDRESS` if no PT_LOAD contains the offset. If several do, an executable
            one wins, then the one that starts last.
        """
        return self._convert(offset, "offset", "vaddr")

    def offset_of_svma(self, svma: U64) -> U64:
        """Turn SVMAs into offsets in the file, as `svma_of_offset` in reverse."""
        return self._convert(svma, "vaddr", "offset")

    def _convert(self, value: U64, source: str, target: str) -> U64:
        result = np.full(len(value), NO_ADDRESS, np.uint64)
        for segments in self._loads:
            if not len(segments):
                continue
            order = np.argsort(segments[source], kind="stable")
            first = segments[source].take(order)
            row = np.searchsorted(first, value, side="right") - 1
            at = order.take(np.maximum(row, 0))
            distance = value - segments[source].take(at)
            covered = (row >= 0) & (distance < segments["filesz"].take(at))
            np.copyto(result, segments[target].take(at) + distance, where=covered)
        return result

    @cached_property
    def _loads(self) -> tuple[NDArray[np.void], NDArray[np.void]]:
        """PT_LOAD segments: those without execute permission, then those with it."""
        loads = self.segments[self.segments["type"] == elf_layout.PT_LOAD]
        executable = (loads["flags"] & elf_layout.PF_X) != 0
        return loads[~executable], loads[executable]

    def _notes(self) -> Iterator[memoryview]:
        """Yield every area of notes: segments first, since a stripped image may lack sections."""
        notes = self.segments[self.segments["type"] == elf_layout.PT_NOTE]
        for segment in notes[:MOST_NOTE_SEGMENTS]:
            yield _slice(self.data, int(segment["offset"]), int(segment["filesz"]))
        yield self.section_data(self.find_section(b".note.gnu.build-id"))


def _check_ident(ident: bytes) -> bool:
    """Return whether the class is 64 bits; raise ElfError unless it is little-endian ELF."""
    if ident[:4] != elf_layout.ELFMAG or len(ident) < 16:
        raise ElfError("not an ELF file")
    if ident[5] == elf_layout.ELFDATA2MSB:
        raise ElfError("big-endian ELF is not supported; report on a machine of that kind")
    if (
        ident[4] not in {elf_layout.ELFCLASS32, elf_layout.ELFCLASS64}
        or ident[5] != elf_layout.ELFDATA2LSB
    ):
        raise ElfError("ELF file of unknown class or byte order; restore the file")
    return ident[4] == elf_layout.ELFCLASS64


_HEADERS = {
    "sh": ("section", elf_layout.SHDR_32, elf_layout.SHDR_64),
    "ph": ("program", elf_layout.PHDR_32, elf_layout.PHDR_64),
}


def _read_headers(
    data: memoryview,
    header: np.void,
    prefix: str,
    damage: list[str],
    sections: NDArray[np.void] | None = None,
) -> NDArray[np.void]:
    """Read section or program headers, "sh" or "ph"; the latter need the sections."""
    kind, narrow, wide = _HEADERS[prefix]
    stored = wide if header.dtype == elf_layout.EHDR_64 else narrow
    offset, count = int(header[f"{prefix}off"]), int(header[f"{prefix}num"])
    # gABI, "ELF Header": a number that does not fit is in the first section header.
    if sections is None and offset and not count:
        first = _read_table(data, offset, 1, stored, wide)
        count = int(first[0]["size"]) if len(first) else 1
    elif sections is not None and len(sections) and count == elf_layout.PN_XNUM:
        count = int(sections[0]["info"])
    if not offset or not count:
        return np.zeros(0, wide)
    if int(header[f"{prefix}entsize"]) != stored.itemsize:
        damage.append(f"{kind} headers have an unknown size")
        return np.zeros(0, wide)
    table = _read_table(data, offset, count, stored, wide)
    if not len(table):
        damage.append(f"{kind} headers lie outside the file")
    return table


def _read_table(
    data: memoryview, offset: int, count: int, stored: np.dtype[np.void], wide: np.dtype[np.void]
) -> NDArray[np.void]:
    """Read `count` structures and widen their fields; none if they are beyond the file's end."""
    area = _slice(data, offset, count * stored.itemsize)
    table = np.frombuffer(area, stored)
    if stored == wide:
        return table
    widened = np.zeros(len(table), wide)
    for name in wide.names or ():
        widened[name] = table[name]
    return widened


def _slice(data: memoryview, offset: int, size: int) -> memoryview:
    """Return part of the file, nothing if the file does not have all of it."""
    return data[offset : offset + size] if offset + size <= len(data) else data[:0]


def whole_rows(data: memoryview, kind: np.dtype[np.void] | str) -> NDArray[Any]:
    """Return the structures of a numpy type in some bytes; ignore a cut one at the end."""
    size = np.dtype(kind).itemsize
    return np.frombuffer(data[: len(data) - len(data) % size], kind)


class DebugLink(NamedTuple):
    """Content of .gnu_debuglink.

    Attributes:
        name: file name of the debug file, without a directory; any bytes but NUL and slash.
        crc32: of that file's whole content.
    """

    name: bytes
    crc32: int


def find_build_id(areas: Iterable[memoryview]) -> bytes | None:
    """Return the first NT_GNU_BUILD_ID of several areas of notes, None if there is none."""
    content = find_note(areas, b"GNU\0", NT_GNU_BUILD_ID)
    return bytes(content)[:LONGEST_BUILD_ID_BYTES] or None if content is not None else None


def find_note(areas: Iterable[memoryview], owner: bytes, kind: int) -> memoryview | None:
    """Return the content of the first note of an owner and kind, None if there is none."""
    budget = MOST_NOTES
    for area in areas:
        position = 0
        while position + _NOTE_HEADER.size <= len(area) and budget:
            budget -= 1
            name_size, size, found = _NOTE_HEADER.unpack_from(area, position)
            name = position + _NOTE_HEADER.size
            content = name + _align(name_size)
            if content + size > len(area):
                break
            if found == kind and area[name : name + name_size] == owner:
                return area[content : content + size]
            position = content + _align(size)
    return None


def _align(size: int) -> int:
    """Round up to the 4 bytes to which notes are padded, in both classes."""
    return (size + 3) & ~3


# Compressed sections → their bytes. Source: gABI, "Section Compression".

_HEADER_32 = struct.Struct("<III")  # Elf32_Chdr: type, size, alignment
_HEADER_64 = struct.Struct("<IIQQ")  # Elf64_Chdr: type, reserved, size, alignment
_ZLIB, _ZSTD = 1, 2
_PACKED_PIECE_BYTES, _PIECE_BYTES = 1 << 16, 1 << 20


def compressed_section(image: ElfImage, row: int) -> tuple[int, int, memoryview] | None:
    """Return type, unpacked size and packed bytes of a section; None if it is not compressed."""
    if row < 0 or not image.sections[row]["flags"] & elf_layout.SHF_COMPRESSED:
        return None
    start, size = int(image.sections[row]["offset"]), int(image.sections[row]["size"])
    content = image.data[start : start + size]
    header = _HEADER_64 if image.is_64 else _HEADER_32
    if len(content) < header.size:
        return 0, 0, image.data[:0]
    kind, *_, unpacked_bytes, _ = header.unpack_from(content)
    return kind, unpacked_bytes, content[header.size :]


def unpack_section(kind: int, packed: memoryview, memory: mmap.mmap) -> memoryview:
    """Unpack a section of a type into memory, up to its size; nothing if it is damaged."""
    filled = 0
    try:
        for piece in _pieces(kind, packed):
            part = piece[: len(memory) - filled]
            memory[filled : filled + len(part)] = part
            filled += len(part)
            if filled == len(memory):
                break
    except ValueError:
        filled = 0
    return memoryview(memory)[:filled].toreadonly()


def _pieces(kind: int, packed: memoryview) -> Iterator[bytes]:
    """Unpack in pieces, which take little memory; raise ValueError for damage."""
    if kind == _ZLIB:
        unpacker = zlib.decompressobj()
        try:
            for begin in range(0, len(packed), _PACKED_PIECE_BYTES):
                rest: bytes | memoryview = packed[begin : begin + _PACKED_PIECE_BYTES]
                while piece := unpacker.decompress(rest, _PIECE_BYTES):
                    yield piece
                    rest = unpacker.unconsumed_tail
                if unpacker.eof:
                    return
        except zlib.error as error:
            raise ValueError from error
    if kind == _ZSTD:
        import zstandard  # noqa: PLC0415 - rarely needed

        reader = zstandard.ZstdDecompressor().stream_reader(packed)
        try:
            while piece := reader.read(_PIECE_BYTES):
                yield bytes(piece)
        except zstandard.ZstdError as error:
            raise ValueError from error
