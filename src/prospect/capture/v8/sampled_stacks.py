"""V8's frames for users who may not load eBPF programs: from the stack that a sample copied.

`v8_runtime` does the same in the kernel. Registers and the inner part of the stack are the
sample's, so they are exact, however late they are read. The outer part of the stack, which rarely
changes, and functions are read from the process's memory afterwards.

If the sample's instruction is in a mapped file, the thread had called C++; otherwise JavaScript
ran. V8's own note of the frame that called C++ is as new as its reading, so it counts only if there
is such a frame; otherwise the stack is searched for one.

Defined by: `abi.v8`; ``include/uapi/linux/perf_event.h`` and ``arch/x86/include/uapi/asm/
perf_regs.h`` of Linux for samples and their registers.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from itertools import islice

from prospect.abi import constants as abi
from prospect.abi import runtime_frames as wire
from prospect.abi import v8
from prospect.abi.record_layout import layout_of
from prospect.capture.capture_limits import (
    LARGEST_STACK_BYTES,
    MOST_CALLING_FRAMES,
    MOST_KNOWN_CODE,
    MOST_OUTER_PAGES,
    MOST_V8_THREADS,
)
from prospect.capture.kernel.procfs import read_maps
from prospect.capture.runtimes import image_entry
from prospect.capture.runtimes.process_memory import PAGE, Snapshot, UnreadableError
from prospect.capture.v8 import images
from prospect.capture.v8.function_records import FunctionRecords
from prospect.capture.v8.functions import signed_bytes
from prospect.capture.v8.new_functions import NEWS, NewFunctions
from prospect.light import bits_set, monotonic_ns
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prospect.abi.attr import EventAttr
    from prospect.capture.runtimes.process_memory import ProcessMemory
    from prospect.capture.runtimes.runtime import Placed

# PERF_REG_X86_* of BP, SP, IP, R9, R12 and R13.
_REGISTERS = (6, 7, 8, 17, 20, 21)
# Samples with these are not read: only a call chain may be between the fixed part and registers.
_BETWEEN = abi.PERF_SAMPLE_READ | abi.PERF_SAMPLE_RAW | abi.PERF_SAMPLE_BRANCH_STACK
_COPY = abi.PERF_SAMPLE_REGS_USER | abi.PERF_SAMPLE_STACK_USER
_WORD, _WORDS = struct.Struct("<Q"), struct.Struct("<QQ")
_SMI_SHIFT = 32
_MOST_OFFSET, _HALF = 1 << 24, (1 << 32) - 1
_ADDRESSES = range(1 << 16, 1 << 47)
_CODE_BYTES = 128 << 20
# The least time between two looks at the mappings, if an address seems to be in none.
_AGAIN_NS = 100_000_000
# The types of frames that may be the innermost ones are below this.
_MOST_TYPE = 64
_PIECE_BITS = 8
_USER = 1


class Sampled(NamedTuple):
    """The registers of a thread in a sample, and the copy of its stack from `stack_pointer` on."""

    frame: int
    stack_pointer: int
    instruction: int
    r9: int
    r12: int
    r13: int
    stack: bytes


def copies_of(attr: EventAttr) -> Callable[[bytes, int], Sampled | None] | None:
    """Return a function that finds the copy in a sample of an event; None if samples have none.

    It takes records and the place of a sample among them.
    """
    kinds, mask = attr.sample_type, attr.sample_regs_user
    if kinds & _COPY != _COPY or kinds & _BETWEEN or any(not mask >> n & 1 for n in _REGISTERS):
        return None
    first = 8 * layout_of(attr).fixed_words
    rows = [8 * bits_set(mask & (1 << number) - 1) for number in _REGISTERS]
    size = 8 * bits_set(mask)
    has_chain = bool(kinds & abi.PERF_SAMPLE_CALLCHAIN)

    def find(records: bytes, at: int) -> Sampled | None:
        at += first
        try:
            if has_chain:
                at += 8 + 8 * int(_WORD.unpack_from(records, at)[0])
            (kind,) = _WORD.unpack_from(records, at)
            if kind != abi.PERF_SAMPLE_REGS_ABI_64:
                return None
            values = [int(_WORD.unpack_from(records, at + 8 + row)[0]) for row in rows]
            at += 8 + size
            (copied,) = _WORD.unpack_from(records, at)
            (filled,) = _WORD.unpack_from(records, at + 8 + copied) if copied else (0,)
            return Sampled._make([*values, records[at + 8 : at + 8 + min(copied, filled)]])
        except struct.error:
            return None

    return find


class _Stack:
    """The words of a thread's stack at a sample."""

    def __init__(self, memory: ProcessMemory, sampled: Sampled) -> None:
        self._begin, self._copy = sampled.stack_pointer, sampled.stack
        self._last = len(sampled.stack) - 8
        self._others = Snapshot(memory, MOST_OUTER_PAGES)

    def __getitem__(self, address: int) -> int:
        at = address - self._begin
        if 0 <= at <= self._last:
            return int(_WORD.unpack_from(self._copy, at)[0])
        page, at = self._others.at(address, 8)
        return int(_WORD.unpack_from(page, at)[0])


