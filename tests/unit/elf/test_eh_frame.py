import struct

import numpy as np
import pytest

from builders.eh_frame import (
    cie,
    eh_frame,
    eh_frame_header,
    entry,
    frame_sections,
    sleb128,
    uleb128,
)
from builders.elf import Section, Segment, code, elf_file
from prospect.elf import elf_layout
from prospect.elf.frame_entries import EhData, parse_cie, read_frames, walk_entries
from prospect.elf.image import ElfImage

FUNCTIONS = [(0x1000, 0x20), (0x1020, 0x31), (0x1100, 0x400)]


def frames_of(*sections, **keywords):
    return read_frames(ElfImage.parse(elf_file(sections=[code(), *sections], **keywords)))


def ranges(frames):
    return [(s, e - s) for s, e in zip(frames.start.tolist(), frames.end.tolist(), strict=True)]


def data_of(content, address=0x6000, pointer_bytes=8):
    return EhData(memoryview(content), address, pointer_bytes)


@pytest.mark.parametrize("with_header", [True, False])
@pytest.mark.parametrize(
    "encoding", [0x1B, 0x1C, 0x00, 0x03, 0x04, 0x0B, 0x0C, 0x02, 0x01, 0x10, 0x14]
)
def test_functions_are_found_in_every_encoding(encoding, with_header):
    frames = frames_of(*frame_sections(FUNCTIONS, encoding=encoding, with_header=with_header))
    assert ranges(frames) == FUNCTIONS


@pytest.mark.parametrize("encoding", [0x1A, 0x09])
def test_signed_encodings_reach_backwards(encoding):
    frames = frames_of(*frame_sections(FUNCTIONS, encoding=encoding))
    assert ranges(frames) == FUNCTIONS


@pytest.mark.parametrize("encoding", [0x9B, 0x3B, 0x2B, 0x4B, 0x0F, 0xFF])
def test_what_the_file_alone_does_not_resolve_is_left_out(encoding):
    data, _ = eh_frame(FUNCTIONS)
    damaged = bytearray(data)
    damaged[damaged.index(0x1B)] = encoding
    assert frames_of(Section(".eh_frame", bytes(damaged), flags=2, addr=0x6000)) is None


def test_functions_come_by_address_though_they_do_not_lie_so():
    assert ranges(frames_of(*frame_sections(FUNCTIONS[::-1], with_header=False))) == FUNCTIONS


@pytest.mark.parametrize("version", [1, 3, 4])
def test_every_version_of_a_cie_is_read(version):
    data, _ = eh_frame(FUNCTIONS, version=version)
    entry_ = parse_cie(data_of(data), 0)
    assert (entry_.code_alignment, entry_.data_alignment, entry_.return_register) == (1, -8, 16)
    assert data[entry_.program : entry_.program + 5] == b"\x0c\x07\x08\x90\x01"
    assert ranges(frames_of(Section(".eh_frame", data, flags=2, addr=0x6000))) == FUNCTIONS


def test_a_cie_without_augmentation_has_absolute_pointers():
    data, _ = eh_frame(FUNCTIONS, encoding=0x00, letters=b"")
    assert ranges(frames_of(Section(".eh_frame", data, flags=2, addr=0x6000))) == FUNCTIONS


def test_what_a_cie_says_beside_the_encoding_is_read():
    data = b"\x9b" + struct.pack("<i", 5) + b"\x1b\x1b"
    parsed = parse_cie(data_of(entry(cie(letters=b"zPLRS", data=data))), 0)
    assert parsed.augmentation == b"zPLRS"
    assert (parsed.lsda_encoding, parsed.fde_encoding) == (0x1B, 0x1B)
    assert parsed.is_signal_frame
    assert not parse_cie(data_of(entry(cie())), 0).is_signal_frame


@pytest.mark.parametrize(
    "personality", [b"\x00" + bytes(8), b"\x02\0\0", b"\x0c" + bytes(8), b"\x01\x81\x01", b"\xff"]
)
def test_a_personality_of_any_size_is_passed_over(personality):
    parsed = parse_cie(data_of(entry(cie(letters=b"zPR", data=personality + b"\x1b"))), 0)
    assert parsed.fde_encoding == 0x1B


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x10\0\0",
        entry(cie(version=2)),
        entry(cie(letters=b"eh")),
        entry(cie(letters=b"zXR")),
        entry(cie(letters=b"z" + b"S" * 20)),
        entry(struct.pack("<I", 1)),
        entry(cie())[:-9],
        struct.pack("<I", 4) + bytes(4),
    ],
)
def test_what_is_no_cie_is_none(content):
    assert parse_cie(data_of(content), 0) is None


def test_entries_with_a_wide_length_are_read():
    for with_header in (True, False):
        frames = frames_of(*frame_sections(FUNCTIONS, wide=True, with_header=with_header))
        assert ranges(frames) == FUNCTIONS


def test_an_image_of_32_bits_has_addresses_of_32_bits():
    functions = [(0xFFFF1000, 0x20)]
    data, _ = eh_frame(functions, is_64=False, encoding=0x00)
    section = Section(".eh_frame", data, flags=2, addr=0x6000)
    assert ranges(frames_of(section, is_64=False, machine=elf_layout.EM_386)) == functions


def test_the_walk_ends_at_the_terminator():
    data, offsets = eh_frame(FUNCTIONS)
    more, _ = eh_frame([(0x1800, 8)], terminated=False)
    assert walk_entries(data_of(data + more)).tolist() == [0, *offsets]


