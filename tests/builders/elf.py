"""Write ELF files in memory, sound ones and odd ones, to the System V gABI."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from prospect.elf import elf_layout

TEXT_ADDRESS = 0x1000
_SEGMENT_TYPES = {
    elf_layout.SHT_NOTE: elf_layout.PT_NOTE,
    elf_layout.SHT_DYNAMIC: elf_layout.PT_DYNAMIC,
}


@dataclass(frozen=True)
class Section:
    """One section; `size` beyond `data` is for SHT_NOBITS and for damage."""

    name: str
    data: bytes = b""
    type: int = 1  # SHT_PROGBITS
    flags: int = 0
    addr: int = 0
    link: str | int = 0
    info: int = 0
    entsize: int = 0
    size: int | None = None


@dataclass(frozen=True)
class Symbol:
    name: str | bytes
    value: int
    size: int = 0
    kind: int = elf_layout.STT_FUNC
    binding: int = elf_layout.STB_GLOBAL
    visibility: int = 0
    section: str | int = ".text"


@dataclass(frozen=True)
class Segment:
    type: int = elf_layout.PT_LOAD
    flags: int = 5
    offset: int = 0
    vaddr: int = 0
    filesz: int = 0
    memsz: int | None = None


@dataclass
class _Strings:
    data: bytearray = field(default_factory=lambda: bytearray(1))

    def add(self, text: str | bytes) -> int:
        encoded = text if isinstance(text, bytes) else text.encode()
        if not encoded:
            return 0
        start = len(self.data)
        self.data += encoded + b"\0"
        return start


def code(name=".text", address=TEXT_ADDRESS, data=b"\x90" * 0x1000, size=None):
    """An executable section; with `size` alone one without bytes, as in a debug file."""
    flags = elf_layout.SHF_ALLOC | elf_layout.SHF_EXECINSTR
    if size is not None:
        return Section(name, type=elf_layout.SHT_NOBITS, flags=flags, addr=address, size=size)
    return Section(name, data, flags=flags, addr=address)


def build_id_note(build_id):
    return struct.pack("<III", 4, len(build_id), elf_layout.NT_GNU_BUILD_ID) + b"GNU\0" + build_id


def debug_link_section(name, crc32):
    text = name.encode() + b"\0"
    return Section(".gnu_debuglink", text + bytes(-len(text) % 4) + struct.pack("<I", crc32))


def rela(entries):
    """.rela.plt's bytes from (slot, type, symbol row, addend)."""
    return b"".join(struct.pack("<QIIq", *entry) for entry in entries)


def elf_file(
    *,
    sections=(),
    symbols=None,
    dynamic_symbols=None,
    segments=None,
    build_id=None,
    is_64=True,
    machine=elf_layout.EM_X86_64,
    elf_type=elf_layout.ET_DYN,
    byte_order=elf_layout.ELFDATA2LSB,
    with_section_headers=True,
    extended_indexes=False,
):
    """Lay out an ELF file.

    Without `segments` each allocated section with bytes gets a PT_LOAD that maps it where it
    stands. `extended_indexes` writes section numbers as if they did not fit their 16 bits.
    """
    rows = list(sections)
    if build_id is not None:
        rows.append(
            Section(
                ".note.gnu.build-id",
                build_id_note(build_id),
                elf_layout.SHT_NOTE,
                elf_layout.SHF_ALLOC,
            )
        )
    for name, strings, kind, table in (
        (".symtab", ".strtab", elf_layout.SHT_SYMTAB, symbols),
        (".dynsym", ".dynstr", elf_layout.SHT_DYNSYM, dynamic_symbols),
    ):
        if table is not None:
            rows += _symbol_sections(
                rows, table, (name, strings, kind), is_64=is_64, extended=extended_indexes
            )
    return _lay_out(
        rows,
        segments,
        is_64=is_64,
        machine=machine,
        elf_type=elf_type,
        byte_order=byte_order,
        with_section_headers=with_section_headers,
        extended=extended_indexes,
    )


