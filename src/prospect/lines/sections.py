"""Sections of debug information → their bytes, unpacked within bounds.

There are none if a section is absent, damaged or too large. Compression is defined by the gABI,
"Section Compression".
"""

from __future__ import annotations

import mmap
import struct
import zlib
from typing import TYPE_CHECKING

from prospect.elf import elf_layout
from prospect.files.budget import CostlyError, of_others
from prospect.lines.lines_limits import LARGEST_SECTION_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.elf.image import ElfImage

_PACKED_PIECE_BYTES, _PIECE_BYTES = 1 << 16, 1 << 20

_HEADER_32 = struct.Struct("<III")  # Elf32_Chdr: type, size, alignment
_HEADER_64 = struct.Struct("<IIQQ")  # Elf64_Chdr: type, reserved, size, alignment
_ZLIB, _ZSTD = 1, 2


def section(image: ElfImage, name: bytes) -> memoryview:
    """Return the bytes of the first section of a name, unpacked; none if that is not possible.

    Uncompressed sections are not copied.

    Raises:
        CostlyError: too little is left of the memory that other users' files may take.
    """
    row = image.find_section(name)
    if row < 0 or not image.sections[row]["flags"] & elf_layout.SHF_COMPRESSED:
        return image.section_data(row)
    start, size = int(image.sections[row]["offset"]), int(image.sections[row]["size"])
    packed = image.data[start : start + size]
    header = _HEADER_64 if image.is_64 else _HEADER_32
    if len(packed) < header.size:
        return image.data[:0]
    kind, *_, unpacked_bytes, _ = header.unpack_from(packed)
    if unpacked_bytes > LARGEST_SECTION_BYTES:
        return image.data[:0]
    if not unpacked_bytes:
        return image.data[:0]
    memory = mmap.mmap(-1, unpacked_bytes)
    if not of_others.hold(memory, unpacked_bytes):
        raise CostlyError
    filled = 0
    try:
        for piece in _unpacked(kind, packed[header.size :]):
            part = piece[: unpacked_bytes - filled]
            memory[filled : filled + len(part)] = part
            filled += len(part)
            if filled == unpacked_bytes:
                break
    except _Damaged:
        filled = 0
    return memoryview(memory)[:filled].toreadonly()


class _Damaged(Exception):  # noqa: N818 - stays in this module
    """A compressed section cannot be unpacked."""


def _unpacked(kind: int, packed: memoryview) -> Iterator[bytes]:
    """Yield what was packed in pieces, which take little memory."""
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
        except zlib.error:
            raise _Damaged from None
    if kind == _ZSTD:
        import zstandard  # noqa: PLC0415 - rarely needed

        reader = zstandard.ZstdDecompressor().stream_reader(packed)
        try:
            while piece := reader.read(_PIECE_BYTES):
                yield bytes(piece)
        except zstandard.ZstdError:
            raise _Damaged from None


class Sections:
    """The sections of one image, each unpacked once."""

    def __init__(self, image: ElfImage) -> None:
        self._image = image
        self._known: dict[bytes, memoryview] = {}

    def __call__(self, name: bytes) -> memoryview:
        """Return the bytes of a section, as `section` does."""
        if name not in self._known:
            self._known[name] = section(self._image, name)
        return self._known[name]