class StackWalker:
    """Reads the frames of one process's threads."""

    def __init__(self, memory: ProcessMemory, image: int, placed: Placed) -> None:
        self.pid, self.image, self.placed = memory.pid, image, placed
        self.description = image_entry.image_record(image, placed, _USER)
        self._memory = memory
        self._layout = images.layout_of(placed.words)
        self._has_called = bool(placed.words[1])
        self._exits = tuple(2 * one for one in (v8.EXIT_TYPE, self._layout.builtin_exit))
        # Thread → its Isolate, and the beginning of the builtins.
        self._isolates: dict[int, tuple[int, int]] = {}
        self._builtins = 0
        # Their beginning in the file, once a walk has met the entry from C++.
        self._in_file = _ADDRESSES.stop
        # Begins and ends of code in mapped files, ascending, and the range of compiled code.
        self._files: list[int] = []
        self._compiled = range(0)
        self._looked_ns = 0

    def forget_files(self) -> None:
        """Look at the mapped files again."""
        self._files = []

    def walk(self, tid: int, sampled: Sampled) -> tuple[bytes, list[tuple[int, int, int]]]:
        """Return the record of a sample's stack; (function, signed bytes, address in its code).

        The latter are for `NewFunctions`.

        Raises:
            UnreadableError: the process has ended, or its memory may not be read.
        """
        begun_ns = monotonic_ns()
        stack = _Stack(self._memory, sampled)
        frames: list[tuple[int, int, int, int]] = []
        runs = not self._is_of_file(sampled.instruction)
        isolate = self._isolate(tid, sampled.r13 - v8.ISOLATE_REGISTER_BIAS, is_sure=runs)
        status = wire.NO_FRAME if isolate else wire.NO_THREAD
        begins = iter([sampled.frame]) if runs else self._callers(isolate, sampled, stack)
        for begin in islice(begins, MOST_CALLING_FRAMES if isolate else 0):
            frames, status = self._walked(begin, sampled, stack, runs=runs)
            if status != wire.FAULT:
                break
        rows, functions = self._rows(frames)
        took_ns = min(monotonic_ns() - begun_ns, _HALF)
        facts = wire.MAGIC, wire.KIND_STACK, status, len(rows), took_ns, self.image, 0, 0
        return wire.HEADER.pack(*facts)[: wire.STACK_BYTES] + b"".join(rows), functions

    def _isolate(self, tid: int, maybe: int, *, is_sure: bool) -> int:
        """Return the Isolate of a thread, 0 if it is not known."""
        isolate, builtins = self._isolates.get(tid, (0, 0))
        if maybe != isolate and (is_sure or not isolate) and maybe in _ADDRESSES:
            try:
                begin, end = _WORDS.unpack(self._memory.read(maybe + self._layout.builtins, 16))
            except UnreadableError:
                begin = end = 0
            if begin and end - begin == self._layout.first_bytes:
                if len(self._isolates) >= MOST_V8_THREADS:
                    self._isolates.clear()
                isolate, builtins = self._isolates[tid] = maybe, begin
        self._builtins = builtins
        return isolate

    def _is_of_file(self, address: int) -> bool:
        """Return whether an instruction is in a mapped file, other than V8's builtins."""
        if self._is_builtin(address):
            return False
        if not self._files:
            self._files, self._compiled = _mapped_code(self._memory.pid)
            self._looked_ns = monotonic_ns()
        return bool(bisect_right(self._files, address) & 1)

    def _is_builtin(self, address: int) -> bool:
        """Return whether an instruction is in the builtins of the file, or in V8's copy of them."""
        size = self._layout.builtins_bytes
        return 0 <= address - self._builtins < size or 0 <= address - self._in_file < size

    def _is_of_v8(self, address: int) -> bool:
        """Return whether an instruction is in V8's builtins, or may be in compiled code."""
        if self._is_builtin(address):
            return True
        if self._is_of_file(address):
            return False
        if address not in self._compiled and monotonic_ns() - self._looked_ns > _AGAIN_NS:
            # No record shows that V8 changes the rights of memory.
            self.forget_files()
            return not self._is_of_file(address) and address in self._compiled
        return address in self._compiled

    def _walked(
        self, begin: int, sampled: Sampled, stack: _Stack, *, runs: bool
    ) -> tuple[list[tuple[int, int, int, int]], int]:
        """Return the frames from one on, and the status of the walk."""
        frames: list[tuple[int, int, int, int]] = []
        try:
            for row in self._frames(begin, sampled, stack, runs=runs):
                if len(frames) == wire.MOST_FRAMES:
                    return frames, wire.TRUNCATED
                frames.append(row)
        except UnreadableError:
            return frames, wire.FAULT
        return frames, wire.WALKED

    def _callers(self, isolate: int, sampled: Sampled, stack: _Stack) -> Iterator[int]:
        """Give frames that may have called C++, likely ones first; none if no JavaScript runs."""
        layout = self._layout
        places = (layout.entered, layout.called, layout.outermost)
        pieces = self._memory.read_pieces([(isolate + one, 8) for one in places])
        entered, called, outermost = (_WORD.unpack(one)[0] for one in pieces)
        if not outermost:
            return
        for frame in (entered, called, sampled.frame):
            if self._is_frame(frame, sampled, stack):
                yield frame
        for exit_ in self._exits:
            marker, at = _WORD.pack(exit_), -1
            while (at := sampled.stack.find(marker, at + 1)) >= 0:
                frame = sampled.stack_pointer + at - v8.FRAME_CONTEXT
                if self._is_frame(frame, sampled, stack):
                    yield frame

    def _is_frame(self, frame: int, sampled: Sampled, stack: _Stack) -> bool:
        """Return whether a frame of JavaScript's code is here."""
        if frame % 8 or not 0 <= frame - sampled.stack_pointer < LARGEST_STACK_BYTES:
            return False
        try:
            context = stack[frame + v8.FRAME_CONTEXT]
            back = stack[frame + v8.FRAME_RETURN]
            caller = stack[frame + v8.FRAME_CALLER]
        except UnreadableError:
            return False
        if not frame < caller < frame + LARGEST_STACK_BYTES:
            return False
        if context in self._exits and self._in_file == _ADDRESSES.stop:
            begin, end = self.placed.text
            return begin <= back < end or self._is_of_v8(back)
        is_possible = context & 1 == 1 or 0 < context < 2 * _MOST_TYPE
        return is_possible and self._is_of_v8(back)

    def _frames(
        self, frame: int, sampled: Sampled, stack: _Stack, *, runs: bool
    ) -> Iterator[tuple[int, int, int, int]]:
        """Give (function or 0, code of an entry or instruction, last, mark) of each frame."""
        begin, end = self.placed.text
        at, mark = (sampled.instruction, v8.RUNS) if runs else (0, 0)
        for _ in range(wire.MOST_FRAMES + 1):
            if frame % 8 or not 0 <= frame - sampled.stack_pointer < LARGEST_STACK_BYTES:
                raise UnreadableError
            context, caller = stack[frame + v8.FRAME_CONTEXT], stack[frame + v8.FRAME_CALLER]
            if context & 1:
                last, kind = self._place(frame, at, mark, sampled, stack)
                yield stack[frame + v8.FRAME_FUNCTION], at, last, kind | mark
            elif context >> 1 in v8.ENTRY_TYPES:
                yield 0, at, 0, v8.ENTRY
                if begin <= at < end:
                    self._in_file = at - self._layout.entry & -PAGE
                caller = stack[frame + v8.ENTRY_OUTER]
                if not caller and self._has_called:
                    caller = stack[frame + v8.ENTRY_CALLED]
                if not caller:
                    return
            elif context >> 1 == self._layout.builtin_exit:
                yield stack[frame + v8.FRAME_TARGET], 0, 0, v8.COMPILED | mark
            at = stack[frame + v8.FRAME_RETURN] if context >> 1 not in v8.ENTRY_TYPES else 0
            mark = 0
            if caller <= frame:
                raise UnreadableError
            frame = caller

    def _place(
        self, frame: int, at: int, runs: int, sampled: Sampled, stack: _Stack
    ) -> tuple[int, int]:
        """Return `last` and the kind of a function's frame at an instruction."""
        begin, end = self.placed.text
        if not (begin <= at < end or self._is_builtin(at)):
            return at & _HALF, v8.COMPILED
        bytecode, offset = stack[frame + v8.FRAME_BYTECODE], stack[frame + v8.FRAME_OFFSET]
        # A builtin may have its own frame of a function.
        if bytecode & 3 != 1 or offset & _HALF:
            return 0, v8.COMPILED
        if runs and bytecode == sampled.r12 and sampled.r9 < _MOST_OFFSET:
            return sampled.r9, v8.INTERPRETED
        return offset >> _SMI_SHIFT, v8.INTERPRETED

    def _rows(
        self, frames: list[tuple[int, int, int, int]]
    ) -> tuple[list[bytes], list[tuple[int, int, int]]]:
        """Return the rows of a stack, and its functions as `walk` does."""
        functions = list(dict.fromkeys(one[0] for one in frames if one[0]))
        shared = dict(zip(functions, self._read(functions, self._layout.js_shared, 8), strict=True))
        codes = {one: _WORD.unpack(word)[0] for one, word in shared.items() if word}
        known = list(dict.fromkeys(codes.values()))
        size = max(self._layout.script, self._layout.flags) + _WORD.size
        contents = zip(known, self._read(known, 0, size), strict=True)
        signed = {code: signed_bytes(one, self._layout) for code, one in contents if one}
        rows, met = [], []
        for function, at, last, mark in frames:
            if not function:
                rows.append(wire.FRAME.pack(at, last, mark))
            elif (code := codes.get(function, 0)) in signed:
                signature = wire.signature_of(signed[code]) << wire.SIGNATURE_SHIFT
                rows.append(wire.FRAME.pack(code, last, mark | signature))
                is_compiled = mark & v8.KIND_MASK == v8.COMPILED and last
                met += [(code, signed[code], 0)]
                met += [(code, signed[code], at)] if is_compiled else []
        return rows, met

    def _read(self, objects: list[int], offset: int, size: int) -> list[bytes]:
        """Return a field of objects, b"" for missing ones; in one call if none is missing."""
        pieces = [(one - 1 + offset, size) for one in objects]
        try:
            return self._memory.read_pieces(pieces) if pieces else []
        except UnreadableError:
            found = []
            for piece in pieces:
                try:
                    found.append(self._memory.read(*piece))
                except UnreadableError:
                    found.append(b"")
            return found


