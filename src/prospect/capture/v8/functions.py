"""Names, files and lines of V8's functions, read from a process's memory when they are first met.

A function is known by its SharedFunctionInfo, which all of its closures share. The garbage
collector moves objects, so each reading begins with a check of the object's type, and fails if that
does not fit. The memory may be hostile: texts, tables, steps and the size of sources are bounded.

Defined by: `abi.v8`; ``src/objects/scope-info.tq`` and ``src/codegen/source-position-table.cc`` of
V8.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left

from prospect.abi import v8
from prospect.capture.capture_limits import (
    DEEPEST_STRING,
    LARGEST_SOURCE_BYTES,
    MOST_FILE_CHARACTERS,
    MOST_NAME_CHARACTERS,
    MOST_POSITION_BYTES,
    MOST_SCRIPTS,
    MOST_SOURCE_LINES,
    MOST_STRING_PARTS,
)
from prospect.capture.runtimes.process_memory import UnreadableError
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.abi.v8 import Layout
    from prospect.capture.runtimes.process_memory import ProcessMemory

_PIECE_BYTES = 1 << 16
_MOST_CHARACTERS = 1 << 30
_SHARED_BYTES = 72
_SMI_SHIFT = 32
_NEWLINE = 10
_PLACE_MASK, _CALL_MASK = (1 << 30) - 1, (1 << 16) - 1
_SCOPE_NAME_TRIES = 3
_WORD = struct.Struct("<Q")
_MASK = (1 << 64) - 1


# The function around a script has no name, and begins where the source does.
MODULE = "(module)"


class Function(NamedTuple):
    """A function of JavaScript.

    Attributes:
        name: as V8 shows it; "" for an anonymous one, `MODULE` for a whole script.
        file: the script's name, "" for V8's own functions.
        first: its first line, from 1; 0 if unknown.
        lines: (offset in its bytecode, line) of each piece of it, ascending; empty if V8 has not
            kept them.
    """

    name: str
    file: str
    first: int
    lines: tuple[tuple[int, int], ...] = ()


class _Slice(NamedTuple):
    """Characters of a string, and its depth in other strings."""

    string: int
    begin: int
    end: int
    depth: int


class FunctionReader:
    """Reads functions from the memory of one process."""

    def __init__(self, memory: ProcessMemory, layout: Layout) -> None:
        self._memory = memory
        self._layout = layout
        # Ends of a source's lines, by the object and the length of the source.
        self._line_ends: dict[tuple[int, int], array[int]] = {}

    def signature(self, shared: int) -> int:
        """Return the `signed_bytes` of a function.

        Raises:
            UnreadableError: they cannot be read.
        """
        return signed_bytes(self._memory.read(shared - 1, _SHARED_BYTES), self._layout)

    def read(self, shared: int) -> Function:
        """Return the function of a SharedFunctionInfo, by its tagged address.

        Raises:
            UnreadableError: it is gone, or its memory cannot be read.
        """
        layout = self._layout
        content = self._memory.read(shared - 1, _SHARED_BYTES)
        (its_map,) = _WORD.unpack_from(content)
        if self.type_of_map(its_map) != layout.shared_type:
            raise UnreadableError
        name_object, script, data = (
            _WORD.unpack_from(content, one)[0]
            for one in (layout.name, layout.script, v8.SHARED_DATA)
        )
        name, position = self._name_and_position(name_object)
        if self.type_of(script) != layout.script_type:
            return Function(name, "", 0)
        source, file_object = (
            self._memory.number(script - 1 + one) for one in (v8.SCRIPT_SOURCE, v8.SCRIPT_NAME)
        )
        file = self._text(file_object, MOST_FILE_CHARACTERS) or "[eval]"
        try:
            ends = self._ends_of(source) if position is not None else array("I")
        except UnreadableError:
            position, ends = None, array("I")
        if position is None:
            return Function(name, file, 0)
        name = name or ("" if position else MODULE)
        lines: tuple[tuple[int, int], ...] = ()
        try:
            table = self._line_table(data)
            lines = tuple(
                (offset, bisect_left(ends, place) + 1)
                for offset, place, _ in positions(table, has_bit=bool(layout.has_statement_bit))
            )
        except UnreadableError:
            pass
        return Function(name, file, bisect_left(ends, position) + 1, lines)

    def line_ends(self, shared: int) -> array[int] | None:
        """Return the ends of the lines of a function's source, None without a source.

        Raises:
            UnreadableError: it is gone, or cannot be read.
        """
        script = self._memory.number(shared - 1 + self._layout.script)
        if self.type_of(script) != self._layout.script_type:
            return None
        return self._ends_of(self._memory.number(script - 1 + v8.SCRIPT_SOURCE))

    def _name_and_position(self, name_object: int) -> tuple[str, int | None]:
        """Return the name, and the function's beginning in the source."""
        kind = self.type_of(name_object)
        if kind != self._layout.scope_type:
            return self._text(name_object, MOST_NAME_CHARACTERS), None
        at, first = name_object - 1, self._layout.first_variable
        variables = self._memory.number(at + 8 * 3) >> _SMI_SHIFT
        words = 2 * variables if variables < v8.MOST_INLINE_VARIABLES else 1 + variables
        begin = at + 8 * (1 + first + words)
        after = struct.unpack("<8Q", self._memory.read(begin, 64))
        name, place = self._scope_name(after)
        if self._layout.has_positions_first:
            return name, self._memory.number(at + 8 * (1 + v8.SCOPE_POSITION)) >> _SMI_SHIFT
        begins, ends = after[place], after[place + 1]
        is_position = not begins & 1 and not ends & 1 and begins <= ends
        return name, begins >> _SMI_SHIFT if is_position else None

    def _scope_name(self, words: tuple[int, ...]) -> tuple[str, int]:
        """Return the name among the words after a scope's variables, and the place after it.

        A function has its name, the number of its variable, and the name that V8 inferred; members
        of a class may have a word before these. Other scopes have none of them.
        """
        for at in range(_SCOPE_NAME_TRIES):
            own, slot, inferred = words[at : at + 3]
            if not own & 1 and own:
                continue
            if slot & 1 or not inferred & 1:
                return "", at
            name = self._text(own, MOST_NAME_CHARACTERS) if own else ""
            return name or self._text(inferred, MOST_NAME_CHARACTERS), at + 3
        return "", 0

    def _line_table(self, data: int) -> bytes:
        """Return the table of source positions that a function's bytecode has, b"" for none."""
        layout = self._layout
        for _ in range(3):
            kind = self.type_of(data)
            if kind == layout.bytecode_type:
                break
            if kind == layout.interpreter_type:
                data = self._memory.number(data - 1 + v8.INTERPRETER_BYTECODE)
            elif kind == layout.code_type:
                data = self._memory.number(data - 1 + layout.code_bytecode)
            else:
                return b""
        else:
            return b""
        table = self._memory.number(data - 1 + layout.line_table)
        return self.bytes_of(table)

    def bytes_of(self, array: int) -> bytes:
        """Return the content of an array of bytes, b"" if it is another object or too large.

        Raises:
            UnreadableError: it is gone, or cannot be read.
        """
        if self.type_of(array) not in (self._layout.bytes_type, self._layout.trusted_bytes_type):
            return b""
        size = self._memory.number(array - 1 + v8.ARRAY_LENGTH) >> _SMI_SHIFT
        if not 0 < size <= MOST_POSITION_BYTES:
            return b""
        return self._memory.read(array - 1 + v8.ARRAY_DATA, size)

    def _ends_of(self, source: int) -> array[int]:
        """Return the ends of the lines of a source."""
        kind = self.type_of(source)
        if not 0 <= kind < self._layout.not_string:
            raise UnreadableError
        length = self._length(source)
        key = source, length
        ends = self._line_ends.get(key)
        if ends is None:
            ends = array("I")
            at = 0
            for text, width in self._pieces(source, LARGEST_SOURCE_BYTES):
                ends.extend(at + one for one in _newlines(text, width))
                at += len(text) // width
                if len(ends) > MOST_SOURCE_LINES:
                    break
            while len(self._line_ends) >= MOST_SCRIPTS:
                del self._line_ends[next(iter(self._line_ends))]
            self._line_ends[key] = ends
        return ends

    def _text(self, string: int, most: int) -> str:
        """Return a string's text, "" for other objects; a longer one ends with an ellipsis."""
        if not 0 <= self.type_of(string) < self._layout.not_string:
            return ""
        found = ""
        for text, width in self._pieces(string, 2 * most + 2):
            found += text.decode("latin-1" if width == 1 else "utf-16-le", "replace")
            if len(found) > most:
                return found[:most] + "…"
        return found

    def _pieces(self, string: int, most_bytes: int) -> Iterator[tuple[bytes, int]]:
        """Give the text of a string in pieces, each with the number of bytes a character."""
        left = most_bytes
        todo = [_Slice(string, 0, _MOST_CHARACTERS, 0)]
        for _ in range(MOST_STRING_PARTS):
            if not todo or left <= 0:
                return
            part = todo.pop()
            kind = self.type_of(part.string)
            if not 0 <= kind < self._layout.not_string or part.depth > DEEPEST_STRING:
                raise UnreadableError
            part = part._replace(end=min(part.end, self._length(part.string)))
            stored = kind & v8.STRING_KIND
            if stored not in (v8.SEQUENTIAL, v8.EXTERNAL):
                todo += self._parts(part, stored)
                continue
            width = 1 if kind & v8.STRING_ONE_BYTE else 2
            text = part.string - 1 + v8.STRING_TEXT
            if stored == v8.EXTERNAL:
                text = self._memory.number(part.string - 1 + v8.STRING_SECOND)
            size = min(width * max(0, part.end - part.begin), left & ~1)
            left -= size
            for offset in range(0, size, _PIECE_BYTES):
                piece = min(_PIECE_BYTES, size - offset)
                yield self._memory.read(text + width * part.begin + offset, piece), width

    def _parts(self, part: _Slice, stored: int) -> list[_Slice]:
        """Return the parts of a string that has no text of its own, the last first."""
        string, begin, end, depth = part
        first = self._memory.number(string - 1 + v8.STRING_FIRST)
        if stored == v8.THIN:
            return [_Slice(first, begin, end, depth + 1)]
        second = self._memory.number(string - 1 + v8.STRING_SECOND)
        if stored == v8.SLICED:
            shift = second >> _SMI_SHIFT
            return [_Slice(first, begin + shift, end + shift, depth + 1)]
        if stored != v8.CONS:
            raise UnreadableError
        middle = self._length(first)
        found = []
        if end > middle:
            found.append(_Slice(second, max(0, begin - middle), end - middle, depth + 1))
        if begin < middle:
            found.append(_Slice(first, begin, min(end, middle), depth + 1))
        return found

    def _length(self, string: int) -> int:
        return self._memory.number(string - 1 + v8.STRING_LENGTH) & 0x7FFFFFFF

    def type_of(self, tagged: int) -> int:
        """Return the type of an object, -1 for a small integer.

        Raises:
            UnreadableError: it is not there.
        """
        if tagged & 3 != 1:
            return -1
        return self.type_of_map(self._memory.number(tagged - 1))

    def type_of_map(self, its_map: int) -> int:
        """Return the type of the objects with a map; raises as `type_of`."""
        if its_map & 3 != 1:
            raise UnreadableError
        return int.from_bytes(self._memory.read(its_map - 1 + v8.MAP_TYPE, 2), "little")


