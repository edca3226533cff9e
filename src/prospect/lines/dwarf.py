"""Bytes of DWARF 2 to 5 → the unit headers, abbreviations and attributes that Prospect needs.

Sections are unpacked within bounds. An absent, damaged or too large section is empty.

The bytes are untrusted: damage raises `DwarfError`, never another exception, and every loop
    advances
by at least a byte. Source: DWARF 5 standard, sections 7.4 to 7.6 and 7.28;
https://gcc.gnu.org/wiki/DebugFission for DWARF 4 with GNU extensions.
"""

from __future__ import annotations

import mmap
import struct
from typing import TYPE_CHECKING

from prospect.columns.protobuf_fields import encode_varint
from prospect.elf import elf_layout
from prospect.elf.image import compressed_section, unpack_section
from prospect.files.budget import CostlyError, of_others
from prospect.lines.lines_limits import (
    LARGEST_SECTION_BYTES,
    LONGEST_LEB_BYTES,
    LONGEST_STRING_BYTES,
    MOST_ABBREVIATIONS,
    MOST_ATTRIBUTES,
)
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.elf.image import ElfImage

DW_UT_COMPILE, DW_UT_PARTIAL, DW_UT_SKELETON, DW_UT_SPLIT_COMPILE = 0x01, 0x03, 0x04, 0x05
DW_TAG_COMPILE_UNIT, DW_TAG_SUBPROGRAM = 0x11, 0x2E

DW_AT_LANGUAGE = 0x13
DW_AT_STMT_LIST, DW_AT_LOW_PC, DW_AT_HIGH_PC, DW_AT_COMP_DIR = 0x10, 0x11, 0x12, 0x1B
DW_AT_RANGES = 0x55
DW_AT_STR_OFFSETS_BASE, DW_AT_ADDR_BASE = 0x72, 0x73
DW_AT_RNGLISTS_BASE, DW_AT_DWO_NAME = 0x74, 0x76
DW_AT_GNU_DWO_NAME, DW_AT_GNU_DWO_ID = 0x2130, 0x2131
DW_AT_GNU_RANGES_BASE, DW_AT_GNU_ADDR_BASE = 0x2132, 0x2133

DW_FORM_ADDR, DW_FORM_DATA2, DW_FORM_DATA4, DW_FORM_DATA8, DW_FORM_STRING = 0x01, 5, 6, 7, 8
DW_FORM_BLOCK2, DW_FORM_BLOCK4, DW_FORM_BLOCK, DW_FORM_BLOCK1 = 0x03, 0x04, 0x09, 0x0A
DW_FORM_SDATA, DW_FORM_STRP, DW_FORM_UDATA, DW_FORM_REF_ADDR = 0x0D, 0x0E, 0x0F, 0x10
DW_FORM_REF1, DW_FORM_REF2, DW_FORM_REF4, DW_FORM_REF8 = 0x11, 0x12, 0x13, 0x14
DW_FORM_REF_UDATA = 0x15
DW_FORM_SEC_OFFSET, DW_FORM_EXPRLOC = 0x17, 0x18
DW_FORM_LINE_STRP, DW_FORM_IMPLICIT_CONST = 0x1F, 0x21
DW_FORM_ADDRX, DW_FORM_GNU_ADDR_INDEX = 0x1B, 0x1F01

