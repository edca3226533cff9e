"""Functions of V8 → functions and lines."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING

from prospect.abi import v8
from prospect.assembly.runtimes.described import Described, decoded
from prospect.symbols.runtime_code import RuntimeFunction

if TYPE_CHECKING:
    from prospect.events.runtime_records import CodeText, RuntimeImage

_MOST_FIRST = 1 << 22
_PAIR_BYTES = 8
# What `last` of a frame is after `place_v8_frames`: a line with this bit, an offset in bytecode, or
# not known.
IS_LINE = 1 << 31
NOWHERE = (1 << 32) - 1


def describe_v8(text: CodeText, _image: RuntimeImage) -> Described:
    """Return a function of V8 and its lines, as far as the recording has them."""
    first = text.beginning if text.beginning < _MOST_FIRST else 0
    file = decoded(text.file) if text.file else ""
    name = decoded(text.name) if text.name else ""
    function = RuntimeFunction(file or v8.NO_FILE, name or "?", first)
    return Described(function, _Lines(first, text.lines or b""))


class _Lines:
    """The lines of a function as pairs of an offset and the line from there on.

    Attributes:
        last: the last line that it has.
        size_bytes: memory of the pairs.
    """

    def __init__(self, first: int, table: bytes) -> None:
        """Read the pairs, 32 bits each, in the order of offsets; `first` is the first line."""
        numbers = array("I", table[: len(table) // _PAIR_BYTES * _PAIR_BYTES])
        self._offsets, self._lines = numbers[::2], numbers[1::2]
        self._first = first
        self.last = min(max(self._lines, default=first), first + _MOST_FIRST)
        self.size_bytes = numbers.itemsize * len(numbers)

    def at(self, last: int) -> int:
        """Return the line of a frame, 0 if it is not known."""
        if last == NOWHERE:
            return 0
        if last & IS_LINE:
            line = last ^ IS_LINE
        elif self._offsets:
            row = bisect_right(self._offsets, last) - 1
            line = self._lines[row] if row >= 0 else self._first
        else:
            line = 0
        return line if line <= self.last else 0
