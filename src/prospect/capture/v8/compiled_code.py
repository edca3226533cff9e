"""V8's compiled code at an address: whose it is, and which functions are inlined where in it.

Code is found by what precedes its instructions. Its table of source positions leads from an
instruction to a place in the source, and to the inlined call that it belongs to; each of these has
the place that it is called from.

Defined by: `abi.v8`; ``src/codegen/source-position.h`` and ``src/objects/deoptimization-data.h`` of
V8.
"""

from __future__ import annotations

import struct
from bisect import bisect_left

from prospect.abi import v8
from prospect.capture.runtimes.process_memory import PAGE, UnreadableError
from prospect.capture.v8.functions import positions, split_position
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable

    from prospect.abi.v8 import Layout
    from prospect.capture.runtimes.process_memory import ProcessMemory
    from prospect.capture.v8.functions import FunctionReader

# How far code is searched for its beginning, and words that may be what precedes it.
_LARGEST_CODE_BYTES = 1 << 18
_MOST_TRIES = 64
_MOST_CALLS = 1 << 12
_DEEPEST = 32
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
        return self._with_inlined(Code(start, size, 0, (), (), ()), how, table)

    def _stream_before(self, address: int) -> int:
        """Return where the object begins whose instructions an address is in; 0 if nowhere."""
        tries = 0
        tried: dict[int, bool] = {}
        end = address & -8
        for page in range(address & -PAGE, max(0, address - _LARGEST_CODE_BYTES), -PAGE):
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
                    if tries > _MOST_TRIES:
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

    def _with_inlined(self, code: Code, how: int, table: bytes) -> Code | None:
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
        for number in range(min(count, _MOST_CALLS)):
            word = self._memory.number(literals - 1 + self._word(number))
            shared.append(word & ~2)  # a weak reference has both low bits
        return _Nodes(self._functions, shared, inlined).code(
            code, positions(table, has_bit=bool(layout.has_statement_bit))
        )

    def _word(self, number: int) -> int:
        return v8.ARRAY_DATA + 8 * number


class _Nodes:
    """Makes the pieces of code, each function and each line once."""

    def __init__(
        self, reader: FunctionReader, shared: list[int], calls: list[tuple[int, int]]
    ) -> None:
        self._reader = reader
        self._shared = shared
        self._calls = calls
        self._functions: dict[int, int] = {}
        self._nodes: dict[tuple[int, int, int], int] = {}
        self._ends: dict[int, array[int] | None] = {}

    def code(self, code: Code, entries: Iterable[tuple[int, int, int]]) -> Code:
        """Return the code with its pieces; `entries` are of its table of source positions."""
        rows: list[tuple[int, int]] = []
        for offset, place, call in entries:
            node = self._node(place, call, 0)
            if not rows or rows[-1][1] != node:
                rows.append((offset, node))
        return code._replace(
            shared=self._shared[0],
            rows=tuple(rows),
            nodes=tuple(self._nodes),
            functions=tuple(self._functions),
        )

    def _node(self, place: int, call: int, depth: int) -> int:
        """Return the number of the node of a place in an inlined call."""
        shared, outer = self._shared[0], -1
        if 0 <= call < len(self._calls) and depth < _DEEPEST:
            position, number = self._calls[call]
            if number + 1 < len(self._shared):
                shared = self._shared[number + 1]
                outer = self._node(*split_position(position), depth + 1)
        function = self._functions.setdefault(shared, len(self._functions))
        key = function, self._line(shared, place), outer
        return self._nodes.setdefault(key, len(self._nodes))

    def _line(self, shared: int, place: int) -> int:
        if shared not in self._ends:
            try:
                self._ends[shared] = self._reader.line_ends(shared)
            except UnreadableError:
                self._ends[shared] = None
        ends = self._ends[shared]
        return 0 if ends is None or place < 0 else bisect_left(ends, place) + 1