# Bytes of each form with the same size in all units of 32-bit DWARF.
FIXED_FORMS = dict(
    [
        *((DW_FORM_DATA2, 2), (DW_FORM_DATA4, 4), (DW_FORM_DATA8, 8), (0x0B, 1), (0x0C, 1)),
        *((DW_FORM_STRP, 4), (DW_FORM_REF_ADDR, 4), (DW_FORM_SEC_OFFSET, 4), (0x19, 0)),
        *((DW_FORM_REF1, 1), (DW_FORM_REF2, 2), (DW_FORM_REF4, 4), (DW_FORM_REF8, 8)),
        *((DW_FORM_LINE_STRP, 4), (0x1C, 4), (0x1D, 4), (0x1E, 16), (0x20, 8), (0x24, 8)),
        *((DW_FORM_IMPLICIT_CONST, 0), (0x25, 1), (0x26, 2), (0x27, 3), (0x28, 4)),
        *((0x29, 1), (0x2A, 2), (0x2B, 3), (0x2C, 4), (0x1F20, 4), (0x1F21, 4)),
    ]
)
LEB_FORMS = frozenset(
    {DW_FORM_SDATA, DW_FORM_UDATA, DW_FORM_REF_UDATA, 0x1A, DW_FORM_ADDRX, 0x22, 0x23}
    | {DW_FORM_GNU_ADDR_INDEX, 0x1F02}
)
_BLOCK_SIZES = {DW_FORM_BLOCK1: 1, DW_FORM_BLOCK2: 2, DW_FORM_BLOCK4: 4}
_LEB_BLOCKS = frozenset({DW_FORM_BLOCK, DW_FORM_EXPRLOC})

_64_BIT_DWARF = b"\xff" * 4

Bytes = bytes | bytearray | memoryview


class DwarfError(Exception):
    """These bytes are damaged, or DWARF that Prospect does not read."""


class Unit(NamedTuple):
    """The header of a unit.

    Attributes:
        offset, end: its bytes in the section.
        dies: the offset of its first entry.
        version: 2 to 5.
        kind: DW_UT_*; units of versions before 5 are DW_UT_COMPILE.
        abbreviations: offset of its table.
        address_bytes: 4 or 8.
        dwo_id: of a skeleton or split unit of version 5, else 0.
    """

    offset: int
    end: int
    dies: int
    version: int
    kind: int
    abbreviations: int
    address_bytes: int
    dwo_id: int


class Abbreviation(NamedTuple):
    """The shape of an entry: its tag, and attributes as (name, form)."""

    tag: int
    has_children: bool
    attributes: tuple[tuple[int, int], ...]


def unsigned(data: Bytes, position: int, size: int) -> int:
    """Read a little-endian number of `size` bytes."""
    end = position + size
    if not 0 <= position <= end <= len(data):
        raise DwarfError("cut off")
    return int.from_bytes(data[position:end], "little")


def leb128(data: Bytes, position: int) -> tuple[int, int]:
    """Read an unsigned LEB128 number; return it and the position after it."""
    value = 0
    for place in range(LONGEST_LEB_BYTES):
        if not 0 <= position + place < len(data):
            break
        octet = data[position + place]
        value |= (octet & 0x7F) << 7 * place
        if octet < 0x80:
            return value, position + place + 1
    raise DwarfError("a number without an end")


def string(data: Bytes, position: int) -> bytes:
    """Read a string that ends with a zero byte."""
    if not 0 <= position < len(data):
        raise DwarfError("a string outside its section")
    head, zero, _ = bytes(data[position : position + LONGEST_STRING_BYTES]).partition(b"\0")
    if not zero:
        raise DwarfError("a string without an end")
    return head


def units(section: Bytes) -> Iterator[Unit]:
    """Yield the headers of a section's units, except unknown ones; stop at damage."""
    position = 0
    while position + 11 <= len(section):
        end = position + 4 + unsigned(section, position, 4)
        if end > len(section) or end < position + 11:
            return  # damage, or 64-bit DWARF, which compilers write only on request
        unit = _unit(section, position, end)
        if unit is not None:
            yield unit
        position = end


def first_version(section: Bytes) -> int:
    """Return the version of DWARF of a section's first unit, 0 if it is cut off."""
    is_64_bit = section[:4] == _64_BIT_DWARF
    try:
        return unsigned(section, 12 if is_64_bit else 4, 2)
    except DwarfError:
        return 0


