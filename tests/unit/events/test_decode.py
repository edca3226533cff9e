"""decode(): damage, counts and the forms that blocks come in."""

from __future__ import annotations

import struct

import pytest

from builders import perfdata
from builders.perfdata import RecordBuilder
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordBlock
from prospect.events.decode import decode

_EVENT = EventDescription(EventAttr(sample_type=perfdata.USUAL, flags=1 << 18), (7,))
_MAKE = RecordBuilder()
_SAMPLE = _MAKE.sample(ip=5, id=7)


def broken(size):
    return struct.pack("<IHH", 3, 0, size)


@pytest.mark.parametrize("size", [0, 4, 12, 65_528])
def test_damage_is_named_with_its_place_in_the_file(size):
    data = _SAMPLE * 3 + broken(size) + _SAMPLE
    block = RecordBlock(memoryview(data), "cut.data", 4096)
    found = decode([block], [_EVENT])
    at = 4096 + 3 * len(_SAMPLE)
    assert len(found.samples) == 3
    sentence = (
        f"cut.data: the record at offset {at} claims {size} bytes; "
        f"{8 + len(_SAMPLE)} bytes from there on were not read"
    )
    assert found.damage == (sentence,)


def test_damage_in_a_stream_is_named_by_its_place_in_the_block():
    found = decode([RecordBlock(memoryview(_SAMPLE + broken(0)), "cpu 3")], [_EVENT])
    assert found.damage[0].startswith(f"cpu 3: the record at offset {len(_SAMPLE)} ")


def test_blocks_behind_a_damaged_one_are_read():
    blocks = [RecordBlock(memoryview(data)) for data in (_SAMPLE, broken(0), _SAMPLE * 2)]
    found = decode(blocks, [_EVENT])
    assert len(found.samples) == 3
    assert len(found.damage) == 1


def test_bytes_that_are_no_whole_word_are_damage():
    found = decode([RecordBlock(memoryview(_SAMPLE + b"abc"))], [_EVENT])
    assert len(found.samples) == 1
    assert len(found.damage) == 1


def test_the_source_and_the_decoder_share_one_list_of_damage():
    damage = []

    def source():
        yield RecordBlock(memoryview(broken(0)), "a")
        damage.append("b ends early")
        yield RecordBlock(memoryview(broken(4)), "c")

    found = decode(source(), [_EVENT], damage)
    assert [sentence.split()[0] for sentence in damage] == ["a:", "b", "c:"]
    assert found.damage == tuple(damage)


def test_records_are_counted_by_type():
    parts = [_SAMPLE, _MAKE.finished_round(), _MAKE.comm(1, 1, "a"), _SAMPLE, _MAKE.switch()]
    parts.append(perfdata.record((1 << 32) - 1))
    found = decode([RecordBlock(memoryview(b"".join(parts)))] * 2, [_EVENT])
    assert found.counts == {3: 2, 9: 4, 14: 2, 68: 2, (1 << 32) - 1: 2}
    assert list(found.counts) == sorted(found.counts)


@pytest.mark.parametrize("shift", range(8))
def test_a_block_may_begin_at_any_address(shift):
    data = bytearray(shift) + _SAMPLE * 200
    found = decode([RecordBlock(memoryview(data)[shift:])], [_EVENT])
    assert found.samples.ip.tolist() == [5] * 200


def test_a_block_may_be_empty():
    found = decode([RecordBlock(memoryview(b""))], [_EVENT])
    assert len(found.samples) == 0
    assert found.damage == ()
    assert found.counts == {}
