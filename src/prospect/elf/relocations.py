"""Words that the loader fills in with addresses of the image itself.

The file may have such an address in the word too, or only in the relocation.
Source: System V gABI, "Relocation"; R_X86_64_RELATIVE and R_AARCH64_RELATIVE of the psABIs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import elf_layout
from prospect.elf.symbols import area_at, dynamic_entries
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.elf.image import ElfImage

_TYPES = {
    elf_layout.EM_X86_64: elf_layout.R_X86_64_RELATIVE,
    elf_layout.EM_AARCH64: elf_layout.R_AARCH64_RELATIVE,
}


class RelativeRelocations(Record, eq=False):
    """Relocations of an image.

    Attributes:
        place: u64[r] SVMA of each word, rising.
        value: u64[r] the SVMA that it holds.
    """

    place: NDArray[np.uint64]
    value: NDArray[np.uint64]

    def applied(self, svma: NDArray[np.uint64], word: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return words as the loader leaves them.

        Args:
            svma: u64[n] where they are.
            word: u64[n] what the file has there.
        """
        if not len(self.place):
            return word
        row = np.searchsorted(self.place, svma)
        is_filled = self.place.take(row, mode="clip") == svma
        return np.where(is_filled, self.value.take(row, mode="clip"), word)

    def places_of(self, value: int) -> NDArray[np.uint64]:
        """Return the words that hold an address, u64[k] SVMA."""
        found: NDArray[np.uint64] = self.place[self.value == value]
        return found


def relative_relocations(image: ElfImage) -> RelativeRelocations:
    """Read the relative relocations of an image; none for 32-bit images."""
    entries = dynamic_entries(image) if image.is_64 and image.machine in _TYPES else {}
    area = area_at(image, entries.get(elf_layout.DT_RELA))[: entries.get(elf_layout.DT_RELASZ, 0)]
    size = elf_layout.RELA_64.itemsize
    table = np.frombuffer(area[: len(area) - len(area) % size], elf_layout.RELA_64)
    if len(table):
        table = table[table["type"] == _TYPES[image.machine]]
    order = np.argsort(table["offset"], kind="stable")
    return RelativeRelocations(
        table["offset"].take(order), table["addend"].take(order).astype(np.uint64)
    )
