"""Appends records to a file, from its current position on, always cut at a whole record."""

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
            """Take whole records; the buffers are not used once this returns.

            Raises:
                OSError: it takes no more.
            """
            ...


_HEADER = struct.Struct("=IHH")
# Bytes given up at the end of a full disk so that the feature sections find room there.
_RESERVE_BYTES = 64 * 1024
# IOV_MAX of Linux, include/uapi/linux/uio.h (UIO_MAXIOV).
_MOST_BUFFERS = 1024
# Without another bound, records take at most this share of the free space, which other programs
# need too; but always this much, so that an almost full disk does not keep a short run from ending.
_FREE_SHARE = 4
_LEAST_BOUND_BYTES = 64 << 20


def default_bound_bytes(fd: int) -> int:
    """Return how many bytes of records a file may take if nobody said: see `_FREE_SHARE`.

    0, for any number, where the file system does not say how much is free.
    """
    found = os.fstatvfs(fd)
    if not found.f_blocks:
        return 0
    return max(_LEAST_BOUND_BYTES, found.f_bavail * found.f_frsize // _FREE_SHARE)


class RecordSink:
    """A file that grows by whole records.

    Attributes:
        bytes_written: records' bytes in the file so far.
        keeps_records: whether they are in the file, to be read and changed, once all are written.
    """

    keeps_records = True

    def __init__(self, fd: int, bound_bytes: int = 0) -> None:
        """Begin behind what the file holds; it takes `bound_bytes` of records, 0 for any number."""
        self._fd = fd
        self._bound_bytes = bound_bytes
        self._begin = os.lseek(fd, 0, os.SEEK_CUR)
        # Ends of whole records: none that a later one makes useless for `_cut_back`.
        self._ends = [0]
        self.bytes_written = 0

    def append(self, buffers: Sequence[memoryview | bytes]) -> None:
        """Write whole records.

        Raises:
            OSError: the file cannot grow (ENOSPC, EFBIG, EDQUOT, EIO, ...). It then ends with a
                whole record, and far enough below its largest size to be finished. Or it would
                grow beyond its bound: nothing of `buffers` is written, and `strerror` says so.
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
            # A short write to a file comes before the error itself: the next write has it.
            rest = memoryview(b"".join(buffers))[written:]
            while rest:
                written = os.write(self._fd, rest)
                self.bytes_written += written
                rest = rest[written:]

    def _cut_back(self, ends: list[int]) -> None:
        """Give up what the features may need, but of whole portions never more than half."""
        most = self.bytes_written - _RESERVE_BYTES
        kept = [end for end in ends if end <= most]
        kept += [end for end in self._ends if end <= max(most, self.bytes_written // 2)]
        self.bytes_written = max(kept, default=0)
        os.ftruncate(self._fd, self._begin + self.bytes_written)
        os.lseek(self._fd, 0, os.SEEK_END)


def _record_ends(records: bytes) -> Iterator[int]:
    """Give where each record ends; defined by struct perf_event_header."""
    end = 0
    while end + _HEADER.size <= len(records):
        size = _HEADER.unpack_from(records, end)[2]
        if size < _HEADER.size:
            return
        end += size
        yield end
