"""Any .eh_frame gives a sorted table of what lies in it, or none; in bounded time and memory."""

import struct
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from builders.eh_frame import cie, eh_frame, entry, frame_sections
from builders.elf import Section, Symbol, code, elf_file
from builders.examples import examples
from prospect.elf.elf_limits import MOST_ENTRIES
from prospect.elf.frame_entries import EhData, parse_cie, read_frames, walk_entries
from prospect.elf.image import ElfImage
from prospect.symbols.images.image_symbols import read_symbol_table

FUNCTIONS = [(0x1000 + 0x20 * number, 0x18 + number % 8) for number in range(40)]
EXPORTED = [Symbol("first", 0x1040, 0x10), Symbol("second", 0x1200, 0), Symbol("third", 0x1400, 8)]
EDGES = [0, 1, 4, 0x7F, 0x80, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]


def image(sections, **keywords):
    return ElfImage.parse(elf_file(sections=[code(), *sections], **keywords))


def exercise(parsed):
    frames = read_frames(parsed)
    if frames is not None:
        assert (frames.end > frames.start).all()
        assert (frames.start[1:] >= frames.start[:-1]).all()
        assert ((frames.cie >= 0) & (frames.cie < len(frames.cies))).all()
        assert ((frames.rest >= 0) & (frames.rest <= frames.limit)).all()
        assert (frames.limit <= len(frames.data)).all()
    table = read_symbol_table(parsed)
    assert (table.start[1:] > table.start[:-1]).all()
    assert (table.end > table.start).all()
    table.names(range(min(len(table), 50)))


@given(st.binary(max_size=300))
@example(struct.pack("<IQ", 0xFFFFFFFF, 2**64 - 1))
@example(struct.pack("<IQ", 0xFFFFFFFF, 2**63))
def test_any_bytes(content):
    data = EhData(memoryview(content), 0x6000, 8)
    walk_entries(data)
    for offset in range(0, len(content), 7):
        parse_cie(data, offset)
    sections = [Section(".eh_frame", content, flags=2, addr=0x6000)]
    exercise(image(sections, dynamic_symbols=EXPORTED))
    header = Section(".eh_frame_hdr", b"\x01" + content, flags=2, addr=0x5000)
    frames = Section(".eh_frame", eh_frame(FUNCTIONS)[0], flags=2, addr=0x6000)
    exercise(image([header, frames], dynamic_symbols=EXPORTED))


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([0x1B, 0x00, 0x01, 0x09, 0x0C]),
    st.booleans(),
    st.lists(
        st.tuples(
            st.floats(0, 1, exclude_max=True), st.sampled_from(EDGES), st.sampled_from([1, 4])
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_sound_entries_with_damaged_words(encoding, with_header, damage):
    sections = []
    for section in frame_sections(FUNCTIONS, encoding=encoding, with_header=with_header):
        content = bytearray(section.data)
        for place, value, size in damage:
            at = int(place * (len(content) - size))
            content[at : at + size] = (value % 2 ** (8 * size)).to_bytes(size, "little")
        sections.append(Section(section.name, bytes(content), flags=2, addr=section.addr))
    exercise(image(sections, dynamic_symbols=EXPORTED))
    exercise(image(sections))


def smallest_entries():
    """Entries of eight bytes, none of them sound."""
    return struct.pack("<II", 4, 0) * (1 << 17)


def a_cie_for_each():
    """Every other entry a CIE, and an FDE that refers to it."""
    one = entry(cie())
    body = struct.pack("<IiI", len(one) + 4, 0x1000, 8) + b"\0"
    return (one + entry(body)) * 20000


def nested():
    """Each function inside the one before."""
    functions = [(0x1000 + number, 0x40000 - 2 * number) for number in range(20000)]
    return eh_frame(functions, encoding=0x04)[0]


@pytest.mark.parametrize(
    "content",
    [smallest_entries(), a_cie_for_each(), nested(), b"\x80" * (1 << 20)],
    ids=["smallest", "cies", "nested", "endless"],
)
def test_what_hostile_frames_cost_is_bounded_by_their_size(content):
    section = Section(".eh_frame", content, flags=2, addr=0x600000)
    parsed = image([section, code(".more", 0x10000, size=0x100000)], dynamic_symbols=EXPORTED)
    tracemalloc.start()
    begin = time.process_time()
    exercise(parsed)
    seconds = time.process_time() - begin
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 10
    assert peak < 100 * len(content)


def test_a_table_that_lists_one_entry_again_and_again_gives_it_once():
    data, offsets = eh_frame(FUNCTIONS[:1])
    listed = struct.pack("<ii", -0x4000, 0x1000 + offsets[0]) * 100000
    header = bytes([1, 0x1B, 0x03, 0x3B]) + struct.pack("<iI", 0xFFC, 100000) + listed
    sections = [
        Section(".eh_frame", data, flags=2, addr=0x6000),
        Section(".eh_frame_hdr", header, flags=2, addr=0x5000),
    ]
    assert len(read_frames(image(sections))) == 1


def test_the_walk_stops_at_its_limit():
    entries = np.zeros(2 * (MOST_ENTRIES + 1000), "<u4")
    entries[::2] = 4
    data = EhData(memoryview(entries.tobytes()), 0, 8)
    assert len(walk_entries(data)) == MOST_ENTRIES
