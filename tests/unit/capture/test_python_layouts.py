"""_Py_DebugOffsets, which CPython from 3.13 on has in its memory: any bytes may stand there."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prospect.abi import cpython

# As of Debian's builds: a word of _Py_DebugOffsets by its name in `cpython`.
OF_A_BUILD = {
    "version": 0x030F02F0,
    "free_threaded": 0,
    "runtime": 500_000,
    "interpreters": 1200,
    "interpreter": 300_000,
    "next_interpreter": 8000,
    "threads": 8032,
    "thread": 800,
    "next_thread": 8,
    "frame": 72,
    "thread_id": 152,
    "native_id": 160,
    "frame_size": 88,
    "previous": 8,
    "executable": 0,
    "instruction": 56,
    "owner": 74,
    "bytecode_index": 0,
    "code_size": 216,
    "file": 112,
    "name": 128,
    "lines": 136,
    "first_line": 68,
    "bytecode": 208,
    "bytecodes": 0,
    "bytes_length": 16,
    "bytes_text": 32,
    "str_size": 64,
    "str_state": 32,
    "str_length": 16,
    "ascii_size": 40,
}


def described(minor, **changed):
    words = [0] * (cpython.DEBUG_BYTES // 8)
    (words[0],) = struct.unpack("<Q", cpython.DEBUG_COOKIE)
    facts = OF_A_BUILD | {"version": 0x03 << 24 | minor << 16} | changed
    places = cpython._DEBUG_WORDS[min(minor, 15)]
    for name, place in zip(cpython._DEBUG_NAMES, places, strict=True):
        if place:
            words[place] = facts[name]
    return struct.pack(f"<{len(words)}Q", *words)


@pytest.mark.parametrize("minor", [13, 14, 15, 16])
def test_layouts_are_what_the_build_says(minor):
    found = cpython.described_layouts(described(minor))
    assert found is not None
    assert found.minor == minor
    assert found.threads == cpython.ThreadLayout(1200, 8000, 8032, 8, 152, 160)
    assert (found.frame.code, found.frame.back, found.frame.last) == (0, 8, 56)
    assert (found.frame.owner, found.frame.size) == (74, 80)
    assert (found.code.name, found.code.instructions, found.code.compact) == (128, 208, 56)


def test_a_build_without_the_lock_has_copies_of_the_bytecode():
    words = {"free_threaded": 1, "bytecode_index": 72, "owner": 78, "bytecodes": 200}
    words |= {"bytes_length": 32, "bytes_text": 48, "str_length": 32, "str_state": 48}
    words |= {"ascii_size": 56, "str_size": 80}
    found = cpython.described_layouts(described(14, **words))
    assert found is not None
    assert (found.frame.copy, found.code.copies, found.code.state_shift) == (72, 200, 6)
    found = cpython.described_layouts(described(13, **words))
    assert (found.frame.copy, found.code.state_shift) == (cpython.NO_OFFSET, 0)


@pytest.mark.parametrize(
    "changed",
    [
        {"runtime": 1 << 40},
        {"interpreters": 1 << 63},
        {"threads": 300_000},
        {"frame": 804},
        {"thread_id": 1 << 32},
        {"previous": 96, "frame_size": 200},
        {"owner": 255},
        {"name": 1 << 16},
        {"bytecode": 217},
        {"first_line": 216},
        {"str_state": 40},
        {"bytes_text": 1 << 31},
        {"ascii_size": 64},
    ],
)
@pytest.mark.parametrize("minor", [13, 15])
def test_offsets_outside_their_structures_are_not_believed(minor, changed):
    assert cpython.described_layouts(described(minor, **changed)) is None
    assert cpython.debug_minor(described(minor, **changed)) == minor


def test_a_layout_of_a_later_version_is_not_taken_for_a_known_one():
    """With one more field before all others, as a later version may have."""
    words = described(16)
    assert cpython.described_layouts(words[:24] + bytes(8) + words[24:-8]) is None


@given(st.binary(max_size=200), st.integers(0, cpython.DEBUG_BYTES), st.sampled_from([13, 14, 15]))
def test_any_bytes_give_bounded_offsets_or_none(content, at, minor):
    head = described(minor)
    found = cpython.described_layouts(
        (head[:at] + content + head[at + len(content) :])[: len(head)]
    )
    if found:
        assert found.frame.size <= 96
        for layout in (found.frame, found.code):
            assert all(one < 1 << 16 or one == cpython.NO_OFFSET for one in layout)
        assert all(one < 1 << 25 for one in found.threads)
