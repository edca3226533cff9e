"""Records of V8's functions and code, made of what a process's memory says when they are met."""

from __future__ import annotations

import struct

from prospect.abi import runtime_frames as wire
from prospect.abi import v8
from prospect.capture.runtimes.process_memory import ProcessMemory, UnreadableError
from prospect.capture.v8.compiled_code import CodeReader
from prospect.capture.v8.functions import FunctionReader
from prospect.capture.v8.images import layout_of
from prospect.light import monotonic_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.capture.v8.compiled_code import Code
    from prospect.capture.v8.functions import Function

# What one answer holds, but for the last function or code: it fits into a pipe at once.
_MOST_ANSWER_BYTES = 1 << 14
_MOST_OF_CODE_BYTES = 1 << 15
_MOST_PROCESSES = 64
_MOST_NAMED = 1 << 14
_LINE = struct.Struct("<II")
_LINES = wire.KIND_LINES, 1
_MASK = (1 << 64) - 1


class FunctionRecords:
    """Reads the functions of processes, and remembers the sources that it has read."""

    def __init__(self) -> None:
        self._processes: dict[tuple[int, int], _Process] = {}

    def of(
        self, pid: int, image: int, words: tuple[int, ...], met: Sequence[tuple[int, int, int]]
    ) -> tuple[int, tuple[bytes, ...], tuple[int, ...]]:
        """Return how many things were looked at, records on them, and which could not be read.

        Args:
            pid: the process.
            image: its number in the recording.
            words: of the image, see `images`.
            met: of each a function's address, the 8 bytes that tell it from others there, and an
                address in its compiled code or 0.
        """
        process = self._processes.pop((pid, image), None) or _Process(pid, image, words)
        self._processes[pid, image] = process
        while len(self._processes) > _MOST_PROCESSES:
            del self._processes[next(iter(self._processes))]
        found: list[bytes] = []
        failed: list[int] = []
        size = 0
        for number, (shared, signed, address) in enumerate(met):
            if size >= _MOST_ANSWER_BYTES:
                return number, tuple(found), tuple(failed)
            try:
                if address:
                    records = process.code(shared, address)
                else:
                    records = process.function(shared, signed)
            except UnreadableError:
                failed.append(number)  # the garbage collector has moved it, or it is gone
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
        # When functions, by address and signed bytes, were named that are inlined somewhere.
        self._named: dict[tuple[int, int], int] = {}

    def function(self, shared: int, signed: int) -> list[bytes]:
        """Return records on a function.

        Raises:
            UnreadableError: it is not there any more.
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
        """Return records on the compiled code of a function and on those inlined there.

        Raises:
            UnreadableError: it is not there any more.
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
        if len(self._named) > _MOST_NAMED:
            self._named.clear()
        for one in zip(code.functions, signed, strict=True):
            again_ns = self._named.get(one, 0) + wire.SENT_AGAIN_S * 1_000_000_000 // 2
            if now_ns < again_ns or size > _MOST_OF_CODE_BYTES:
                continue
            self._named[one] = now_ns
            found += self.function(*one)
            size = sum(map(len, found))
        return found

    def _names(self, shared: int, signed: int, function: Function) -> list[bytes]:
        """Return the records of a function's name and file."""
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
        """Return a record of a kind and status."""
        facts = signature_of(signed), self._image, code, beginning
        return wire.HEADER.pack(wire.MAGIC, *kind, len(text), *facts) + text


def signature_of(signed: int) -> int:
    """Return the 24 bits by which frames know a function, as the walker makes them."""
    return int(signed * wire.SIGNATURE_MIX & _MASK) >> 40


def encode_code(code: Code, signed: Sequence[int]) -> bytes:
    """Return a piece of code as a recording has it.

    Args:
        code: it.
        signed: the 8 bytes of each of its functions that tell it from others.
    """
    parts = [v8.CODE.pack(code.size, len(code.rows), len(code.nodes), len(code.functions))]
    parts += [v8.CODE_ROW.pack(*row) for row in code.rows]
    parts += [v8.CODE_NODE.pack(*node) for node in code.nodes]
    for shared, one in zip(code.functions, signed, strict=True):
        parts.append(v8.CODE_FUNCTION.pack(shared, signature_of(one), 0))
    return b"".join(parts)


def _name(function: Function) -> str:
    """Return what a report calls a function."""
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
