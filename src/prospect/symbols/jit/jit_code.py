"""The code of one jitdump file: its symbols, bytes and source lines, by SVMA.

A JIT throws code away and writes other code to the same place. Each piece of code needs its own
address in the object: the address at which it was loaded, with the number of its generation in the
upper 16 bits if several pieces were loaded over one another. Moved code keeps the address of its
load.
"""

from __future__ import annotations

import heapq
import re
import struct
from bisect import bisect_right
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from prospect.files.rights import EVERYBODY
from prospect.profile.naming import NameSource
from prospect.records import NamedTuple, Record
from prospect.symbols.symbols_limits import LONGEST_JIT_NAME, MOST_GENERATIONS, MOST_JIT_LINES
from prospect.symbols.table import SymbolTable, build_symbol_table

if TYPE_CHECKING:
    from prospect.columns.array_types import I64, U64
    from prospect.elf.frame_rows import FrameRows
    from prospect.symbols.jit.jitdump import JitDump

_ADDRESS_BITS = 48
_ADDRESS_MASK = (1 << _ADDRESS_BITS) - 1
# The name of a line entry that means "the same file as before" instead of a path.
_SAME_FILE = b"\xff"
# V8 writes addresses as they are in the ELF file that `perf inject` makes: after its header.
# Source: v8/src/diagnostics/perf-jit.cc, PerfJitLogger::LogWriteDebugInfo().
_ELF_HEADER_BYTES = 0x40
_ENTRY_BYTES = 16
# V8's names of scripts' functions: `JS:*work /app/work.js:1:2`, `JS:* file:///app/work.mjs:3:4`.
_SCRIPT_PLACE = re.compile(rb"JS:\S* (?:file://)?(.+):(\d{1,9}):\d{1,9}\Z", re.DOTALL)


class CodeFrames(NamedTuple):
    """Names of functions, and the frames of each address, outermost first: name, file, line."""

    names: list[bytes]
    frames: list[list[tuple[int, str, int]]]


class JitCode(Record, eq=False):
    """The code of a jitdump file.

    Attributes:
        path: the file's name in the recording.
        svma: u64[n] address of each load in this object; overlapping loads have distinct ones.
        speaks_for: the user whose rights its paths of source files get.
    """

    path: bytes
    dump: JitDump
    svma: U64
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

    def frames_of(self, svma: U64) -> CodeFrames:
        """Return the function and source line of addresses."""
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
        """Return the layout of the code's frames; None if it is not known."""
        return None

    def code_at(self, svma: int, size: int) -> memoryview:
        """Return the bytes from an address on: `size`, or up to the end of its piece of code."""
        row = self._row_of(svma)
        if row < 0:
            return self.dump.data[:0]
        inside = svma - int(self.svma[row])
        begin = int(self.dump.code[row]) + inside
        return self.dump.data[begin : begin + min(size, int(self.dump.size[row]) - inside)]

    def lines_of(self, svma: U64) -> list[tuple[str, int]]:
        """Return file and line of each address; an empty file and line 0 if unknown.

        Without plausible line entries, the line is that in the function's name, if any.
        """
        entries: dict[int, list[tuple[int, str, int]]] = {}
        found = []
        for one in svma.tolist():
            row = self._row_of(one)
            if row < 0:
                found.append(("", 0))
                continue
            if row not in entries:
                entries[row] = _line_entries(self.dump, row)
            avma = one - int(self.svma[row]) + int(self.dump.address[row]) + self._line_shift
            place = bisect_right(entries[row], avma, key=itemgetter(0)) - 1
            found.append(entries[row][place][1:])
        return found

    @cached_property
    def _line_shift(self) -> int:
        """Distance of line entries from the code that they describe, in bytes."""
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
    def _by_svma(self) -> I64:
        return np.argsort(self.svma)

    @cached_property
    def _sorted_svma(self) -> U64:
        return self.svma.take(self._by_svma)

    def _row_of(self, svma: int) -> int:
        place = int(np.searchsorted(self._sorted_svma, np.uint64(svma), side="right")) - 1
        if place < 0:
            return -1
        row = int(self._by_svma[place])
        return row if svma - int(self.svma[row]) < int(self.dump.size[row]) else -1


def number_generations(path: bytes, dump: JitDump, speaks_for: int = EVERYBODY) -> JitCode:
    """Give every load of a dump its own address.

    Of more than 65,536 loads over one another, some share an address; the file is then an attack.
    """
    generation = np.zeros(len(dump), np.uint64)
    order = np.lexsort((dump.time_ns, dump.address))
    rows = zip(
        order.tolist(),
        dump.address.take(order).tolist(),
        (dump.address + dump.size).take(order).tolist(),
        strict=True,
    )
    # Each load gets the smallest number that no earlier load over its start has.
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


def _line_entries(dump: JitDump, row: int) -> list[tuple[int, str, int]]:
    """Read the line entries of a load: address, line, discriminator, file name and a NUL each.

    If one entry of a load is impossible, all of them are left out: V8 of Node 20 writes freed
    memory instead of the file's name.

    Returns:
        Address, file and line, by rising address. The first entry, of address 0, has the file and
        line in the name that V8 gives to the function, an empty file and line 0 if there are none.
    """
    length = min(int(dump.name_length[row]), LONGEST_JIT_NAME)
    begin = int(dump.name[row])
    place = _SCRIPT_PLACE.match(bytes(dump.data[begin : begin + length]))
    found = [(0, place[1].decode(errors="replace"), int(place[2])) if place else (0, "", 0)]
    if dump.debug[row] < 0:
        return found
    first = int(dump.address[row])
    last = first + int(dump.size[row]) + _ELF_HEADER_BYTES
    entry = struct.Struct(dump.order + "QiI")
    offset, file = int(dump.debug[row]), ""
    for _ in range(min(int(dump.debug_entries[row]), MOST_JIT_LINES)):
        name = offset + _ENTRY_BYTES
        # The entries end before the name of their load.
        length = bytes(dump.data[name : min(begin, name + 4096)]).find(b"\0")
        if name > begin or length < 0:
            break
        address, line, _ = entry.unpack_from(dump.data, offset)
        text = bytes(dump.data[name : name + length])
        if text != _SAME_FILE:
            file = text.decode(errors="replace")
        is_path = file.isprintable() and "\ufffd" not in file
        if not first <= address <= last or not is_path:
            return found[:1]
        found.append((address, file, max(line, 0)))
        offset = name + length + 1
    found.sort(key=itemgetter(0))
    return found
