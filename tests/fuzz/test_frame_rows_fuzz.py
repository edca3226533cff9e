"""Any call-frame programs give rows that are sorted, and stacks that end; in bounded time."""

import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.eh_frame import cie, entry, frame_sections
from builders.elf import Section, code, elf_file
from builders.examples import examples
from builders.sframe import AARCH64, AMD64, PC_RELATIVE, Function, row, sframe
from builders.stack_copies import CODE, STACK, OneImage, samples
from prospect.elf import elf_layout
from prospect.elf.frame_rows import FrameRows, read_frame_rows
from prospect.elf.image import ElfImage
from prospect.unwind import interface
from prospect.unwind.unwinder import unwind


def read(name, content, machine=elf_layout.EM_X86_64):
    section = Section(name, content, flags=2, addr=0x6000)
    return read_frame_rows(ElfImage.parse(elf_file(sections=[code(), section], machine=machine)))


def check(rows):
    if rows is not None:
        assert (rows.start[1:] > rows.start[:-1]).all()
        assert (rows.rule >= 0).all()


@settings(max_examples=examples(300))
@given(
    st.binary(max_size=200),
    st.sampled_from([".eh_frame", ".debug_frame", ".sframe"]),
    st.sampled_from([elf_layout.EM_X86_64, elf_layout.EM_AARCH64]),
)
def test_any_bytes(content, name, machine):
    check(read(name, content, machine))


@settings(max_examples=examples(300))
@given(st.lists(st.binary(max_size=60), max_size=5), st.binary(max_size=30), st.booleans())
def test_any_programs(programs, initial, is_signal):
    letters = b"zRS" if is_signal else b"zR"
    out = bytearray(entry(cie(0x04, letters=letters, data=b"\x04") + initial))
    for number, program in enumerate(programs):
        body = struct.pack("<IQQ", len(out) + 4, 0x1000 + 0x100 * number, 0x180) + b"\0"
        out += entry(body + program)
    check(read(".eh_frame", bytes(out)))


sframe_functions = st.lists(
    st.builds(
        Function,
        start=st.integers(0x6000 - 2**31 + 4096, 2**31),
        size=st.integers(0, 2**32 - 1),
        rows=st.lists(st.binary(max_size=20), max_size=4),
        info=st.integers(0, 255),
        form=st.integers(0, 255),
        repeated=st.integers(0, 255),
        count=st.one_of(st.none(), st.integers(0, 2**16 - 1)),
    ),
    max_size=5,
)


@settings(max_examples=examples(300))
@given(
    sframe_functions,
    st.sampled_from([1, 2, 3]),
    st.sampled_from([(AMD64, elf_layout.EM_X86_64), (AARCH64, elf_layout.EM_AARCH64)]),
    st.integers(0, 255),
    st.tuples(st.integers(-128, 127), st.integers(-128, 127)),
    st.lists(st.tuples(st.integers(0, 200), st.binary(min_size=1, max_size=8)), max_size=3),
)
def test_any_sframe(functions, version, machine, flags, fixed, changes):  # noqa: PLR0917 - given by name
    content = bytearray(
        sframe(functions, version=version, abi=machine[0], flags=flags, fixed=fixed).data
    )
    for at, octets in changes:
        content[at : at + len(octets)] = octets
    check(read(".sframe", bytes(content), machine[1]))


def test_an_sframe_costs_what_its_bytes_cost():
    rows = [row(0, 8)] * (1 << 16)
    functions = [Function(0x1000 + 16 * n, 16, rows[:1]) for n in range(1 << 16)]
    contents = [
        sframe([Function(0x1000, 2**32 - 1, rows, count=2**16 - 1), *functions], version=2).data,
        sframe([Function(0x1000 + 16 * n, 16) for n in range(1 << 16)], flags=PC_RELATIVE).data,
        sframe([Function(0x1000, 1 << 20, [row(0, 8), row(1, 16)], 0x10, repeated=2)]).data,
        sframe([Function(0x1000, 2**32 - 1, [row(0, 8), row(1, 16)], 0x10, repeated=2)]).data,
    ]
    # Every function has the same rows.
    shared = bytearray(contents[0])
    for n in range(1 << 16):
        struct.pack_into("<II", shared, 28 + 20 * n + 8, 0, 2**16 - 1)
    begin = time.process_time()
    for content in (*contents, bytes(shared)):
        check(read(".sframe", content))
    assert time.process_time() - begin < 10


@pytest.mark.parametrize(
    "program",
    [
        b"\x0a" * (1 << 19),
        b"\x0a\x0b" * (1 << 18),
        b"\x41\x0e\x08" * (1 << 17),
        b"\x0f\x00" * (1 << 18),
        b"\x10\x06\x81\x80\x80" * (1 << 16),
        b"\x00" * (1 << 19),
        b"\x01" * (1 << 19),
    ],
    ids=["remember", "pairs", "rows", "expressions", "blocks", "nops", "set_loc"],
)
def test_long_programs_cost_what_their_bytes_cost(program):
    first = entry(cie(0x04))
    body = struct.pack("<IQQ", len(first) + 4, 0x1000, 1 << 40) + b"\0"
    begin = time.process_time()
    check(read(".eh_frame", first + entry(body + program)))
    assert time.process_time() - begin < 10


def test_entries_within_each_other_are_not_read_again_and_again():
    sections = frame_sections([(0x1000 + 16 * n, 16) for n in range(2000)], with_header=False)
    content = bytearray(sections[0].data)
    # Every FDE says that it goes on to the end of the section.
    offsets, at = [], 0
    while at + 4 < len(content):
        offsets.append(at)
        at += 4 + struct.unpack_from("<I", content, at)[0]
    for offset in offsets[1:]:
        struct.pack_into("<I", content, offset, len(content) - offset - 4)
    begin = time.process_time()
    check(read(".eh_frame", bytes(content)))
    assert time.process_time() - begin < 10


rules_of_any_kind = st.integers(0, 2**63 - 1)
addresses = st.one_of(
    st.integers(0, 2**64 - 1),
    st.integers(-3, 80).map(lambda n: STACK + 8 * n),
    st.integers(0, 0x500).map(lambda n: CODE + n),
)


@settings(max_examples=examples(200))
@given(
    st.lists(rules_of_any_kind, min_size=1, max_size=12),
    st.lists(
        st.tuples(addresses, addresses, st.lists(addresses, max_size=40), addresses), max_size=6
    ),
    st.sampled_from([elf_layout.EM_X86_64, elf_layout.EM_AARCH64]),
    st.sampled_from([interface.MODE_CFI, interface.MODE_FRAME_POINTER]),
)
def test_any_rules_and_any_stacks_end(packed, states, machine, mode):
    finder = OneImage({CODE - 0x1000 + 0x40 * n: rule for n, rule in enumerate(packed)})
    assert isinstance(finder.rows, FrameRows)
    asked = [
        {"pc": pc, "fp": fp, "words": words, 3: other, 30: other} for pc, fp, words, other in states
    ]
    unwound = unwind(
        samples(asked, machine=machine, registers=[3, 30]), finder, most_frames=64, mode=mode
    )
    assert len(unwound) == len(states)
    count = unwound.frames()
    assert ((count >= 0) & (count <= 64)).all()
    assert (unwound.end < len(interface.END_NAMES)).all()
    assert ((unwound.needed_bytes > 0) == (unwound.end == interface.END_CUT)).all()
    site = unwound.chains().site
    assert ((site >= 0) & (site < len(unwound.sites))).all()
