"""A bounds-checked cursor over bytes of either byte order, for headers and feature sections."""

from __future__ import annotations

import struct
from typing import Any

from prospect.errors import RecordingError

_LONGEST_NAME = 255


class FieldReader:
    """Reads fields one after the other; a read beyond the end raises RecordingError.

    Args:
        data: the bytes.
        order: ``"<"`` or ``">"``.
    """

    def __init__(self, data: bytes | memoryview, order: str) -> None:
        self._data = memoryview(data)
        self.order = order
        self._at = 0

    @property
    def remaining(self) -> int:
        """Number of bytes not yet read."""
        return len(self._data) - self._at

    def take(self, size: int) -> memoryview:
        """Return the next `size` bytes."""
        if size > self.remaining:
            raise RecordingError(f"{size} bytes are needed, {self.remaining} are left")
        self._at += size
        return self._data[self._at - size : self._at]

    def unpack(self, layout: str) -> tuple[Any, ...]:
        """Return the next fields; `layout` is struct's, without byte order, unpadded."""
        layout = self.order + layout
        return struct.unpack(layout, self.take(struct.calcsize(layout)))

    def peek(self, layout: str) -> tuple[Any, ...]:
        """Return the next fields without moving on."""
        at = self._at
        fields = self.unpack(layout)
        self._at = at
        return fields

    def u32(self) -> int:
        """Return the next 32-bit unsigned number."""
        return int(self.unpack("I")[0])

    def u64(self) -> int:
        """Return the next 64-bit unsigned number."""
        return int(self.unpack("Q")[0])

    def u64s(self, count: int) -> tuple[int, ...]:
        """Return the next `count` 64-bit unsigned numbers."""
        return struct.unpack(f"{self.order}{count}Q", self.take(8 * count))

    def name(self) -> str:
        """Return the next name of at most 255 bytes, which a NUL ends."""
        end = bytes(self._data[self._at : self._at + _LONGEST_NAME + 1]).find(b"\0")
        if end < 0:
            raise RecordingError("a name has no end")
        return bytes(self.take(end + 1)[:-1]).decode("utf-8", "replace")

    def string(self) -> str:
        """Return the next perf_header_string: a 32-bit length, then zero-padded text."""
        text = bytes(self.take(self.u32()))
        return text.partition(b"\0")[0].decode("utf-8", "surrogateescape")
