"""Sections of DWARF → an ELF file with them alone, for the library that reads DWARF."""

from __future__ import annotations

import struct

from prospect.elf import elf_layout
from prospect.lines.dwarf import unsigned


def line_table(lines: memoryview, offset: int) -> memoryview:
    """Return the table at an offset of .debug_line; nothing for -1.

    Raises:
        DwarfError: the offset is outside.
    """
    if offset < 0:
        return lines[:0]
    return lines[offset : offset + 4 + unsigned(lines, offset, 4)]


def elf_of_sections(load_address: int, contents: dict[bytes, memoryview | bytes]) -> bytes:
    """Lay out an ELF file of sections by name, and of one segment that says where it is loaded."""
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
