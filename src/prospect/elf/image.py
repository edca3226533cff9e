"""Bytes of an ELF file → its headers, checked against the bytes that are there.

The whole file is in a buffer; nothing is opened here, and nothing is copied.
Defined by the System V gABI, "Object Files" and "Program Loading". Three kinds of number are kept
apart: an offset in the file, an SVMA (the address that the image states for itself), and an AVMA
(where it was in a process), which this room never has.

Notes have the build id, .gnu_debuglink the name of the debug file. Defined by the gABI, "Note
Section", and by the GDB manual, "Debugging Information in Separate Files".
"""

from __future__ import annotations

import struct
from functools import cached_property
from typing import TYPE_CHECKING

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
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

NO_ADDRESS = 2**64 - 1
"""What `svma_of_offset` and `offset_of_svma` give where no segment covers."""

_NOTE_HEADER = struct.Struct("<III")


class ElfImage(Record, eq=False):
    """The headers of one ELF file; use `ElfImage.parse`.

    Attributes:
        is_64: whether its class is ELFCLASS64.
        type: ET_*.
        machine: EM_*.
        segments: `layout.PHDR_64[p]`, of 32-bit images widened; empty if damaged or none.
        sections: `layout.SHDR_64[s]`, as `segments`.
        section_names: the section header string table.
        damage: sentences about what could not be read, empty for a whole file.
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
        """Read the headers of an ELF file.

        Args:
            buffer: the whole file; anything that a memoryview can be taken of.

        Returns:
            The image. Header tables that do not fit the file are left empty and named in `damage`.

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
        sections = _read_sections(data, header, is_64=is_64, damage=damage)
        segments = _read_segments(data, header, sections, is_64=is_64, damage=damage)
        return cls(
            data=data,
            is_64=is_64,
            type=int(header["type"]),
            machine=int(header["machine"]),
            segments=segments,
            sections=sections,
            section_names=_section_names(data, header, sections),
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
        """Return a section's bytes: none where it has none, or the file does not hold them all."""
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
        """What .gnu_debuglink says of the separate debug file, None if nothing readable."""
        return parse_debug_link(bytes(self.section_data(self.find_section(b".gnu_debuglink"))))

    def has_note(self, owner: bytes, kind: int) -> bool:
        """Return whether a segment of notes has a note of this owner, with its NULs, and kind."""
        return find_note(self._notes(), owner, kind) is not None

    def without_contents(self) -> ElfImage:
        """Return an image that has its build id and its addresses, and nothing of the file."""
        nothing = memoryview(b"")
        kept = replace(
            self,
            data=nothing,
            segments=self.segments.copy(),
            sections=self.sections[:0].copy(),
            section_names=nothing,
        )
        vars(kept)["build_id"] = self.build_id  # as if it had been read from the file already
        return kept

    def svma_of_offset(self, offset: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Turn offsets in the file into SVMAs.

        Returns:
            u64[n], `NO_ADDRESS` if no PT_LOAD holds the offset. If several do, an executable
            one wins, then the one that starts last.
        """
        return self._convert(offset, "offset", "vaddr")

    def offset_of_svma(self, svma: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Turn SVMAs into offsets in the file; `svma_of_offset` the other way round."""
        return self._convert(svma, "vaddr", "offset")

    def _convert(self, value: NDArray[np.uint64], source: str, target: str) -> NDArray[np.uint64]:
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
        """Give every area of notes: segments first, since a stripped image may lack sections."""
        notes = self.segments[self.segments["type"] == elf_layout.PT_NOTE]
        for segment in notes[:MOST_NOTE_SEGMENTS]:
            yield _slice(self.data, int(segment["offset"]), int(segment["filesz"]))
        yield self.section_data(self.find_section(b".note.gnu.build-id"))


def _check_ident(ident: bytes) -> bool:
    """Return whether the class is 64 bits; raise for what is not little-endian ELF."""
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


def _read_sections(
    data: memoryview, header: np.void, *, is_64: bool, damage: list[str]
) -> NDArray[np.void]:
    wide = elf_layout.SHDR_64
    stored = wide if is_64 else elf_layout.SHDR_32
    offset, count = int(header["shoff"]), int(header["shnum"])
    if offset and not count:
        # gABI, "ELF Header": a number that does not fit is in the first section's sh_size.
        first = _read_table(data, offset, 1, stored, wide)
        count = int(first[0]["size"]) if len(first) else 1
    if not offset or not count:
        return np.zeros(0, wide)
    if int(header["shentsize"]) != stored.itemsize:
        damage.append("section headers have an unknown size")
        return np.zeros(0, wide)
    table = _read_table(data, offset, count, stored, wide)
    if not len(table):
        damage.append("section headers lie outside the file")
    return table


def _read_segments(
    data: memoryview,
    header: np.void,
    sections: NDArray[np.void],
    *,
    is_64: bool,
    damage: list[str],
) -> NDArray[np.void]:
    wide = elf_layout.PHDR_64
    stored = wide if is_64 else elf_layout.PHDR_32
    offset, count = int(header["phoff"]), int(header["phnum"])
    if count == elf_layout.PN_XNUM and len(sections):
        count = int(sections[0]["info"])
    if not offset or not count:
        return np.zeros(0, wide)
    if int(header["phentsize"]) != stored.itemsize:
        damage.append("program headers have an unknown size")
        return np.zeros(0, wide)
    table = _read_table(data, offset, count, stored, wide)
    if not len(table):
        damage.append("program headers lie outside the file")
    return table


def _section_names(data: memoryview, header: np.void, sections: NDArray[np.void]) -> memoryview:
    row = int(header["shstrndx"])
    if row == elf_layout.SHN_XINDEX and len(sections):
        row = int(sections[0]["link"])
    if not 0 < row < len(sections):
        return data[:0]
    return _slice(data, int(sections[row]["offset"]), int(sections[row]["size"]))


def _read_table(
    data: memoryview, offset: int, count: int, stored: np.dtype[np.void], wide: np.dtype[np.void]
) -> NDArray[np.void]:
    """Read `count` structures and widen their fields; none where they do not fit the file."""
    area = _slice(data, offset, count * stored.itemsize)
    table = np.frombuffer(area, stored)
    if stored == wide:
        return table
    widened = np.zeros(len(table), wide)
    for name in wide.names or ():
        widened[name] = table[name]
    return widened


def _slice(data: memoryview, offset: int, size: int) -> memoryview:
    """Return part of the file, nothing if the file does not hold all of it."""
    return data[offset : offset + size] if offset + size <= len(data) else data[:0]


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


def parse_debug_link(section: bytes) -> DebugLink | None:
    """Read .gnu_debuglink; None if it names no plain file or has no checksum."""
    name, _, _ = section.partition(b"\0")
    checksum = _align(len(name) + 1)
    # The name is joined to directories: it must not lead out of them.
    if name in {b"", b".", b".."} or b"/" in name or checksum + 4 > len(section):
        return None
    return DebugLink(name, int.from_bytes(section[checksum : checksum + 4], "little"))


def _align(size: int) -> int:
    """Round up to the 4 bytes to which notes are padded, in both classes."""
    return (size + 3) & ~3
