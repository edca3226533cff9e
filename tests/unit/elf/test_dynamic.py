"""Dynamic symbols without section headers: the same as with them, for real libraries."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from builders.elf import Segment, elf_file
from prospect.elf import elf_layout
from prospect.elf.image import ElfImage
from prospect.elf.symbols import read_symbols, read_without_sections

SYSTEM = sorted(Path("/usr/lib").glob("*-linux-gnu/lib[a-d]*.so.*"))
SOURCE = "int one(void) { return 1; } int two(void) { return one(); } int data = 3;"


def without_headers(content: bytes) -> ElfImage:
    """Do what sstrip(1) and `strip --strip-section-headers` do to a 64-bit file."""
    stripped = bytearray(content)
    stripped[40:48] = bytes(8)  # e_shoff
    stripped[60:64] = bytes(4)  # e_shnum, e_shstrndx
    image = ElfImage.parse(bytes(stripped))
    assert not len(image.sections)
    return image


def compare(content: bytes) -> int:
    whole = ElfImage.parse(content)
    expected = read_symbols(whole, b".dynsym")
    image, found = read_without_sections(without_headers(content))
    assert expected
    assert found
    # The last of those that no hash table holds may be missing: they are imported.
    count = len(found)
    assert not expected.section[count:].any()
    for name in ("name", "value", "size", "kind", "binding"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)[:count])
    size = len(expected.strings)
    assert bytes(found.strings) == bytes(expected.strings[:size])
    is_code = np.append(whole.sections["flags"] & elf_layout.SHF_EXECINSTR, 0) != 0
    rows = np.flatnonzero(is_code.take(expected.section[:count]))
    assert (image.sections["flags"].take(found.section[rows]) & elf_layout.SHF_EXECINSTR).all()
    assert (found.section[rows] > 0).all()
    return len(rows)


@pytest.mark.skipif(not shutil.which("gcc"), reason="builds a library")
@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_either_hash_table_says_how_many_there_are(tmp_path: Path, style: str) -> None:
    library = tmp_path / "library.so"
    command = ["gcc", "-shared", "-fPIC", f"-Wl,--hash-style={style}", "-x", "c", "-"]
    subprocess.run([*command, "-o", library], input=SOURCE, text=True, check=True)
    assert compare(library.read_bytes()) >= 2


@pytest.mark.skipif(not SYSTEM, reason="needs a system's libraries")
def test_of_the_systems_libraries_the_same_symbols_are_read() -> None:
    libraries = [path for path in SYSTEM if path.is_file() and path.stat().st_size < 1 << 22]
    code = [compare(path.read_bytes()) for path in libraries[:40]]
    assert sum(code) > 100


def dynamic_image(entries: list[tuple[int, int]], area: bytes) -> ElfImage:
    """Make an image with a dynamic section and something that it points to at 0x1000."""
    table = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    start = 64 + 2 * 56
    segments = [
        Segment(elf_layout.PT_LOAD, 5, start, 0x1000, len(area)),
        Segment(elf_layout.PT_DYNAMIC, 4, start + len(area), 0, len(table)),
    ]
    head = elf_file(segments=segments, with_section_headers=False)[:start]
    return ElfImage.parse(head + area + table)


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [
            (elf_layout.DT_SYMTAB, 0x1000),
            (elf_layout.DT_STRTAB, 0x1000),
            (elf_layout.DT_STRSZ, 1 << 40),
        ],
        [(elf_layout.DT_SYMTAB, 0), (elf_layout.DT_STRTAB, 1 << 63), (elf_layout.DT_HASH, 0x1FFF)],
        [(elf_layout.DT_SYMTAB, 0x1000), (elf_layout.DT_GNU_HASH, 0x1000)],
    ],
)
@pytest.mark.parametrize("byte", [0, 1, 0x7F, 0xFF])
def test_nonsense_is_no_symbols_or_few(entries: list[tuple[int, int]], byte: int) -> None:
    image, found = read_without_sections(dynamic_image(entries, bytes([byte]) * 4096))
    assert len(image.sections) == 2
    assert found is None or len(found) <= 4096 // 24
