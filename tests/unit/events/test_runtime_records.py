"""Records of Python frames: to which sample they belong, and that damage is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import runtime_frames as make
from prospect.abi import constants as abi
from prospect.abi import runtime_frames as wire
from prospect.abi.recorded_facts import RecordBlock
from prospect.events import runtime_records as module
from prospect.events.decode import decode
from prospect.events.runtime_records import CodeKey

SAMPLE = make.SAMPLES.sample(ip=0x410000, pid=5, tid=5, time=10, id=7, misc=2)


def hidden(record):
    return abi.PERF_RECORD_HIDDEN_SAMPLE.to_bytes(4, "little") + record[4:]


def decoded(*parts):
    return decode([RecordBlock(memoryview(b"".join(parts)))], [make.CLOCK, make.FRAMES])


def test_a_recording_without_such_records_has_none():
    assert decoded(SAMPLE).runtimes is None


def test_a_stack_belongs_to_the_sample_behind_it_and_is_no_sample():
    found = decoded(SAMPLE, make.raw(make.stack((0x100, 4, 1, 77), (0x200, 8, 2, 78))), SAMPLE)
    assert len(found.samples) == 2
    python = found.runtimes
    assert python.sample.tolist() == [1]
    assert python.task.tolist() == [5 | 5 << 32]
    assert python.start.tolist() == [0, 2]
    assert python.code.tolist() == [0x100, 0x200]
    assert python.last.tolist() == [4, 8]
    assert python.owner.tolist() == [1, 2]
    assert python.signature.tolist() == [77, 78]
    assert found.damage == ()


def test_stacks_are_found_among_many_samples():
    piece = SAMPLE * 3 + make.raw(make.stack((0x100, 4, 1, 77))) + SAMPLE
    found = decoded(piece * 2000)
    assert len(found.samples) == 8000
    assert found.runtimes.sample.tolist() == list(range(3, 8000, 4))


def test_records_that_perf_passes_over_are_the_same():
    stack = make.raw(make.stack((0x100, 4, 1, 77)))
    for count in (1, 2000):
        plain = decoded((SAMPLE * 3 + stack + SAMPLE) * count)
        found = decoded((SAMPLE * 3 + hidden(stack) + SAMPLE) * count)
        assert len(found.samples) == len(plain.samples) == 4 * count
        assert found.runtimes.sample.tolist() == plain.runtimes.sample.tolist()
        assert found.runtimes.code.tolist() == plain.runtimes.code.tolist()
        assert found.damage == ()


def test_of_stacks_no_more_is_kept_than_up_to_the_innermost_function():
    called = (0x100, 4, 4, 77), (0x200, 8, 3, 78)  # from C, since 3.12
    function, caller = (0x300, 2, 1, 79), (0x400, 2, 0, 80)
    stacks = (*called, function, caller), (function, caller), called, ()
    blocks = [
        RecordBlock(memoryview(b"".join((make.raw(make.stack(*one)), SAMPLE)))) for one in stacks
    ]
    python = decode(blocks, [make.CLOCK, make.FRAMES], innermost_functions=True).runtimes
    assert python.start.tolist() == [0, 3, 4, 6, 6]
    assert python.code.tolist() == [0x100, 0x200, 0x300, 0x300, 0x100, 0x200]
    assert python.sample.tolist() == [0, 1, 2, 3]


def test_names_and_images_are_kept_by_what_they_are_of():
    parts = make.names(0x100, "f", "/a.py", b"\x80\x00", 3, signature=77)
    found = decoded(make.raw(make.image(11)), *map(make.raw, parts), SAMPLE).runtimes
    assert found.images[1].version == 0x30B
    assert (found.images[1].loop_begin, found.images[1].loop_end) == make.LOOP
    text = found.texts[CodeKey(1, 0x100, 77)]
    assert text.name == (wire.IS_ASCII | 1, b"f")
    assert text.file == (wire.IS_ASCII | 1, b"/a.py")
    assert (text.lines, text.beginning) == (b"\x80\x00", 3)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0" * 64,
        make.stack((1, 2, 3, 4))[:-8],
        make.stack(*[(1, 2, 3, 4)] * (wire.MOST_FRAMES + 1)),
        make.blob(wire.KIND_NAME, 1, b"abc", count=1 << 30),
        make.image(11)[:20],
    ],
)
def test_what_does_not_fit_its_record_is_left_out_and_counted(payload):
    found = decoded(make.raw(payload), make.raw(make.stack((1, 2, 3, 4))), SAMPLE).runtimes
    assert len(found) == 1
    assert (found.texts, found.images) == ({}, {})
    assert found.damaged == 1


def test_names_of_one_interpreter_leave_room_for_others(monkeypatch):
    monkeypatch.setattr(module, "MOST_RUNTIME_BYTES", 1 << 20)
    parts = [make.raw(make.image(11)), make.raw(make.image(11, 2))]
    for number in range(20):
        parts += map(make.raw, make.names(number, "f", "/f.py", bytes(24000), 1))
    parts += map(make.raw, make.names(0x100, "g", "/g.py", b"\x80\x00", 3, image=2))
    found = decoded(*parts, make.raw(make.stack((1, 2, 3, 4))), SAMPLE).runtimes
    assert CodeKey(2, 0x100, 0) in found.texts
    assert len(found.texts) == 6
    assert found.left_out == ((1, 15),)


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_any_bytes_are_stacks_names_or_damage(payloads):
    found = decoded(*map(make.raw, payloads), SAMPLE).runtimes
    assert (found is None) == (not payloads)
    if found:
        assert found.damaged <= len(payloads)
