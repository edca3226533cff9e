"""The Python functions of a recording, each line of which has an address.

Comes in: functions with their files and lines. Goes out: `PythonCode`, which names addresses as
other code is named: a file is an object, a function a symbol in it, a line an instruction.
In processes they stand where no process has memory (`PYTHON_BASE`). A function's place follows from
its file, name and line, so that it is the same in all processes, and in all parts of a session.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prospect.profile.model import KIND_PYTHON
from prospect.profile.naming import NameSource
from prospect.records import Record
from prospect.symbols.objects import PYTHON_BASE, PYTHON_END, PYTHON_PREFIX
from prospect.symbols.resolution import Resolution, named
from prospect.symbols.table import build_symbol_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from prospect.symbols.table import SymbolTable

_PLACE_BITS, _PLACES = 17, 1 << 29
# Of a function; there is room for one behind them, and for what has no line.
MOST_LINES = (1 << _PLACE_BITS) - 2


class PythonFunction(NamedTuple):
    """A function: its source file, qualified name, and first line; all that is one in a report."""

    file: str
    name: str
    first: int


def standing(
    functions: Iterable[PythonFunction],
) -> tuple[list[PythonFunction], NDArray[np.uint64]]:
    """Return distinct functions in the order of their addresses, and u64[k] where each begins."""
    place: dict[int, PythonFunction] = {}
    for one in sorted(functions):
        words = "\0".join(map(str, one)).encode("utf-8", "surrogatepass")
        digest = blake2b(words, digest_size=8).digest()
        number = int.from_bytes(digest, "little") % _PLACES
        while number in place:
            number = (number + 1) % _PLACES
        place[number] = one
    order = sorted(place)
    start = np.array(order, np.uint64) << np.uint64(_PLACE_BITS)
    return [place[number] for number in order], start


class PythonCode(Record, eq=False):
    """Functions, with addresses.

    Attributes:
        functions: in the order of their addresses.
        start: u64[k] where each begins: at its beginning is what has no line, behind it the
            first line, and so on.
        end: u64[k] where its last line that is known ends.
    """

    functions: list[PythonFunction]
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]

    @cached_property
    def files(self) -> list[str]:
        """The source files."""
        return list(dict.fromkeys(function.file for function in self.functions))

    @cached_property
    def file_of(self) -> NDArray[np.int64]:
        """i64[k] row of `files`."""
        rows = {file: row for row, file in enumerate(self.files)}
        return np.array([rows[function.file] for function in self.functions], np.int64)

    @cached_property
    def _rows_of(self) -> dict[bytes, list[int]]:
        """The functions of each object, by its key's path."""
        paths = [self.key_path(file) for file in self.files]
        rows: dict[bytes, list[int]] = {path: [] for path in paths}
        for row, file in enumerate(self.file_of.tolist()):
            rows[paths[file]].append(row)
        return rows

    def covers(self, address: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return whether each address u64[n] of a process is in some function, bool[n]."""
        covered = (address >= PYTHON_BASE) & (address < PYTHON_END)
        inside = address[covered] - PYTHON_BASE
        row = np.searchsorted(self.start, inside, side="right") - 1
        covered[covered] = (row >= 0) & (inside < self.end.take(row, mode="clip"))
        return covered

    def row_of(self, address: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return i64[n] the function at each address u64[n], one that is in some function."""
        return np.searchsorted(self.start, address, side="right") - 1

    def lines_of(self, address: NDArray[np.uint64]) -> list[tuple[str, int]]:
        """Return file and line of each address; line 0 where it is not known."""
        found = []
        row = self.row_of(address)
        inside = address - self.start.take(row)
        for number, offset in zip(row.tolist(), inside.tolist(), strict=True):
            function = self.functions[number]
            found.append((function.file, function.first + offset - 1 if offset else 0))
        return found

    def key_path(self, file: str) -> bytes:
        """Return what the object of a file is known by."""
        return PYTHON_PREFIX + file.encode("utf-8", "surrogatepass")

    def resolve(self, path: bytes, address: NDArray[np.uint64]) -> Resolution:
        """Name addresses in an object, by its key's path: the recording itself has the names."""
        table = self.table(path)
        shown = path.removeprefix(PYTHON_PREFIX).decode("utf-8", "surrogatepass")
        names = named(table, table.lookup(address), address, NameSource.NO_COVER, shown)
        return Resolution(names, shown, KIND_PYTHON)

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
