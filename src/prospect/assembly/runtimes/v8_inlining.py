"""Frames of V8's compiled code → frames of the functions that are inlined there, with their lines.

A recording has tables of the sampled code, see `abi.v8`. Each frame becomes at most `MOST_INLINED`
frames.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import runtime_frames as wire
from prospect.abi import v8
from prospect.assembly.assembly_limits import (
    MOST_FIRST,
    MOST_FRAMES,
    MOST_INLINED,
    MOST_V8_PROCESSES,
)
from prospect.columns.buffers import segments
from prospect.columns.grouping import alike
from prospect.columns.sorting import distinct
from prospect.records import NamedTuple, Record, replace
from prospect.symbols.runtime_code import Described, RuntimeFunction, decoded

if TYPE_CHECKING:
    from prospect.columns.array_types import I8, I64, U64, Bools
    from prospect.events.record_columns import Events
    from prospect.events.runtime_records import CodeText, RuntimeImage, RuntimeRecords

    Chain = list[tuple[int, int, int]]

_LOW = (1 << 32) - 1


class _Code(NamedTuple):
    """A table of code: the lower half of its address, its size, and the rows of `abi.v8`."""

    start: int
    size: int
    rows: list[tuple[int, ...]]
    nodes: list[tuple[int, ...]]
    functions: list[tuple[int, ...]]

    def chain_at(self, address: int) -> Chain:
        """Return the functions at the lower half of an address, the innermost first."""
        offset = (address - self.start) & _LOW
        row = bisect_right(self.rows, offset, key=lambda one: one[0]) - 1
        if offset >= self.size or row < 0:
            return []
        node = self.rows[row][1]
        found: Chain = []
        while 0 <= node < len(self.nodes) and len(found) < MOST_INLINED:
            function, line, node = self.nodes[node]
            if function >= len(self.functions):
                return []
            code, signature, _ = self.functions[function]
            found.append((code, signature, min(line, IS_LINE - 2)))
        return found


def place_v8_frames(records: RuntimeRecords) -> RuntimeRecords:
    """Return the records with frames of the functions that are inlined in V8's frames.

    `last` of V8's frames then leads to their lines, see `describe_v8`.
    """
    numbers = [number for number, one in records.images.items() if one.runtime == wire.V8]
    if not numbers:
        return records
    image = np.repeat(records.image, np.diff(records.start))
    of_v8 = np.isin(image, np.array(numbers, np.uint64))
    kind = records.owner & v8.KIND_MASK
    is_compiled = of_v8 & (kind != v8.INTERPRETED)
    last = np.where(is_compiled, np.uint32(NOWHERE), records.last)
    tables = _tables(records)
    rows = np.flatnonzero(of_v8 & (kind == v8.COMPILED) & (records.last != 0))
    runs = records.owner.take(rows) & v8.RUNS
    # A caller is at the instruction before the one that it returns to.
    at = records.last.take(rows) - (runs == 0).astype(np.uint32)
    columns = (image.take(rows), records.code.take(rows), at)
    found = alike(columns)
    chains: list[Chain] = []
    for number, code, address in zip(
        *(column.take(found.row).tolist() for column in columns), strict=True
    ):
        met = (table.chain_at(address) for table in tables.get((number, code), ()))
        chains.append(next(filter(None, met), []))
    records = replace(records, last=last)
    return _expanded(records, rows, found.place.astype(np.int64), chains)


def _expanded(
    records: RuntimeRecords, rows: I64, place: I64, chains: list[Chain]
) -> RuntimeRecords:
    """Return the records with chains of functions instead of frames.

    Args:
        rows: i64[r] of frames.
        place: i64[r] row of `chains` for each of them; an empty chain leaves the frame unchanged.
        chains: the functions, the innermost first.
    """
    length = np.array([len(chain) for chain in chains], np.int64)
    first = np.cumsum(length) - length
    flat = np.array([one for chain in chains for one in chain], np.uint64).reshape(-1, 3)
    count = np.ones(len(records.code), np.int64)
    is_known = length.take(place) > 0
    rows, place = rows[is_known], place[is_known]
    count[rows] = length.take(place)
    if not len(rows) or int(count.sum()) > MOST_FRAMES:
        return records
    frame = np.repeat(np.arange(len(count)), count)
    begin = np.cumsum(count) - count
    at = segments(begin.take(rows), count.take(rows))
    chosen = segments(first.take(place), count.take(rows))
    code, signature, last, owner = (
        getattr(records, name).take(frame) for name in ("code", "signature", "last", "owner")
    )
    code[at] = flat[chosen, 0]
    signature[at] = flat[chosen, 1]
    last[at] = flat[chosen, 2] | np.uint64(IS_LINE)
    owner[at] = v8.PLACED
    # The innermost one runs, if the frame does.
    owner[begin.take(rows)] |= records.owner.take(rows) & v8.RUNS
    ends = np.append(0, np.cumsum(count))
    return replace(
        records,
        start=ends.take(records.start),
        code=code,
        signature=signature,
        last=last,
        owner=owner,
    )


def _tables(records: RuntimeRecords) -> dict[tuple[int, int], tuple[_Code, ...]]:
    """Return the tables by image and function."""
    found: dict[tuple[int, int], tuple[_Code, ...]] = {}
    for key, text in records.texts.items():
        image = records.images.get(key.image)
        if image is None or image.runtime != wire.V8 or key.code & 1 or not text.lines:
            continue
        table = _decoded(key.code & _LOW, text.lines)
        if table is not None:
            place = key.image, text.beginning
            found[place] = (table, *found.get(place, ()))
    return found


def _decoded(start: int, data: bytes) -> _Code | None:
    """Return a table; None if it is not whole."""
    if len(data) < v8.CODE.size:
        return None
    size, *counts = v8.CODE.unpack_from(data)
    parts, at = [], v8.CODE.size
    for form, count in zip((v8.CODE_ROW, v8.CODE_NODE, v8.CODE_FUNCTION), counts, strict=True):
        end = at + form.size * count
        if end > len(data):
            return None
        parts.append(list(form.iter_unpack(data[at:end])))
        at = end
    rows, nodes, functions = parts
    return _Code(start, size, rows, nodes, functions)


# The kind of code of native frames in V8's processes: V8's own, or C++.
#
# V8's compiled code is in memory without a file, and so is its copy of the builtins, if it has
# one. The builtins are in the program's file too. Their start follows from the entry by which C++
# enters JavaScript: the stacks have its address.

_OWN, _ENTRY = 1, 2
_PID = np.uint64((1 << 32) - 1)


class V8Code(Record):
    """The code of V8's processes.

    Attributes:
        is_mine: bool[s] whether a stack is of V8.
        runs: bool[s] whether its innermost function runs; otherwise it has called C++.
        pid: i64[s] of each stack's process.
        files: begin and end u64[k] of mapped files, by process.
        builtins: u64[s, 2] begin and end of the builtins in the file; 0 if unknown.
        entries: u64[e] return addresses of the entries by which C++ enters JavaScript, ascending.
    """

    is_mine: Bools
    runs: Bools
    pid: I64
    files: dict[int, tuple[U64, U64]]
    builtins: U64
    entries: U64

    def kinds(self, kind: I8, stack: I64, address: U64, words: U64) -> I8:
        """Return the kinds of native frames of V8, and unchanged those of other stacks.

        Args:
            kind: i8[w] of each frame: 0 for other code, 1 for the runtime's own, 2 for the entry
                from other code to it.
            stack: i64[w].
            address: u64[w] of the instruction.
            words: u64[w] of the chain.
        """
        found = kind.copy()
        rows = np.flatnonzero(self.is_mine.take(stack))
        if not len(rows):
            return found
        stack, address = stack.take(rows), address.take(rows)
        is_own = ~self._is_in_file(self.pid.take(stack), address)
        begin, end = self.builtins[:, 0].take(stack), self.builtins[:, 1].take(stack)
        is_own |= (address >= begin) & (address < end)
        is_entry = np.isin(words.take(rows), self.entries)
        found[rows] = np.where(is_entry, _ENTRY, np.where(is_own, _OWN, 0))
        return found

    def _is_in_file(self, pid: I64, address: U64) -> Bools:
        """Return which addresses are in a mapped file; all if a process's files are unknown."""
        found = np.ones(len(pid), np.bool_)
        for one, (begin, end) in self.files.items():
            mine = np.flatnonzero(pid == one)
            at = address.take(mine)
            row = np.searchsorted(begin, at, side="right") - 1
            found[mine] = (row >= 0) & (at < end.take(row, mode="clip"))
        return found


