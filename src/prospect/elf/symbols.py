"""Symbol tables of an image → their columns, by its sections or as the loader finds them.

The columns are strided views of the file if its class is 64 bits; nothing is copied but the section
indexes. An image without section headers gets a section for each executable segment, and its
dynamic symbols are sorted into these. Nothing states how many symbols there are but the hash
tables, in which each has a place. Defined by the System V gABI, "Symbol Table", "Dynamic Section"
and "Hash Table"; DT_GNU_HASH by glibc's ``elf/dl-lookup.c`` (2.36).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import elf_layout
from prospect.elf.elf_limits import MOST_CODE_SEGMENTS, MOST_SYMBOLS
from prospect.elf.image import NO_ADDRESS
from prospect.records import Record, replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.elf.image import ElfImage


NO_SECTION = -1
"""Section of symbols that have none: SHN_ABS, SHN_COMMON and the other reserved indexes."""
_GNU_HASH_HEADER_WORDS = 4


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
    if row < 0 or image.sections[row]["type"] not in {elf_layout.SHT_SYMTAB, elf_layout.SHT_DYNSYM}:
        return None
    stored = elf_layout.SYM_64 if image.is_64 else elf_layout.SYM_32
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
    section[shndx >= elf_layout.SHN_LORESERVE] = NO_SECTION
    escaped = np.flatnonzero(shndx == elf_layout.SHN_XINDEX)
    if len(escaped):
        wide = _extended_indexes(image, table_row)
        escaped = escaped[escaped < len(wide)]
        section[escaped] = wide.take(escaped)
    section[section >= len(image.sections)] = NO_SECTION
    return section


def _extended_indexes(image: ElfImage, table_row: int) -> NDArray[np.uint32]:
    """Return the SHT_SYMTAB_SHNDX section of a symbol table, empty if it has none."""
    of_table = (image.sections["type"] == elf_layout.SHT_SYMTAB_SHNDX) & (
        image.sections["link"] == table_row
    )
    rows = np.flatnonzero(of_table)
    data = image.section_data(int(rows[0])) if len(rows) else image.data[:0]
    return np.frombuffer(data[: len(data) & ~3], "<u4")


def read_without_sections(image: ElfImage) -> tuple[ElfImage, ElfSymbols | None]:
    """Make sections of the executable segments, and read what the dynamic section leads to.

    Returns:
        The image with these sections, and its symbols; None if it has none that can be read.
    """
    sections = _executable_segments(image)
    image = replace(image, sections=sections)
    entries = dynamic_entries(image)
    strings = area_at(image, entries.get(elf_layout.DT_STRTAB))[
        : entries.get(elf_layout.DT_STRSZ, 0)
    ]
    stored = elf_layout.SYM_64 if image.is_64 else elf_layout.SYM_32
    area = area_at(image, entries.get(elf_layout.DT_SYMTAB))
    count = min(_count_symbols(image, entries), len(area) // stored.itemsize, MOST_SYMBOLS)
    table = np.frombuffer(area[: count * stored.itemsize], stored)
    if not len(table) or not len(strings):
        return image, None
    return image, symbol_columns(table, _sections_by_address(sections, table), strings)


def _executable_segments(image: ElfImage) -> NDArray[np.void]:
    """Return sections with the place of the executable PT_LOADs, behind the empty first one."""
    loads = image.segments[image.segments["type"] == elf_layout.PT_LOAD]
    code = loads[(loads["flags"] & elf_layout.PF_X) != 0][:MOST_CODE_SEGMENTS]
    sections = np.zeros(1 + len(code), elf_layout.SHDR_64)
    sections["flags"][1:] = elf_layout.SHF_ALLOC | elf_layout.SHF_EXECINSTR
    for target, source in (("addr", "vaddr"), ("offset", "offset"), ("size", "filesz")):
        sections[target][1:] = code[source]
    return sections


def dynamic_entries(image: ElfImage) -> dict[int, int]:
    """Return the values of PT_DYNAMIC by tag."""
    found = image.segments[image.segments["type"] == elf_layout.PT_DYNAMIC][:1]
    stored = elf_layout.DYN_64 if image.is_64 else elf_layout.DYN_32
    for segment in found:
        offset, size = int(segment["offset"]), int(segment["filesz"])
        data = image.data[offset : offset + size]
        table = np.frombuffer(data[: len(data) - len(data) % stored.itemsize], stored)
        return dict(zip(table["tag"].tolist(), table["value"].tolist(), strict=True))
    return {}


def area_at(image: ElfImage, svma: int | None) -> memoryview:
    """Return the file from the place of an address on; nothing if the file does not have it."""
    if svma is None:
        return image.data[:0]
    offset = int(image.offset_of_svma(np.array([svma], np.uint64))[0])
    return image.data[:0] if offset == NO_ADDRESS else image.data[offset:]


def _count_symbols(image: ElfImage, entries: dict[int, int]) -> int:
    plain = _words(area_at(image, entries.get(elf_layout.DT_HASH))[:8])
    if len(plain) == 2:
        return int(plain[1])  # a chain entry a symbol
    area = area_at(image, entries.get(elf_layout.DT_GNU_HASH))
    header = _words(area[: 4 * _GNU_HASH_HEADER_WORDS])
    if len(header) < _GNU_HASH_HEADER_WORDS:
        return 0
    buckets, first_hashed, bloom_words = header[:3].tolist()
    begin = 4 * _GNU_HASH_HEADER_WORDS + bloom_words * (8 if image.is_64 else 4)
    first = _words(area[begin : begin + 4 * buckets])
    last_chain = int(first.max(initial=0))
    if last_chain < first_hashed:
        return int(first_hashed)  # none is hashed: those before are imported
    begin += 4 * (buckets + last_chain - first_hashed)
    chain = _words(area[begin : begin + 4 * MOST_SYMBOLS])
    ends = np.flatnonzero(chain & 1)  # the lowest bit ends a chain
    return last_chain + int(ends[0]) + 1 if len(ends) else 0


def _words(data: memoryview) -> NDArray[np.uint32]:
    return np.frombuffer(data[: len(data) & ~3], "<u4")


def _sections_by_address(sections: NDArray[np.void], table: NDArray[np.void]) -> NDArray[np.int64]:
    """Return each symbol's section: what the headers called them is lost, but not the addresses."""
    section = np.full(len(table), NO_SECTION, np.int64)
    value = table["value"].astype(np.uint64)
    for row in range(1, len(sections)):
        section[value - sections["addr"][row] < sections["size"][row]] = row
    section[table["shndx"] == elf_layout.SHN_UNDEF] = elf_layout.SHN_UNDEF
    return section
