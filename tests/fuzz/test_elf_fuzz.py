"""Any bytes give an image and a table, or an ElfError; in bounded time and memory."""

import struct
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from builders.elf import Section, Symbol, code, debug_link_section, elf_file, rela
from builders.examples import examples
from builders.go_table import TEXT, VERSIONS, GoFunction, go_image
from prospect.elf import elf_layout
from prospect.elf.frame_rows import read_frame_rows
from prospect.elf.go_table import read_go_table
from prospect.elf.image import ElfImage
from prospect.errors import ElfError
from prospect.lines.finder import go_frames
from prospect.lines.lines_limits import DEEPEST
from prospect.symbols.images.image_symbols import read_symbol_table

SYMBOLS = [
    Symbol("f", 0x1000, 16),
    Symbol("_f", 0x1000, 16),
    Symbol("g", 0x1020),
    Symbol("label", 0x1028, kind=elf_layout.STT_NOTYPE),
]


def seed(**keywords):
    stub = b"\xff\x25" + struct.pack("<i", 0x4000 - 0x506) + b"\x90" * 10
    sections = [
        code(),
        Section(".plt", stub, flags=6, addr=0x500, entsize=16),
        Section(".rela.plt", rela([(0x4000, 7, 1, 0)]), elf_layout.SHT_RELA),
        debug_link_section("a.debug", 1),
    ]
    keywords = {"symbols": SYMBOLS, "dynamic_symbols": SYMBOLS, "build_id": bytes(20)} | keywords
    return elf_file(sections=sections, **keywords)


SEEDS = [
    seed(),
    seed(symbols=None),
    seed(is_64=False),
    seed(extended_indexes=True),
    seed(machine=elf_layout.EM_AARCH64),
    seed(machine=elf_layout.EM_ARM, is_64=False),
]
GO_FUNCTIONS = [
    GoFunction(
        f"main.f{number}",
        64,
        frame=((0, 8), (40, 56)),
        lines=((7, 32), (9, 32)),
        files=((0, 64),),
        calls=((-1, 32), (0, 32)),
        tree=(("main.inlined", 8),),
    )
    for number in range(4)
]
GO_SEEDS = [go_image(GO_FUNCTIONS, version) for version in VERSIONS]
GO_SEEDS.append(go_image(GO_FUNCTIONS, is_relocated=True, with_section_headers=False))
# Values at which sums wrap, signs change and counts explode.
EDGES = [0, 1, 7, 0xFF, 0x7FFF, 0xFF00, 0xFFFF, 2**31, 2**32 - 1, 2**63, 2**64 - 8, 2**64 - 1]


def exercise(data):
    try:
        image = ElfImage.parse(data)
    except ElfError:
        return
    table = read_symbol_table(image, image)
    stripped = read_symbol_table(image)
    assert image.build_id is None or isinstance(image.build_id, bytes)
    assert image.debug_link is None or b"/" not in image.debug_link.name
    address = np.array([0, 0x500, 0x1000, 0x1010, 0x1FFF, 2**63, 2**64 - 1], np.uint64)
    image.svma_of_offset(address)
    image.offset_of_svma(address)
    for one in (table, stripped):
        rows = one.lookup(address)
        assert ((rows >= -1) & (rows < len(one))).all()
        assert (one.end > one.start).all()
        for row in rows[rows >= 0].tolist():
            one.name(row)
            one.alias_names(row)


def exercise_go(data):
    try:
        image = ElfImage.parse(data)
    except ElfError:
        return
    read_symbol_table(image)
    read_frame_rows(image)
    table = read_go_table(image)
    if table is not None:
        frames = go_frames(table, np.arange(TEXT - 8, TEXT + 272, dtype=np.uint64))
        assert len(frames.line) <= 280 * DEEPEST


@given(st.binary(max_size=400))
def test_any_bytes(data):
    exercise(data)
    exercise(b"\x7fELF\x02\x01\x01" + data)
    exercise(b"\x7fELF\x01\x01\x01" + data)


