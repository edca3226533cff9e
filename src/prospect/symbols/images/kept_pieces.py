"""Pieces of a file that an archive or a recording holds → the file, with holes where they are not.

Nobody's rights go with such a file: it may come from anyone.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

from prospect.elf.image import ElfImage
from prospect.errors import ElfError
from prospect.files.rights import EVERYBODY
from prospect.files.untrusted_open import OpenFile
from prospect.profile.naming import NameSource
from prospect.symbols.images.image_files import FoundImage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# mmap(2); Python 3.11 has no name for it.
_MAP_NORESERVE = 0x4000
_NO_DEVICE = -1
_FAILURES = (OSError, ValueError, IndexError, OverflowError, ElfError)


def restored(
    path: bytes,
    number: int,
    size: int,
    pieces: Iterable[tuple[int, bytes | memoryview]],
    may_hold: Callable[[mmap.mmap], bool] | None = None,
) -> FoundImage | NameSource:
    """Return the file that pieces are of; NO_ELF or NO_BUDGET if it cannot be read.

    Args:
        path: of the file.
        number: of this file among all of the archive or recording.
        size: of the file.
        pieces: by their offset.
        may_hold: counts the memory, and says whether there is as much.
    """
    try:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        area = mmap.mmap(-1, size, flags=flags)
        if may_hold and not may_hold(area):
            return NameSource.NO_BUDGET
        for offset, piece in pieces:
            area[offset : offset + len(piece)] = piece
        data = memoryview(area).toreadonly()
        file = OpenFile(path, data, _NO_DEVICE, number, 0, EVERYBODY, EVERYBODY, 0)
        return FoundImage(file, ElfImage.parse(data))
    except _FAILURES:
        return NameSource.NO_ELF
