"""A code object's table of lines and an instruction → the line.

Comes in: bytes from a recording, which may be anything. Goes out: a line, 0 where there is none.

Defined by: ``Objects/locations.md`` (3.11 on), PEP 626 and ``Objects/lnotab_notes.txt`` (3.10), the
latter for 3.8 and 3.9.
"""

from __future__ import annotations

from array import array

_LOCATIONS_SINCE = 11
_LINETABLE_SINCE = 10
_MOST_LINE = 1 << 24
# Codes of ``Objects/locations.md``.
_SHORT_END, _ONE_LINE_END, _NO_COLUMNS, _LONG = 10, 13, 13, 14
_NO_LINE = 128


class LineTable:
    """The lines of one code object.

    Attributes:
        minor: of CPython 3.
        first: the code object's first line.
        table: its table.
    """

    def __init__(self, minor: int, first: int, table: bytes) -> None:
        self._first = first
        entries = _lines_of(minor, first, table)
        # A process may send tables of 24,000 entries: two lists of Python's would take 2 MB.
        self._ends = array("Q", [end for end, _ in entries])
        self._lines = array("i", [line if 0 < line < _MOST_LINE else 0 for _, line in entries])

    def at(self, offset: int) -> int:
        """Return the line of the instruction at an offset in bytes; the first one's before it."""
        from bisect import bisect_right  # noqa: PLC0415 - of the standard library, small

        if offset < 0 or not self._ends:
            return self._first
        row = bisect_right(self._ends, offset)
        return self._lines[min(row, len(self._lines) - 1)]

    @property
    def last(self) -> int:
        """The last line that it has."""
        return max(self._lines, default=self._first)


def _lines_of(minor: int, first: int, table: bytes) -> list[tuple[int, int]]:
    """Return where each piece ends, in bytes of code, and its line; ends rise."""
    if minor >= _LOCATIONS_SINCE:
        return _locations(first, table)
    return _linetable(first, table) if minor >= _LINETABLE_SINCE else _lnotab(first, table)


def _locations(first: int, table: bytes) -> list[tuple[int, int]]:
    found = []
    offset, line, at, end = 0, first, 0, len(table)
    while at < end:
        head = table[at]
        at += 1
        offset += 2 * ((head & 7) + 1)
        code = head >> 3 & 15
        shown = line
        if code < _SHORT_END:
            at += 1
        elif code < _ONE_LINE_END:
            line = shown = line + code - _SHORT_END
            at += 2
        elif code in (_NO_COLUMNS, _LONG):
            delta, at = _signed(table, at)
            line = shown = line + delta
            if code == _LONG:
                at = _behind_three(table, at)
        else:
            shown = 0
        found.append((offset, shown))
    return found


def _behind_three(table: bytes, at: int) -> int:
    """Return where three numbers end, as `_number` reads them."""
    end = len(table)
    for _ in range(3):
        while at < end and table[at] & 64:
            at += 1
        at += 1
    return min(at, end)


def _number(table: bytes, at: int) -> tuple[int, int]:
    """Read 6 bits a byte, the lowest first, until a byte without 0x40; where it ends too."""
    value = shift = 0
    while at < len(table):
        byte = table[at]
        at += 1
        value |= (byte & 63) << min(shift, 60)
        shift += 6
        if not byte & 64:
            break
    return value, at


def _signed(table: bytes, at: int) -> tuple[int, int]:
    value, at = _number(table, at)
    return (-(value >> 1) if value & 1 else value >> 1), at


def _linetable(first: int, table: bytes) -> list[tuple[int, int]]:
    found = []
    offset, line = 0, first
    for at in range(0, len(table) - 1, 2):
        offset += table[at]
        delta = table[at + 1]
        if delta == _NO_LINE:
            found.append((offset, 0))
            continue
        line += delta - 256 if delta > _NO_LINE else delta
        found.append((offset, line))
    return found


def _lnotab(first: int, table: bytes) -> list[tuple[int, int]]:
    """As bytes of code to skip and lines to add behind them: a line lasts until the next skip."""
    found: list[tuple[int, int]] = []
    offset, line = 0, first
    for at in range(0, len(table) - 1, 2):
        if table[at]:
            offset += table[at]
            found.append((offset, line))
        delta = table[at + 1]
        line += delta - 256 if delta >= _NO_LINE else delta
    # The last line lasts to the end of the code.
    found.append((1 << 32, line))
    return found
