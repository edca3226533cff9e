"""Random call-frame programs: columns of functions give what one at a time gives."""

import struct

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.eh_frame import PCREL_SDATA4, cie, encoded, entry, sleb128, uleb128
from builders.elf import Section, code, elf_file
from builders.examples import examples
from builders.reference_cfi import ARM, X86, plain_rule, rows_of_function
from prospect.elf import elf_layout
from prospect.elf import frame_rules as rules
from prospect.elf.frame_entries import read_frames
from prospect.elf.frame_rows import read_frame_rows
from prospect.elf.image import ElfImage

ADDRESS = 0x6000
registers = st.sampled_from([3, 6, 7, 12, 16, 29, 30, 31])
numbers = st.one_of(st.integers(0, 40), st.sampled_from([127, 128, 4096, 1 << 20, 1 << 40]))
signed = numbers.map(lambda n: n - 20)
low = st.integers(0, 63)


def words(*parts):
    return st.tuples(*parts).map(b"".join)


def op(value):
    return st.just(bytes([value]))


block = st.binary(max_size=6).map(lambda octets: uleb128(len(octets)) + octets)
instructions = st.one_of(
    low.map(lambda n: bytes([0x40 | n])),
    words(registers.map(lambda r: bytes([0x80 | r])), numbers.map(uleb128)),
    registers.map(lambda r: bytes([0xC0 | r])),
    st.sampled_from([b"\x00", b"\x0a", b"\x0a", b"\x0b", b"\x2d"]),
    words(op(0x02), low.map(lambda n: bytes([n]))),
    words(op(0x03), low.map(lambda n: struct.pack("<H", n))),
    words(op(0x04), low.map(lambda n: struct.pack("<I", n))),
    words(op(0x05), registers.map(uleb128), numbers.map(uleb128)),
    words(st.sampled_from([b"\x06", b"\x07", b"\x08"]), registers.map(uleb128)),
    words(st.sampled_from([b"\x09", b"\x14"]), registers.map(uleb128), numbers.map(uleb128)),
    words(st.sampled_from([b"\x11", b"\x15"]), registers.map(uleb128), signed.map(sleb128)),
    words(op(0x0C), registers.map(uleb128), numbers.map(uleb128)),
    words(op(0x12), registers.map(uleb128), signed.map(sleb128)),
    words(op(0x0D), registers.map(uleb128)),
    words(op(0x0E), numbers.map(uleb128)),
    words(op(0x13), signed.map(sleb128)),
    words(op(0x2E), numbers.map(uleb128)),
    words(st.sampled_from([b"\x10", b"\x16"]), registers.map(uleb128), block),
)
programs = st.lists(instructions, max_size=30).map(b"".join)


def image_of(bodies, machine):
    out = bytearray(entry(cie(register=16 if machine == elf_layout.EM_X86_64 else 30)))
    for number, program in enumerate(bodies):
        body = len(out) + 4
        start = 0x10000 + 0x1000 * number
        begin = encoded(start, PCREL_SDATA4, ADDRESS + body + 4)
        size = encoded(0x400, PCREL_SDATA4 & 0xF, 0)
        out += entry(struct.pack("<I", body) + begin + size + b"\0" + program)
    section = Section(".eh_frame", bytes(out) + bytes(4), flags=2, addr=ADDRESS)
    parts = [code(".more", 0x10000, size=0x100000), section]
    return ElfImage.parse(elf_file(sections=parts, machine=machine))


def expected(cfa, saved, machine):
    """What `plain_rule` says, where a packed rule can say it; None where there must be none."""
    plain = plain_rule(cfa, saved, machine)
    if plain is None or plain == "end" or plain[0] == "expression":
        return plain
    base, distance, *others = plain

    def fits(value, bits):
        return value % 8 == 0 and abs(value + 0.5) < 1 << (bits + 2)

    if not fits(distance, rules.CFA_BITS) or not 0 <= base < 32:
        return None
    others = [
        each if len(each) == 1 or fits(each[1], rules.FP_BITS) else ("lost",) for each in others
    ]
    if machine is ARM and others[1] == ("lost",):
        return None
    return (base, distance, *others)


def unpacked(rule, numbers):
    kind = rule >> rules.KIND_SHIFT
    if kind in {rules.KIND_END, rules.KIND_ABSENT}:
        return "end" if kind == rules.KIND_END else None
    one = np.array([rule])
    bases = {rules.KIND_SP: numbers["sp"], rules.KIND_FP: numbers["fp"]}
    base = bases.get(kind, rule >> rules.REGISTER_SHIFT & 31)
    fields = (rule >> 32 & 3, rules.fp_bytes(one)), (rule >> 15 & 3, rules.second_bytes(one))
    saved = [
        {0: ("same",), 3: ("lost",)}.get(how, ("cfa" if how == 1 else "fp", int(distance[0])))
        for how, distance in fields
    ]
    return (base, int(rules.cfa_bytes(one)[0]), *saved)


@settings(max_examples=examples(200))
@given(
    st.lists(programs, min_size=1, max_size=6),
    st.sampled_from([elf_layout.EM_X86_64, elf_layout.EM_AARCH64]),
)
def test_every_address_of_every_function(bodies, machine):
    image = image_of(bodies, machine)
    frames, table = read_frames(image), read_frame_rows(image)
    numbers = X86 if machine == elf_layout.EM_X86_64 else ARM
    assert len(frames) == len(bodies)
    for row in range(len(frames)):
        steps = rows_of_function(frames, row)
        last = {start: (cfa, saved) for start, cfa, saved in steps}
        starts = np.array(sorted(last), np.uint64)
        for start, rule in zip(starts.tolist(), table.look_up(starts).tolist(), strict=True):
            plain = expected(*last[start], numbers)
            if plain is None or plain[0] != "expression":
                assert unpacked(rule, numbers) == plain, hex(start)
    gaps = np.array([0xFFFF, 0x10400, 0x10FFF], np.uint64)
    assert (table.look_up(gaps) == rules.NO_ROW).all()
