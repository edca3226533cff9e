"""Registers, stack copies and branch stacks against their definition: samples read word by word."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import perfdata
from builders.examples import examples
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.abi.recorded_facts import RecordBlock
from prospect.events.decode import decode

_PARTS = (
    *(perfdata.READ, perfdata.CALLCHAIN, perfdata.RAW, perfdata.BRANCH_STACK),
    *(perfdata.REGS_USER, perfdata.STACK_USER, perfdata.WEIGHT, perfdata.DATA_SRC),
)
_CALLS = abi.PERF_SAMPLE_BRANCH_CALL_STACK
_BRANCHES = (0, _CALLS, _CALLS | abi.PERF_SAMPLE_BRANCH_HW_INDEX, abi.PERF_SAMPLE_BRANCH_COUNTERS)
_GROUP = 1 << 3
_SAMPLE_HEADER = 9 | 2 << 32
_any_word = st.one_of(
    st.integers(0, 40),
    st.integers(0, (1 << 64) - 1),
    # What looks like the header of a sample.
    st.integers(1, 30).map(lambda words: _SAMPLE_HEADER | 8 * words << 48),
)


class Cut(Exception):  # noqa: N818 - a state, no error
    """The sample ends before its fields do."""


class Reader:
    def __init__(self, words):
        self._words = list(words)

    def take(self, count=1):
        if count > len(self._words):
            raise Cut
        taken, self._words = self._words[:count], self._words[count:]
        return taken

    def one(self):
        return self.take()[0]


def is_wanted(attr):
    kinds = attr.sample_type
    has_calls = kinds & perfdata.BRANCH_STACK and attr.branch_sample_type & _CALLS
    return bool(kinds & (perfdata.REGS_USER | perfdata.STACK_USER) or has_calls)


def read(words, attr):  # noqa: C901, PLR0912 - a step for each field
    """Return the calls, and (abi, registers, stack); each None where there is none."""
    rest, kinds, calls, state = Reader(words), attr.sample_type, None, None
    rest.take(2)  # identifier, ip
    if kinds & perfdata.READ:
        if attr.read_format & _GROUP:
            rest.take(rest.one() * (1 + (attr.read_format & 0b10100).bit_count()))
            assert not attr.read_format & 3
        else:
            rest.take(1 + attr.read_format.bit_count())
    if kinds & perfdata.CALLCHAIN:
        rest.take(rest.one())
    if kinds & perfdata.RAW:
        raw_bytes = rest.one() & 0xFFFFFFFF
        rest.take(-(-(raw_bytes - 4) // 8) if raw_bytes > 4 else 0)
    if kinds & perfdata.BRANCH_STACK:
        count = rest.one()
        rest.take(bool(attr.branch_sample_type & abi.PERF_SAMPLE_BRANCH_HW_INDEX))
        entries = rest.take(3 * count)
        if attr.branch_sample_type & _CALLS:
            calls = (entries[::3], entries[1::3])
        rest.take(count * bool(attr.branch_sample_type & abi.PERF_SAMPLE_BRANCH_COUNTERS))
    if kinds & perfdata.REGS_USER:
        width = rest.one()
        if width > 2:
            raise Cut
        if width:
            state = (width, rest.take(attr.sample_regs_user.bit_count()), b"")
    if kinds & perfdata.STACK_USER:
        size = rest.one()
        if size % 8:
            raise Cut
        if size:
            stack, used = struct.pack(f"<{size // 8}Q", *rest.take(size // 8)), rest.one()
            if used > size:
                raise Cut
            state = state and (*state[:2], stack[:used])
    return calls, state


@st.composite
def events(draw):
    found = []
    for row in range(draw(st.integers(1, 3))):
        attr = EventAttr(
            sample_type=perfdata.IDENTIFIER
            | perfdata.IP
            | sum(draw(st.sets(st.sampled_from(_PARTS)))),
            read_format=draw(st.sampled_from([0, 4, 7, _GROUP, _GROUP | 4, _GROUP | 20])),
            flags=1 << 18,
            branch_sample_type=draw(st.sampled_from(_BRANCHES)),
            sample_regs_user=draw(st.sampled_from([0b1, 0b110, 0xFF0FFF, 1 << 63 | 1])),
        )
        found.append(EventDescription(attr, (70 + row,)))
    return found


@st.composite
def bodies(draw, event, row):  # noqa: C901 - a step for each field
    """Words of a sample as the kernel writes it, or with one of them changed, or cut."""
    attr, word = event.attr, st.integers(0, (1 << 64) - 1)
    words = [70 + row, draw(word)]
    kinds = attr.sample_type

    def some(count):
        return draw(st.lists(_any_word, min_size=count, max_size=count))

    if kinds & perfdata.READ:
        if attr.read_format & _GROUP:
            members = draw(st.integers(0, 3))
            words += [members, *some(members * (1 + (attr.read_format & 0b10100).bit_count()))]
        else:
            words += some(1 + attr.read_format.bit_count())
    if kinds & perfdata.CALLCHAIN:
        length = draw(st.integers(0, 4))
        words += [length, *some(length)]
    if kinds & perfdata.RAW:
        size = draw(st.integers(0, 2))
        words += [draw(st.integers(0, 1 << 31)) << 32 | 8 * size + 4, *some(size)]
    if kinds & perfdata.BRANCH_STACK:
        count = draw(st.integers(0, 3))
        words += [count]
        words += some(bool(attr.branch_sample_type & abi.PERF_SAMPLE_BRANCH_HW_INDEX))
        words += some(3 * count)
        words += some(count * bool(attr.branch_sample_type & abi.PERF_SAMPLE_BRANCH_COUNTERS))
    if kinds & perfdata.REGS_USER:
        width = draw(st.integers(0, 2))
        words += [width, *some(attr.sample_regs_user.bit_count() if width else 0)]
    if kinds & perfdata.STACK_USER:
        size = draw(st.integers(0, 6))
        words += [8 * size, *some(size)]
        words += [draw(st.integers(0, 8 * size))] if size else []
    words += some((kinds & (perfdata.WEIGHT | perfdata.DATA_SRC)).bit_count())
    if draw(st.integers(0, 3)) == 0:
        words[draw(st.integers(1, len(words) - 1))] = draw(_any_word)
    if draw(st.integers(0, 5)) == 0:
        words = words[: draw(st.integers(2, len(words)))]
    return words


@st.composite
def recordings(draw):
    described = draw(events())
    rows = draw(st.lists(st.integers(0, len(described) - 1), max_size=30))
    return described, [(row, draw(bodies(described[row], row))) for row in rows]


@settings(max_examples=examples(120))
@given(recordings(), st.integers(1, 3))
def test_states_are_what_their_definition_says(recording, blocks):
    described, samples = recording
    calls, states, damaged = [], [], 0
    for number, (row, words) in enumerate(samples):
        attr = described[row].attr
        if not is_wanted(attr):
            continue
        try:
            called, state = read(words, attr)
        except Cut:
            damaged += 1
            continue
        if called is not None:
            calls.append((number, *called))
        if state is not None:
            states.append((number, attr, *state))
    packed = [perfdata.record(9, struct.pack(f"<{len(w)}Q", *w), misc=2) for _, w in samples]
    cut = len(packed) * 2 // 3
    parts = (packed[:cut], packed[cut:]) if blocks > 1 else (packed,)
    found = decode([RecordBlock(memoryview(b"".join(part))) for part in parts], described)
    sentence = f"user states left out, longer than their record: {damaged}"
    assert (sentence in found.damage) == (damaged > 0)
    assert len(found.samples) == len(samples)
    assert told_states(found.samples.user) == [
        (number, width, by_number(attr, registers), stack)
        for number, attr, width, registers, stack in states
    ]
    cut_calls = {number for number, *_ in told_calls(found.samples.calls)}
    assert [c for c in told_calls(found.samples.calls) if c[0] in {n for n, *_ in calls}] == calls
    assert {number for number, *_ in calls} <= cut_calls


def by_number(attr, registers):
    numbers = [bit for bit in range(64) if attr.sample_regs_user >> bit & 1]
    return {n: value for n, value in zip(numbers, registers, strict=True) if value}


def told_states(user):
    if user is None:
        return []
    assert (np.diff(user.sample) > 0).all()
    found = []
    for row in range(len(user)):
        stack = np.empty(0, np.uint8)  # where no sample has a stack, no block is kept
        if user.stack_bytes[row]:
            begin = int(user.stack_begin[row])
            stack = user.blocks[user.stack_block[row]][begin : begin + int(user.stack_bytes[row])]
        assert len(stack) == user.stack_bytes[row]
        registers = dict(
            zip(user.register_numbers, perfdata.register_table(user)[row].tolist(), strict=True)
        )
        found.append(
            (
                int(user.sample[row]),
                int(user.abi[row]),
                {number: value for number, value in registers.items() if value},
                stack.tobytes(),
            )
        )
    return found


def told_calls(calls):
    if calls is None:
        return []
    start = calls.start.tolist()
    return [
        (sample, calls.source[a:b].tolist(), calls.target[a:b].tolist())
        for sample, a, b in zip(calls.sample.tolist(), start[:-1], start[1:], strict=True)
    ]