def find_v8_code(events: Events, records: RuntimeRecords, rows: I64, is_mine: Bools) -> V8Code:
    """Find the code of V8's processes.

    Args:
        rows: i64[s] rows of `records` that belong to samples.
        is_mine: bool[s] which of these are of V8.
    """
    start, end = records.start.take(rows), records.start.take(rows + 1)
    owner = records.owner.take(start, mode="clip")
    runs = is_mine & (end > start) & (owner & v8.RUNS > 0)
    pid = (records.task.take(rows) & _PID).astype(np.int64)
    mine = np.flatnonzero(is_mine)
    length = (end - start).take(mine)
    frames = segments(start.take(mine), length)
    is_entry = records.owner.take(frames) & v8.KIND_MASK == v8.ENTRY
    entry = records.code.take(frames[is_entry])
    image = np.repeat(records.image.take(rows).take(mine), length)[is_entry]
    builtins = np.zeros((len(rows), 2), np.uint64)
    for number in distinct(image).tolist():
        size, offset = v8.builtins_place(records.images[number].version)
        first = int(entry[image == number].min())
        if size and first > offset:
            begin = np.uint64(first - offset)
            of_image = is_mine & (records.image.take(rows) == number)
            builtins[of_image] = begin, begin + np.uint64(size)
    files = {
        one: _files_of(events, one) for one in distinct(pid.take(mine)).tolist()[:MOST_V8_PROCESSES]
    }
    return V8Code(
        is_mine=is_mine,
        runs=runs,
        pid=pid,
        files={one: found for one, found in files.items() if len(found[0])},
        builtins=builtins,
        entries=distinct(entry),
    )


