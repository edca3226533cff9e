"""The code of one jitdump file: its symbols, its bytes and its source lines, each by one address.

A JIT throws code away and writes other code to the same place. So that an address of the object
means one piece of code for good, it is the address at which the code was loaded, with a number of
its generation in the upper 16 bits where several pieces were loaded over one another. Code that
was moved keeps the address of its load.
"""

from __future__ import annotations

import heapq
import re
import struct
from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prospect.files.rights import EVERYBODY
from prospect.profile.naming import NameSource
from prospect.records import NamedTuple, Record
from prospect.symbols.symbols_limits import LONGEST_JIT_NAME, MOST_GENERATIONS, MOST_JIT_LINES
from prospect.symbols.table import SymbolTable, build_symbol_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.elf.frame_rows import FrameRows
    from prospect.symbols.jit.jitdump import JitDump

_ADDRESS_BITS = 48
_ADDRESS_MASK = (1 << _ADDRESS_BITS) - 1
# The name of a line entry that means "the same file as before" instead of a path.
_SAME_FILE = b"\xff"
# V8 writes addresses as they are in the ELF file that `perf inject` makes: behind its header.
# Source: v8/src/diagnostics/perf-jit.cc, PerfJitLogger::LogWriteDebugInfo().
_ELF_HEADER_BYTES = 0x40
_ENTRY_BYTES = 16
# V8's names of scripts' functions: `JS:*work /app/work.js:1:2`, `JS:* file:///app/work.mjs:3:4`.
_SCRIPT_PLACE = re.compile(rb"JS:\S* (?:file://)?(.+):(\d{1,9}):\d{1,9}\Z", re.DOTALL)


class CodeFrames(NamedTuple):
    """Names of functions, and of each address its frames: name, file, line, the outermost first."""

    names: list[bytes]
    frames: list[list[tuple[int, str, int]]]


class JitCode(Record, eq=False):
    """A jitdump file ready to be asked.

    Attributes:
        path: the file, as the recording names it.
        svma: u64[n] address in this object of each load, distinct where loads overlap.
        dump: what it says.
        speaks_for: the user whose word its paths of source files are.
    """

    path: bytes
    dump: JitDump
    svma: NDArray[np.uint64]
    speaks_for: int

    @property
    def shown(self) -> str:
        """The object's name in reports."""
        return self.path.decode(errors="surrogateescape")

    @cached_property
    def table(self) -> SymbolTable:
        """The names, by SVMA."""
        dump = self.dump
        end = self.svma + dump.size
        return build_symbol_table(
            strings=dump.data,
            start=self.svma,
            end=end,
            limit=end,
            name_start=dump.name,
            name_length=dump.name_length,
            is_global=np.zeros(len(dump), np.bool_),
            source=np.full(len(dump), NameSource.JITDUMP, np.uint8),
        )

    def frames_of(self, svma: NDArray[np.uint64]) -> CodeFrames:
        """Return the source lines of addresses, and the functions that are inlined there."""
        rows = self.table.lookup(svma)
        known, row_of = np.unique(rows[rows >= 0], return_inverse=True)
        number = np.full(len(rows), -1, np.int64)
        number[rows >= 0] = row_of
        frames = [
            [(name, file, line)] if name >= 0 and line else []
            for name, (file, line) in zip(number.tolist(), self.lines_of(svma), strict=True)
        ]
        return CodeFrames(self.table.names(known.tolist()), frames)

    def frame_rows(self) -> FrameRows | None:
        """Return how frames of the code are laid out; None if that is not known."""
        return None

    def code_at(self, svma: int, size: int) -> memoryview:
        """Return the bytes from an address on: fewer than `size` where its piece of code ends."""
        row = self._row_of(svma)
        if row < 0:
            return self.dump.data[:0]
        inside = svma - int(self.svma[row])
        begin = int(self.dump.code[row]) + inside
        return self.dump.data[begin : begin + min(size, int(self.dump.size[row]) - inside)]

    def lines_of(self, svma: NDArray[np.uint64]) -> list[tuple[str, int]]:
        """Return file and line of each address; an empty file and line 0 if unknown.

        Code without line entries that can be true has the line on which its function begins, if
        its name says which.
        """
        entries: dict[int, _LineEntries] = {}
        found = []
        for one in svma.tolist():
            row = self._row_of(one)
            if row < 0:
                found.append(("", 0))
                continue
            if row not in entries:
                entries[row] = _line_entries(self.dump, row)
            avma = one - int(self.svma[row]) + int(self.dump.address[row]) + self._line_shift
            found.append(entries[row].at(avma))
        return found

    @cached_property
    def _line_shift(self) -> int:
        """How far line entries are from the code that they describe."""
        rows = np.flatnonzero(self.dump.debug >= 0)
        first = [
            struct.unpack_from(self.dump.order + "Q", self.dump.data, offset)[0] - address
            for offset, address, entries in zip(
                self.dump.debug.take(rows).tolist(),
                self.dump.address.take(rows).tolist(),
                self.dump.debug_entries.take(rows).tolist(),
                strict=True,
            )
            if entries
        ]
        return _ELF_HEADER_BYTES if first and min(first) >= _ELF_HEADER_BYTES else 0

    @cached_property
    def _by_svma(self) -> NDArray[np.int64]:
        return np.argsort(self.svma)

    @cached_property
    def _sorted_svma(self) -> NDArray[np.uint64]:
        return self.svma.take(self._by_svma)

    def _row_of(self, svma: int) -> int:
        place = int(np.searchsorted(self._sorted_svma, np.uint64(svma), side="right")) - 1
        if place < 0:
            return -1
        row = int(self._by_svma[place])
        return row if svma - int(self.svma[row]) < int(self.dump.size[row]) else -1


