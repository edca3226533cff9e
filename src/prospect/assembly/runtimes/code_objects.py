"""Records of runtimes' functions → names and lines.

Names become printable text of bounded length, and lines are bounded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import cpython, ruby
from prospect.abi import runtime_frames as wire
from prospect.assembly.assembly_limits import MOST_FIRST, MOST_KEPT_BYTES, MOST_LINE
from prospect.assembly.runtimes.v8_inlining import describe_v8
from prospect.columns.grouping import alike
from prospect.events.runtime_records import CodeKey
from prospect.profile.model import KIND_JAVASCRIPT, KIND_NAMES, KIND_PHP, KIND_PYTHON, KIND_RUBY
from prospect.records import NamedTuple
from prospect.symbols.runtime_code import (
    MOST_LINES,
    Described,
    LineTable,
    RuntimeCode,
    RuntimeFunction,
    decoded,
    place_functions,
)

if TYPE_CHECKING:
    from prospect.columns.array_types import U64
    from prospect.events.runtime_records import CodeText, RuntimeImage, RuntimeRecords

_OBJECT_BYTES = 1 << 10


def place_frames(records: RuntimeRecords) -> tuple[RuntimeCode, U64]:
    """Return the runtimes' code of a recording, and u64[f] the address of each frame in it."""
    image_of = np.repeat(records.image, np.diff(records.start))
    columns = (image_of, records.code, records.signature, records.last)
    found = alike(columns)
    known: dict[CodeKey, Described] = {}
    functions: dict[RuntimeFunction, int] = {}
    last_line: list[int] = []
    places: list[tuple[int, int]] = []
    for *place, last in zip(*(column.take(found.row).tolist() for column in columns), strict=True):
        key = CodeKey(*place)
        if key not in known:
            text, image = records.texts.get(key), records.images.get(key.image)
            function, lines = known[key] = _DESCRIBED.of(text, image)
            number = functions.setdefault(function, len(functions))
            if number == len(last_line):
                last_line.append(function.first)
            # The end does not depend on which of its lines have samples.
            reach = min(lines.last, function.first + MOST_LINES - 1) if lines else 0
            last_line[number] = max(last_line[number], reach)
        function, lines = known[key]
        line = lines.at(last) if lines else 0
        line = line if function.first <= line < function.first + MOST_LINES else 0
        number = functions[function]
        places.append((number, line))
    order, start = place_functions(functions)
    rank = np.empty(len(order), np.int64)
    rank[[functions[function] for function in order]] = np.arange(len(order))
    sizes = [last_line[functions[one]] - one.first + 2 for one in order]
    numbers = np.array([one for one, _ in places], np.int64)
    of_place = np.array([one for _, one in places], np.int64)
    first = np.array([function.first for function in functions], np.int64).take(numbers)
    inside = np.where(of_place > 0, of_place - first + 1, 0).astype(np.uint64)
    address = start.take(rank.take(numbers)) + inside
    end = start + np.array(sizes, np.uint64)
    return RuntimeCode(order, start, end), address.take(found.place)


class _KeptFunctions:
    """The described functions, kept because each part of a session has the same ones."""

    def __init__(self) -> None:
        self._known: dict[tuple[CodeText | None, RuntimeImage | None], Described] = {}
        self._bytes = 0

    def of(self, text: CodeText | None, image: RuntimeImage | None) -> Described:
        """Return a function, and its lines if the recording has them."""
        runtime = image.runtime if image else wire.CPYTHON
        describe, kind = _RUNTIMES.get(runtime, (None, KIND_PYTHON))
        if text is None or text.name is None or image is None or describe is None:
            return Described(RuntimeFunction(f"[{KIND_NAMES[kind]}]", "[not read]", 0, kind))
        # Functions of all processes of one build have the same description.
        build = image._replace(text_begin=0, text_end=0, loop_begin=0, loop_end=0, user=0)
        found = self._known.get((text, build))
        if found is None:
            found = describe(text, build)
            found = found._replace(function=found.function._replace(kind=kind))
            self._known[text, build] = found
            self._bytes += _size(text, found)
            while self._bytes > MOST_KEPT_BYTES:
                oldest = next(iter(self._known))
                self._bytes -= _size(oldest[0], self._known.pop(oldest))
        return found


def _size(text: CodeText | None, found: Described) -> int:
    """Estimate the memory of a kept function in bytes."""
    tables = (text.lines, text.positions) if text else ()
    size = sum(len(table) for table in tables if table)
    return _OBJECT_BYTES + size + (found.lines.size_bytes if found.lines else 0)


_DESCRIBED = _KeptFunctions()


