"""The pieces of an ELF file that are archived, and the file that is made of them again.

Without its contents an image still says which address is at which offset, and what its build id
is: its headers and notes, a few KB. The rest of the file reads as zeros, which take no memory.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import layout
from prospect.elf.image import ElfImage
from prospect.errors import ElfError
from prospect.files.door import OpenFile
from prospect.files.rights import EVERYBODY
from prospect.profile.naming import NameSource
from prospect.symbols.images.image_files import FoundImage
from prospect.symbols.objects import Missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.archived.answers import Image
    from prospect.symbols.objects import ObjectKey

_LARGEST_IMAGE_BYTES = 16 << 30
_LARGEST_NOTE_BYTES = 1 << 16
_PIECE_BYTES = 1 << 30
_CALL_FRAMES = (b".eh_frame_hdr", b".eh_frame", b".debug_frame")
# mmap(2); Python 3.11 has no name for it.
_MAP_NORESERVE = 0x4000
_NO_DEVICE = -1


def kept_pieces(
    image: ElfImage, *, whole: bool, call_frames: bool
) -> tuple[tuple[int, bytes], ...]:
    """Return the pieces of a file that are archived, by their offset.

    Args:
        image: the file.
        whole: whether all of it is.
        call_frames: whether its call-frame information is.
    """
    if whole:
        ranges = [(at, at + _PIECE_BYTES) for at in range(0, len(image.data), _PIECE_BYTES)]
    else:
        ranges = _joined(_header_ranges(image, call_frames=call_frames))
    return tuple((start, bytes(image.data[start:end])) for start, end in ranges)


def restored(key: ObjectKey, number: int, image: Image) -> FoundImage | Missing:
    """Return the file that the pieces are of.

    Args:
        key: what the recording says of it.
        number: of this file within the archive.
        image: its pieces.
    """
    refused = Missing(NameSource.NO_ELF, "the archive's copy of it cannot be read")
    if not 0 < image.size <= _LARGEST_IMAGE_BYTES:
        return refused
    try:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        area = mmap.mmap(-1, image.size, flags=flags)
        for offset, piece in image.pieces:
            area[offset : offset + len(piece)] = piece
        data = memoryview(area).toreadonly()
        # With nobody's rights: a file of root or of our user would be trusted.
        return FoundImage(
            OpenFile(key.path, data, _NO_DEVICE, number, 0, EVERYBODY, EVERYBODY, 0),
            ElfImage.parse(data),
        )
    except (OSError, ValueError, IndexError, OverflowError, ElfError):
        return refused


def _header_ranges(image: ElfImage, *, call_frames: bool) -> Iterator[tuple[int, int]]:
    header_type = layout.EHDR_64 if image.is_64 else layout.EHDR_32
    header = np.frombuffer(image.data, header_type, 1)[0]
    yield 0, header_type.itemsize
    for offset, size, count in (
        (header["phoff"], header["phentsize"], len(image.segments)),
        (header["shoff"], header["shentsize"], len(image.sections)),
    ):
        yield int(offset), int(offset) + int(size) * count
    if int(header["shstrndx"]) < len(image.sections):
        yield _range(image, int(header["shstrndx"]), _LARGEST_NOTE_BYTES)
    for note in image.segments[image.segments["type"] == layout.PT_NOTE]:
        start = int(note["offset"])
        yield start, start + min(int(note["filesz"]), _LARGEST_NOTE_BYTES)
    for name in _CALL_FRAMES if call_frames else ():
        row = image.find_section(name)
        if row >= 0:
            yield _range(image, row, len(image.data))


def _range(image: ElfImage, row: int, most_bytes: int) -> tuple[int, int]:
    start = int(image.sections["offset"][row])
    return start, start + min(int(image.sections["size"][row]), most_bytes)


def _joined(ranges: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join ranges that overlap, so that nothing is kept twice."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined
