"""Records of V8's functions and code, read from a process's memory when they are met.

Code is found by the words before its instructions. Its table of source positions leads from an
instruction to a place in the source and to its inlined call, which has the place of its caller.

Defined by: `abi.v8`; ``src/codegen/source-position.h`` and ``src/objects/deoptimization-data.h`` of
V8.
"""

from __future__ import annotations

import struct
from bisect import bisect_left

from prospect.abi import runtime_frames as wire
from prospect.abi import v8
from prospect.capture.capture_limits import (
    DEEPEST_INLINED,
    LARGEST_CODE_BYTES,
    MOST_ANSWER_BYTES,
    MOST_CODE_TRIES,
    MOST_INLINED_CALLS,
    MOST_NAMED,
    MOST_OF_CODE_BYTES,
    MOST_V8_PROCESSES,
)
from prospect.capture.runtimes.process_memory import PAGE, ProcessMemory, UnreadableError
from prospect.capture.v8.functions import FunctionReader, positions, split_position
from prospect.capture.v8.images import layout_of
from prospect.light import monotonic_ns
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Sequence

    from prospect.abi.v8 import Layout
    from prospect.capture.v8.functions import Function

_INLINED_COUNT = 1
_SMI_SHIFT = 32
_CALL = struct.Struct("<QIxxxx")
_WORD = struct.Struct("<Q")


class Code(NamedTuple):
    """A piece of compiled code.

    Attributes:
        start, size: of its instructions.
        shared: the function that it was compiled for.
        rows: (offset, node) of its pieces, ascending.
        nodes: (function, line, outer node or -1), the functions by their place in `functions`.
        functions: SharedFunctionInfo of each.
    """

    start: int
    size: int
    shared: int
    rows: tuple[tuple[int, int], ...]
    nodes: tuple[tuple[int, int, int], ...]
    functions: tuple[int, ...]


