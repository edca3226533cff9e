"""The functions of runtimes in a recording; each of their lines has an address.

`RuntimeCode` names these addresses like those of other code: a file is an object, a function a
symbol in it, a line an instruction. In processes they are at addresses without memory
(`RUNTIME_BASE`). A function's place follows from its file, name and line, so it is the same in all
processes, and in all parts of a session.

`LineTable` reads the lines of a code object; its bytes are from a recording and may be anything.
Defined by: ``Objects/locations.md`` (3.11 on), PEP 626 and ``Objects/lnotab_notes.txt`` (3.10), the
latter for 3.8 and 3.9.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from prospect.abi import runtime_frames as wire
from prospect.profile.builder import NamedAddresses
from prospect.profile.model import KIND_NAMES, KIND_PYTHON
from prospect.profile.naming import NameSource
from prospect.records import Record
from prospect.symbols.objects import RUNTIME_BASE, RUNTIME_END
from prospect.symbols.resolution import Resolution
from prospect.symbols.table import build_symbol_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prospect.columns.array_types import I64, U8, U64, Bools
    from prospect.symbols.table import SymbolTable


_PREFIXES = [f"[{name}] ".encode() for name in KIND_NAMES]
_PLACE_BITS, _PLACES = 17, 1 << 29
# Lines of a function; there is room for one after them, and for code without a line.
MOST_LINES = (1 << _PLACE_BITS) - 2
_LOCATIONS_SINCE = 11
_LINETABLE_SINCE = 10
_MOST_LINE = 1 << 24
# Codes of ``Objects/locations.md``; the first byte of an entry alone has the highest bit.
_ENTRY = 0x80
_SHORT_END, _ONE_LINE_END, _NO_COLUMNS, _LONG, _NOWHERE = 10, 13, 13, 14, 15
# Up to this size in bytes a loop over the entries is faster than whole columns.
_SHORT_TABLE = 256
_NUMBER_DIGITS = 5  # of 6 bits each: no line is further away
_NO_LINE = 128

_CODECS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le", wire.IS_UTF8: "utf-8"}


class RuntimeFunction(NamedTuple):
    """A function of a report: its source file, qualified name and first line.

    `kind` is the object kind of its source file.
    """

    file: str
    name: str
    first: int
    kind: int = KIND_PYTHON

    @property
    def key_path(self) -> bytes:
        """The path in the `ObjectKey` of its file."""
        return _PREFIXES[self.kind] + self.file.encode("utf-8", "surrogatepass")


def place_functions(functions: Iterable[RuntimeFunction]) -> tuple[list[RuntimeFunction], U64]:
    """Return distinct functions in the order of their addresses, and u64[k] their addresses."""
    place: dict[int, RuntimeFunction] = {}
    for one in sorted(functions):
        facts = one[:-1] if one.kind == KIND_PYTHON else one
        words = "\0".join(map(str, facts)).encode("utf-8", "surrogatepass")
        digest = blake2b(words, digest_size=8).digest()
        number = int.from_bytes(digest, "little") % _PLACES
        while number in place:
            number = (number + 1) % _PLACES
        place[number] = one
    order = sorted(place)
    start = np.array(order, np.uint64) << np.uint64(_PLACE_BITS)
    return [place[number] for number in order], start


class RuntimeCode(Record, eq=False):
    """Functions, with addresses.

    Attributes:
        functions: in the order of their addresses.
        start: u64[k] address of code without a line; the first line is at the next address, and
            so on.
        end: u64[k] address after the last known line.
    """

    functions: list[RuntimeFunction]
    start: U64
    end: U64

    @cached_property
    def objects(self) -> list[tuple[bytes, int]]:
        """The source files: path in the `ObjectKey`, and kind."""
        return list(dict.fromkeys((one.key_path, one.kind) for one in self.functions))

    @cached_property
    def object_of(self) -> I64:
        """i64[k] row of `objects`."""
        rows = {path: row for row, (path, _) in enumerate(self.objects)}
        return np.array([rows[function.key_path] for function in self.functions], np.int64)

    @cached_property
    def _rows_of(self) -> dict[bytes, list[int]]:
        """Rows of the functions of each object, by its key's path."""
        paths = [path for path, _ in self.objects]
        rows: dict[bytes, list[int]] = {path: [] for path in paths}
        for row, file in enumerate(self.object_of.tolist()):
            rows[paths[file]].append(row)
        return rows

    def covers(self, address: U64) -> Bools:
        """Return bool[n] whether each address u64[n] of a process is in a function."""
        covered = (address >= RUNTIME_BASE) & (address < RUNTIME_END)
        inside = address[covered] - RUNTIME_BASE
        row = np.searchsorted(self.start, inside, side="right") - 1
        covered[covered] = (row >= 0) & (inside < self.end.take(row, mode="clip"))
        return covered

    def row_of(self, address: U64) -> I64:
        """Return i64[n] row of the function at each address u64[n], which must be in one."""
        return np.searchsorted(self.start, address, side="right") - 1

    def lines_of(self, address: U64) -> list[tuple[str, int]]:
        """Return file and line of each address; line 0 if it is not known."""
        found = []
        row = self.row_of(address)
        inside = address - self.start.take(row)
        for number, offset in zip(row.tolist(), inside.tolist(), strict=True):
            function = self.functions[number]
            found.append((function.file, function.first + offset - 1 if offset else 0))
        return found

    def resolve(self, path: bytes, kind: int, address: U64) -> Resolution:
        """Name addresses in an object, by its key's path, with the names in the recording."""
        source = NameSource.PYTHON if kind == KIND_PYTHON else NameSource.RUNTIME
        shown = path.removeprefix(_PREFIXES[kind]).decode("utf-8", "surrogatepass")
        # Not by `table`: a symbol table for each of a thousand small files would be slow.
        here = np.array(self._rows_of.get(path, ()), np.int64)
        place = np.searchsorted(self.start.take(here), address, side="right") - 1
        row = here.take(place, mode="clip") if len(here) else place
        is_covered = (place >= 0) & (address < self.end.take(row, mode="clip"))
        rows, function = np.unique(row[is_covered], return_inverse=True)
        of_address = np.full(len(address), -1, np.int32)
        of_address[is_covered] = function
        names = [self.functions[one].name for one in rows.tolist()]
        start = self.start.take(rows)
        found = NamedAddresses(
            address=address,
            function=of_address,
            reason=np.where(is_covered, source, NameSource.NO_COVER).astype(np.uint8),
            name=names,
            linkage_name=names,
            aliases=[()] * len(rows),
            function_address=start,
            function_size=self.end.take(rows) - start,
            is_global=np.ones(len(rows), np.bool_),
            source=np.full(len(rows), source, np.uint8),
            object_path=[shown] * len(rows),
        )
        return Resolution(found, shown, kind)

    def table(self, path: bytes) -> SymbolTable:
        """Return the functions of an object, by its key's path."""
        rows = np.array(self._rows_of.get(path, ()), np.int64)
        names = [self.functions[row].name.encode("utf-8", "surrogatepass") for row in rows.tolist()]
        length = np.array([len(name) for name in names], np.int64)
        end = self.end.take(rows)
        return build_symbol_table(
            strings=b"".join(names),
            start=self.start.take(rows),
            end=end,
            limit=end,
            name_start=np.cumsum(length) - length,
            name_length=length,
            is_global=np.ones(len(rows), np.bool_),
            source=np.full(len(rows), NameSource.PYTHON, np.uint8),
        )


