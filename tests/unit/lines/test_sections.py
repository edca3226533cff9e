"""Sections that were packed: what they unpack to, and what of that there is memory for."""

import os
import struct
import zlib

import pytest

from builders.elf import Section, code, elf_file
from prospect.elf import elf_layout
from prospect.elf.image import ElfImage
from prospect.files.budget import CostlyError, of_others
from prospect.lines.dwarf import Sections, section
from prospect.lines.lines_limits import LARGEST_SECTION_BYTES

ZLIB, ZSTD = 1, 2
TEXT = os.urandom(300_000) + bytes(3_000_000) + b"end"


def packed(kind, data):
    zstandard = pytest.importorskip("zstandard") if kind == ZSTD else None
    return zlib.compress(data) if kind == ZLIB else zstandard.ZstdCompressor().compress(data)


def image_of(content, size, kind=ZLIB):
    data = struct.pack("<IIQQ", kind, 0, size, 1) + content
    part = Section(".debug_x", data, flags=elf_layout.SHF_COMPRESSED)
    return ElfImage.parse(elf_file(sections=[code(), part]))


@pytest.mark.parametrize("kind", [ZLIB, ZSTD])
def test_a_packed_section_is_unpacked(kind):
    for trailing in (b"", bytes(1 << 20)):
        image = image_of(packed(kind, TEXT) + trailing, len(TEXT), kind)
        assert bytes(section(image, b".debug_x")) == TEXT
    assert bytes(section(image_of(packed(kind, TEXT), 7, kind), b".debug_x")) == TEXT[:7]
    assert bytes(section(image_of(packed(kind, TEXT), 10**7, kind), b".debug_x")) == TEXT


@pytest.mark.parametrize("kind", [ZLIB, ZSTD, 77])
def test_what_is_damaged_or_claims_too_much_is_none(kind):
    good = packed(kind, TEXT) if kind != 77 else TEXT
    for content, size in ((b"\xff" * 99, 99), (good, LARGEST_SECTION_BYTES + 1), (good, 0)):
        assert not len(section(image_of(content, size, kind), b".debug_x"))


def test_sections_are_unpacked_once_and_while_there_is_memory(monkeypatch):
    image = image_of(packed(ZLIB, TEXT), len(TEXT))
    before = of_others.bytes
    sections = Sections(image)
    assert sections(b".debug_x") is sections(b".debug_x")
    assert of_others.bytes - before == len(TEXT)
    monkeypatch.setenv("PROSPECT_MEMORY", str(before + 2 * len(TEXT) - 1))
    with pytest.raises(CostlyError):
        section(image, b".debug_x")
    del sections
    assert of_others.bytes == before
    assert len(section(image, b".debug_x")) == len(TEXT)