class CodeReader:
    """Reads compiled code from the memory of one process."""

    def __init__(self, memory: ProcessMemory, layout: Layout, functions: FunctionReader) -> None:
        self._memory = memory
        self._layout = layout
        self._functions = functions
        self._stream_map = 0

    def read(self, address: int) -> Code | None:
        """Return the optimized code at an address, None if there is none.

        Raises:
            UnreadableError: it is gone, or cannot be read.
        """
        layout = self._layout
        stream = self._stream_before(address)
        if not stream:
            return None
        begin = stream + layout.code_begin
        code = self._memory.number(stream + 8) if layout.code_start else stream + 1
        if self._functions.type_of(code) != layout.code_type:
            return None
        start = self._memory.number(code - 1 + layout.code_start) if layout.code_start else begin
        flags, size = (
            self._memory.number(code - 1 + one) & 0xFFFFFFFF
            for one in (layout.code_flags, layout.code_size)
        )
        is_optimized = layout.baseline < flags & v8.CODE_KIND_MASK
        if start != begin or not start <= address < start + size or not is_optimized:
            return None
        how = self._memory.number(code - 1 + layout.code_bytecode)
        table = self._functions.bytes_of(self._memory.number(code - 1 + layout.code_table))
        return self._with_inlined(start, size, how, table)

    def _stream_before(self, address: int) -> int:
        """Return the beginning of the object whose instructions have an address; 0 without."""
        tries = 0
        tried: dict[int, bool] = {}
        end = address & -8
        for page in range(address & -PAGE, max(0, address - LARGEST_CODE_BYTES), -PAGE):
            try:
                words = memoryview(self._memory.read(page, PAGE)).cast("Q")
            except UnreadableError:
                return 0
            for row in range(min(PAGE, end - page + 8) // 8 - 1, -1, -1):
                word = words[row]
                if word & 3 != 1 or word >> 47 or word < 1 << 20:
                    continue
                if word not in tried:
                    tries += 1
                    if tries > MOST_CODE_TRIES:
                        return 0
                    tried[word] = self._is_stream_map(word)
                if tried[word]:
                    return page + 8 * row
        return 0

    def _is_stream_map(self, word: int) -> bool:
        if self._stream_map:
            return word == self._stream_map
        try:
            is_one = self._functions.type_of_map(word) == self._layout.stream_type
        except UnreadableError:
            return False
        if is_one:
            self._stream_map = word
        return is_one

    def _with_inlined(self, start: int, size: int, how: int, table: bytes) -> Code | None:
        """Return the code with its functions and pieces."""
        layout = self._layout
        literals = self._memory.number(how - 1 + self._word(layout.literals))
        own = self._memory.number(how - 1 + self._word(layout.literals + 4))
        if self._functions.type_of(own) != layout.shared_type:
            own = self._memory.number(own - 1 + v8.WRAPPED_SHARED)
            if self._functions.type_of(own) != layout.shared_type:
                return None
        count = self._memory.number(how - 1 + self._word(_INLINED_COUNT)) >> _SMI_SHIFT
        calls = self._functions.bytes_of(
            self._memory.number(how - 1 + self._word(layout.literals + 5))
        )
        inlined = list(_CALL.iter_unpack(calls[: len(calls) // _CALL.size * _CALL.size]))
        shared = [own]
        for number in range(min(count, MOST_INLINED_CALLS)):
            word = self._memory.number(literals - 1 + self._word(number))
            shared.append(word & ~2)  # a weak reference has both low bits
        nodes = _Nodes(self._functions, shared, inlined)
        rows = nodes.rows(positions(table, has_bit=bool(layout.has_statement_bit)))
        return Code(start, size, own, rows, tuple(nodes.nodes), tuple(nodes.functions))

    def _word(self, number: int) -> int:
        return v8.ARRAY_DATA + 8 * number


class _Nodes:
    """Makes the pieces of code; numbers nodes and functions, each once."""

    def __init__(
        self, reader: FunctionReader, shared: list[int], calls: list[tuple[int, int]]
    ) -> None:
        self._reader = reader
        self._shared = shared
        self._calls = calls
        self.functions: dict[int, int] = {}
        self.nodes: dict[tuple[int, int, int], int] = {}
        self._ends: dict[int, array[int] | None] = {}

    def rows(self, entries: Iterable[tuple[int, int, int]]) -> tuple[tuple[int, int], ...]:
        """Return (offset, node) of each piece; `entries` are of the table of source positions."""
        rows: list[tuple[int, int]] = []
        for offset, place, call in entries:
            node = self._node(place, call, 0)
            if not rows or rows[-1][1] != node:
                rows.append((offset, node))
        return tuple(rows)

    def _node(self, place: int, call: int, depth: int) -> int:
        """Return the number of the node of a place in an inlined call."""
        shared, outer = self._shared[0], -1
        if 0 <= call < len(self._calls) and depth < DEEPEST_INLINED:
            position, number = self._calls[call]
            if number + 1 < len(self._shared):
                shared = self._shared[number + 1]
                outer = self._node(*split_position(position), depth + 1)
        function = self.functions.setdefault(shared, len(self.functions))
        key = function, self._line(shared, place), outer
        return self.nodes.setdefault(key, len(self.nodes))

    def _line(self, shared: int, place: int) -> int:
        if shared not in self._ends:
            try:
                self._ends[shared] = self._reader.line_ends(shared)
            except UnreadableError:
                self._ends[shared] = None
        ends = self._ends[shared]
        return 0 if ends is None or place < 0 else bisect_left(ends, place) + 1


_LINE = struct.Struct("<II")
_LINES = wire.KIND_LINES, 1


class FunctionRecords:
    """Reads the functions of processes, and remembers sources."""

    def __init__(self) -> None:
        self._processes: dict[tuple[int, int], _Process] = {}

    def of(
        self, pid: int, image: int, words: tuple[int, ...], met: Sequence[tuple[int, int, int]]
    ) -> tuple[int, tuple[bytes, ...], tuple[int, ...]]:
        """Return the number of functions read, records on them, and which could not be read.

        `met` has addresses of functions, their signed bytes, and an address in the compiled code
        or 0 of each; `words` are those of the image, see `images`.
        """
        process = self._processes.pop((pid, image), None) or _Process(pid, image, words)
        self._processes[pid, image] = process
        while len(self._processes) > MOST_V8_PROCESSES:
            del self._processes[next(iter(self._processes))]
        found: list[bytes] = []
        failed: list[int] = []
        size = 0
        for number, (shared, signed, address) in enumerate(met):
            if size >= MOST_ANSWER_BYTES:
                return number, tuple(found), tuple(failed)
            try:
                if address:
                    records = process.code(shared, address)
                else:
                    records = process.function(shared, signed)
            except UnreadableError:
                failed.append(number)  # the garbage collector has moved or removed it
                continue
            found += records
            size += sum(map(len, records))
        return len(met), tuple(found), tuple(failed)


class _Process:
    """Makes the records of one process."""

    def __init__(self, pid: int, image: int, words: tuple[int, ...]) -> None:
        self._image = image
        memory, self._layout = ProcessMemory(pid), layout_of(words)
        self._functions = FunctionReader(memory, self._layout)
        self._code = CodeReader(memory, self._layout, self._functions)
        # Times at which inlined functions, by address and signed bytes, were named.
        self._named: dict[tuple[int, int], int] = {}

    def function(self, shared: int, signed: int) -> list[bytes]:
        """Return records on a function.

        Raises:
            UnreadableError: it is gone.
        """
        if self._functions.signature(shared) != signed:
            raise UnreadableError
        function = self._functions.read(shared)
        rows = function.lines[: wire.MOST_LINES_BYTES // _LINE.size]
        first = self._layout.instructions - 1  # for the tag
        lines = b"".join(_LINE.pack(offset + first, line) for offset, line in rows)
        named = self._names(shared, signed, function)
        return [*named, self._record(_LINES, shared, signed, function.first, lines)]

    def code(self, shared: int, address: int) -> list[bytes]:
        """Return records on the compiled code of a function and on functions inlined there.

        Raises:
            UnreadableError: it is gone.
        """
        code = self._code.read(address)
        if code is None or code.shared != shared:
            return []
        signed = [self._functions.signature(one) for one in code.functions]
        record = self._record(_LINES, code.start, shared, shared, encode_code(code, signed))
        if len(record) > wire.HEADER.size + wire.MOST_LINES_BYTES:
            return []
        found, size = [record], len(record)
        now_ns = monotonic_ns()
        if len(self._named) > MOST_NAMED:
            self._named.clear()
        for one in zip(code.functions, signed, strict=True):
            again_ns = self._named.get(one, 0) + wire.SENT_AGAIN_S * 1_000_000_000 // 2
            if now_ns < again_ns or size > MOST_OF_CODE_BYTES:
                continue
            self._named[one] = now_ns
            found += self.function(*one)
            size = sum(map(len, found))
        return found

    def _names(self, shared: int, signed: int, function: Function) -> list[bytes]:
        texts = (
            (wire.KIND_NAME, *_encoded(_name(function), wire.MOST_NAME_BYTES)),
            (wire.KIND_FILE, *_encoded(function.file or v8.NO_FILE, wire.MOST_FILE_BYTES)),
        )
        return [
            self._record((kind, status), shared, signed, function.first, text)
            for kind, status, text in texts
        ]

    def _record(
        self, kind: tuple[int, int], code: int, signed: int, beginning: int, text: bytes
    ) -> bytes:
        facts = wire.signature_of(signed), self._image, code, beginning
        return wire.HEADER.pack(wire.MAGIC, *kind, len(text), *facts) + text


def encode_code(code: Code, signed: Sequence[int]) -> bytes:
    """Return a piece of code as a recording has it; `signed` are 8 bytes of each function."""
    parts = [v8.CODE.pack(code.size, len(code.rows), len(code.nodes), len(code.functions))]
    parts += [v8.CODE_ROW.pack(*row) for row in code.rows]
    parts += [v8.CODE_NODE.pack(*node) for node in code.nodes]
    for shared, one in zip(code.functions, signed, strict=True):
        parts.append(v8.CODE_FUNCTION.pack(shared, wire.signature_of(one), 0))
    return b"".join(parts)


def _name(function: Function) -> str:
    if function.name or not function.first:
        return function.name or "(anonymous)"
    return f"(anonymous:{function.first})"


def _encoded(text: str, most: int) -> tuple[int, bytes]:
    """Return the status of a record with a text, and the text."""
    try:
        status, data = 1, text.encode("latin-1")
    except UnicodeEncodeError:
        status, data = 2, text.encode("utf-16-le", "surrogatepass")
    return (status | wire.CUT * (len(data) > most), data[: most & ~1])
