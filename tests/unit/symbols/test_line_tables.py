"""Tables of lines of code objects: what this CPython has, and the older forms byte by byte."""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prospect.abi import runtime_frames as wire
from prospect.symbols.runtime_code import (
    _SHORT_TABLE,
    LineTable,
    _lines_of,
    _short_locations,
)

MINOR = sys.version_info[1]


def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


@pytest.mark.parametrize("module", [argparse, ast, inspect])
def test_every_instruction_has_the_line_that_cpython_says(module):
    file = Path(module.__file__)
    seen = 0
    for code in codes(compile(file.read_text(), str(file), "exec")):
        table = LineTable(MINOR, code.co_firstlineno, code.co_linetable)
        for begin, end, line in code.co_lines():
            lines = {table.at(offset) for offset in range(begin, end, 2)}
            assert lines == {line or 0}
            seen += 1
    assert seen > 1000


def test_3_10_has_pairs_of_skips_and_changes_and_marks_what_has_no_line():
    table = LineTable(10, 5, bytes([4, 1, 2, 128, 6, 0xFF]))
    assert [table.at(offset) for offset in (0, 2, 4, 6, 10)] == [6, 6, 0, 5, 5]
    assert table.last == 6


def test_3_9_adds_lines_behind_each_skip():
    table = LineTable(9, 5, bytes([0, 1, 4, 2, 6, 0xFF]))
    assert [table.at(offset) for offset in (0, 2, 4, 8, 10, 100)] == [6, 6, 8, 8, 7, 7]


def test_before_the_first_instruction_stands_the_first_line():
    assert LineTable(MINOR, 9, b"\x80\x00").at(-2) == 9
    assert LineTable(MINOR, 9, b"").at(4) == 9


@given(st.integers(8, 14), st.integers(0, 1 << 22), st.binary(max_size=300), st.integers(-9, 9999))
def test_any_bytes_give_a_line_or_none(minor, first, content, offset):
    assert LineTable(minor, first, content).at(offset) >= 0


@given(
    st.integers(1, 9999),
    st.lists(
        st.tuples(st.integers(0, 15), st.integers(0, 7), st.lists(st.integers(0, 63), max_size=4)),
        max_size=40,
    ),
)
def test_long_tables_say_what_short_ones_do(first, entries):
    """As both are read in ways of their own."""
    content = bytearray()
    for code, length, digits in entries:
        content.append(0x80 | code << 3 | length)
        content += bytes([*(64 | digit for digit in digits), 1])
    if len(content) <= _SHORT_TABLE:
        ends, lines = _lines_of(11, first, np.frombuffer(bytes(content), np.uint8))
        short = _short_locations(first, bytes(content))
        assert (ends.tolist(), lines.tolist()) == tuple(map(list, short))


@pytest.mark.parametrize("minor", [9, 10, 11])
def test_a_table_of_thousands_of_entries_takes_no_time_and_little_memory(minor):
    content = bytes([0xE8, 5, 0x80, 1]) * (wire.MOST_LINES_BYTES // 4)
    begun = time.process_time()
    tables = [LineTable(minor, 1, content) for _ in range(20)]
    assert time.process_time() - begun < 0.1
    assert sum(sys.getsizeof(tables[0]._ends) for _ in range(2)) < 17 * wire.MOST_LINES_BYTES
