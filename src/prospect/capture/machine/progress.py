"""What the holder of JIT files waits for, in memory that it shares with the recorder."""

from __future__ import annotations

import mmap
import struct
import time

_LATE_NS = 2_000_000_000
# since_ns place, bytes of the result
_PAGE = struct.Struct("=QQQ")


class Progress:
    """Memory that the recorder and the holder share: what the holder waits for, and since when."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    def at(self, place: int) -> None:
        """Say that files of a place are about to be touched; 0 for none."""
        _PAGE.pack_into(self._page, 0, time.monotonic_ns(), place, 0)

    def finish(self, size_bytes: int) -> None:
        """Say that the result is there."""
        _PAGE.pack_into(self._page, 0, 0, 0, size_bytes)

    @property
    def result_bytes(self) -> int:
        """The size of the result, 0 as long as there is none."""
        return int(_PAGE.unpack_from(self._page)[2])

    @property
    def late_place(self) -> int:
        """The place that has not answered in time, 0 without."""
        since_ns, place, _ = _PAGE.unpack_from(self._page)
        return place if place and time.monotonic_ns() - since_ns > _LATE_NS else 0