def number_generations(path: bytes, dump: JitDump, speaks_for: int = EVERYBODY) -> JitCode:
    """Give every load of a dump its own address.

    Loads beyond 65,536 over one another share their addresses; the file is then an attack.

    Args:
        path: the file, as the recording names it.
        dump: what it says.
        speaks_for: the user whose word it is; a copy in a recording is anybody's.
    """
    generation = np.zeros(len(dump), np.uint64)
    order = np.lexsort((dump.time_ns, dump.address))
    rows = zip(
        order.tolist(),
        dump.address.take(order).tolist(),
        (dump.address + dump.size).take(order).tolist(),
        strict=True,
    )
    # The smallest number that no load has which still reaches over this one's start.
    open_ends: list[tuple[int, int]] = []
    free: list[int] = []
    for row, start, end in rows:
        while open_ends and open_ends[0][0] <= start:
            heapq.heappush(free, heapq.heappop(open_ends)[1])
        number = heapq.heappop(free) if free else len(open_ends)
        heapq.heappush(open_ends, (end, number))
        generation[row] = number % MOST_GENERATIONS
    svma = dump.address & np.uint64(_ADDRESS_MASK) | generation << np.uint64(_ADDRESS_BITS)
    return JitCode(path, dump, svma, speaks_for)


class _LineEntries(Record):
    """The line entries of one load by rising address; `begin` is where its function begins."""

    address: list[int]
    file: list[str]
    line: list[int]
    begin: tuple[str, int] = ("", 0)

    def at(self, address: int) -> tuple[str, int]:
        row = bisect_right(self.address, address)
        return (self.file[row - 1], self.line[row - 1]) if row else self.begin


def _place_in_name(dump: JitDump, row: int) -> tuple[str, int]:
    """Return the file and line that V8 puts into a function's name, an empty file and 0 without."""
    length = min(int(dump.name_length[row]), LONGEST_JIT_NAME)
    begin = int(dump.name[row])
    place = _SCRIPT_PLACE.match(bytes(dump.data[begin : begin + length]))
    return (place[1].decode(errors="replace"), int(place[2])) if place else ("", 0)


def _line_entries(dump: JitDump, row: int) -> _LineEntries:
    """Read the line entries of a load: address, line, discriminator, file name and a NUL each.

    If one entry of a load is impossible, all of them are left out: V8 of Node 20 writes freed
    memory instead of the file's name. The name of the function then says its line.
    """
    nothing_but_name = _LineEntries([], [], [], _place_in_name(dump, row))
    if dump.debug[row] < 0:
        return nothing_but_name
    first = int(dump.address[row])
    last = first + int(dump.size[row]) + _ELF_HEADER_BYTES
    entry = struct.Struct(dump.order + "QiI")
    offset, file = int(dump.debug[row]), ""
    found: list[tuple[int, str, int]] = []
    # The entries end before the load that they belong to.
    end = int(dump.name[row])
    for _ in range(min(int(dump.debug_entries[row]), MOST_JIT_LINES)):
        name = offset + _ENTRY_BYTES
        length = bytes(dump.data[name : min(end, name + 4096)]).find(b"\0")
        if name > end or length < 0:
            break
        address, line, _ = entry.unpack_from(dump.data, offset)
        text = bytes(dump.data[name : name + length])
        if text != _SAME_FILE:
            file = text.decode(errors="replace")
        is_path = file.isprintable() and "\ufffd" not in file
        if not first <= address <= last or not is_path:
            return nothing_but_name
        found.append((address, file, max(line, 0)))
        offset = name + length + 1
    found.sort(key=lambda one: one[0])
    return _LineEntries(
        [address for address, _, _ in found],
        [file for _, file, _ in found],
        [line for _, _, line in found],
        nothing_but_name.begin,
    )
