"""Registers and stack copies: where they stand, what is no copy, and what is damage."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from builders import perfdata
from builders.perfdata import RecordBuilder
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordBlock
from prospect.events.decode import decode
from prospect.perfdata.byteorder import to_little_endian

STATES = perfdata.REGS_USER | perfdata.STACK_USER
MASK = 0b101


def event(sample_type=perfdata.USUAL | STATES, id_=7, mask=MASK):
    return EventDescription(
        EventAttr(sample_type=sample_type, sample_regs_user=mask, flags=1 << 18), (id_,)
    )


def decoded(events, *parts):
    data = np.frombuffer(b"".join(parts), np.uint8)
    return data, decode([RecordBlock(memoryview(data))], events)


def test_copies_stay_where_they_are():
    make = RecordBuilder(perfdata.USUAL | STATES)
    stack = bytes(range(200))
    data, found = decoded(
        [event()],
        make.sample(id=7, regs_user=[1, 2], stack_user=stack),
        make.sample(id=7, regs_user=None, stack_user=None),
        make.sample(id=7, regs_user=[3, 4], stack_user=None),
    )
    user = found.samples.user
    assert found.damage == ()
    assert user.sample.tolist() == [0, 2]
    assert user.register_numbers == (0, 2)
    assert perfdata.register_table(user).tolist() == [[1, 2], [3, 4]]
    assert user.register(2).tolist() == [2, 4]
    assert user.register(1) is None
    assert user.stack_bytes.tolist() == [200, 0]
    (block,) = user.blocks
    assert np.shares_memory(block, data)
    begin = int(user.stack_begin[0])
    assert block[begin : begin + 200].tobytes() == stack


def test_events_have_registers_of_their_own():
    first, second = event(id_=7, mask=0b11), event(id_=8, mask=0b1100)
    third = event(perfdata.USUAL | perfdata.CALLCHAIN, id_=9)
    make = RecordBuilder(perfdata.USUAL | STATES)
    _, found = decoded(
        [first, second, third],
        make.sample(id=8, regs_user=[5, 6], stack_user=b"12345678"),
        RecordBuilder(third.attr.sample_type).sample(id=9, chain=[1, 2]),
        make.sample(id=7, regs_user=[3, 4], stack_user=b"abc"),
    )
    user = found.samples.user
    assert user.sample.tolist() == [0, 2]
    assert user.register_numbers == (0, 1, 2, 3)
    assert perfdata.register_table(user).tolist() == [[0, 0, 5, 6], [3, 4, 0, 0]]
    assert user.stack_bytes.tolist() == [8, 3]
    assert found.samples.chain.tolist() == [1, 2]


def test_registers_alone_hold_no_records_in_memory():
    first, second = event(perfdata.USUAL | perfdata.REGS_USER, id_=7), event(id_=8)
    make = RecordBuilder(perfdata.USUAL | STATES)
    registers = RecordBuilder(first.attr.sample_type).sample(id=7, regs_user=[1, 2])
    copy = make.sample(id=8, regs_user=[3, 4], stack_user=b"12345678")
    alone = [RecordBlock(memoryview(registers * 3)) for _ in range(4)]
    found = decode(alone, [first]).samples.user
    assert (len(found), found.blocks) == (12, ())
    assert set(found.stack_block.tolist()) == {-1}
    assert not found.stack_bytes.any()
    mixed = decode([RecordBlock(memoryview(registers + copy))], [first, second]).samples.user
    assert (mixed.stack_block.tolist(), len(mixed.blocks)) == ([-1, 0], 1)


def one(stack_words):
    make = RecordBuilder(perfdata.USUAL | perfdata.REGS_USER)
    words = struct.pack(f"<{len(stack_words)}Q", *stack_words)
    body = make.sample(id=7, regs_user=[1, 2])[8:] + words
    return perfdata.record(9, body, misc=2)


@pytest.mark.parametrize(
    ("stack_words", "is_whole"),
    [
        ([0], True),
        ([16, 5, 6, 16], True),
        ([16, 5, 6, 0], True),
        ([16, 5, 6, 17], False),  # more was copied than there is room for
        ([16, 5, 6], False),  # no word says how much was copied
        ([24, 5, 6, 16], False),
        ([12, 5, 6, 0], False),
        ([1 << 63, 5, 6, 0], False),
        ([], False),
    ],
)
def test_a_copy_is_whole_or_damage(stack_words, is_whole):
    good = one([8, 1, 8])
    _, found = decoded([event()], good, one(stack_words), good)
    rows = [0, 1, 2] if is_whole else [0, 2]
    assert found.samples.user.sample.tolist() == rows
    assert len(found.samples) == 3
    assert (found.damage == ()) == is_whole


def test_look_alikes_in_stacks_are_no_records():
    make = RecordBuilder(perfdata.USUAL | STATES)
    inner = make.sample(ip=0xBAD, id=7, regs_user=[9, 9], stack_user=b"x" * 64)
    stack = inner * (8192 // len(inner))
    samples = [make.sample(ip=n, id=7, regs_user=[n, 0], stack_user=stack) for n in range(300)]
    _, found = decoded([event()], *samples)
    assert found.samples.ip.tolist() == list(range(300))
    assert found.samples.user.register(0).tolist() == list(range(300))
    assert set(found.samples.user.stack_bytes.tolist()) == {len(stack)}


def test_states_of_a_big_endian_machine_are_read():
    make = RecordBuilder(perfdata.USUAL | STATES, ">")
    record = make.sample(id=7, regs_user=[1 << 40, 2], stack_user=b"bytes as they were")
    _, found = decoded([event()], to_little_endian(record, [event()]))
    user = found.samples.user
    assert perfdata.register_table(user).tolist() == [[1 << 40, 2]]
    begin, count = int(user.stack_begin[0]), int(user.stack_bytes[0])
    assert user.blocks[0][begin : begin + count].tobytes() == b"bytes as they were"
