"""Ring buffers that the kernel fills, one for each CPU: the bytes between tail and head.

No byte is copied.

Defined by: struct perf_event_mmap_page in ``include/uapi/linux/perf_event.h`` (Linux 6.18).
"""

from __future__ import annotations

import errno
import mmap
import os

from prospect.abi import constants as abi
from prospect.capture.capture_limits import LARGEST_RING_BYTES
from prospect.errors import CaptureError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_TYPE_MASK = (1 << 32) - 1
_HIDDEN_TYPE = abi.PERF_RECORD_HIDDEN_SAMPLE.to_bytes(4, "little")
_DATA_HEAD_OFFSET = 1024
_DATA_TAIL_OFFSET = 1032
_HEAD = 0
_TAIL = 1

_SMALLEST_BYTES = 32 * 1024
_DEFAULT_BYTES = 512 * 1024
# Rings larger than the default may take this share of the machine's memory together.
_MEMORY_SHARE = 64


class Ring:
    """A mapped ring buffer; the events of one CPU write into it."""

    def __init__(self, fd: int, size_bytes: int) -> None:
        """Map the ring of the event at `fd`.

        Raises:
            OSError: EPERM if the user's share of locked memory is used up, ENOMEM.
        """
        self._size = size_bytes
        self._mapping = mmap.mmap(fd, mmap.PAGESIZE + size_bytes)
        view = memoryview(self._mapping)
        # 'Q' makes every access one 64-bit load or store, as head and tail need.
        self._control = view[_DATA_HEAD_OFFSET : _DATA_TAIL_OFFSET + 8].cast("Q")
        self._data = view[mmap.PAGESIZE :]
        self._words = self._data.cast("Q")
        self._seen = 0
        self._inserted: list[tuple[int, bytes]] = []
        self._hidden: tuple[frozenset[int], bytes, int] | None = None

    def pending(self, into: list[memoryview | bytes]) -> int:
        """Append the bytes between tail and head, and the records inserted among them.

        No barrier is needed between reading the head and the data: the kernel reads the data,
        inside write(2).

        Returns:
            The head, for `release`.
        """
        head, at = self._control[_HEAD], self._control[_TAIL]
        if self._inserted:
            self._inserted.sort(key=lambda one: one[0])
            for position, records in self._inserted:
                self._records(into, at, position)
                into.append(records)
                at = position
        self._records(into, at, head)
        return head

    def unseen(self) -> tuple[int, bytes]:
        """Return the position of the first byte that this has not returned yet, and the bytes.

        They stay in the ring. A position is one between tail and head, which only grow.
        """
        head = self._control[_HEAD]
        begin = max(self._seen, self._control[_TAIL])
        parts: list[memoryview | bytes] = []
        self._slice(parts, begin, head)
        self._seen = head
        return begin, b"".join(parts)

    def hide(self, ids: frozenset[int], mark: bytes, distance: int) -> None:
        """Let `pending` give samples of some events a type that perf ignores.

        The records are mapped read-only, so the type is a separate buffer.

        Args:
            ids: of the events; a sample begins with its own.
            mark: bytes that each of them has, and hardly any other record.
            distance: from the header to these.
        """
        self._hidden = ids, mark, distance

    def insert(self, position: int, records: bytes) -> None:
        """Insert records after those in the ring that end at a position."""
        self._inserted.append((position, records))

    @property
    def is_half_full(self) -> bool:
        """Whether it is time to empty it."""
        return self._control[_HEAD] - self._control[_TAIL] > self._size // 2

    def release(self, head: int) -> None:
        """Give the space below `head` back to the kernel, once its records are written."""
        self._control[_TAIL] = head
        if self._inserted:
            self._inserted = [one for one in self._inserted if one[0] >= head]

    def _records(self, into: list[memoryview | bytes], at: int, end: int) -> None:
        for begin in self._to_hide(at, end, *self._hidden) if self._hidden else ():
            self._slice(into, at, begin)
            into.append(_HIDDEN_TYPE)
            at = begin + len(_HIDDEN_TYPE)
        self._slice(into, at, end)

    def _to_hide(
        self, begin: int, end: int, ids: frozenset[int], mark: bytes, distance: int
    ) -> Iterator[int]:
        """Give the positions of the samples that are to be hidden."""
        mask, at = self._size - 1, begin
        while at < end:
            first = at & mask
            stop = min(first + end - at, self._size)
            found = self._find(mark, first, stop)
            if found < 0:
                at += stop - first
                continue
            at += found - first
            start = at - distance
            at += len(mark)
            word = (start & mask) >> 3
            if (
                start >= begin
                and not start & 7
                and self._words[word] & _TYPE_MASK == abi.PERF_RECORD_SAMPLE
                and self._words[word + 1 & mask >> 3] in ids
            ):
                yield start

    def _find(self, mark: bytes, first: int, stop: int) -> int:
        """Return where a mark first is between two places of the ring, -1 for nowhere.

        CPython's search may read one byte too many. After the ring there is no memory.
        """
        end = min(stop, self._size - 1)
        found = self._mapping.find(mark, mmap.PAGESIZE + first, mmap.PAGESIZE + end)
        if found >= 0:
            return found - mmap.PAGESIZE
        last = self._size - len(mark)
        return last if stop > end and first <= last and self._data[last:] == mark else -1

    def _slice(self, into: list[memoryview | bytes], at: int, end: int) -> None:
        if at >= end:
            return
        begin = at & (self._size - 1)
        stop = begin + end - at
        if stop <= self._size:
            into.append(self._data[begin:stop])
        else:
            into.append(self._data[begin:])
            into.append(self._data[: stop - self._size])

    def close(self) -> None:
        """Unmap, or leave that to the last slice of `pending` that is still in use."""
        self._control.release()
        self._words.release()
        self._data.release()
        try:
            self._mapping.close()
        except BufferError:
            return


def ring_size_bytes(bytes_per_second: int, cpus: int) -> int:
    """Return the size to try first: a second of samples, a power of two."""
    size = _DEFAULT_BYTES
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
    while (
        size < bytes_per_second
        and size < LARGEST_RING_BYTES
        and 2 * size * cpus <= memory_bytes // _MEMORY_SHARE
    ):
        size *= 2
    return size


def next_smaller_bytes(size_bytes: int, refusal: OSError) -> int:
    """Return the size to try after the kernel refused `size_bytes`.

    Raises:
        CaptureError: it would be too small to be of use.
        OSError: the refusal, where it is not for lack of memory.
    """
    if refusal.errno not in (errno.EPERM, errno.ENOMEM, errno.EAGAIN):
        raise refusal
    if size_bytes <= _SMALLEST_BYTES:
        raise CaptureError(
            f"the kernel gives no ring buffer of {size_bytes // 1024} KiB a CPU: raise `ulimit -l`"
            " or sysctl kernel.perf_event_mlock_kb, or end other recordings of this user"
        ) from refusal
    return size_bytes // 2
