"""Symbol tables of an image → their columns, by its sections or as the loader finds them.

For 64-bit images, the columns are strided views of the file; only the section indexes are copied.
An image without section headers gets a section for each executable segment, which has its dynamic
symbols. Only the hash tables show the number of these: each has an entry there. Source: System V
gABI, "Symbol Table", "Dynamic Section" and "Hash Table"; glibc's ``elf/dl-lookup.c`` (2.36) for
DT_GNU_HASH.

A stub of the procedure linkage table loads its target from a slot of the global offset table; the
relocation of that slot has the symbol. The stub's code has the slot's address in every layout that
linkers write (.plt, .plt.sec of IBT, .plt.got, BTI and PAC, entries sorted or not); the order of
.rela.plt does not always match. Source: AMD64 psABI, "Procedure Linkage Table" and its IBT form;
ELF for the Arm 64-bit Architecture, "Procedure Linkage Table"; ``bfd/elfxx-x86.c`` and
``bfd/elfnn-aarch64.c`` for the forms in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import elf_layout
from prospect.elf.elf_limits import MOST_CODE_SEGMENTS, MOST_SYMBOLS
from prospect.elf.image import NO_ADDRESS, whole_rows
from prospect.records import Record, replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.columns.array_types import I64, U8, U16, U32, U64
    from prospect.elf.image import ElfImage


NO_SECTION = -1
"""Section of symbols without one: SHN_ABS, SHN_COMMON and the other reserved indexes."""
_GNU_HASH_HEADER_WORDS = 4


class ElfSymbols(Record, eq=False):
    """The rows of .symtab or .dynsym, including the empty first one.

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

    name: U32
    kind: U8
    binding: U8
    visibility: U8
    section: I64
    value: U64
    size: U64
    strings: memoryview

    def __len__(self) -> int:
        return len(self.name)


def read_symbols(image: ElfImage, name: bytes) -> ElfSymbols | None:
    """Read the symbol table section of this name; None if there is none that can be read."""
    row = image.find_section(name)
    if row < 0 or image.sections[row]["type"] not in {elf_layout.SHT_SYMTAB, elf_layout.SHT_DYNSYM}:
        return None
    stored = elf_layout.SYM_64 if image.is_64 else elf_layout.SYM_32
    table = whole_rows(image.section_data(row), stored)[:MOST_SYMBOLS]
    if not len(table):
        return None
    strings = image.section_data(int(image.sections[row]["link"]))
    return symbol_columns(table, _section_rows(image, row, table["shndx"]), strings)


def symbol_columns(table: NDArray[np.void], section: I64, strings: memoryview) -> ElfSymbols:
    """Return the columns of SYM_64 or SYM_32 rows with resolved sections."""
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


def _section_rows(image: ElfImage, table_row: int, shndx: U16) -> I64:
    """Resolve st_shndx; rows that the image lacks become `NO_SECTION`."""
    section = shndx.astype(np.int64)
    section[shndx >= elf_layout.SHN_LORESERVE] = NO_SECTION
    escaped = np.flatnonzero(shndx == elf_layout.SHN_XINDEX)
    if len(escaped):
        wide = _extended_indexes(image, table_row)
        escaped = escaped[escaped < len(wide)]
        section[escaped] = wide.take(escaped)
    section[section >= len(image.sections)] = NO_SECTION
    return section


def _extended_indexes(image: ElfImage, table_row: int) -> U32:
    """Return the SHT_SYMTAB_SHNDX section of a symbol table, empty if it has none."""
    of_table = (image.sections["type"] == elf_layout.SHT_SYMTAB_SHNDX) & (
        image.sections["link"] == table_row
    )
    rows = np.flatnonzero(of_table)
    return whole_rows(image.section_data(int(rows[0]) if len(rows) else -1), "<u4")


def read_without_sections(image: ElfImage) -> tuple[ElfImage, ElfSymbols | None]:
    """Make sections of the executable segments, and read the dynamic section's symbols.

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
    """Return sections with the places of the executable PT_LOADs, after the empty first one."""
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
        table = whole_rows(image.data[offset : offset + size], stored)
        return dict(zip(table["tag"].tolist(), table["value"].tolist(), strict=True))
    return {}


def area_at(image: ElfImage, svma: int | None) -> memoryview:
    """Return the file from an address on; nothing if the file does not have it."""
    if svma is None:
        return image.data[:0]
    offset = int(image.offset_of_svma(np.array([svma], np.uint64))[0])
    return image.data[:0] if offset == NO_ADDRESS else image.data[offset:]


def _count_symbols(image: ElfImage, entries: dict[int, int]) -> int:
    plain = whole_rows(area_at(image, entries.get(elf_layout.DT_HASH))[:8], "<u4")
    if len(plain) == 2:
        return int(plain[1])  # a chain entry a symbol
    area = area_at(image, entries.get(elf_layout.DT_GNU_HASH))
    header = whole_rows(area[: 4 * _GNU_HASH_HEADER_WORDS], "<u4")
    if len(header) < _GNU_HASH_HEADER_WORDS:
        return 0
    buckets, first_hashed, bloom_words = header[:3].tolist()
    begin = 4 * _GNU_HASH_HEADER_WORDS + bloom_words * (8 if image.is_64 else 4)
    first = whole_rows(area[begin : begin + 4 * buckets], "<u4")
    last_chain = int(first.max(initial=0))
    if last_chain < first_hashed:
        return int(first_hashed)  # none is hashed: all are imported
    begin += 4 * (buckets + last_chain - first_hashed)
    chain = whole_rows(area[begin : begin + 4 * MOST_SYMBOLS], "<u4")
    ends = np.flatnonzero(chain & 1)  # the lowest bit ends a chain
    return last_chain + int(ends[0]) + 1 if len(ends) else 0


def _sections_by_address(sections: NDArray[np.void], table: NDArray[np.void]) -> I64:
    """Return each symbol's section by its address: there are no section headers."""
    section = np.full(len(table), NO_SECTION, np.int64)
    value = table["value"].astype(np.uint64)
    for row in range(1, len(sections)):
        section[value - sections["addr"][row] < sections["size"][row]] = row
    section[table["shndx"] == elf_layout.SHN_UNDEF] = elf_layout.SHN_UNDEF
    return section


