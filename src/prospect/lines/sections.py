"""Sections of debug information → their bytes, unpacked within bounds.

Comes in: an ELF image. Goes out: bytes; none where a section is absent, damaged or too large.
Compression is defined by the gABI, "Section Compression".
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from prospect.elf import layout

if TYPE_CHECKING:
    from prospect.elf.image import ElfImage

LARGEST_BYTES = 512 << 20

_HEADER_32 = struct.Struct("<III")  # Elf32_Chdr: type, size, alignment
_HEADER_64 = struct.Struct("<IIQQ")  # Elf64_Chdr: type, reserved, size, alignment
_ZLIB, _ZSTD = 1, 2


def section(image: ElfImage, name: bytes) -> memoryview:
    """Return the bytes of the first section of a name, unpacked; none where that is not possible.

    What is not compressed is not copied.
    """
    row = image.find_section(name)
    if row < 0 or not image.sections[row]["flags"] & layout.SHF_COMPRESSED:
        return image.section_data(row)
    start, size = int(image.sections[row]["offset"]), int(image.sections[row]["size"])
    packed = image.data[start : start + size]
    header = _HEADER_64 if image.is_64 else _HEADER_32
    if len(packed) < header.size:
        return image.data[:0]
    kind, *_, unpacked_bytes, _ = header.unpack_from(packed)
    if unpacked_bytes > LARGEST_BYTES:
        return image.data[:0]
    return memoryview(_unpacked(kind, packed[header.size :], unpacked_bytes))


def _unpacked(kind: int, packed: memoryview, unpacked_bytes: int) -> bytes:
    if kind == _ZLIB:
        try:
            return zlib.decompressobj().decompress(packed, unpacked_bytes)
        except zlib.error:
            return b""
    if kind == _ZSTD:
        import zstandard  # noqa: PLC0415 - rarely needed

        try:
            unpacked = zstandard.ZstdDecompressor().stream_reader(packed).read(unpacked_bytes)
        except zstandard.ZstdError:
            return b""
        return bytes(unpacked)
    return b""