def _unit(section: Bytes, position: int, end: int) -> Unit | None:
    version = unsigned(section, position + 4, 2)
    if 2 <= version <= 4:
        abbreviations, size = struct.unpack_from("<IB", section, position + 6)
        unit = Unit(position, end, position + 11, version, DW_UT_COMPILE, abbreviations, size, 0)
    elif version == 5 and position + 12 <= end:
        kind, size, abbreviations = struct.unpack_from("<BBI", section, position + 6)
        dies, dwo_id = position + 12, 0
        if kind in (DW_UT_SKELETON, DW_UT_SPLIT_COMPILE):
            dwo_id, dies = unsigned(section, dies, 8), dies + 8
        elif kind not in (DW_UT_COMPILE, DW_UT_PARTIAL):
            return None
        unit = Unit(position, end, dies, 5, kind, abbreviations, size, dwo_id)
    else:
        return None
    return unit if unit.address_bytes in (4, 8) and unit.dies < end else None


def abbreviations(
    section: Bytes, start: int, last: int = 0, most: int = MOST_ABBREVIATIONS
) -> tuple[dict[int, Abbreviation], int]:
    """Read a table of abbreviations; return it by code, and the position after it.

    Args:
        section: .debug_abbrev.
        start: where the table begins.
        last: the code to stop after, 0 to read the whole table.
        most: the bound on abbreviations and attributes: units of damaged files may all refer to one
            long table.
    """
    table: dict[int, Abbreviation] = {}
    position = start
    while True:
        code, position = leb128(section, position)
        if not code:
            return table, position
        tag, position = leb128(section, position)
        has_children = unsigned(section, position, 1) != 0
        position += 1
        attributes = []
        while True:
            name, position = leb128(section, position)
            form, position = leb128(section, position)
            if form == DW_FORM_IMPLICIT_CONST:
                _, position = leb128(section, position)
            if not name and not form:
                break
            attributes.append((name, form))
            if len(attributes) > MOST_ATTRIBUTES:
                raise DwarfError("an entry of too many attributes")
        table[code] = Abbreviation(tag, has_children, tuple(attributes))
        if code == last:
            return table, position
        most -= 1 + len(attributes)
        if most < 0:
            raise DwarfError("too many abbreviations")


def after_form(data: Bytes, position: int, form: int, address_bytes: int) -> int:
    """Return the position after the value of a form."""
    if form in FIXED_FORMS:
        return position + FIXED_FORMS[form]
    if form == DW_FORM_ADDR:
        return position + address_bytes
    if form in LEB_FORMS:
        return leb128(data, position)[1]
    if form in _BLOCK_SIZES:
        size = _BLOCK_SIZES[form]
        return position + size + unsigned(data, position, size)
    if form in _LEB_BLOCKS:
        length, start = leb128(data, position)
        return start + length
    if form == DW_FORM_STRING:
        return position + len(string(data, position)) + 1
    raise DwarfError(f"form {form:#x}")


def number(data: Bytes, position: int, form: int) -> int:
    """Read a value that is a number of up to 8 bytes; 0 for another form."""
    if form in LEB_FORMS:
        return leb128(data, position)[0]
    size = FIXED_FORMS.get(form, 0)
    return unsigned(data, position, size) if size <= 8 else 0


def encode_abbreviation(code: int, entry: Abbreviation) -> bytes:
    """Return the bytes of an abbreviation in .debug_abbrev."""
    words = [word for attribute in entry.attributes for word in attribute]
    return b"".join(
        (
            *(encode_varint(code), encode_varint(entry.tag), bytes([entry.has_children])),
            *map(encode_varint, words),
            b"\0\0",
        )
    )


def first_entry(
    section: Bytes, unit: Unit, table: dict[int, Abbreviation]
) -> tuple[Abbreviation, dict[int, tuple[int, int]], int]:
    """Read a unit's own entry.

    Returns:
        Its abbreviation; form and position of the value of each attribute; the children's position.
    """
    code, position = leb128(section, unit.dies)
    if code not in table:
        raise DwarfError("an entry without an abbreviation")
    entry = table[code]
    values = {}
    for name, form in entry.attributes:
        values[name] = form, position
        position = after_form(section, position, form, unit.address_bytes)
    if position > unit.end:
        raise DwarfError("an entry that is cut off")
    return entry, values, position


