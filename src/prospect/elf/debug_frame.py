"""Call-frame information for debuggers (.debug_frame) of an image → its entries.

In: an image, or its debug file. Out: a `FrameTable`, as of .eh_frame. Go and some kernels' modules
have no other. Defined by DWARF 5, 6.4.1 "Structure of Call Frame Information" (versions 1, 3 and 4
of the section, of DWARF 2 to 5).
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import layout
from prospect.elf.cie import WIDE_LENGTH
from prospect.elf.eh_frame import decode_ranges, walk_entries
from prospect.elf.eh_pointers import EhData

if TYPE_CHECKING:
    from prospect.elf.eh_frame import FrameTable
    from prospect.elf.image import ElfImage

_MOST_UNPACKED_BYTES = 1 << 28
_ELFCOMPRESS_ZLIB = 1
_COMPRESSION_64 = struct.Struct("<IIQQ")  # gABI, "Section Compression": type, reserved, size, align
_COMPRESSION_32 = struct.Struct("<III")


def read_debug_frames(image: ElfImage) -> FrameTable | None:
    """Read the frame entries that an image holds for debuggers.

    Returns:
        The table; None where there is no .debug_frame, or none that can be read.
    """
    data = EhData(_content(image), 0, 8 if image.is_64 else 4)
    if not len(data):
        return None
    offset = walk_entries(data)
    is_wide = data.fixed(offset, "<u4") == WIDE_LENGTH
    body = offset + np.where(is_wide, 12, 4)
    length = np.where(is_wide, data.fixed(offset + 4, "<u8"), data.fixed(offset, "<u4"))
    pointer = np.where(is_wide, data.fixed(body, "<i8"), data.fixed(body, "<u4"))
    # All ones, where a CIE stands: as i8 that is -1.
    is_fde = (pointer != np.where(is_wide, -1, WIDE_LENGTH)) & (length <= len(data) - body)
    after = body + np.where(is_wide, 8, 4)
    kept = np.flatnonzero(is_fde & (length > 0))
    places = (offset.take(kept), after.take(kept), (body + length).take(kept))
    frames = decode_ranges(data, places, pointer.take(kept), is_debug=True)
    return frames if len(frames) else None


def _content(image: ElfImage) -> memoryview:
    """Return the section, unpacked where it is compressed; nothing where that fails."""
    row = image.find_section(b".debug_frame")
    if row < 0 or not image.sections[row]["flags"] & layout.SHF_COMPRESSED:
        return image.section_data(row)
    offset, size = int(image.sections[row]["offset"]), int(image.sections[row]["size"])
    packed = image.data[offset : offset + size]
    header = _COMPRESSION_64 if image.is_64 else _COMPRESSION_32
    nothing = image.data[:0]
    if len(packed) < header.size:
        return nothing
    fields = header.unpack_from(packed)
    if fields[0] != _ELFCOMPRESS_ZLIB or fields[-2] > _MOST_UNPACKED_BYTES:
        return nothing
    try:
        unpacked = zlib.decompressobj().decompress(packed[header.size :], fields[-2] or 1)
    except zlib.error:
        return nothing
    return memoryview(unpacked)
