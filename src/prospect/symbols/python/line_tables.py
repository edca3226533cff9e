"""A code object's table of lines and an instruction → the line.

Comes in: bytes from a recording, which may be anything. Goes out: a line, 0 where there is none.

Defined by: ``Objects/locations.md`` (3.11 on), PEP 626 and ``Objects/lnotab_notes.txt`` (3.10), the
latter for 3.8 and 3.9.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

_LOCATIONS_SINCE = 11
_LINETABLE_SINCE = 10
_MOST_LINE = 1 << 24
# Codes of ``Objects/locations.md``; the first byte of an entry alone has the highest bit.
_ENTRY = 0x80
_SHORT_END, _ONE_LINE_END, _NO_COLUMNS, _LONG, _NOWHERE = 10, 13, 13, 14, 15
# Up to here a loop over the entries is faster than whole columns.
_SHORT_TABLE = 256
_NUMBER_DIGITS = 5  # of 6 bits each: no line is further away
_NO_LINE = 128


class LineTable:
    """The lines of one code object.

    Attributes:
        last: the last line that it has.
    """

    def __init__(self, minor: int, first: int, table: bytes) -> None:
        """Read the table.

        Args:
            minor: of CPython 3.
            first: the code object's first line.
            table: its table.
        """
        self._first = first
        if minor >= _LOCATIONS_SINCE and len(table) <= _SHORT_TABLE:
            ends, lines = _short_locations(first, table)
        else:
            # As whole columns: a process may make up tables of thousands of entries.
            ends, lines = map(_packed, _lines_of(minor, first, np.frombuffer(table, np.uint8)))
        self.last = max(lines, default=first)
        self._ends, self._lines = ends, lines

    @property
    def size_bytes(self) -> int:
        """Memory of the columns."""
        return self._ends.itemsize * (len(self._ends) + len(self._lines))

    def at(self, offset: int) -> int:
        """Return the line of the instruction at an offset in bytes; the first one's before it."""
        if offset < 0 or not self._ends:
            return self._first
        row = bisect_right(self._ends, offset)
        return self._lines[min(row, len(self._lines) - 1)]


def _short_locations(first: int, table: bytes) -> tuple[array[int], array[int]]:
    ends, lines = [], []
    offset, line = 0, first
    for at, head in enumerate(table):
        if not head & _ENTRY:
            continue
        offset += 2 * ((head & 7) + 1)
        code = head >> 3 & 15
        if _SHORT_END <= code < _ONE_LINE_END:
            line += code - _SHORT_END
        elif code in (_NO_COLUMNS, _LONG):
            value = shift = 0
            for byte in table[at + 1 : at + 1 + _NUMBER_DIGITS]:
                value |= (byte & 63) << shift
                shift += 6
                if not byte & 64:
                    break
            line += -(value >> 1) if value & 1 else value >> 1
        ends.append(offset)
        lines.append(line if code != _NOWHERE and 0 < line < _MOST_LINE else 0)
    return array("q", ends), array("q", lines)


def _packed(column: Numbers) -> array[int]:
    found = array("q")
    found.frombytes(column.tobytes())
    return found


def _lines_of(minor: int, first: int, table: NDArray[np.uint8]) -> tuple[Numbers, Numbers]:
    """Return where each piece ends, in bytes of code, and its line; ends rise."""
    if minor >= _LOCATIONS_SINCE:
        ends, lines = _locations(first, table)
    else:
        pairs = table[: len(table) & ~1].reshape(-1, 2).astype(np.int64)
        ends, lines = (_linetable if minor >= _LINETABLE_SINCE else _lnotab)(first, pairs)
    return ends, np.where((lines > 0) & (lines < _MOST_LINE), lines, 0)


def _locations(first: int, table: NDArray[np.uint8]) -> tuple[Numbers, Numbers]:
    start = np.flatnonzero(table & _ENTRY)
    head = table.take(start).astype(np.int64)
    code = head >> 3 & 15
    delta = np.where((code >= _SHORT_END) & (code < _ONE_LINE_END), code - _SHORT_END, 0)
    far = np.flatnonzero((code == _NO_COLUMNS) | (code == _LONG))
    delta[far] = _signed(table, start.take(far) + 1)
    lines = np.where(code == _NOWHERE, 0, first + np.cumsum(delta))
    return 2 * np.cumsum((head & 7) + 1), lines


def _signed(table: NDArray[np.uint8], at: Numbers) -> Numbers:
    """Read numbers of 6 bits a byte, the lowest first, until a byte without 0x40."""
    value = np.zeros(len(at), np.int64)
    goes_on = np.ones(len(at), np.bool_)
    for number in range(_NUMBER_DIGITS if len(at) else 0):
        is_there = goes_on & (at + number < len(table))
        byte = np.where(is_there, table.take(at + number, mode="clip"), 0).astype(np.int64)
        value |= (byte & 63) << 6 * number
        goes_on &= byte & 64 > 0
        if not goes_on.any():
            break
    return np.where(value & 1, -(value >> 1), value >> 1)


def _linetable(first: int, pairs: Numbers) -> tuple[Numbers, Numbers]:
    delta = pairs[:, 1]
    has_none = delta == _NO_LINE
    steps = np.where(has_none, 0, np.where(delta > _NO_LINE, delta - 256, delta))
    return np.cumsum(pairs[:, 0]), np.where(has_none, 0, first + np.cumsum(steps))


def _lnotab(first: int, pairs: Numbers) -> tuple[Numbers, Numbers]:
    """Read bytes of code to skip and lines to add after them: a line lasts until the next skip."""
    steps = np.where(pairs[:, 1] >= _NO_LINE, pairs[:, 1] - 256, pairs[:, 1])
    line = first + np.concatenate([[0], np.cumsum(steps)])
    skips = np.flatnonzero(pairs[:, 0])
    # The last line lasts to the end of the code.
    ends = np.append(np.cumsum(pairs[:, 0]).take(skips), 1 << 32)
    return ends, np.append(line.take(skips), line[-1])