class LineTable:
    """The lines of one code object of CPython 3.`minor`, whose first line is `first`."""

    def __init__(self, minor: int, first: int, table: bytes) -> None:
        self._first = first
        if minor >= _LOCATIONS_SINCE and len(table) <= _SHORT_TABLE:
            ends, lines = _short_locations(first, table)
        else:
            # As whole columns: a hostile process may have tables of thousands of entries.
            ends, lines = map(_packed, _lines_of(minor, first, np.frombuffer(table, np.uint8)))
        self.last = max(lines, default=first)
        self._ends, self._lines = ends, lines

    @property
    def size_bytes(self) -> int:
        """The memory of the columns."""
        return self._ends.itemsize * (len(self._ends) + len(self._lines))

    def at(self, offset: int) -> int:
        """Return the line of the instruction at an offset in bytes, the first line if negative."""
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
    return array("i", ends), array("i", lines)


def _packed(column: I64) -> array[int]:
    found = array("i")
    # A table has at most 24 KB, an entry covers 16 bytes of code: no offset needs more bits.
    found.frombytes(column.astype(np.int32).tobytes())
    return found


def _lines_of(minor: int, first: int, table: U8) -> tuple[I64, I64]:
    """Return the rising ends of pieces, in bytes of code, and the line of each."""
    if minor >= _LOCATIONS_SINCE:
        ends, lines = _locations(first, table)
    else:
        pairs = table[: len(table) & ~1].reshape(-1, 2).astype(np.int64)
        ends, lines = (_linetable if minor >= _LINETABLE_SINCE else _lnotab)(first, pairs)
    return ends, np.where((lines > 0) & (lines < _MOST_LINE), lines, 0)


def _locations(first: int, table: U8) -> tuple[I64, I64]:
    start = np.flatnonzero(table & _ENTRY)
    head = table.take(start).astype(np.int64)
    code = head >> 3 & 15
    delta = np.where((code >= _SHORT_END) & (code < _ONE_LINE_END), code - _SHORT_END, 0)
    far = np.flatnonzero((code == _NO_COLUMNS) | (code == _LONG))
    delta[far] = _signed(table, start.take(far) + 1)
    lines = np.where(code == _NOWHERE, 0, first + np.cumsum(delta))
    return 2 * np.cumsum((head & 7) + 1), lines


def _signed(table: U8, at: I64) -> I64:
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


def _linetable(first: int, pairs: I64) -> tuple[I64, I64]:
    delta = pairs[:, 1]
    has_none = delta == _NO_LINE
    steps = np.where(has_none, 0, np.where(delta > _NO_LINE, delta - 256, delta))
    return np.cumsum(pairs[:, 0]), np.where(has_none, 0, first + np.cumsum(steps))


def _lnotab(first: int, pairs: I64) -> tuple[I64, I64]:
    """Read pairs of bytes of code to skip and lines to add after them."""
    steps = np.where(pairs[:, 1] >= _NO_LINE, pairs[:, 1] - 256, pairs[:, 1])
    line = first + np.concatenate([[0], np.cumsum(steps)])
    skips = np.flatnonzero(pairs[:, 0])
    # The last line lasts to the end of the code.
    ends = np.append(np.cumsum(pairs[:, 0]).take(skips), 1 << 32)
    return ends, np.append(line.take(skips), line[-1])


class Lines(Protocol):
    """The lines of one function."""

    @property
    def last(self) -> int:
        """The last line."""

    @property
    def size_bytes(self) -> int:
        """The memory of the lines."""

    def at(self, last: int) -> int:
        """Return the line of a frame by its `last`; 0 if it is not known."""


class Described(NamedTuple):
    """A function, and its lines if they are known."""

    function: RuntimeFunction
    lines: Lines | None = None


def decoded(text: tuple[int, bytes]) -> str:
    """Return the printable text of a record's status and content."""
    status, payload = text
    codec = _CODECS.get(status & wire.BYTES_A_CHARACTER, "latin-1")
    found = payload.decode(codec, "replace")
    if not found.isprintable():
        found = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in found)
    return found + "…" if status & wire.CUT else found
