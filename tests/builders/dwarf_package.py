"""Packages of split debug information, as section 7.3.5 of DWARF 5 lays them out."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
from elftools.elf.elffile import ELFFile

from builders.elf import Section, elf_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def package(objects: Iterable[Path]) -> bytes:
    """Make a package of version 5 of .dwo files with one unit each."""
    kinds = {1: ".debug_info.dwo", 3: ".debug_abbrev.dwo", 6: ".debug_str_offsets.dwo"}
    kinds[8] = ".debug_rnglists.dwo"
    contents = dict.fromkeys(kinds.values(), b"")
    strings, rows, ids = b"", [], []
    for path in objects:
        with path.open("rb") as file:
            sections = {section.name: section.data() for section in ELFFile(file).iter_sections()}
        sections = dict.fromkeys(contents, b"") | sections
        ids.append(int.from_bytes(sections[".debug_info.dwo"][12:20], "little"))
        offsets = bytearray(sections[".debug_str_offsets.dwo"])
        moved = np.frombuffer(offsets, "<u4", offset=8) + np.uint32(len(strings))
        sections[".debug_str_offsets.dwo"] = bytes(offsets[:8]) + moved.astype("<u4").tobytes()
        strings += sections[".debug_str.dwo"]
        rows.append([(len(contents[name]), len(sections[name])) for name in kinds.values()])
        for name in contents:
            contents[name] += sections[name]
    index = struct.pack("<IIII", 5, len(kinds), len(ids), len(ids))
    index += struct.pack(f"<{len(ids)}Q", *ids)
    index += struct.pack(f"<{len(ids)}I", *range(1, len(ids) + 1))
    index += struct.pack(f"<{len(kinds)}I", *kinds)
    for part in (0, 1):
        index += b"".join(struct.pack("<I", cell[part]) for row in rows for cell in row)
    contents |= {".debug_str.dwo": strings, ".debug_cu_index": index}
    return elf_file(sections=[Section(name, data) for name, data in contents.items()])
