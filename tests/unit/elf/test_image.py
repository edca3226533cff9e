import struct

import numpy as np
import pytest

from builders.elf import Section, Segment, code, debug_link_section, elf_file
from prospect.elf import elf_layout
from prospect.elf.image import NO_ADDRESS, DebugLink, ElfImage
from prospect.errors import ElfError

BUILD_ID = bytes(range(20))


def addresses(*values):
    return np.array(values, np.uint64)


@pytest.mark.parametrize("is_64", [True, False])
def test_both_classes_give_the_same_headers(is_64):
    image = ElfImage.parse(elf_file(sections=[code()], build_id=BUILD_ID, is_64=is_64))
    assert image.is_64 == is_64
    assert (image.type, image.machine) == (elf_layout.ET_DYN, elf_layout.EM_X86_64)
    assert image.build_id == BUILD_ID
    text = image.sections[image.find_section(b".text")]
    assert (text["addr"], text["size"]) == (0x1000, 0x1000)
    assert image.damage == ()


def test_numbers_too_big_for_the_header_are_read_from_the_first_section():
    image = ElfImage.parse(elf_file(sections=[code()], build_id=BUILD_ID, extended_indexes=True))
    assert image.build_id == BUILD_ID
    assert image.find_section(b".shstrtab") == len(image.sections) - 1
    assert len(image.segments) == 2


def test_a_name_that_shares_the_end_of_another_is_found():
    image = ElfImage.parse(elf_file(sections=[Section(".rela.plt"), code(".plt")]))
    names = bytes(image.section_names)
    merged = bytearray(image.data)
    row = image.find_section(b".plt")
    header = int.from_bytes(merged[40:48], "little") + row * elf_layout.SHDR_64.itemsize
    struct.pack_into("<I", merged, header, names.index(b".rela.plt") + 5)
    merged_image = ElfImage.parse(merged)
    assert merged_image.find_section(b".plt") == row
    assert merged_image.find_section(b".rela") == -1


def test_build_id_is_found_without_section_headers():
    image = ElfImage.parse(
        elf_file(sections=[code()], build_id=BUILD_ID, with_section_headers=False)
    )
    assert len(image.sections) == 0
    assert image.build_id == BUILD_ID


def test_build_id_is_found_without_segments():
    image = ElfImage.parse(elf_file(sections=[code()], build_id=BUILD_ID, segments=[]))
    assert image.build_id == BUILD_ID


def test_an_image_without_notes_has_no_build_id():
    assert ElfImage.parse(elf_file(sections=[code()])).build_id is None


def test_debug_link_has_name_and_checksum():
    image = ElfImage.parse(elf_file(sections=[debug_link_section("a.debug", 0xDEADBEEF)]))
    assert image.debug_link == DebugLink(b"a.debug", 0xDEADBEEF)


@pytest.mark.parametrize("name", ["../../etc/shadow", "/etc/shadow", "..", ""])
def test_a_debug_link_cannot_lead_out_of_its_directory(name):
    assert ElfImage.parse(elf_file(sections=[debug_link_section(name, 1)])).debug_link is None


def test_offsets_and_addresses_convert_both_ways():
    segments = [
        Segment(flags=4, offset=0, vaddr=0x400000, filesz=0x100),
        Segment(flags=5, offset=0x100, vaddr=0x401100, filesz=0x200, memsz=0x400),
    ]
    image = ElfImage.parse(elf_file(segments=segments))
    svma = image.svma_of_offset(addresses(0, 0xFF, 0x100, 0x2FF, 0x300))
    assert svma.tolist() == [0x400000, 0x4000FF, 0x401100, 0x4012FF, NO_ADDRESS]
    offset = image.offset_of_svma(addresses(0x400000, 0x4012FF, 0x401300, 0x3FFFFF))
    assert offset.tolist() == [0, 0x2FF, NO_ADDRESS, NO_ADDRESS]


def test_an_executable_segment_wins_where_offsets_overlap():
    segments = [
        Segment(flags=5, offset=0, vaddr=0x400000, filesz=0x200),
        Segment(flags=6, offset=0x100, vaddr=0x600100, filesz=0x200),
    ]
    image = ElfImage.parse(elf_file(segments=segments))
    assert image.svma_of_offset(addresses(0x180, 0x280)).tolist() == [0x400180, 0x600280]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not an ELF"),
        (b"\x7fELF", "not an ELF"),
        (b"#!/bin/sh\nexit 0\n", "not an ELF"),
        (elf_file()[:40], "cut off"),
        (elf_file(byte_order=elf_layout.ELFDATA2MSB), "big-endian"),
        (b"\x7fELF\x07\x01\x01" + bytes(60), "unknown class"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(data, reason):
    with pytest.raises(ElfError, match=reason):
        ElfImage.parse(data)


def test_headers_outside_the_file_leave_a_partial_image_that_says_so():
    whole = elf_file(sections=[code()], build_id=BUILD_ID)
    cut = ElfImage.parse(whole[: len(whole) - 64])
    assert len(cut.sections) == 0
    assert cut.build_id == BUILD_ID
    assert cut.damage == ("section headers lie outside the file",)


def test_section_data_is_empty_where_the_file_does_not_hold_it():
    sections = [
        Section("beyond", b"x", size=1 << 40),
        Section("zeros", type=elf_layout.SHT_NOBITS, size=8),
        Section("packed", b"xxxx", flags=elf_layout.SHF_COMPRESSED),
    ]
    image = ElfImage.parse(elf_file(sections=sections))
    for name in (b"beyond", b"zeros", b"packed", b"absent"):
        assert bytes(image.section_data(image.find_section(name))) == b""