# Functions of PHP → names and lines. A frame's `last` is its line.

_LINE_MASK, _LAST_SHIFT = 0xFFFFFFFF, 32


class _PhpLines(NamedTuple):
    """The lines of a function, whose frames have their lines."""

    last: int
    size_bytes: int = 0

    def at(self, last: int) -> int:
        """Return the line of a frame; 0 if it is after the function's last line."""
        return last if last <= self.last else 0


def describe_php(text: CodeText, image: RuntimeImage) -> Described:  # noqa: ARG001 - a `_Describe`
    """Return a function; one written in C has no file and no lines."""
    first, last = text.beginning & _LINE_MASK, text.beginning >> _LAST_SHIFT
    is_known = 0 < first <= last < MOST_LINE
    name = (decoded(text.name) if text.name else "") or "{main}"
    if text.scope:
        name = f"{decoded(text.scope)}::{name}"
    file = decoded(text.file) if text.file else ""
    function = RuntimeFunction(file or "[php]", name, first if is_known else 0)
    return Described(function, _PhpLines(last) if is_known and file else None)


# Instruction sequences of Ruby → functions and lines.
#
# A frame's `last` is the number of the word of code after its instruction. The table of positions
# has the entry of the lines for it.
#
# Defined by: ``iseq.c`` of CRuby 3.0 to 3.4, succ_index_lookup() and get_insn_info_succinct().

_WORD, _HALF = struct.Struct("<Q"), struct.Struct("<I")
_RANKS_AT, _BITS_AT = 8, 16  # in a block, after its rank
_RANK_BITS = 9
_LINE_BYTES_MASK, _FIXNUM = 0xFF, 1 << 8


def describe_ruby(text: CodeText, image: RuntimeImage) -> Described:
    """Return the function of an instruction sequence and its lines, or one written in C."""
    name = decoded(text.name) if text.name else ""
    if text.file is None:
        scope = decoded(text.scope) if text.scope else ""
        # A class without a name has an address instead.
        if scope and not scope.startswith("#<"):
            name = f"{scope}{'.' if text.beginning else '#'}{name}"
        return Described(RuntimeFunction("[ruby]", name or "?", 0))
    first = text.beginning >> 1 if image.described & _FIXNUM else text.beginning & 0xFFFFFFFF
    first = first if first < MOST_LINE else 0
    file = decoded(text.file)
    lines = None
    size = image.described & _LINE_BYTES_MASK
    has_positions = len(text.positions or b"") >= ruby.NEAR_BYTES
    if text.lines and text.positions and has_positions and size >= _HALF.size:
        lines = RubyLines(first, text.lines, size, text.positions)
    return Described(RuntimeFunction(file or "[ruby]", name or "?", first), lines)


class RubyLines:
    """The lines of one instruction sequence; its bytes may be anything."""

    def __init__(self, first: int, lines: bytes, line_bytes: int, positions: bytes) -> None:
        self._first = first
        count = len(lines) // line_bytes
        found = (_HALF.unpack_from(lines, line_bytes * row)[0] for row in range(count))
        self._lines = [line if line < MOST_LINE else 0 for line in found]
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
        """Return the number of entries that begin at or before a position."""
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


# Code objects of CPython → functions and lines.

_INSTRUCTION_BYTES = 2
_NUMBERED = 10  # 3.10 counts instructions, not bytes


def describe_python(text: CodeText, image: RuntimeImage) -> Described:
    """Return the function of a code object, and its lines if the recording has them."""
    build = _build_of(image)
    if build is None or text.name is None:
        return Described(RuntimeFunction("[python]", "[not read]", 0))
    first = text.beginning >> build.shift & 0xFFFFFFFF
    first = first if first < MOST_FIRST else 0
    file = decoded(text.file) if text.file else "[python]"
    lines = None
    if text.lines is not None:
        lines = _PythonLines(build, LineTable(build.minor, first, text.lines))
    return Described(RuntimeFunction(file or "[python]", decoded(text.name) or "?", first), lines)


class _PythonLines:
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
    """Return the facts that an interpreter's lines depend on, None if they are unknown."""
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


# The reader of each runtime's functions, and the kind of their source files.
_Describe = Callable[["CodeText", "RuntimeImage"], Described]
_RUNTIMES: dict[int, tuple[_Describe, int]] = {
    wire.CPYTHON: (describe_python, KIND_PYTHON),
    wire.RUBY: (describe_ruby, KIND_RUBY),
    wire.PHP: (describe_php, KIND_PHP),
    wire.V8: (describe_v8, KIND_JAVASCRIPT),
}
