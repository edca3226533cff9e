"""Columns of messages against the definition of the encoding, value by value."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prospect.render.protobuf import (
    Rows,
    bytes_field,
    chosen,
    fixed64_field,
    grouped,
    joined,
    number_field,
    single,
    texts,
    varints,
)


def varint(value):
    """Encode one number as the definition says."""
    value &= 2**64 - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def listed(rows):
    ends = np.cumsum(rows.size)
    return [
        rows.data[end - size : end].tobytes()
        for end, size in zip(ends.tolist(), rows.size.tolist(), strict=True)
    ]


def of(values):
    data = b"".join(values)
    return Rows(np.frombuffer(data, np.uint8), np.array([len(v) for v in values], np.int64))


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_unsigned_numbers(values):
    assert listed(varints(np.array(values, np.uint64))) == [varint(v) for v in values]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_signed_numbers(values):
    assert listed(varints(np.array(values, np.int64))) == [varint(v) for v in values]


@pytest.mark.parametrize("bits", range(0, 64, 7))
def test_where_a_number_needs_a_byte_more(bits):
    values = [2**bits - 1, 2**bits]
    assert listed(varints(np.array(values, np.uint64))) == [varint(v) for v in values]


@given(st.lists(st.tuples(st.binary(max_size=5), st.integers(0, 300), st.binary(max_size=200))))
def test_fields_of_messages(messages):
    first, numbers, last = zip(*messages, strict=True) if messages else ((), (), ())
    rows = joined(of(first), number_field(3, np.array(numbers, np.int64)), bytes_field(4, of(last)))
    assert listed(rows) == [
        a + (b"\x18" + varint(n) if n else b"") + b"\x22" + varint(len(b)) + b
        for a, n, b in messages
    ]


@given(st.lists(st.binary(max_size=9), min_size=1), st.data())
def test_choosing_and_joining_rows(values, data):
    rows = data.draw(st.lists(st.integers(0, len(values) - 1)))
    assert listed(chosen(of(values), np.array(rows, np.int64))) == [values[row] for row in rows]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)))))
    start = [0, *cuts, len(values)]
    assert listed(grouped(of(values), np.array(start, np.int64))) == [
        b"".join(values[a:b]) for a, b in itertools.pairwise(start)
    ]


def test_names_that_are_no_unicode_become_utf_8():
    assert listed(texts(["", "é", "a\udcff", "\ud800"])) == [
        b"",
        "é".encode(),
        "a\ufffd".encode(),
        "\ufffd".encode(),
    ]


def test_fixed_numbers_and_single_messages():
    assert fixed64_field(3, 5) == b"\x19\x05" + bytes(7)
    assert listed(single(b"ab", of([b"c", b"d"]))) == [b"abcd"]