@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(SEEDS),
    st.lists(
        st.tuples(
            st.floats(0, 1, exclude_max=True), st.sampled_from(EDGES), st.sampled_from([1, 2, 4, 8])
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_sound_images_with_damaged_words(data, damage):
    damaged = bytearray(data)
    for place, value, size in damage:
        # Headers and tables, at both ends, are worth more than the code between them.
        position = int(place * 2 * 1600)
        position = position if position < 1600 else len(data) - 3200 + position
        position = min(max(position, 5), len(data) - 8) // size * size
        damaged[position : position + size] = (value % 2 ** (8 * size)).to_bytes(size, "little")
    exercise(damaged)


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(GO_SEEDS),
    st.lists(
        st.tuples(
            st.floats(0, 1, exclude_max=True), st.sampled_from(EDGES), st.sampled_from([1, 2, 4, 8])
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_go_tables_with_damaged_words(data, damage):
    damaged = bytearray(data)
    for place, value, size in damage:
        position = min(int(place * len(data)), len(data) - 8) // size * size
        damaged[position : position + size] = (value % 2 ** (8 * size)).to_bytes(size, "little")
    exercise_go(damaged)


@given(st.sampled_from(SEEDS), st.floats(0, 1))
@example(SEEDS[0], 0.999)
def test_sound_images_cut_off(data, share):
    exercise(data[: int(len(data) * share)])


def big_image(**fields):
    """A megabyte of header tables: each entry costs, however many the header claims."""
    data = bytearray(1 << 20)
    data[:7] = b"\x7fELF\x02\x01\x01"
    header = np.frombuffer(data, elf_layout.EHDR_64, 1)
    header["shentsize"], header["phentsize"] = 64, 56
    for name, value in fields.items():
        header[name] = value
    return data


def note_segments():
    data = big_image(phoff=64, phnum=0xFFFF, shoff=64)
    table = np.frombuffer(data, elf_layout.PHDR_64, 18000, 64)
    table["type"], table["offset"], table["filesz"] = elf_layout.PT_NOTE, 0x100, 1 << 19
    return data


def overlapping_sections():
    """Sixteen thousand sections, each of them the symbol table and strings of the others."""
    data = big_image(shoff=64, shnum=16000, shstrndx=1)
    table = np.frombuffer(data, elf_layout.SHDR_64, 16000, 64)
    table["type"] = elf_layout.SHT_SYMTAB
    table["flags"] = elf_layout.SHF_EXECINSTR | elf_layout.SHF_ALLOC
    table["size"], table["offset"], table["link"] = 1 << 20, 0, 1
    return data


def symbols_with_one_endless_name():
    """Symbols of code whose names all begin in one text without a NUL, at one address."""
    rows = np.zeros(20000, elf_layout.SYM_64)
    rows["name"][1:], rows["info"][1:], rows["shndx"][1:] = 1, 0x12, 1
    rows["value"][1:] = 0x1000
    sections = [
        code(),
        Section(".dynsym", rows.tobytes(), elf_layout.SHT_DYNSYM, link=".dynstr"),
        Section(".dynstr", b"_" * (1 << 20), elf_layout.SHT_STRTAB),
    ]
    return elf_file(sections=sections)


def nested_symbols():
    """Each symbol inside the one before."""
    rows = np.zeros(50000, elf_layout.SYM_64)
    number = np.arange(len(rows), dtype=np.uint64)
    rows["name"], rows["info"], rows["shndx"] = 1, 0x12, 1
    rows["value"], rows["size"] = 0x1000 + number, 200000 - 2 * number
    sections = [
        code(size=300000),
        Section(".symtab", rows.tobytes(), elf_layout.SHT_SYMTAB, link=".strtab"),
        Section(".strtab", b"\0f\0", elf_layout.SHT_STRTAB),
    ]
    return elf_file(sections=sections)


@pytest.mark.parametrize(
    "data",
    [
        big_image(shoff=64, shnum=0xFFFF, phoff=64, phnum=0xFFFF),
        big_image(shoff=2**64 - 64, shnum=2),
        note_segments(),
        overlapping_sections(),
        symbols_with_one_endless_name(),
        nested_symbols(),
    ],
    ids=["counts", "wrapped", "notes", "overlapping", "endless-name", "nested"],
)
def test_what_a_hostile_image_costs_is_bounded_by_its_size(data):
    tracemalloc.start()
    begin = time.process_time()
    exercise(data)
    seconds = time.process_time() - begin
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 5
    assert peak < 100 * len(data)
