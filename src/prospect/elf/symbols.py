"""A symbol table section → its columns.

Defined by the System V gABI, "Symbol Table". The columns are strided views of the file where its
class is 64 bits; nothing is copied but the section indexes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import layout
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.elf.image import ElfImage

MOST_SYMBOLS = 1 << 23
"""Rows beyond these are not read; the largest programs have some millions."""

NO_SECTION = -1
"""Section of symbols that have none: SHN_ABS, SHN_COMMON and the other reserved indexes."""


class ElfSymbols(Record, eq=False):
    """The rows of .symtab or .dynsym, the empty first one included.

    Attributes:
        name: u32[n] offset in `strings`, not checked against it.
        kind: u8[n] STT_*.
        binding: u8[n] STB_*.
        visibility: u8[n] STV_*.
        section: i64[n] row of the section, SHN_UNDEF (0), or `NO_SECTION`.
        value: u64[n] SVMA, in images that can be mapped.
        size: u64[n] in bytes, 0 if unknown.
        strings: the string table of the names.
    """

    name: NDArray[np.uint32]
    kind: NDArray[np.uint8]
    binding: NDArray[np.uint8]
    visibility: NDArray[np.uint8]
    section: NDArray[np.int64]
    value: NDArray[np.uint64]
    size: NDArray[np.uint64]
    strings: memoryview

    def __len__(self) -> int:
        return len(self.name)


def read_symbols(image: ElfImage, name: bytes) -> ElfSymbols | None:
    """Read the symbol table section of this name; None if there is none that can be read."""
    row = image.find_section(name)
    if row < 0 or image.sections[row]["type"] not in {layout.SHT_SYMTAB, layout.SHT_DYNSYM}:
        return None
    stored = layout.SYM_64 if image.is_64 else layout.SYM_32
    data = image.section_data(row)
    table = np.frombuffer(data[: len(data) - len(data) % stored.itemsize], stored)[:MOST_SYMBOLS]
    if not len(table):
        return None
    strings = image.section_data(int(image.sections[row]["link"]))
    return symbol_columns(table, _section_rows(image, row, table["shndx"]), strings)


def symbol_columns(
    table: NDArray[np.void], section: NDArray[np.int64], strings: memoryview
) -> ElfSymbols:
    """Return the columns of `layout.SYM_64[n]` or `SYM_32[n]`, of which `section` is resolved."""
    return ElfSymbols(
        name=table["name"],
        kind=table["info"] & np.uint8(15),
        binding=table["info"] >> np.uint8(4),
        visibility=table["other"] & np.uint8(3),
        section=section,
        value=table["value"].astype(np.uint64, copy=False),
        size=table["size"].astype(np.uint64, copy=False),
        strings=strings,
    )


def _section_rows(image: ElfImage, table_row: int, shndx: NDArray[np.uint16]) -> NDArray[np.int64]:
    """Resolve st_shndx: rows that the image does not have become `NO_SECTION`."""
    section = shndx.astype(np.int64)
    section[shndx >= layout.SHN_LORESERVE] = NO_SECTION
    escaped = np.flatnonzero(shndx == layout.SHN_XINDEX)
    if len(escaped):
        wide = _extended_indexes(image, table_row)
        escaped = escaped[escaped < len(wide)]
        section[escaped] = wide.take(escaped)
    section[section >= len(image.sections)] = NO_SECTION
    return section


def _extended_indexes(image: ElfImage, table_row: int) -> NDArray[np.uint32]:
    """Return the SHT_SYMTAB_SHNDX section of a symbol table, empty if it has none."""
    of_table = (image.sections["type"] == layout.SHT_SYMTAB_SHNDX) & (
        image.sections["link"] == table_row
    )
    rows = np.flatnonzero(of_table)
    data = image.section_data(int(rows[0])) if len(rows) else image.data[:0]
    return np.frombuffer(data[: len(data) & ~3], "<u4")
