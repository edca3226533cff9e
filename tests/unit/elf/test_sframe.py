import numpy as np
import pytest

from builders.eh_frame import frame_sections
from builders.elf import Section, Segment, code, elf_file
from builders.sframe import AARCH64, AMD64, PC_RELATIVE, SORTED, Function, row, sframe
from prospect.elf import elf_layout
from prospect.elf import frame_rules as rules
from prospect.elf.frame_rows import read_frame_rows
from prospect.elf.image import ElfImage
from prospect.elf.sframe import read_sframe
from prospect.symbols.images.image_symbols import find_function_bounds

START = 0x1000
PUSH_RBP = [row(0, 8), row(1, 16, -16), row(4, 16, -16, by_sp=False)]
REPEATS, SIGNAL, FLEXIBLE = 0x10, 0x80, 1
DEREF = 2


def parse(*sections, machine=elf_layout.EM_X86_64, **keywords):
    return ElfImage.parse(elf_file(sections=[code(), *sections], machine=machine, **keywords))


def look_up(section, *addresses, **keywords):
    rows = read_frame_rows(parse(section, **keywords))
    return rows.look_up(np.array(addresses, np.uint64))


def by_register(number, *, deref=False):
    return number << 3 | deref << 1 | 1


def kinds(rule):
    return (rule >> rules.KIND_SHIFT).tolist()


@pytest.mark.parametrize(
    ("version", "flags"),
    [(1, SORTED), (2, SORTED), (2, SORTED | PC_RELATIVE), (3, 0), (3, SORTED | PC_RELATIVE)],
)
def test_every_version(version, flags):
    functions = [Function(START + 0x40, 0x20, [row(0, 24)]), Function(START, 0x20, PUSH_RBP)]
    section = sframe(functions, version=version, flags=flags)
    rule = look_up(section, *(START + at for at in (-1, 0, 1, 4, 0x1F, 0x20, 0x40, 0x60)))
    absent, sp, fp = rules.KIND_ABSENT, rules.KIND_SP, rules.KIND_FP
    assert kinds(rule) == [absent, sp, sp, fp, fp, absent, sp, absent]
    assert rules.cfa_bytes(rule[[1, 2, 3, 6]]).tolist() == [8, 16, 16, 24]
    assert rules.fp_bytes(rule[2:4]).tolist() == [-16, -16]
    # rbx is nowhere in these rows.
    assert (rule[[1, 2, 3]] >> rules.SECOND_BITS & 3).tolist() == [rules.RULE_LOST] * 3


@pytest.mark.parametrize("size", ["b", "h", "i"])
@pytest.mark.parametrize(("address_form", "info"), [("B", 0), ("H", 1), ("I", 2)])
def test_every_width(size, address_form, info):
    rows = [row(at, 8 + at, size=size, address_form=address_form) for at in (0, 8, 0x30)]
    rule = look_up(sframe([Function(START, 0x80, rows, info)]), START, START + 8, START + 0x30)
    assert rules.cfa_bytes(rule).tolist() == [8, 16, 56]


def test_arm64_saves_the_return_address_or_keeps_it():
    rows = [row(0, 0), row(4, 32, -32, -24)]
    section = sframe([Function(START, 0x80, rows)], abi=AARCH64, fixed=(0, 0))
    rule = look_up(section, START, START + 4, machine=elf_layout.EM_AARCH64)
    assert rules.cfa_bytes(rule).tolist() == [0, 32]
    assert rules.second_bytes(rule[1:]).tolist() == [-32]
    assert rules.fp_bytes(rule[1:]).tolist() == [-24]
    assert (rule >> rules.SECOND_BITS & 3).tolist() == [rules.RULE_SAME, rules.RULE_AT_CFA]


def test_a_fixed_place_of_the_frame_register():
    rule = look_up(sframe([Function(START, 0x80, [row(0, 16)])], fixed=(-16, -8)), START)
    assert rules.fp_bytes(rule).tolist() == [-16]


def test_rows_that_repeat():
    rows = [row(0, 8), row(11, 16), row(16, 99)]
    plt = Function(START, 40, rows, REPEATS, repeated=16)
    at = [START, START + 11, START + 16, START + 27, START + 39, START + 40]
    rule = look_up(sframe([plt]), *at)
    assert rules.cfa_bytes(rule[:5]).tolist() == [8, 16, 8, 16, 8]
    assert kinds(rule[5:]) == [rules.KIND_ABSENT]
    first = look_up(sframe([plt], version=1), *at)
    assert (first == rule).all()