def _files_of(events: Events, pid: int) -> tuple[U64, U64]:
    """Return begin and end of the files that a process has mapped, in the order of addresses."""
    mmaps = events.mmaps
    rows = np.flatnonzero(mmaps.pid == pid)
    is_file = [_is_file(events.names[name]) for name in mmaps.name.take(rows).tolist()]
    rows = rows[np.array(is_file, np.bool_)] if len(rows) else rows
    begin = mmaps.start.take(rows)
    end = begin + mmaps.length.take(rows)
    order = np.argsort(begin, kind="stable")
    # Mappings of different times may overlap; then the furthest end counts.
    return begin.take(order), np.maximum.accumulate(end.take(order))


def _is_file(name: bytes) -> bool:
    return name.startswith(b"/") and not name.startswith((b"//", b"/memfd:", b"/dev/"))


# Functions of V8 → functions and lines.

_PAIR_BYTES = 8
# `last` of a frame after `place_v8_frames`: a line with this bit, an offset in bytecode, or
# unknown.
IS_LINE = 1 << 31
NOWHERE = (1 << 32) - 1


def describe_v8(text: CodeText, _image: RuntimeImage) -> Described:
    """Return a function of V8, and its lines if the recording has them."""
    first = text.beginning if text.beginning < MOST_FIRST else 0
    file = decoded(text.file) if text.file else ""
    name = decoded(text.name) if text.name else ""
    function = RuntimeFunction(file or v8.NO_FILE, name or "?", first)
    return Described(function, _Lines(first, text.lines or b""))


class _Lines:
    """The lines of a function as pairs of an offset and the line from there on."""

    def __init__(self, first: int, table: bytes) -> None:
        """Read the pairs, 32 bits each, in the order of offsets; `first` is the first line."""
        numbers = array("I", table[: len(table) // _PAIR_BYTES * _PAIR_BYTES])
        self._offsets, self._lines = numbers[::2], numbers[1::2]
        self._first = first
        self.last = min(max(self._lines, default=first), first + MOST_FIRST)
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
