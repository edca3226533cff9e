"""Frames' code objects and instructions → functions and lines.

Whatever a recording holds, names are printable text of bounded length, and lines are bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import cpython
from prospect.abi import python_frames as wire
from prospect.columns.grouping import alike
from prospect.events.python_records import CodeKey, CodeText
from prospect.records import NamedTuple
from prospect.symbols.python_code import (
    MOST_LINES,
    LineTable,
    PythonCode,
    PythonFunction,
    standing,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.events.python_records import PythonImage, PythonRecords

# Functions and lines that are kept from one part of a session to the next: 5,000 of usual size.
_MOST_BYTES = 12 << 20
_OBJECT_BYTES = 1 << 10
UNREAD = PythonFunction("[python]", "[not read]", 0)
_CODECS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
_MOST_FIRST = 1 << 22
_INSTRUCTION_BYTES = 2
_NUMBERED = 10  # 3.10 counts instructions, not bytes


def place_frames(records: PythonRecords) -> tuple[PythonCode, NDArray[np.uint64]]:
    """Give each frame an address in the Python code of the recording.

    Args:
        records: stacks and names.

    Returns:
        The code, and u64[f] the address of each of the records' frames.
    """
    image = np.repeat(records.image, np.diff(records.start))
    columns = (image, records.code, records.signature, records.last)
    found = alike(columns)
    known: dict[CodeKey, tuple[PythonFunction, LineTable | None]] = {}
    functions: dict[PythonFunction, int] = {}
    last_line: list[int] = []
    places: list[tuple[int, int]] = []
    builds = {number: _build(one) for number, one in records.images.items()}
    for *place, last in zip(*(column.take(found.row).tolist() for column in columns), strict=True):
        key = CodeKey(*place)
        build = builds.get(key.image)
        if key not in known:
            function, lines = known[key] = _DESCRIBED.of(records.texts.get(key), build)
            number = functions.setdefault(function, len(functions))
            if number == len(last_line):
                last_line.append(function.first)
            # How far it reaches is the same whichever of its lines were met.
            reach = min(lines.last, function.first + MOST_LINES - 1) if lines else 0
            last_line[number] = max(last_line[number], reach)
        function, lines = known[key]
        line = lines.at(_offset(last, build)) if lines and build else 0
        line = line if function.first <= line < function.first + MOST_LINES else 0
        number = functions[function]
        places.append((number, line))
    order, start = standing(functions)
    rank = np.empty(len(order), np.int64)
    rank[[functions[function] for function in order]] = np.arange(len(order))
    sizes = [last_line[functions[one]] - one.first + 2 for one in order]
    numbers = np.array([one for one, _ in places], np.int64)
    of_place = np.array([one for _, one in places], np.int64)
    first = np.array([function.first for function in functions], np.int64).take(numbers)
    inside = np.where(of_place > 0, of_place - first + 1, 0).astype(np.uint64)
    address = start.take(rank.take(numbers)) + inside
    end = start + np.array(sizes, np.uint64)
    return PythonCode(order, start, end), address.take(found.place)


class _Build(NamedTuple):
    """Facts that the lines of code objects depend on.

    Attributes:
        minor: of CPython 3.
        instructions: their offset in a code object, 0 if frames have numbers.
        shift: bits of `CodeText.beginning` below the first line.
    """

    minor: int
    instructions: int
    shift: int


def _build(image: PythonImage) -> _Build | None:
    """Return what an interpreter's lines depend on, None if that is not known."""
    minor, described = image.version & 0xFF, image.described
    if described:
        shift = 8 * (described >> wire.FIRST_LINE_SHIFT)
        return _Build(minor, described & wire.INSTRUCTIONS_MASK, shift)
    layout = cpython.CODE.get(minor)
    if layout is None:
        return None
    return _Build(minor, layout.instructions, 8 * (layout.first_line - layout.signature))


def _offset(last: int, build: _Build) -> int:
    """Return the last instruction's offset in the code, in bytes."""
    if build.instructions:
        return last - build.instructions
    signed = last - (1 << 32) if last >> 31 else last
    return signed * _INSTRUCTION_BYTES if build.minor == _NUMBERED else signed


_Function = tuple[PythonFunction, LineTable | None]


class _Described:
    """The functions of code objects: each part of a session asks for the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[CodeText | None, _Build | None], _Function] = {}
        self._bytes = 0

    def of(self, text: CodeText | None, build: _Build | None) -> _Function:
        """Return the function of a code object and its lines."""
        key = text, build
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _describe(text, build)
            self._bytes += _size(text, found)
            while self._bytes > _MOST_BYTES:
                oldest = next(iter(self._known))
                self._bytes -= _size(oldest[0], self._known.pop(oldest))
        return found


def _size(text: CodeText | None, found: _Function) -> int:
    """Return about how many bytes a code object takes here."""
    lines = found[1]
    size = len(text.lines) if text and text.lines else 0
    return _OBJECT_BYTES + size + (lines.size_bytes if lines else 0)


def _describe(text: CodeText | None, build: _Build | None) -> _Function:
    """Return the function of a code object and its lines, as far as the recording has them."""
    if text is None or text.name is None or build is None:
        return UNREAD, None
    first = text.beginning >> build.shift & 0xFFFFFFFF
    first = first if first < _MOST_FIRST else 0
    file = _decoded(*text.file) if text.file else "[python]"
    lines = LineTable(build.minor, first, text.lines) if text.lines is not None else None
    return PythonFunction(file or "[python]", _decoded(*text.name) or "?", first), lines


_DESCRIBED = _Described()


def _decoded(status: int, payload: bytes) -> str:
    """Return text as a report may show it."""
    codec = _CODECS.get(status & wire.BYTES_A_CHARACTER, "latin-1")
    text = payload.decode(codec, "replace")
    if not text.isprintable():
        text = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
    return text + "…" if status & wire.CUT else text
