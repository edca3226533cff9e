"""Records of a JVM, which anybody may have written: names, places, and frames."""

import numpy as np
import pytest

from builders.jitdump import DumpBuilder
from builders.jvm import CODE, number
from prospect.abi import hotspot as wire
from prospect.elf import frame_rules as rules
from prospect.profile.naming import NameSource
from prospect.symbols.jit.hotspot_code import (
    PieceFrame,
    frame_rows,
    read_hotspot,
    read_signed,
    read_unsigned,
)


def method(dump, one, bytecode, name, *, size=20):
    head = wire.METHOD.pack(one, size, bytecode, 0x10 * one, len(name), len(name), 0, 0)
    return dump.record(wire.KIND_METHOD, 0, head + name)


def details(dump, *, words=4, kind=wire.CODE_COMPILED, entry=-1, counts=(0, 0, 0), rest=b""):
    head = wire.DETAILS.pack(words, 5, entry, kind, 4, *counts)
    return dump.record(wire.KIND_DETAILS, 1, head + rest)


def code_of(dump):
    return read_hotspot(b"x", bytes(dump.content))


def test_all_code_of_a_method_is_one_function():
    dump = DumpBuilder()
    method(dump, 1, 0x5000, b"A.run")
    for time_ns, address in ((1, 0x1000), (2, 0x3000), (3, 0x1000)):
        details(dump).load(time_ns, address, CODE, b"A.run")
    details(dump).load(4, 0x4000, CODE, b"B.run")
    code = code_of(dump)
    assert sorted(code.table.names(range(len(code.table)))) == [b"A.run", b"B.run"]
    assert set(code.table.source.tolist()) == {NameSource.JVM}
    rows = code.table.lookup(code.svma)
    assert len(set(rows[:5].tolist())) == 1
    assert len(set(code.svma.tolist())) == 6
    # Instructions follow each other, bytecode is none.
    begin = int(code.svma[2])
    assert bytes(code.code_at(begin, 1 << 20)) == 3 * CODE
    assert bytes(code.code_at(int(code.svma[0]), 4)) == b""


def test_frames_of_another_machine_are_not_taken_for_those_of_x86_64():
    dump = DumpBuilder()
    details(dump).load(1, 0x1000, CODE, b"A.run")
    content = bytearray(dump.content)
    assert read_hotspot(b"x", bytes(content)).frame_rows() is not None
    content[12:16] = (183).to_bytes(4, "little")
    assert read_hotspot(b"x", bytes(content)).frame_rows() is None


def test_places_are_the_same_as_more_is_read():
    dump = DumpBuilder()
    details(dump).load(1, 0x1000, CODE, b"A.run")
    before = code_of(dump).svma.tolist()
    details(dump).load(2, 0x3000, CODE, b"A.run")
    details(dump).load(3, 0x5000, CODE, b"C.run")
    assert code_of(dump).svma.tolist()[:1] == before


def test_records_that_are_cut_or_lie():
    dump = DumpBuilder()
    details(dump, counts=(1 << 30, 1 << 30, 5)).load(1, 0x1000, CODE, b"A.run")
    dump.record(wire.KIND_METHOD, 0, wire.METHOD.pack(1, 9, 0x5000, 1, 9, 60000, 9, 9) + b"short")
    code = code_of(dump)
    assert len(code.dump) == 1
    assert code.lines_of(code.svma) == [("", 0)]
    assert code.frames_of(code.svma).frames == [[]]
    assert read_hotspot(b"x", b"") is None
    assert read_hotspot(b"x", bytes(DumpBuilder().content)) is None
    for size in range(len(dump.content)):
        read_hotspot(b"x", bytes(dump.content[:size]))


def test_scopes_that_lead_in_circles_or_nowhere():
    dump = DumpBuilder()
    method(dump, 1, 0x5000, b"A.run")
    scopes = b"\x01" + number(1, 0) + number(1, 0) + number(0, 0)
    positions = np.array(
        [-1, 0, 0, 0, 9, 1, 0, 0, 19, 300, 0, 0, 1 << 30, 0, 0, 0], "<i4"
    ).tobytes()
    rest = wire.PAIR.pack(1, 1) + positions + scopes
    details(dump, counts=(1, len(positions), len(scopes)), rest=rest)
    code = code_of(dump.load(1, 0x1000, CODE, b"A.run"))
    inside = code.svma[1:2]
    assert len(code.frames_of(inside).frames[0]) == 1
    assert code.frames_of(inside + np.uint64(10)).frames[0] == []


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("value", [0, 1, 190, 191, 192, 12345, (1 << 28) + 77, (1 << 32) - 1])
def test_compressed_numbers(shift, value):
    data = number(value, shift)
    assert read_unsigned(data + b"\x07", 0, shift) == (value, len(data))
    assert shift == 0 or 0 not in data


