"""Where the bytes of a routine are in an ELF image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import layout

if TYPE_CHECKING:
    from prospect.elf.image import ElfImage


def segment_of(image: ElfImage, address: int) -> tuple[int, int] | None:
    """Find the segment that holds an address.

    Returns:
        The address's offset in the file, and how many bytes the segment has there from it on; None
        where no segment holds it.
    """
    loads = image.segments[image.segments["type"] == layout.PT_LOAD]
    # As a difference, because a damaged segment may end beyond the last address.
    distance = np.uint64(address) - loads["vaddr"]
    covering = np.flatnonzero((loads["vaddr"] <= np.uint64(address)) & (distance < loads["filesz"]))
    if not len(covering):
        return None
    row = covering[-1]
    inside = int(distance[row])
    return int(loads["offset"][row]) + inside, int(loads["filesz"][row]) - inside


def code_at(image: ElfImage, svma: int, size: int) -> memoryview:
    """Return the bytes from an address on: fewer than `size` where their segment or the file ends.

    Args:
        image: the image.
        svma: of the first byte.
        size: how many.
    """
    found = segment_of(image, svma)
    if found is None:
        return image.data[:0]
    offset, held = found
    return image.data[offset : offset + min(size, held)]
