import struct
import zlib

import numpy as np
import pytest
import zstandard

from builders.eh_frame import cie, entry, sleb128, uleb128
from builders.elf import Section, code, elf_file
from prospect.elf import elf_layout
from prospect.elf import frame_rules as rules
from prospect.elf import frame_steps as expressions
from prospect.elf.frame_entries import read_debug_frames
from prospect.elf.frame_rows import read_frame_rows
from prospect.elf.image import ElfImage

START, SIZE = 0x1000, 0x80
PUSH_RBP = b"\x41\x0e\x10\x86\x02\x43\x0d\x06"  # push %rbp; mov %rsp, %rbp


def parse(*sections, **keywords):
    return ElfImage.parse(elf_file(sections=[*sections], **keywords))


def debug_frame(program, *, wide=False, version=4):
    """One CIE and one FDE of .debug_frame."""
    number = b"\xff" * (8 if wide else 4)
    head = cie(version=version, letters=b"")[4:]
    first = entry(number + head, wide=wide)
    pointer = struct.pack("<Q" if wide else "<I", 0)
    return first + entry(pointer + struct.pack("<QQ", START, SIZE) + program, wide=wide)


def eh_frame(program, *, letters=b"zR", start=START):
    first = entry(cie(0x04, letters=letters, data=b"\x04"))
    body = struct.pack("<IQQ", len(first) + 4, start, SIZE) + b"\0" + program
    return first + entry(body) + bytes(4)


def look_up(rows, *addresses):
    return rows.look_up(np.array(addresses, np.uint64)).tolist()


def kinds(rows, *addresses):
    return [rule >> rules.KIND_SHIFT for rule in look_up(rows, *addresses)]


@pytest.mark.parametrize("version", [1, 3, 4])
@pytest.mark.parametrize("wide", [False, True])
def test_debug_frame(version, wide):
    content = debug_frame(PUSH_RBP, wide=wide, version=version)
    image = parse(code(), Section(".debug_frame", content))
    assert len(read_debug_frames(image)) == 1
    rows = read_frame_rows(image)
    rule = rows.look_up(np.array([START, START + 1, START + 4, START + SIZE], np.uint64))
    assert (rule >> rules.KIND_SHIFT).tolist() == [0, 0, 1, rules.KIND_ABSENT]
    assert rules.cfa_bytes(rule[:3]).tolist() == [8, 16, 16]
    assert rules.fp_bytes(rule[1:3]).tolist() == [-16, -16]


@pytest.mark.parametrize(
    ("kind", "pack"), [(1, zlib.compress), (2, zstandard.ZstdCompressor().compress)]
)
def test_debug_frame_of_the_debug_file_compressed(kind, pack):
    content = debug_frame(PUSH_RBP)
    packed = struct.pack("<IIQQ", kind, 0, len(content), 8) + pack(content)
    section = Section(".debug_frame", packed, flags=elf_layout.SHF_COMPRESSED)
    rows = read_frame_rows(parse(code()), parse(section))
    assert kinds(rows, START, START + 4) == [rules.KIND_SP, rules.KIND_FP]


def test_a_compressed_section_that_is_not_what_it_says():
    heads = [(1, 0, 1 << 40, 8), (2, 0, 99, 8), (3, 0, 99, 8)]
    for packed in (b"", bytes(30), *(struct.pack("<IIQQ", *head) + bytes(9) for head in heads)):
        section = Section(".debug_frame", packed, flags=elf_layout.SHF_COMPRESSED)
        assert read_debug_frames(parse(code(), section)) is None


def test_eh_frame_goes_before_debug_frame():
    image = parse(
        code(),
        Section(".debug_frame", debug_frame(PUSH_RBP)),
        Section(".eh_frame", eh_frame(b"\x41\x0e\x20", start=START), flags=2, addr=0x6000),
    )
    rule = np.array(look_up(read_frame_rows(image), START + 4))
    assert rules.cfa_bytes(rule).tolist() == [32]


def test_the_outermost_function_has_no_caller():
    section = Section(".eh_frame", eh_frame(b"\x07\x10"), flags=2, addr=0x6000)
    assert kinds(read_frame_rows(parse(code(), section)), START) == [rules.KIND_END]


def test_a_signal_trampoline_by_its_description():
    def at(register, distance):
        block = b"\x77" + sleb128(distance)
        return b"\x10" + uleb128(register) + uleb128(len(block)) + block

    cfa = b"\x77" + sleb128(160) + b"\x06"
    program = b"\x0f" + uleb128(len(cfa)) + cfa + at(6, 120) + at(16, 168)
    section = Section(".eh_frame", eh_frame(program, letters=b"zRS"), flags=2, addr=0x6000)
    rule = np.array(look_up(read_frame_rows(parse(code(), section)), START))
    assert (rule >> rules.KIND_SHIFT).tolist() == [rules.KIND_SIGNAL]
    assert rules.cfa_bytes(rule).tolist() == [160]


@pytest.mark.parametrize(
    ("machine", "instructions", "saved_sp"),
    [
        (elf_layout.EM_X86_64, "48c7c00f0000000f05", 160),
        (elf_layout.EM_X86_64, "b80f0000000f05", 160),
        (elf_layout.EM_AARCH64, "681180d2010000d4", 560),
    ],
)
def test_a_signal_trampoline_by_its_instructions(machine, instructions, saved_sp):
    octets = bytes.fromhex(instructions)
    content = b"\x90" * 32 + octets + b"\x90" * 32
    section = Section(".text", content, flags=6, addr=0x2000)
    image = parse(section, machine=machine)
    load = image.segments[image.segments["type"] == elf_layout.PT_LOAD][0]
    at = int(load["vaddr"]) + content.index(octets) + int(image.sections[1]["offset"])
    at -= int(load["offset"])
    rule = np.array(look_up(read_frame_rows(image), at - 1, at, at + len(octets)))
    assert (rule >> rules.KIND_SHIFT).tolist() == [rules.KIND_SIGNAL] * 3
    assert rules.cfa_bytes(rule).tolist() == [saved_sp] * 3


@pytest.mark.parametrize(
    ("octets", "form"),
    [
        ("7708", (expressions.FORM_SUM, 7, 8, 0)),
        ("767806", (expressions.FORM_DEREF, 6, -8, 0)),
        ("77980106", (expressions.FORM_DEREF, 7, 152, 0)),
        ("77980106 2308", (expressions.FORM_DEREF, 7, 152, 8)),
        ("7708 8000 3f1a 3b2a 3324 22", (expressions.FORM_PLT, 7, 8, 11)),
        ("7708 8000 3f1a 3a2a 3324 22", (expressions.FORM_PLT, 7, 8, 10)),
        ("920310", (expressions.FORM_SUM, 3, 16, 0)),
    ],
)
def test_expressions_that_occur(octets, form):
    assert expressions.recognise(bytes.fromhex(octets)) == form


@pytest.mark.parametrize("octets", ["", "77", "9f", "7708 96", "7708 0623", "77" + "80" * 20])
def test_expressions_that_do_not(octets):
    assert expressions.recognise(bytes.fromhex(octets)) == expressions.OTHER


def test_other_machines_have_no_rows():
    section = Section(".eh_frame", eh_frame(PUSH_RBP), flags=2, addr=0x6000)
    assert read_frame_rows(parse(code(), section, machine=elf_layout.EM_RISCV)) is None
