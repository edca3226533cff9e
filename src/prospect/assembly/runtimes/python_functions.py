"""Code objects of CPython → functions and lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.abi import cpython
from prospect.abi import runtime_frames as wire
from prospect.assembly.runtimes.described import Described, decoded
from prospect.records import NamedTuple
from prospect.symbols.runtime_code import LineTable, RuntimeFunction

if TYPE_CHECKING:
    from prospect.events.runtime_records import CodeText, RuntimeImage

_MOST_FIRST = 1 << 22
_INSTRUCTION_BYTES = 2
_NUMBERED = 10  # 3.10 counts instructions, not bytes


def describe_python(text: CodeText, image: RuntimeImage) -> Described:
    """Return the function of a code object and its lines, as far as the recording has them."""
    build = _build_of(image)
    if build is None or text.name is None:
        return Described(RuntimeFunction("[python]", "[not read]", 0))
    first = text.beginning >> build.shift & 0xFFFFFFFF
    first = first if first < _MOST_FIRST else 0
    file = decoded(text.file) if text.file else "[python]"
    lines = None
    if text.lines is not None:
        lines = _Lines(build, LineTable(build.minor, first, text.lines))
    return Described(RuntimeFunction(file or "[python]", decoded(text.name) or "?", first), lines)


class _Lines:
    """The lines of a code object, by last instructions of frames."""

    def __init__(self, build: _Build, table: LineTable) -> None:
        self._build, self._table = build, table
        self.last, self.size_bytes = table.last, table.size_bytes

    def at(self, last: int) -> int:
        """Return the line of a frame."""
        return self._table.at(_offset(last, self._build))


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


def _build_of(image: RuntimeImage) -> _Build | None:
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