def _mapped_code(pid: int) -> tuple[list[int], range]:
    """Return begin and end of each mapping of a file's code, and the range of other code.

    V8 has its compiled code in one piece of memory, and maps more of it as needed.
    """
    files: list[int] = [0, 0]
    others: list[int] = []
    try:
        lines = read_maps(pid).splitlines()
    except OSError:
        lines = []
    for line in lines:
        span, rights, _, _, inode, *path = line.split(None, 5)
        if rights[2:3] == b"x":
            bounds = [int(number, 16) for number in span.split(b"-")]
            is_file = inode != b"0" or path[:1] in ([b"[vdso]"], [b"[vsyscall]"])
            (files if is_file else others).extend(bounds)
    begin, end = min(others, default=0), max(others, default=0)
    return files, range(begin & -_CODE_BYTES, (end | _CODE_BYTES - 1) + 1)


class SampleReader:
    """Makes the records of samples of V8's threads.

    Names of functions have the same bounds as those of the kernel's walk.

    Attributes:
        refused: functions that there was no room for, by image.
    """

    def __init__(self) -> None:
        self._finders: dict[EventAttr, Callable[[bytes, int], Sampled | None] | None] = {}
        self._news: list[bytes] = []
        self._records: list[bytes] = []
        self._known: set[tuple[int, ...]] = set()
        self._described: set[int] = set()
        read = FunctionRecords()
        self._functions = NewFunctions(
            self._drain, self._keep, lambda _, *question: read.of(*question)
        )
        self.refused = self._functions.refused

    def copied(self, attr: EventAttr, records: bytes, at: int) -> Sampled | None:
        """Return the copy in a sample of an event, at a place among records; None without."""
        if attr not in self._finders:
            self._finders[attr] = copies_of(attr)
        find = self._finders[attr]
        return find(records, at) if find else None

    def forget(self) -> None:
        """Read the names of all functions again at their next samples."""
        self._known.clear()
        self._described.clear()

    def read(self, walker: StackWalker, tid: int, sampled: Sampled) -> list[bytes]:
        """Return the records of new functions and code, then that of the stack.

        Raises:
            UnreadableError: the process has ended, or its memory may not be read.
        """
        stack, met = walker.walk(tid, sampled)
        image = walker.image
        found = []
        if image not in self._described:
            self._described.add(image)
            found.append(walker.description)
            self._functions.register(image, walker.pid, 0, walker.placed)
        for shared, signed, address in met:
            thing = image, shared, signed, address >> _PIECE_BITS
            if thing not in self._known:
                if len(self._known) >= MOST_KNOWN_CODE:
                    self._known.clear()
                self._known.add(thing)
                self._news.append(NEWS.pack(image, shared, signed, address))
        self._functions.look()
        found += self._records
        self._records.clear()
        return [*found, stack]

    def _drain(self) -> list[bytes]:
        news, self._news = self._news, []
        return news

    def _keep(self, record: bytes) -> bool:
        self._records.append(record)
        return True