def _symbol_sections(rows, table, names, *, is_64, extended):
    name, strings_name, kind = names
    numbers = {row.name: index + 1 for index, row in enumerate(rows)}
    strings = _Strings()
    packed = bytearray(24 if is_64 else 16)
    wide = bytearray(4)
    for symbol in table:
        section = symbol.section
        number = numbers[section] if isinstance(section, str) else section
        escaped = extended and isinstance(section, str)
        wide += struct.pack("<I", number if escaped else 0)
        shndx = elf_layout.SHN_XINDEX if escaped else number
        info = symbol.binding << 4 | symbol.kind
        start = strings.add(symbol.name)
        if is_64:
            packed += struct.pack(
                "<IBBHQQ", start, info, symbol.visibility, shndx, symbol.value, symbol.size
            )
        else:
            packed += struct.pack(
                "<IIIBBH", start, symbol.value, symbol.size, info, symbol.visibility, shndx
            )
    made = [
        Section(name, bytes(packed), kind, link=strings_name, entsize=24 if is_64 else 16),
        Section(strings_name, bytes(strings.data), elf_layout.SHT_STRTAB),
    ]
    if extended:
        made.append(Section(name + "_shndx", bytes(wide), elf_layout.SHT_SYMTAB_SHNDX, link=name))
    return made


def _section_headers(rows, offsets, name_starts, is_64, segments):
    """Return the table of sections; with `segments`, their number, row 0 has what has no room."""
    numbers = {row.name: index for index, row in enumerate(rows)}
    out = bytearray()
    for index, (row, start) in enumerate(zip(rows, offsets, strict=True)):
        link = numbers[row.link] if isinstance(row.link, str) else row.link
        size = len(row.data) if row.size is None else row.size
        info = row.info
        if segments is not None and index == 0:
            size, link, info = len(rows), len(rows) - 1, segments
        values = (row.flags, row.addr, start, size, link, info, 1, row.entsize)
        out += struct.pack(
            "<IIQQQQIIQQ" if is_64 else "<IIIIIIIIII", name_starts[index], row.type, *values
        )
    return out


def _lay_out(
    rows,
    segments,
    *,
    is_64,
    machine,
    elf_type,
    byte_order,
    with_section_headers,
    extended,
):
    names = _Strings()
    header_size = 64 if is_64 else 52
    segment_size, section_size = (56, 64) if is_64 else (32, 40)
    rows = [Section("", type=0), *rows, Section(".shstrtab", type=elf_layout.SHT_STRTAB)]
    name_starts = [names.add(row.name) for row in rows]
    rows[-1] = Section(".shstrtab", bytes(names.data), elf_layout.SHT_STRTAB)

    if segments is None:
        count = sum(1 for row in rows if row.flags & elf_layout.SHF_ALLOC and row.data)
    else:
        count = len(segments)
    offset = header_size + count * segment_size
    offsets = []
    for row in rows:
        offset += -offset % 16
        offsets.append(offset)
        offset += len(row.data)
    section_offset = offset + -offset % 8
    if segments is None:
        segments = [
            Segment(
                type=_SEGMENT_TYPES.get(row.type, elf_layout.PT_LOAD),
                flags=4
                | (elf_layout.PF_W if row.flags & elf_layout.SHF_WRITE else 0)
                | (elf_layout.PF_X if row.flags & elf_layout.SHF_EXECINSTR else 0),
                offset=start,
                vaddr=row.addr,
                filesz=len(row.data),
            )
            for row, start in zip(rows, offsets, strict=True)
            if row.flags & elf_layout.SHF_ALLOC and row.data
        ]

    word = "Q" if is_64 else "I"
    ident = elf_layout.ELFMAG + bytes([2 if is_64 else 1, byte_order, 1]) + bytes(9)
    out = bytearray(ident)
    out += struct.pack(
        f"<HHI{word}{word}{word}IHHHHHH",
        elf_type,
        machine,
        1,
        0,
        header_size if segments else 0,
        section_offset if with_section_headers else 0,
        0,
        header_size,
        segment_size,
        elf_layout.PN_XNUM if extended else len(segments),
        section_size,
        0 if extended or not with_section_headers else len(rows),
        elf_layout.SHN_XINDEX if extended else (len(rows) - 1 if with_section_headers else 0),
    )
    for segment in segments:
        memsz = segment.filesz if segment.memsz is None else segment.memsz
        place = (segment.offset, segment.vaddr, segment.vaddr, segment.filesz, memsz)
        if is_64:
            out += struct.pack("<IIQQQQQQ", segment.type, segment.flags, *place, 4096)
        else:
            out += struct.pack("<IIIIIIII", segment.type, *place, segment.flags, 4096)
    for row, start in zip(rows, offsets, strict=True):
        out += bytes(start - len(out)) + row.data
    if not with_section_headers:
        return bytes(out)
    out += bytes(section_offset - len(out))
    out += _section_headers(rows, offsets, name_starts, is_64, len(segments) if extended else None)
    return bytes(out)