def test_signed_numbers():
    assert [read_signed(bytes([one]), 0, 0)[0] for one in range(5)] == [0, -1, 1, -2, 2]
    with pytest.raises(IndexError):
        read_unsigned(b"\xff\xff", 0, 0)


def rule_at(rows, offset):
    rule = int(rows.look_up(np.array([0x1000 + offset], np.uint64))[0])
    kind = rule >> rules.KIND_SHIFT
    array = np.array([rule])
    is_saved = rule >> rules.FP_SHIFT + rules.FP_BITS & 3 == rules.RULE_AT_CFA
    return kind, int(rules.cfa_bytes(array)[0]), is_saved


BODY, PUSHED, BARE = (0, 32, True), (0, 16, True), (0, 8, False)


def test_frames_are_whole_between_prologue_and_epilogue():
    rows = frame_rows([PieceFrame(0x1000, 0x1000 + len(CODE), 0, 4, 5, code=CODE)])
    end = CODE.index(b"\x5d\xc3")
    assert [rule_at(rows, at) for at in (0, 1, 4)] == [BARE, PUSHED, PUSHED]
    assert [rule_at(rows, at) for at in (5, end - 4)] == [BODY, BODY]
    assert [rule_at(rows, at) for at in (end, end + 1, end + 2)] == [PUSHED, BARE, BODY]
    assert rows.look_up(np.array([0x1000 + len(CODE)], np.uint64))[0] == rules.NO_ROW


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        # sub $24,%rsp; mov %rbp,16(%rsp)
        (b"\x48\x81\xec\x18\0\0\0\x48\x89\x6c\x24\x10\x90", {0: BARE, 7: (0, 32, False), 12: BODY}),
        # a check of the stack's end, then push %rbp; sub $16,%rsp
        (b"\x89\x84\x24\0\xc0\xfe\xff\x55\x48\x83\xec\x10\x90", {7: BARE, 8: PUSHED, 12: BODY}),
        # push %rbp; mov %rsp,%rbp; sub $16,%rsp
        (b"\x55\x48\x8b\xec\x48\x83\xec\x10\x90", {1: PUSHED, 4: (1, 16, True), 8: BODY}),
        # add $16,%rsp; pop %rbp; cmp 0x3b8(%r15),%rsp; ja; ret
        (
            b"\x55\x48\x83\xec\x10\x90\x48\x83\xc4\x10\x5d\x49\x3b\xa7\xb8\x03\0\0\x0f\x87\1\0\0\0\xc3\x90",
            {5: BODY, 10: PUSHED, 11: BARE, 24: BARE, 25: BODY},
        ),
        # the same with mov 0x108(%r15),%r10; test %eax,(%r10), as in 11
        (
            b"\x55\x48\x83\xec\x10\x90\x48\x83\xc4\x10\x5d\x4d\x8b\x97\x08\1\0\0\x41\x85\2\xc3\x90",
            {5: BODY, 10: PUSHED, 11: BARE, 21: BARE, 22: BODY},
        ),
        # and with test %eax,0x149d38c6(%rip), as in 8
        (
            b"\x55\x48\x83\xec\x10\x90\x48\x83\xc4\x10\x5d\x85\5\xc6\x38\x9d\x14\xc3\x90",
            {5: BODY, 10: PUSHED, 11: BARE, 17: BARE, 18: BODY},
        ),
        # the sub of another frame's size is none of this one
        (b"\x55\x48\x83\xec\x18\x90", {0: BARE, 1: BARE, 5: BODY}),
    ],
)
def test_ways_to_make_a_frame(code, expected):
    rows = frame_rows([PieceFrame(0x1000, 0x1000 + len(code), 0, 4, 5, code=code)])
    assert {at: rule_at(rows, at) for at in expected} == expected


def test_an_entry_from_an_interpreted_loop_makes_a_frame_too():
    code = CODE[:20] + b"\x55\x48\x83\xec\x10" + b"\x90" * 10
    rows = frame_rows([PieceFrame(0x1000, 0x1000 + len(code), 0, 4, 5, entry=18, code=code)])
    assert [rule_at(rows, at) for at in (17, 18, 21, 25)] == [BODY, BARE, PUSHED, BODY]


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (wire.CODE_INTERPRETER, rules.INTERPRETED),
        (wire.CODE_STUB, rules.NO_ROW),
        (wire.CODE_COMPILED, rules.NO_ROW),  # of a frame that cannot be
    ],
)
def test_code_without_a_frame_of_one_size(kind, rule):
    rows = frame_rows([PieceFrame(0x1000, 0x1100, kind, 1 << 30, code=CODE)])
    assert rows.look_up(np.array([0x1010], np.uint64)).tolist() == [rule]
