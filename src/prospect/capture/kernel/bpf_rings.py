"""A ring buffer that BPF programs fill and one process empties (BPF_MAP_TYPE_RINGBUF).

Defined by: ``Documentation/bpf/ringbuf.rst``; ``kernel/bpf/ringbuf.c``, Linux 6.18: a page with the
position of the reader, a page with that of the writers, then the data, mapped twice in a row.
"""

from __future__ import annotations

import mmap
import struct

from prospect.light import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADER = struct.Struct("=II")
_BUSY, _DISCARDED = 1 << 31, 1 << 30
_LENGTH_MASK = _DISCARDED - 1


class BpfRing(Closing):
    """The reader of a ring, whose descriptor is ready to read when there is something in it."""

    def __init__(self, map_fd: int, size_bytes: int) -> None:
        """Map it.

        Args:
            map_fd: of the map, which the caller closes.
            size_bytes: of the map.

        Raises:
            OSError: the kernel refused.
        """
        self._size = size_bytes
        self._mine = mmap.mmap(map_fd, mmap.PAGESIZE)
        self._theirs = mmap.mmap(
            *(map_fd, mmap.PAGESIZE + 2 * size_bytes, mmap.MAP_SHARED, mmap.PROT_READ),
            offset=mmap.PAGESIZE,
        )
        # 'Q' makes every access one 64-bit load or store, as positions need.
        self._read_to = memoryview(self._mine).cast("Q")
        self._written_to = memoryview(self._theirs)[: mmap.PAGESIZE].cast("Q")

    def drain(self) -> Iterator[bytes]:
        """Give the records in it, the oldest first, and take each out."""
        at, end = self._read_to[0], self._written_to[0]
        while at < end:
            place = mmap.PAGESIZE + at % self._size
            (head, _) = _HEADER.unpack_from(self._theirs, place)
            if head & _BUSY:
                return
            length = head & _LENGTH_MASK
            begin = place + _HEADER.size
            record = self._theirs[begin : begin + length]
            at += -(-(length + _HEADER.size) // 8) * 8
            self._read_to[0] = at
            if not head & _DISCARDED:
                yield record

    def close(self) -> None:
        """Let go of it."""
        self._read_to.release()
        self._written_to.release()
        self._mine.close()
        self._theirs.close()
