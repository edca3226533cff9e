"""Names, files and tables of lines of code objects, read from a process's memory when first met.

They become the records that the walker in the kernel sends. A process that makes up code objects
has the same room for them as there.

Defined by: `abi.cpython`; ``Include/cpython/unicodeobject.h`` of CPython for the state of a str.
"""

from __future__ import annotations

import struct

from prospect.abi import runtime_frames as wire
from prospect.capture.runtimes.name_bounds import NAME_COST, OF_IMAGE
from prospect.capture.runtimes.process_memory import UnreadableError
from prospect.light import monotonic_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.abi.cpython import CodeLayout
    from prospect.capture.python.memory_walk import Codes
    from prospect.capture.runtimes.process_memory import ProcessMemory

# Names that one sample reads, and code objects that are remembered as named.
_MOST_NEW = 64
_MOST_KNOWN = 1 << 16
_KIND_SHIFT, _KIND_MASK, _ASCII = 2, 7, 64
_KINDS = (1, 2, 4)  # bytes a character
_HEAD_BYTES = 24  # of a str: its length, its hash, its state
_HEAD, _WORD = struct.Struct("<QQQ"), struct.Struct("<Q")
_PARTS = ((wire.KIND_NAME, wire.MOST_NAME_BYTES), (wire.KIND_FILE, wire.MOST_FILE_BYTES))


class NameReader:
    """Reads the names of one interpreter's code objects; forked processes share it.

    Attributes:
        refused: names that there was no room for.
    """

    def __init__(self, image: int, layout: CodeLayout) -> None:
        self._image = image
        self._layout = layout
        self._known: set[tuple[int, int]] = set()
        self._level, self._looked_ns = 0, monotonic_ns()
        self.refused = 0

    def forget(self) -> None:
        """Read the names of all code objects again when they are met."""
        self._known.clear()

    def read(self, memory: ProcessMemory, codes: Codes) -> list[bytes]:
        """Return records on the code objects among `codes` that were not met before."""
        new = [code for code, (tag, _) in codes.items() if (code, tag) not in self._known]
        if not new:
            return []
        now_ns = monotonic_ns()
        self._level = max(0, self._level - (now_ns - self._looked_ns >> OF_IMAGE.shift))
        self._looked_ns = now_ns
        found: list[bytes] = []
        for number, code in enumerate(new[:_MOST_NEW]):
            if self._level >= OF_IMAGE.most_bytes:
                self.refused += len(new) - number
                break
            tag, beginning = codes[code]
            try:
                records = self._records(memory, code, tag, _WORD.unpack(beginning)[0])
            except UnreadableError:
                continue  # it is no code object, or is gone
            self._level += NAME_COST + sum(map(len, records))
            found += records
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known.add((code, tag))
        return found

    def _records(
        self, memory: ProcessMemory, code: int, signature: int, beginning: int
    ) -> list[bytes]:
        layout = self._layout
        fields = [(code + offset, 8) for offset in (layout.name, layout.file, layout.lines)]
        places = [_WORD.unpack(one)[0] for one in memory.read_pieces(fields)]
        heads = [
            _HEAD.unpack(one)
            for one in memory.read_pieces([(one + layout.length, _HEAD_BYTES) for one in places])
        ]
        texts: list[tuple[int, int, bytes]] = []
        for (kind, most), place, (length, _, state) in zip(_PARTS, places[:2], heads, strict=False):
            texts.append((kind, *self._text(memory, place, length, state, most)))
        place, (length, *_) = places[2], heads[2]
        size = min(length, wire.MOST_LINES_BYTES)
        lines = memory.read(place + layout.bytes, size) if size else b""
        texts.append((wire.KIND_LINES, 1 | wire.CUT * (size < length), lines))
        facts = signature, self._image, code, beginning
        return [
            wire.HEADER.pack(wire.MAGIC, kind, status, len(text), *facts) + text
            for kind, status, text in texts
        ]

    def _text(
        self, memory: ProcessMemory, place: int, length: int, state: int, most: int
    ) -> tuple[int, bytes]:
        """Return the `status` of a str's record, and its text.

        Raises:
            UnreadableError: it is none, or is not in memory.
        """
        state >>= self._layout.state_shift
        width = state >> _KIND_SHIFT & _KIND_MASK
        if width not in _KINDS:
            raise UnreadableError
        status, begin = width, self._layout.compact
        if state & _ASCII:
            status, begin = width | wire.IS_ASCII, self._layout.ascii
        size = length * width
        if size > most:
            status, size = status | wire.CUT, most
        return status, memory.read(place + begin, size) if size else b""