PLT_SECTIONS = (b".plt", b".plt.sec", b".plt.got", b".iplt")
_RELOCATIONS = (b".rela.plt", b".rela.dyn", b".rela.iplt")
_SLOT_TYPES = {
    elf_layout.EM_X86_64: (
        elf_layout.R_X86_64_JUMP_SLOT,
        elf_layout.R_X86_64_GLOB_DAT,
        elf_layout.R_X86_64_IRELATIVE,
    ),
    elf_layout.EM_AARCH64: (
        elf_layout.R_AARCH64_JUMP_SLOT,
        elf_layout.R_AARCH64_GLOB_DAT,
        elf_layout.R_AARCH64_IRELATIVE,
    ),
}
_AARCH64_BTI_C = 0xD503245F


class PltStubs(Record, eq=False):
    """Stubs whose slot has a relocation.

    Attributes:
        start: u64[n] SVMA.
        end: u64[n] SVMA of the first byte after.
        symbol: i64[n] row of .dynsym, 0 for a slot that a resolver function fills.
        resolver: u64[n] SVMA of that function, if `symbol` is 0.
    """

    start: U64
    end: U64
    symbol: I64
    resolver: U64


def read_plt(image: ElfImage) -> PltStubs:
    """Find the stubs of an x86-64 or AArch64 image; none for other machines."""
    empty = np.zeros(0, np.uint64)
    if not image.is_64 or image.machine not in _SLOT_TYPES:
        return PltStubs(empty, empty, np.zeros(0, np.int64), empty)
    find = _x86_64_stubs if image.machine == elf_layout.EM_X86_64 else _aarch64_stubs
    rows = [image.find_section(name) for name in PLT_SECTIONS]
    found = [find(image, row) for row in rows if row >= 0]
    start, end, slot = (
        np.concatenate([empty, *(columns[i] for columns in found)]) for i in range(3)
    )
    relocations = _slot_relocations(image)
    slots = relocations["offset"].astype(np.uint64)
    order = np.argsort(slots, kind="stable")
    at = np.searchsorted(slots, slot, sorter=order)
    known = np.flatnonzero(at < len(slots))
    at = order.take(at.take(known))
    match = slots.take(at) == slot.take(known)
    known, at = known[match], at[match]
    return PltStubs(
        start=start.take(known),
        end=end.take(known),
        symbol=relocations["symbol"].take(at).astype(np.int64),
        resolver=relocations["addend"].take(at).astype(np.uint64),
    )


def _slot_relocations(image: ElfImage) -> NDArray[np.void]:
    """Return the relocations that fill a slot with a function's address."""
    sections = (image.section_data(image.find_section(name)) for name in _RELOCATIONS)
    table = np.concatenate([whole_rows(data, elf_layout.RELA_64) for data in sections])
    return table[np.isin(table["type"], _SLOT_TYPES[image.machine])]


def _x86_64_stubs(image: ElfImage, row: int) -> tuple[U64, U64, U64]:
    """Find `jmp *disp32(%rip)` (ff 25), one an entry, perhaps after `endbr64` and `bnd`."""
    section = image.sections[row]
    code = np.frombuffer(image.section_data(row), np.uint8)
    base = section["addr"]
    # ld states 8 or 16, lld 16, and some linkers 0, which means 16.
    entry_size = int(section["entsize"]) if section["entsize"] in {8, 16} else 16
    jump = np.flatnonzero((code[:-5] == 0xFF) & (code[1:-4] == 0x25))
    distance = sum(code.take(jump + 2 + i).astype(np.uint64) << np.uint64(8 * i) for i in range(4))
    distance = np.asarray(distance, np.uint64).astype(np.uint32).view(np.int32).astype(np.int64)
    slot = base + (jump + 6 + distance).astype(np.uint64)
    start = base + (jump - jump % entry_size).astype(np.uint64)
    return start, start + np.uint64(entry_size), slot


def _aarch64_stubs(image: ElfImage, row: int) -> tuple[U64, U64, U64]:
    """Find `adrp x16, page; ldr x17, [x16, #offset]`, perhaps after `bti c`."""
    base = image.sections[row]["addr"]
    word = whole_rows(image.section_data(row), "<u4")
    is_adrp = (word & 0x9F00001F) == 0x90000010
    is_load = (word & 0xFFC003FF) == 0xF9400211
    at = np.flatnonzero(is_adrp[:-1] & is_load[1:])
    adrp, load = word.take(at).astype(np.int64), word.take(at + 1).astype(np.int64)
    pages = (adrp >> 5 & 0x7FFFF) << 2 | adrp >> 29 & 3
    pages -= (pages & 1 << 20) << 1
    address = base + (at * 4).astype(np.uint64)
    page = (address & ~np.uint64(0xFFF)) + (pages << 12).astype(np.uint64)
    slot = page + ((load >> 10 & 0xFFF) << 3).astype(np.uint64)
    first = at - ((at > 0) & (word.take(np.maximum(at - 1, 0)) == _AARCH64_BTI_C))
    after = np.append(first[1:], np.minimum(first[-1:] + 4 + 2 * (at != first)[-1:], len(word)))
    start = base + (first * 4).astype(np.uint64)
    return start, base + (after * 4).astype(np.uint64), slot
