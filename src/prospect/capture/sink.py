"""Appends whole records to a file, from its current position on."""

from __future__ import annotations

import errno
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Protocol

    class Sink(Protocol):
        """Takes records as they are drained."""

        def append(self, buffers: Sequence[memoryview | bytes]) -> None:
            """Take whole records, and keep no reference to the buffers.

            Raises:
                OSError: it takes no more.
            """


_HEADER = struct.Struct("=IHH")
# Bytes given up on a full disk for the feature sections.
_RESERVE_BYTES = 64 * 1024
# IOV_MAX of Linux, include/uapi/linux/uio.h (UIO_MAXIOV).
_MOST_BUFFERS = 1024
# By default, records may take a quarter of the free space, which other programs need too, but at
# least 64 MiB, so that a short run can end on an almost full disk.
_FREE_SHARE = 4
_LEAST_BOUND_BYTES = 64 << 20


def default_bound_bytes(fd: int) -> int:
    """Return how many bytes of records a file may take by default, 0 for any number.

    It is 0 on file systems that do not report their free space.
    """
    found = os.fstatvfs(fd)
    if not found.f_blocks:
        return 0
    return max(_LEAST_BOUND_BYTES, found.f_bavail * found.f_frsize // _FREE_SHARE)


class RecordSink:
    """A file that grows by whole records.

    Attributes:
        bytes_written: bytes of records in the file.
        keeps_records: whether the file has the records as they are, so that they can be changed.
    """

    keeps_records = True

    def __init__(self, fd: int, bound_bytes: int = 0) -> None:
        """Begin at the file's position; it takes `bound_bytes` of records, 0 for any number."""
        self._fd = fd
        self._bound_bytes = bound_bytes
        self._begin = os.lseek(fd, 0, os.SEEK_CUR)
        # Ends of whole records, without those that `_cut_back` cannot need any more.
        self._ends = [0]
        self.bytes_written = 0

    def append(self, buffers: Sequence[memoryview | bytes]) -> None:
        """Write whole records.

        Raises:
            OSError: the file cannot grow (ENOSPC, EFBIG, EDQUOT, EIO, ...). It then ends with a
                whole record, far enough below its largest size to be finished. Or it would grow
                beyond its bound: then nothing is written, and `strerror` says so.
        """
        if self._bound_bytes and self.bytes_written + sum(map(len, buffers)) > self._bound_bytes:
            raise OSError(
                errno.EFBIG,
                f"the recording has reached its bound of {self._bound_bytes / (1 << 20):,.0f} MiB;"
                " allow more (--max-size), or record less: fewer samples (-H), no copies of stacks",
            )
        begin = self.bytes_written
        try:
            for first in range(0, len(buffers), _MOST_BUFFERS):
                self._write(buffers[first : first + _MOST_BUFFERS])
        except OSError:
            self._cut_back([begin + end for end in _record_ends(b"".join(buffers))])
            raise
        self._ends.append(self.bytes_written)
        while len(self._ends) > 1 and self._ends[1] <= self.bytes_written - _RESERVE_BYTES:
            del self._ends[0]

    def _write(self, buffers: Sequence[memoryview | bytes]) -> None:
        expected = sum(map(len, buffers))
        written = os.writev(self._fd, buffers)
        self.bytes_written += written
        if written != expected:
            # After a short write to a file, the next write raises the error.
            rest = memoryview(b"".join(buffers))[written:]
            while rest:
                written = os.write(self._fd, rest)
                self.bytes_written += written
                rest = rest[written:]

    def _cut_back(self, ends: list[int]) -> None:
        """Give up `_RESERVE_BYTES` for the features, but at most half of what was appended."""
        most = self.bytes_written - _RESERVE_BYTES
        kept = [end for end in ends if end <= most]
        kept += [end for end in self._ends if end <= max(most, self.bytes_written // 2)]
        self.bytes_written = max(kept, default=0)
        os.ftruncate(self._fd, self._begin + self.bytes_written)
        os.lseek(self._fd, 0, os.SEEK_END)


def _record_ends(records: bytes) -> Iterator[int]:
    """Yield the end of each record; defined by struct perf_event_header."""
    end = 0
    while end + _HEADER.size <= len(records):
        size = _HEADER.unpack_from(records, end)[2]
        if size < _HEADER.size:
            return
        end += size
        yield end