@pytest.mark.parametrize("count", [1000, 2**32 - 1])
def test_a_header_that_claims_more_than_it_has_is_read_as_far_as_it_goes(count):
    data, offsets = eh_frame(FUNCTIONS)
    header = bytearray(eh_frame_header([(FUNCTIONS[0][0], offsets[0])]))
    header[8:12] = struct.pack("<I", count)
    sections = [
        Section(".eh_frame", data, flags=2, addr=0x6000),
        Section(".eh_frame_hdr", bytes(header), flags=2, addr=0x5000),
    ]
    assert ranges(frames_of(*sections)) == FUNCTIONS[:1]


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_without_a_usable_header_the_entries_are_walked(at):
    data, _ = eh_frame(FUNCTIONS)
    header = bytearray(eh_frame_header([]))
    header[at] = 0xFF
    sections = [
        Section(".eh_frame", data, flags=2, addr=0x6000),
        Section(".eh_frame_hdr", bytes(header), flags=2, addr=0x5000),
    ]
    assert ranges(frames_of(*sections)) == FUNCTIONS


@pytest.mark.parametrize("table", [0x3B, 0x3C, 0x33, 0x0B, 0x04])
def test_the_table_of_the_header_is_read_in_every_encoding(table):
    data, offsets = eh_frame(FUNCTIONS)
    listed = [(FUNCTIONS[1][0], offsets[1])]
    sections = [
        Section(".eh_frame", data, flags=2, addr=0x6000),
        Section(".eh_frame_hdr", eh_frame_header(listed, table=table), flags=2, addr=0x5000),
    ]
    assert ranges(frames_of(*sections)) == FUNCTIONS[1:2]


def test_without_section_headers_the_segments_lead_to_the_entries():
    data, offsets = eh_frame(FUNCTIONS)
    header = eh_frame_header(list(zip((s for s, _ in FUNCTIONS), offsets, strict=True)))
    sections = [
        Section(".eh_frame_hdr", header, flags=2, addr=0x5000),
        Section(".eh_frame", data, flags=2, addr=0x6000),
    ]
    whole = elf_file(sections=sections)
    places = ElfImage.parse(whole).sections["offset"].tolist()
    # The program headers lie before the sections and move them.
    moved = 3 * 56 - 2 * 56
    moved += -(64 + 3 * 56) % 16 - (-(64 + 2 * 56) % 16)
    segments = [
        Segment(elf_layout.PT_GNU_EH_FRAME, 4, places[1] + moved, 0x5000, len(header)),
        Segment(elf_layout.PT_LOAD, 4, places[1] + moved, 0x5000, len(header)),
        Segment(elf_layout.PT_LOAD, 4, places[2] + moved, 0x6000, len(data)),
    ]
    bare = elf_file(sections=sections, segments=segments, with_section_headers=False)
    assert ranges(read_frames(ElfImage.parse(bare))) == FUNCTIONS


def test_an_image_without_frames_has_none():
    assert frames_of() is None
    debug = Section(".eh_frame", type=elf_layout.SHT_NOBITS, flags=2, addr=0x6000, size=64)
    assert frames_of(debug) is None


def test_entries_of_no_bytes_or_round_the_end_of_memory_are_left_out():
    functions = [(0x1000, 0), (0x1000, 0x10), (2**64 - 8, 16)]
    data, _ = eh_frame(functions, encoding=0x04)
    section = Section(".eh_frame", data, flags=2, addr=0x6000)
    assert ranges(frames_of(section)) == [(0x1000, 0x10)]


def test_what_is_left_of_an_entry_is_its_augmentation_and_program():
    frames = frames_of(*frame_sections(FUNCTIONS))
    content = frames.data.content
    for rest, limit in zip(frames.rest.tolist(), frames.limit.tolist(), strict=True):
        assert bytes(content[rest:limit]).strip(b"\0") == b""
    assert frames.cie.tolist() == [0, 0, 0]
    assert frames.cies[0].offset == 0


def test_numbers_of_variable_length_are_read():
    values = [0, 1, 63, 64, 127, 128, 2**31, 2**62, 2**63 - 1]
    text = b"".join(map(uleb128, values))
    position, at = [], 0
    for value in values:
        position.append(at)
        at += len(uleb128(value))
    read, following = data_of(text).leb128(np.array(position), signed=False)
    assert read.tolist() == values
    assert following.tolist() == [*position[1:], at]


def test_signed_numbers_of_variable_length_are_read():
    values = [0, 1, -1, 63, 64, -64, -65, 2**31, -(2**31), -(2**62), -(2**63)]
    position = np.cumsum([0, *(len(sleb128(value)) for value in values[:-1])])
    read, _ = data_of(b"".join(map(sleb128, values))).leb128(position, signed=True)
    assert read.tolist() == values


def test_a_number_that_does_not_end_leads_beyond_the_section():
    for text in (b"\x80" * 4, b"\x80" * 20):
        _, following = data_of(text).leb128(np.array([0, 2]), signed=False)
        assert (following > len(text)).all()


def test_what_lies_outside_reads_as_zero():
    assert data_of(b"\xff" * 6).fixed(np.array([-1, 0, 2, 3, 99]), "<u4").tolist() == [
        0,
        0xFFFFFFFF,
        0xFFFFFFFF,
        0,
        0,
    ]