def test_frames_realigned_by_the_compiler():
    rbp, r10 = by_register(6, deref=True), by_register(10)
    rows = [
        row(0, by_register(7), 8),
        row(5, r10, 0),
        row(10, by_register(6, deref=True), -8, 0, rbp, 0),
        row(20, by_register(7), 8, DEREF, -8, DEREF, -16),
        row(30, by_register(7), 8, by_register(3), 0),
        row(40, DEREF, 8),
    ]
    section = sframe([Function(START, 0x80, rows, form=FLEXIBLE)])
    rule = look_up(section, *(START + at for at in (0, 5, 10, 20, 30, 40)))
    register, deref, absent = rules.KIND_REGISTER, rules.KIND_DEREF, rules.KIND_ABSENT
    assert kinds(rule) == [rules.KIND_SP, register, deref, rules.KIND_SP, absent, absent]
    assert (rule[1:3] >> rules.REGISTER_SHIFT & 31).tolist() == [10, 6]
    before, after = rules.deref_bytes(rule[2:3])
    assert (before.tolist(), after.tolist()) == ([-8], [0])
    fp_rule = rule >> (rules.FP_SHIFT + rules.FP_BITS) & 3
    assert fp_rule[:4].tolist() == [0, 0, rules.RULE_AT_FP, rules.RULE_AT_CFA]
    assert rules.fp_bytes(rule[3:4]).tolist() == [-16]


def test_the_outermost_function():
    functions = [Function(START, 0x20), Function(START + 0x20, 0x20, [row(0), row(4, 8)])]
    at = [START, START + 0x20, START + 0x24]
    end, sp = rules.KIND_END, rules.KIND_SP
    assert kinds(look_up(sframe(functions), *at)) == [end, end, sp]
    assert kinds(look_up(sframe(functions, version=2), *at)) == [rules.KIND_ABSENT, end, sp]


def test_what_is_not_known_is_no_rule():
    functions = [
        Function(START, 0x20, [row(0, 8)], form=2),
        Function(START + 0x20, 0x20, [row(0, 8)], SIGNAL),
        Function(START + 0x40, 0x20, [row(0, 8)], 3),
        Function(START + 0x60, 0x20, [row(0, 8, -16)]),
    ]
    at = [START, START + 0x20, START + 0x40, START + 0x60]
    assert kinds(look_up(sframe(functions), *at)) == [*[rules.KIND_ABSENT] * 3, rules.KIND_SP]
    assert kinds(look_up(sframe(functions, fixed=(0, 0)), *at)) == [rules.KIND_ABSENT] * 4


def test_a_function_whose_rows_end_early_has_none():
    functions = [
        Function(START, 0x20, [row(0, 8)]),
        Function(START + 0x20, 0x20, [row(0, 8)], count=3),
    ]
    rule = look_up(sframe(functions), START, START + 0x20)
    assert kinds(rule) == [rules.KIND_SP, rules.KIND_ABSENT]


def test_eh_frame_goes_before_sframe():
    frames = frame_sections([(START, 0x20)], with_header=False)
    section = sframe([Function(START, 0x60, [row(0, 64)])], address=0x9000)
    rows = read_frame_rows(parse(*frames, section))
    rule = rows.look_up(np.array([START, START + 0x20], np.uint64))
    assert rules.cfa_bytes(rule).tolist() == [8, 64]


def test_an_image_without_section_headers():
    content = sframe([Function(START, 0x20, PUSH_RBP)], address=0).data
    sections = [code(), Section(".other", content, flags=2)]

    def image_with(offset):
        segment = Segment(elf_layout.PT_GNU_SFRAME, 4, offset, 0, len(content))
        return elf_file(sections=sections, segments=[segment])

    at = image_with(0).index(content)
    assert len(read_sframe(ElfImage.parse(image_with(at)))) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:20],
        lambda data: b"\xe2\xdd" + data[2:],
        lambda data: data[:2] + b"\x04" + data[3:],
        lambda data: data[:4] + bytes([AARCH64]) + data[5:],
        lambda data: data[:8] + bytes(4) + data[12:],
    ],
    ids=["cut", "magic", "version", "machine", "empty"],
)
def test_what_is_no_such_section(change):
    section = sframe([Function(START, 0x20, PUSH_RBP)])
    assert read_sframe(parse(section)) is not None
    assert read_sframe(parse(Section(".sframe", change(section.data), addr=0x6000))) is None


def test_bounds_of_functions_without_eh_frame():
    functions = [Function(START, 0x20, PUSH_RBP), Function(START + 0x40, 0x10, PUSH_RBP)]
    bounds = find_function_bounds(parse(sframe(functions, abi=AMD64)))
    assert bounds.start.tolist() == [START, START + 0x40]
    assert bounds.end.tolist() == [START + 0x20, START + 0x50]
