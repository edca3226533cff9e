"""Compressed sections of an image → their bytes. Source: gABI, "Section Compression"."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from prospect.elf import elf_layout

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator

    from prospect.elf.image import ElfImage

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
