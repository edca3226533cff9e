"""Instruction sequences of Ruby → functions and lines.

A frame's `last` is the number of the word of code behind its instruction. The table of positions
says which entry of the lines that is.

Defined by: ``iseq.c`` of CRuby 3.0 to 3.4, succ_index_lookup() and get_insn_info_succinct().
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from prospect.abi import ruby
from prospect.assembly.runtimes.described import Described, decoded
from prospect.symbols.runtime_code import RuntimeFunction

if TYPE_CHECKING:
    from prospect.events.runtime_records import CodeText, RuntimeImage

_MOST_LINE = 1 << 24
_WORD, _HALF = struct.Struct("<Q"), struct.Struct("<I")
_RANKS_AT, _BITS_AT = 8, 16  # in a block, after its rank
_RANK_BITS = 9
_LINE_BYTES_MASK, _FIXNUM = 0xFF, 1 << 8


def describe_ruby(text: CodeText, image: RuntimeImage) -> Described:
    """Return the function of an instruction sequence and its lines."""
    first = text.beginning >> 1 if image.described & _FIXNUM else text.beginning & 0xFFFFFFFF
    first = first if first < _MOST_LINE else 0
    file = decoded(text.file) if text.file else ""
    name = decoded(text.name) if text.name else ""
    lines = None
    size = image.described & _LINE_BYTES_MASK
    has_positions = len(text.positions or b"") >= ruby.NEAR_BYTES
    if text.lines and text.positions and has_positions and size >= _HALF.size:
        lines = RubyLines(first, text.lines, size, text.positions)
    return Described(RuntimeFunction(file or "[ruby]", name or "?", first), lines)


class RubyLines:
    """The lines of one instruction sequence; its bytes may be anything.

    Attributes:
        last: the last line.
        size_bytes: memory that they take.
    """

    def __init__(self, first: int, lines: bytes, line_bytes: int, positions: bytes) -> None:
        self._first = first
        count = len(lines) // line_bytes
        found = (_HALF.unpack_from(lines, line_bytes * row)[0] for row in range(count))
        self._lines = [line if line < _MOST_LINE else 0 for line in found]
        self._positions = positions
        self.last = max(self._lines, default=first)
        self.size_bytes = 8 * count + len(positions)

    def at(self, last: int) -> int:
        """Return the line of the instruction before word `last`; the first line before any."""
        row = self._row(last - 1) - 1 if last > 0 else -1
        if not self._lines or row >= len(self._lines):
            return 0
        return self._lines[row] if row >= 0 else self._first

    def _row(self, position: int) -> int:
        """Return how many entries begin at a position or before it."""
        table = self._positions
        if position < ruby.NEAR_POSITIONS:
            word, place = divmod(position, ruby.NEAR_IN_WORD)
            (ranks,) = _WORD.unpack_from(table, _WORD.size * word)
            return int(ranks >> ruby.NEAR_BITS * place & (1 << ruby.NEAR_BITS) - 1)
        block, inside = divmod(position - ruby.NEAR_POSITIONS, ruby.BLOCK_POSITIONS)
        at = ruby.NEAR_BYTES + ruby.BLOCK_BYTES * block
        if at + ruby.BLOCK_BYTES > len(table):
            return len(self._lines) + 1
        (rank,) = _HALF.unpack_from(table, at)
        (ranks,) = _WORD.unpack_from(table, at + _RANKS_AT)
        word, bit = divmod(inside, 64)
        (bits,) = _WORD.unpack_from(table, at + _BITS_AT + _WORD.size * word)
        before = ranks >> _RANK_BITS * (word - 1) & (1 << _RANK_BITS) - 1 if word else 0
        return int(rank + before + (bits & (2 << bit) - 1).bit_count())
