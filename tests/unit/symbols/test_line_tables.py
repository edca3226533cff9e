"""Tables of lines of code objects: what this CPython has, and the older forms byte by byte."""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
import types
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prospect.symbols.python.line_tables import LineTable

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
