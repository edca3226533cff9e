"""Write Go images in memory: code, `.gopclntab` of each version, moduledata and inlined calls.

The layouts are those of Go's own linker, ``cmd/link/internal/ld/pcln.go`` and ``symtab.go``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from builders.elf import Section, code, elf_file, rela
from prospect.elf import elf_layout
from prospect.elf.go_table import GO_1_16, GO_1_18, GO_1_20

TEXT = 0x401000
TABLE = 0x500000
TREES = 0x600000
MODULE = 0x700000
VERSIONS = (GO_1_16, GO_1_18, GO_1_20)
_QUANTUM = {elf_layout.EM_X86_64: 1, elf_layout.EM_386: 1, elf_layout.EM_AARCH64: 4}


@dataclass(frozen=True)
class GoFunction:
    """A function; lists have pairs of a value and how many bytes of code have it."""

    name: str
    size: int = 64
    frame: tuple[tuple[int, int], ...] = ()
    lines: tuple[tuple[int, int], ...] = ()
    files: tuple[tuple[int, int], ...] = ()
    calls: tuple[tuple[int, int], ...] = ()
    tree: tuple[tuple[str, int], ...] = ()
    flags: int = 0


def packed_values(pairs, quantum=1):
    """Pack a list as pcvalue() of Go's runtime reads it."""
    out, before = bytearray(), -1
    for value, size in pairs:
        difference = value - before
        out += _leb128(difference << 1 if difference >= 0 else ~(difference << 1))
        out += _leb128(size // quantum)
        before = value
    return bytes(out) + b"\0"


def _leb128(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


class _Texts:
    def __init__(self):
        self.data, self._places = bytearray(), {}

    def add(self, text):
        if text not in self._places:
            self._places[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return self._places[text]


def go_table(
    functions,
    version=GO_1_20,
    *,
    files=("main.go",),
    text=TEXT,
    stated_text=TEXT,
    is_64=True,
    quantum=1,
    trees=TREES,
):
    """Return `.gopclntab`, the bytes of inlined calls, and where in the table its names are."""
    word = "<Q" if is_64 else "<I"
    pointer = struct.calcsize(word)
    names, paths, values, tree_bytes = _Texts(), _Texts(), bytearray(1), bytearray()
    units = [paths.add(path) for path in files]

    def packed(pairs):
        if not pairs:
            return 0
        values.extend(packed_values(pairs, quantum))
        return len(values) - len(packed_values(pairs, quantum))

    records, starts, address = bytearray(), [], 0
    entries = 2 * len(functions) + 1
    head = entries * (pointer if version == GO_1_16 else 4)
    head += -head % 8
    for function in functions:
        records += bytes(-len(records) % 8)
        starts.append((address, head + len(records)))
        name = names.add(function.name)
        own = (
            struct.pack(word, text + address) if version == GO_1_16 else struct.pack("<I", address)
        )
        fields = [
            name,
            0,
            0,
            *(packed(one) for one in (function.frame, function.files, function.lines)),
        ]
        fields += [3, 0] + ([1] if version == GO_1_20 else [])
        calls = packed(function.calls)
        records += own + struct.pack(f"<{len(fields)}I", *fields)
        records += bytes([0, function.flags, 0, 4 if function.tree else 0])
        records += struct.pack("<3I", 0, 0, calls)
        if function.tree:
            tree_bytes += bytes(-len(tree_bytes) % 8)
            at = len(tree_bytes)
            for called, call in function.tree:
                if version == GO_1_20:
                    tree_bytes += struct.pack("<4i", 0, names.add(called), call, 1)
                else:
                    tree_bytes += struct.pack("<hBxiiii", -1, 0, 0, 1, names.add(called), call)
            if version == GO_1_16:
                records += bytes(-(head + len(records)) % pointer)
                records += struct.pack(word, 0) * 3 + struct.pack(word, trees + at)
            else:
                records += struct.pack("<4I", *[0xFFFFFFFF] * 3, at)
        address += function.size
    kind = word if version == GO_1_16 else "<I"
    base = text if version == GO_1_16 else 0
    functab = b"".join(struct.pack(kind, base + a) + struct.pack(kind, at) for a, at in starts)
    functab += struct.pack(kind, base + address)
    areas = [bytes(names.data), struct.pack(f"<{len(units)}I", *units), bytes(paths.data)]
    areas += [bytes(values), functab.ljust(head, b"\0") + bytes(records)]
    header = 7 if version == GO_1_16 else 8
    body, offsets = bytearray(), []
    for area in areas:
        body += bytes(-len(body) % 8)
        offsets.append(8 + header * pointer + len(body))
        body += area
    counts = [len(functions), len(files)] + ([] if version == GO_1_16 else [stated_text])
    head_bytes = struct.pack("<IBBBB", version, 0, 0, quantum, pointer)
    table = head_bytes + b"".join(struct.pack(word, n) for n in (*counts, *offsets)) + bytes(body)
    return table, bytes(tree_bytes), offsets[0]


def go_image(
    functions,
    version=GO_1_20,
    *,
    files=("main.go",),
    text=TEXT,
    stated_text=TEXT,
    machine=elf_layout.EM_X86_64,
    is_64=True,
    gofunc_word=40,
    section=".gopclntab",
    with_module=True,
    is_relocated=False,
    with_section_headers=True,
    edit=lambda table: table,
    **more,
):
    """Return an ELF file of functions that follow each other from `text` on.

    Its moduledata is as the linker leaves it, or if `is_relocated`, only in relocations.
    """
    quantum = _QUANTUM[machine]
    table, trees, names = go_table(
        functions,
        version,
        files=files,
        text=text,
        stated_text=stated_text,
        is_64=is_64,
        quantum=quantum,
    )
    size = sum(function.size for function in functions)
    words = [0] * 64
    words[0], words[1], words[22], words[gofunc_word] = TABLE, TABLE + names, text, TREES
    slots = [row for row, value in enumerate(words) if value]
    sections = [
        code(address=text, data=more.pop("text_bytes", b"\x90" * size)),
        Section(
            ".note.go.buildid",
            struct.pack("<III", 4, 4, 4) + b"Go\0\0" + b"abcd",
            elf_layout.SHT_NOTE,
            elf_layout.SHF_ALLOC,
        ),
        Section(section, edit(table), flags=elf_layout.SHF_ALLOC, addr=TABLE),
        Section(".rodata", trees or b"\0", flags=elf_layout.SHF_ALLOC, addr=TREES),
    ]
    if with_module:
        kind = "<64Q" if is_64 else "<64I"
        content = struct.pack(kind, *([0] * 64 if is_relocated else words))
        flags = elf_layout.SHF_ALLOC | elf_layout.SHF_WRITE
        sections.append(Section(".noptrdata", content, flags=flags, addr=MODULE))
    if is_relocated:
        entries = rela(
            [(MODULE + 8 * row, elf_layout.R_X86_64_RELATIVE, 0, words[row]) for row in slots]
        )
        where = MODULE + 0x10000
        dynamic = struct.pack("<4Q", elf_layout.DT_RELA, where, elf_layout.DT_RELASZ, len(entries))
        sections += [
            Section(".rela.dyn", entries, elf_layout.SHT_RELA, elf_layout.SHF_ALLOC, addr=where),
            Section(
                ".dynamic",
                dynamic,
                elf_layout.SHT_DYNAMIC,
                elf_layout.SHF_ALLOC,
                addr=where + 0x1000,
            ),
        ]
    return elf_file(
        sections=[*sections, *more.pop("sections", ())],
        machine=machine,
        is_64=is_64,
        with_section_headers=with_section_headers,
        **more,
    )