def signed_bytes(content: bytes, layout: Layout) -> int:
    """Return the 8 bytes of a function that differ from those of others at its address.

    They are the script plus the function's number there, as in `v8_runtime`.
    """
    (script,) = _WORD.unpack_from(content, layout.script)
    (flags,) = _WORD.unpack_from(content, layout.flags)
    return int(script + (flags >> 32 << 32) & _MASK)


def positions(table: bytes, *, has_bit: bool) -> Iterator[tuple[int, int, int]]:
    """Give (offset in the code, place in the source, inlined call) of each entry, by offset.

    Two numbers are one entry: the distances of the offset and of the position. Each has 7 bits a
    byte, the lowest first. A distance that may be negative has its sign in the lowest bit.

    Args:
        table: any bytes.
        has_bit: whether the lowest two bits of the first number are flags; otherwise that of an
            expression is negative, less 1.
    """
    numbers = []
    value = shift = 0
    for byte in table:
        value |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            numbers.append(value)
            value = shift = 0
    offset = position = 0
    for step, move in zip(numbers[::2], numbers[1::2], strict=False):
        # The sign of an offset's distance is only a flag, too.
        offset += step >> 2 if has_bit else step >> 1
        position += -(move >> 1) - 1 if move & 1 else move >> 1
        place, inlined = split_position(position)
        if place >= 0 and 0 <= offset < 1 << 31:
            yield offset, place, inlined


def split_position(position: int) -> tuple[int, int]:
    """Return the place in the source and the number of the inlined call of a position, -1 for none.

    Both are 1 more in it: the place in 30 bits above the lowest one, the number in the next 16.
    """
    return (position >> 1 & _PLACE_MASK) - 1, (position >> 31 & _CALL_MASK) - 1


def _newlines(text: bytes, width: int) -> Iterator[int]:
    """Give the numbers of the characters that end a line."""
    if width == 1:
        at = text.find(b"\n")
        while at >= 0:
            yield at
            at = text.find(b"\n", at + 1)
    else:
        units = memoryview(text[: len(text) & ~1]).cast("H")
        yield from (at for at, unit in enumerate(units) if unit == _NEWLINE)
