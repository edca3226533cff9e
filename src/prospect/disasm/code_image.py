"""Code in ELF images: the bytes at an address, and a small file of pieces for other programs.

Other programs never get the recorded file itself: its symbols and debug information are untrusted,
and parsers of these have often been attacked. The file made here has only code, and section
headers with its addresses. Source: System V gABI, "Sections".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import elf_layout
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.elf.image import ElfImage

_SHT_PROGBITS = 1
_MACHINES_OF_32_BITS = (elf_layout.EM_386, elf_layout.EM_ARM)
_NO_MACHINE, _LAST_MACHINE = 0, 0xFFFF  # e_machine: u16
_NAMES = b"\0.text\0.shstrtab\0"
# A disassembler reads on after code that ends within an instruction: it gets zeros.
_PADDING_BYTES = 16


class Target(NamedTuple):
    """The machine that code is for: EM_*, whether its image is of 64 bits, and the e_flags."""

    machine: int
    is_64: bool = True
    flags: int = 0


class Piece(NamedTuple):
    """Code at an address."""

    content: bytes
    address: int
    target: Target

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.address + len(self.content)


def target_of(image: ElfImage) -> Target:
    """Return the machine that an image's code is for."""
    header_type = elf_layout.EHDR_64 if image.is_64 else elf_layout.EHDR_32
    header = np.frombuffer(image.data, header_type, 1)[0]
    return Target(image.machine, image.is_64, int(header["flags"]))


def target_of_machine(machine: int) -> Target:
    """Return the usual target of a machine, for code without an image.

    A number beyond 16 bits, which a damaged jitdump may have, counts as EM_NONE.
    """
    if machine > _LAST_MACHINE:
        machine = _NO_MACHINE
    return Target(machine, is_64=machine not in _MACHINES_OF_32_BITS)


def code_image(pieces: Sequence[Piece]) -> bytes:
    """Return an ELF file with a section for each piece.

    Args:
        pieces: of one target, in address order, without overlaps.
    """
    target = pieces[0].target
    # A jitdump may combine a 32-bit machine and 64-bit addresses.
    is_64 = target.is_64 or pieces[-1].address >= 1 << 32
    header_type, section_type = (
        (elf_layout.EHDR_64, elf_layout.SHDR_64)
        if is_64
        else (elf_layout.EHDR_32, elf_layout.SHDR_32)
    )
    sections = np.zeros(len(pieces) + 2, section_type)
    content = bytearray(_NAMES)
    first_byte = header_type.itemsize
    for row, piece in enumerate(pieces, start=1):
        following = pieces[row].address if row < len(pieces) else piece.end + _PADDING_BYTES
        code = piece.content + bytes(min(_PADDING_BYTES, max(following - piece.end, 0)))
        section = sections[row]
        section["name"], section["type"] = _NAMES.index(b".text"), _SHT_PROGBITS
        section["flags"] = elf_layout.SHF_ALLOC | elf_layout.SHF_EXECINSTR
        section["addr"], section["size"] = piece.address, len(code)
        section["offset"], section["addralign"] = first_byte + len(content), 1
        content += code
    names = sections[-1]
    names["name"], names["type"] = _NAMES.index(b".shstrtab"), elf_layout.SHT_STRTAB
    names["offset"], names["size"], names["addralign"] = first_byte, len(_NAMES), 1
    header = np.zeros(1, header_type)
    ident = elf_layout.ELFMAG + bytes(
        [elf_layout.ELFCLASS64 if is_64 else elf_layout.ELFCLASS32, elf_layout.ELFDATA2LSB, 1]
    )
    header["ident"] = np.void(ident.ljust(16, b"\0"))
    for name, value in (
        ("type", elf_layout.ET_EXEC),
        ("machine", target.machine),
        ("version", 1),
        ("flags", target.flags),
        ("shoff", first_byte + len(content)),
        ("ehsize", header_type.itemsize),
        ("shentsize", section_type.itemsize),
        ("shnum", len(sections) if len(sections) < elf_layout.SHN_LORESERVE else 0),
        ("shstrndx", len(sections) - 1),
    ):
        header[name] = value
    return header.tobytes() + bytes(content) + sections.tobytes()


def apart(pieces: Sequence[Piece], most: int) -> list[list[int]]:
    """Split pieces into lists without overlaps, each in address order.

    Args:
        pieces: code of one target, in any order.
        most: the most that a list may have.

    Returns:
        Rows of `pieces`, each in one list.
    """
    lists: list[list[int]] = []
    for row in sorted(range(len(pieces)), key=lambda one: pieces[one].address):
        for members in lists:
            if len(members) < most and pieces[members[-1]].end <= pieces[row].address:
                members.append(row)
                break
        else:
            lists.append([row])
    return lists


def segment_of(image: ElfImage, address: int) -> tuple[int, int] | None:
    """Return the file offset of an address and the bytes left of its segment, None if unmapped."""
    loads = image.segments[image.segments["type"] == elf_layout.PT_LOAD]
    # As a difference, because a damaged segment may end beyond the last address.
    distance = np.uint64(address) - loads["vaddr"]
    covering = np.flatnonzero((loads["vaddr"] <= np.uint64(address)) & (distance < loads["filesz"]))
    if not len(covering):
        return None
    row = covering[-1]
    inside = int(distance[row])
    return int(loads["offset"][row]) + inside, int(loads["filesz"][row]) - inside


def code_at(image: ElfImage, svma: int, size: int) -> memoryview:
    """Return the bytes from an SVMA on: fewer than `size` if their segment or the file ends."""
    found = segment_of(image, svma)
    if found is None:
        return image.data[:0]
    offset, held = found
    return image.data[offset : offset + min(size, held)]