def section(image: ElfImage, name: bytes) -> memoryview:
    """Return the bytes of the first section of a name, as `section_in_row` does."""
    return section_in_row(image, image.find_section(name))


def section_in_row(image: ElfImage, row: int) -> memoryview:
    """Return the bytes of a section, unpacked; none if it is damaged or `row` is -1.

    Uncompressed sections are not copied.

    Raises:
        CostlyError: too little is left of the memory that other users' files may take.
    """
    compressed = compressed_section(image, row)
    if compressed is None:
        return image.section_data(row)
    kind, unpacked_bytes, packed = compressed
    if not 0 < unpacked_bytes <= LARGEST_SECTION_BYTES:
        return image.data[:0]
    memory = mmap.mmap(-1, unpacked_bytes)
    if not of_others.hold(memory, unpacked_bytes):
        raise CostlyError
    return unpack_section(kind, packed, memory)


class Sections:
    """The sections of one image, each unpacked once."""

    def __init__(self, image: ElfImage) -> None:
        self._image = image
        self._known: dict[bytes, memoryview] = {}

    def __call__(self, name: bytes) -> memoryview:
        """Return the bytes of a section, as `section` does."""
        if name not in self._known:
            self._known[name] = section(self._image, name)
        return self._known[name]

    def last(self, name: bytes, most: int) -> Iterator[memoryview]:
        """Yield the bytes of the last `most` sections of a name, the last first; keep none."""
        for row in reversed(self._image.find_sections(name)[-most:]):
            yield section_in_row(self._image, row)


def line_table(lines: memoryview, offset: int) -> memoryview:
    """Return the table at an offset of .debug_line; nothing for -1.

    Raises:
        DwarfError: the offset is outside.
    """
    if offset < 0:
        return lines[:0]
    return lines[offset : offset + 4 + unsigned(lines, offset, 4)]


def elf_of_sections(load_address: int, contents: dict[bytes, memoryview | bytes]) -> bytes:
    """Return an ELF file of sections by name, and of one segment with the load address."""
    kept = {name: content for name, content in contents.items() if len(content)}
    names = b"\0" + b"".join(name + b"\0" for name in kept) + b".shstrtab\0"
    kept[b".shstrtab"] = names
    place = elf_layout.EHDR_64.itemsize + elf_layout.PHDR_64.itemsize
    rows = [bytes(elf_layout.SHDR_64.itemsize)]
    pieces = []
    for name, content in kept.items():
        kind = elf_layout.SHT_STRTAB if name == b".shstrtab" else 1
        at = names.index(b"\0" + name + b"\0") + 1
        rows.append(struct.pack("<IIQQQQIIQQ", at, kind, 0, 0, place, len(content), 0, 0, 1, 0))
        pieces.append(content)
        place += len(content)
    ident = elf_layout.ELFMAG + bytes([elf_layout.ELFCLASS64, elf_layout.ELFDATA2LSB, 1]) + bytes(9)
    head = ident + struct.pack(
        "<HHIQQQIHHHHHH",
        *(elf_layout.ET_DYN, elf_layout.EM_X86_64, 1, 0, elf_layout.EHDR_64.itemsize, place, 0),
        *(elf_layout.EHDR_64.itemsize, elf_layout.PHDR_64.itemsize, 1),
        *(elf_layout.SHDR_64.itemsize, len(rows), len(rows) - 1),
    )
    segment = struct.pack(
        "<IIQQQQQQ", elf_layout.PT_LOAD, 5, 0, load_address, load_address, 0, 0, 1
    )
    return b"".join([head, segment, *pieces, *rows])
