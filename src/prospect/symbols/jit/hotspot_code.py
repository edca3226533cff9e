"""The Java code of one JVM, as its reader recorded it: names, inlined methods, lines, frames.

It is a jitdump file with more records (`abi.hotspot`). An interpreted method has an address too:
that of its bytecode, at which `unwind.step` puts its frames.

A function is all code of one name: everything that both compilers made of a method, and its
bytecode. Its place in the object follows from its name, so it is the same in all parts of a
session.

An address in compiled code has the position of the next PcDesc: the JVM describes the places to
which calls return and at which it may stop, so an instruction in between has the method and line of
the next such place. Defined by: ``src/hotspot/share/code/pcDesc.hpp``, ``scopeDesc.cpp``;
``oops/constMethod.hpp`` and ``code/compressedStream.cpp`` for the table of lines.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import hotspot as wire
from prospect.elf import frame_rules as rules
from prospect.elf.elf_layout import EM_X86_64
from prospect.elf.frame_rows import FrameRows, rows_in_order
from prospect.files.rights import EVERYBODY
from prospect.profile.naming import NameSource
from prospect.records import NamedTuple
from prospect.symbols.jit.jit_code import CodeFrames, JitCode
from prospect.symbols.jit.jitdump import DumpWalk, JitDump, parse_jitdump
from prospect.symbols.symbols_limits import MOST_INLINED_METHODS, MOST_METHOD_LINES
from prospect.symbols.table import build_symbol_table

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from prospect.columns.array_types import U64
    from prospect.symbols.table import SymbolTable

_POSITION = np.dtype([("pc", "<i4"), ("scope", "<i4"), ("objects", "<i4"), ("flags", "<i4")])
_POINTER_BYTES, _ADDRESS_END = 8, 1 << 47
_LAST_LINE = 1 << 16
_NO_BYTECODE = -1
_PLACE_BITS, _PLACES = 24, 1 << 29
_PLACE_SHIFT, _HALF_BYTES = np.uint64(_PLACE_BITS), 1 << _PLACE_BITS - 1


class _Method(NamedTuple):
    """A method: the places of its name, class, file and lines in the dump, and its bytecode."""

    name: slice
    class_bytes: int
    file: slice
    lines: slice
    bytecode: int
    bytecode_bytes: int


class _Details(NamedTuple):
    """Facts about a piece of code, and the places of its tables in the dump."""

    frame_words: int
    complete: int
    entry: int
    kind: int
    pairs: slice
    positions: slice
    scopes: slice


class HotspotWalk(DumpWalk):
    """Reads the records of a JVM's file.

    Attributes:
        methods: by number.
        details: by row of `loads`.
        bytecode: number of the method whose bytecode it is, by row of `loads`.
        shift: of compressed numbers.
    """

    def __init__(self, data: memoryview, order: str) -> None:
        super().__init__(data, order)
        self.methods: dict[int, _Method] = {}
        self.details: dict[int, _Details] = {}
        self.bytecode: dict[int, int] = {}
        self.shift = 0
        self._next: _Details | None = None
        self._bytes = data

    def read(self, kind: int, begin: int, end: int, time_ns: int) -> None:
        """Read one record."""
        if kind == wire.KIND_METHOD:
            self._method(begin, end, time_ns)
        elif kind == wire.KIND_DETAILS:
            self._next = self._read_details(begin, end)
        elif kind == wire.KIND_VM:
            _, self.shift = wire.VM.unpack_from(self._bytes[begin:end])
            self.shift &= 1
        else:
            row = len(self.loads)
            super().read(kind, begin, end, time_ns)
            if self._next is not None and len(self.loads) > row:
                self.details[row] = self._next
            self._next = None

    def _method(self, begin: int, end: int, time_ns: int) -> None:
        fields = wire.METHOD.unpack_from(self._bytes[begin:end])
        number, size, bytecode, pointer, class_bytes, *lengths = fields
        at = begin + wire.METHOD.size
        parts = []
        for length in lengths:
            parts.append(slice(at, at + length))
            at += length
        if at > end:
            return
        name, file, lines = parts
        self.methods[number] = _Method(name, class_bytes, file, lines, bytecode, size)
        # A native method has no bytecode; its interpreted frames lead to the Method.
        for address, length in ((bytecode, size), (pointer, _POINTER_BYTES)):
            if 0 < address < _ADDRESS_END and length:
                self.bytecode[len(self.loads)] = number
                self.loads.append(
                    (time_ns, address, length, 0, name.start, name.stop - name.start, 0, 0)
                )

    def _read_details(self, begin: int, end: int) -> _Details | None:
        words, complete, entry, kind, _, pairs, positions, scopes = wire.DETAILS.unpack_from(
            self._bytes[begin:end]
        )
        at = begin + wire.DETAILS.size
        parts = []
        for size in (pairs * wire.PAIR.size, positions, scopes):
            parts.append(slice(at, at + size))
            at += size
        return _Details(words, complete, entry, kind, *parts) if at <= end else None


class HotspotCode(JitCode, eq=False):
    """The code of a JVM."""

    walk: HotspotWalk

    @property
    def shown(self) -> str:
        """The object's name in reports."""
        return "[JVM]"

    @cached_property
    def table(self) -> SymbolTable:
        """The functions, by SVMA."""
        place, first = np.unique(self.svma >> _PLACE_SHIFT, return_index=True)
        end = np.zeros(len(place), np.uint64)
        row = np.searchsorted(place, self.svma >> _PLACE_SHIFT)
        np.maximum.at(end, row, self.svma + self.dump.size)
        return build_symbol_table(
            strings=self.dump.data,
            start=place << _PLACE_SHIFT,
            end=end,
            limit=end,
            name_start=self.dump.name[first],
            name_length=self.dump.name_length[first],
            is_global=np.zeros(len(place), np.bool_),
            source=np.full(len(place), NameSource.JVM, np.uint8),
        )

    def code_at(self, svma: int, size: int) -> memoryview:
        """Return the instructions before the first that is bytecode or was replaced."""
        parts = []
        at, end = svma, svma + size
        while at < end:
            row = self._row_of(at)
            if row not in self.walk.details:
                break
            parts.append(super().code_at(at, end - at))
            at += len(parts[-1])
        return memoryview(b"".join(parts))

    def frames_of(self, svma: U64) -> CodeFrames:
        """Return the methods and lines at addresses, the outermost first."""
        numbers: dict[bytes, int] = {}
        frames = []
        for one in svma.tolist():
            found = self._methods_at(one)
            frames.append(
                [
                    (numbers.setdefault(self._name(method), len(numbers)), *self._line(method, bci))
                    for method, bci in reversed(found)
                ]
            )
        return CodeFrames(list(numbers), frames)

    def lines_of(self, svma: U64) -> list[tuple[str, int]]:
        """Return file and line of each address, in the innermost method there."""
        found = (self._methods_at(one) for one in svma.tolist())
        return [self._line(*one[0]) if one else ("", 0) for one in found]

    def frame_rows(self) -> FrameRows | None:
        """Return the layout of the code's frames; None for other machines than x86-64."""
        dump = self.dump
        if dump.machine != EM_X86_64:
            return None
        pieces = []
        for row in range(len(dump)):
            svma, size = int(self.svma[row]), int(dump.size[row])
            if row in self.walk.bytecode:
                pieces.append(PieceFrame(svma, svma + size, wire.CODE_UNKNOWN, is_bytecode=True))
            elif row in self.walk.details:
                one = self.walk.details[row]
                begin = int(dump.code[row])
                pieces.append(
                    PieceFrame(
                        *(svma, svma + size, one.kind, one.frame_words, one.complete, one.entry),
                        code=bytes(dump.data[begin : begin + size]),
                    )
                )
        return frame_rows(pieces)

    def _methods_at(self, svma: int) -> list[tuple[int, int]]:
        """Return numbers of methods and positions in their bytecode, the innermost first."""
        row = self._row_of(svma)
        if row < 0:
            return []
        offset = svma - int(self.svma[row])
        if row in self.walk.bytecode:
            number = self.walk.bytecode[row]
            is_inside = int(self.dump.address[row]) == self.walk.methods[number].bytecode
            return [(number, offset if is_inside else 0)]
        details = self.walk.details.get(row)
        return self._scopes(details, offset) if details else []

    def _scopes(self, details: _Details, offset: int) -> list[tuple[int, int]]:
        data = self.dump.data
        positions = data[details.positions]
        table = np.frombuffer(positions, _POSITION, len(positions) // _POSITION.itemsize)
        at = int(np.searchsorted(table["pc"], offset, side="right"))
        if at >= len(table):
            return []
        scope = int(table["scope"][at])
        scopes = data[details.scopes]
        pairs = wire.PAIR.iter_unpack(data[details.pairs])
        methods = {index: number for index, number in pairs if number in self.walk.methods}
        found: list[tuple[int, int]] = []
        try:
            while 0 < scope < len(scopes) and len(found) < MOST_INLINED_METHODS:
                sender, place = read_unsigned(scopes, scope, self.walk.shift)
                method, place = read_unsigned(scopes, place, self.walk.shift)
                bci, _ = read_unsigned(scopes, place, self.walk.shift)
                if method in methods:
                    found.append((methods[method], bci + _NO_BYTECODE))
                scope = sender if sender < scope else 0
        except IndexError:
            pass  # the table is cut
        return found

    def _name(self, number: int) -> bytes:
        return bytes(self.dump.data[self.walk.methods[number].name])

    def _line(self, number: int, bci: int) -> tuple[str, int]:
        """Return the source file of a method, with its package, and the line of a position."""
        if number not in self._lines:
            method = self.walk.methods[number]
            name = bytes(self.dump.data[method.name])[: method.class_bytes]
            package, dot, _ = name.decode(errors="replace").rpartition(".")
            file = bytes(self.dump.data[method.file]).decode(errors="replace")
            directory = f"{package.replace('.', '/')}/" if dot else ""
            entries = _line_entries(self.dump.data[method.lines], self.walk.shift)
            self._lines[number] = directory + file if file else "", entries
        file, entries = self._lines[number]
        place = bisect_right(entries, (max(bci, 0), _LAST_LINE)) - 1
        return (file, entries[place][1]) if file and place >= 0 else ("", 0)

    @cached_property
    def _lines(self) -> dict[int, tuple[str, list[tuple[int, int]]]]:
        return {}


def _line_entries(data: memoryview, shift: int) -> list[tuple[int, int]]:
    """Return positions in bytecode, ascending, and the line that begins at each."""
    found: list[tuple[int, int]] = []
    at = bci = line = 0
    try:
        while data[at] and len(found) < MOST_METHOD_LINES:
            first = data[at]
            at += 1
            if first == 0xFF:
                step, at = read_signed(data, at, shift)
                lines, at = read_signed(data, at, shift)
            else:
                step, lines = first >> 3, first & 7
            bci, line = bci + step, line + lines
            if 0 <= bci < _LAST_LINE and 0 < line < _LAST_LINE:
                found.append((bci, line))
    except IndexError:
        pass  # the table is cut
    return sorted(found)


def read_hotspot(path: bytes, data: bytes) -> HotspotCode | None:
    """Return the code that the reader of a JVM recorded, None if there is none.

    Args:
        path: the name of the mapping of its code.
        data: from any writer.
    """
    walks: list[HotspotWalk] = []

    def begin_walk(content: memoryview, order: str) -> HotspotWalk:
        walks.append(HotspotWalk(content, order))
        return walks[-1]

    try:
        dump: JitDump | None = parse_jitdump(memoryview(data), begin_walk)
    except struct.error:
        return None
    if dump is None or not len(dump):
        return None
    return HotspotCode(path, dump, _places(dump, walks[0].bytecode), EVERYBODY, walks[0])


def _places(dump: JitDump, bytecode: Container[int]) -> U64:
    """Return an address for each piece of code: pieces of one name follow each other.

    The bytecode of a method, in rows `bytecode`, follows its compiled code.
    """
    place_of: dict[bytes, int] = {}
    taken: set[int] = set()
    used: dict[int, int] = {}
    found = []
    for row, (begin, length, size) in enumerate(
        zip(dump.name.tolist(), dump.name_length.tolist(), dump.size.tolist(), strict=True)
    ):
        name = bytes(dump.data[begin : begin + length])
        if name not in place_of:
            place = int.from_bytes(blake2b(name, digest_size=8).digest(), "little") % _PLACES
            while place in taken:
                place = (place + 1) % _PLACES
            taken.add(place)
            place_of[name] = place
        half = 2 * place_of[name] + (row in bytecode)
        # If a row does not fit, it shares its addresses with the last one that did.
        offset = min(used.get(half, 0), _HALF_BYTES - min(size, _HALF_BYTES))
        used[half] = offset + size
        found.append(half * _HALF_BYTES + offset)
    return np.array(found, np.uint64)


# Compressed numbers of HotSpot: one to five bytes each, of 6 bits but for the last one.
#
# Defined by: ``src/hotspot/share/utilities/unsigned5.hpp`` (OpenJDK 20 and later, which add 1 to
# each byte, so that none is 0) and ``code/compressedStream.hpp`` (before).

_LAST_BELOW, _BITS, _MOST_OCTETS = 192, 6, 5
_MASK = (1 << 32) - 1


def read_unsigned(data: bytes | memoryview, at: int, shift: int) -> tuple[int, int]:
    """Return the number at a place, and the place of the next one.

    Args:
        data: of any origin.
        shift: the addend of each byte, 0 or 1.

    Raises:
        IndexError: the data end before the number does.
    """
    total = 0
    for number in range(_MOST_OCTETS):
        byte = data[at + number] - shift
        total += byte << _BITS * number
        if byte < _LAST_BELOW - shift:
            return total & _MASK, at + number + 1
    return total & _MASK, at + _MOST_OCTETS


def read_signed(data: bytes | memoryview, at: int, shift: int) -> tuple[int, int]:
    """Return a number whose sign is its lowest bit, as `read_unsigned` does."""
    value, at = read_unsigned(data, at, shift)
    return value >> 1 ^ -(value & 1), at


# The layout of frames of a JVM's code on x86-64, as rows of rules for the unwinder.
#
# A compiled method pushes the frame register, and makes its frame as long as the JVM says: from
# then on the stack pointer leads to the caller. The instructions around that are found by their
# bytes, at the method's beginning, at its entry from an interpreted loop, and at each of its ends.
#
# Defined by: ``src/hotspot/cpu/x86``: MachPrologNode and MachEpilogNode in x86_64.ad,
# build_frame() and remove_frame() in c1_MacroAssembler_x86.cpp, and enter() (OpenJDK 8 to 25).

_WORD = 8
_SAVED_FP = rules.RULE_AT_CFA << rules.FP_BITS


def _rule(words: int, *, saved: bool) -> int:
    """Return the rule of a frame of so many words, including the return address and saved fp."""
    how = (_SAVED_FP | -2 & (1 << rules.FP_BITS) - 1) << rules.FP_SHIFT if saved else 0
    return rules.KIND_SP << rules.KIND_SHIFT | words << rules.CFA_SHIFT | how


_BARE = _rule(1, saved=False)
_PUSHED = _rule(2, saved=True)
_RECORD = (
    rules.KIND_FP << rules.KIND_SHIFT
    | 2 << rules.CFA_SHIFT
    | (_SAVED_FP | -2 & (1 << rules.FP_BITS) - 1) << rules.FP_SHIFT
)
_SUBTRACT_BYTES = 7
_LONGEST_FRAME_WORDS = 1 << rules.CFA_BITS - 1

# push %rbp; maybe mov %rsp,%rbp; sub $n,%rsp
_PUSH = re.compile(
    rb"\x55(\x48\x8b\xec|\x48\x89\xe5)?\x48(?:\x83\xec(.)|\x81\xec(.{4}))", re.DOTALL
)
# sub $n,%rsp; mov %rbp,n(%rsp), in frames that need no check of the stack's end
_SUBTRACT = re.compile(rb"\x48\x81\xec(.{4})\x48\x89(?:\x6c\x24.|\xac\x24.{4})", re.DOTALL)
# add $n,%rsp; pop %rbp; maybe the check for a safepoint; then ret or a jump. The check
# is cmp d(%r15),%rsp; ja since 15, mov d(%r15),%r10; test %eax,(%r10) since 10, and
# test %eax,d(%rip) before.
_POP = re.compile(
    rb"(?:\x48(?:\x83\xc4.|\x81\xc4.{4}))\x5d"
    rb"(?:\x49\x3b(?:\x67.|\xa7.{4})\x0f\x87.{4}"
    rb"|\x4d\x8b(?:\x57.|\x97.{4})\x41\x85\x02|\x85\x05.{4})?"
    rb"(?:\xc3|\xe9.{4}|\xff[\xe0-\xe7])?",
    re.DOTALL,
)
_LEAVE = re.compile(rb"\xc9(?:\xc3|\xe9.{4})", re.DOTALL)


class PieceFrame(NamedTuple):
    """A piece of code: its addresses in the object, CODE_*, and the JVM's facts of its frame."""

    begin: int
    end: int
    kind: int
    frame_words: int = 0
    complete: int = -1
    entry: int = -1
    code: bytes = b""
    is_bytecode: bool = False


def frame_rows(pieces: Iterable[PieceFrame]) -> FrameRows | None:
    """Return the rules of code; None if there is none."""
    start: list[int] = []
    rule: list[int] = []
    for piece in sorted(pieces, key=lambda one: one.begin):
        # A piece that begins at the end of another takes precedence there.
        start.append(piece.end)
        rule.append(rules.NO_ROW)
        last = -1
        for offset, one in sorted(_rules_of(piece)):
            if offset != last or one != rules.NO_ROW:
                start.append(piece.begin + offset)
                rule.append(one)
            last = offset
    return rows_in_order(np.array(start, np.uint64), np.array(rule, np.int64)) if start else None


def _rules_of(piece: PieceFrame) -> Iterator[tuple[int, int]]:
    """Yield offsets in a piece, and the rule that holds from each one on."""
    if piece.is_bytecode:
        yield 0, rules.BYTECODE
    elif piece.kind == wire.CODE_INTERPRETER:
        yield 0, rules.INTERPRETED
    elif piece.kind == wire.CODE_BARE:
        yield 0, _BARE
    elif 1 < piece.frame_words < _LONGEST_FRAME_WORDS and piece.kind != wire.CODE_STUB:
        yield from _of_frame(piece)
    else:
        yield 0, rules.NO_ROW


def _of_frame(piece: PieceFrame) -> Iterator[tuple[int, int]]:
    """Yield the rules of code whose frame has one size."""
    body = _rule(piece.frame_words, saved=True)
    begins = list(_begins(piece))
    if not begins and 0 < piece.complete < len(piece.code):
        begins = [([], piece.complete)]
    yield 0, _BARE if begins else body
    if 0 <= piece.entry < len(piece.code) and begins:
        yield piece.entry, _BARE
    for steps, complete in begins:
        yield from steps
        yield complete, body
    first = min((complete for _, complete in begins), default=0)
    for found in _POP.finditer(piece.code, first):
        popped = found.start() + (4 if piece.code[found.start() + 1] == 0x83 else 7)
        yield popped, _PUSHED
        yield popped + 1, _BARE
        yield found.end(), body
    for found in _LEAVE.finditer(piece.code, first) if piece.kind == wire.CODE_NATIVE else ():
        yield found.start() + 1, _BARE
        yield found.end(), body


def _begins(piece: PieceFrame) -> Iterator[tuple[list[tuple[int, int]], int]]:
    """Yield the rules while a frame is made, and the offset from which on it is whole."""
    for found in _PUSH.finditer(piece.code):
        if _immediate(found[2], found[3]) == _WORD * (piece.frame_words - 2):
            pushed = found.start() + 1
            steps = [(pushed, _PUSHED)] + [(pushed + 3, _RECORD)] * bool(found[1])
            yield steps, found.end()
    for found in _SUBTRACT.finditer(piece.code):
        if _immediate(None, found[1]) == _WORD * (piece.frame_words - 1):
            unsaved = _rule(piece.frame_words, saved=False)
            yield [(found.start() + _SUBTRACT_BYTES, unsaved)], found.end()


def _immediate(short: bytes | None, long: bytes | None) -> int:
    if short:
        return int.from_bytes(short, "little", signed=True)
    return int(struct.unpack("<i", long or b"\0\0\0\0")[0])
