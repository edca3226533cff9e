"""The mappings of a process: those with hits, and those without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

# PROT_* bits, <asm-generic/mman-common.h>
READ, WRITE, EXECUTE = 1, 2, 4
_ALL_BITS = READ | WRITE | EXECUTE
_PERMISSIONS = [
    "".join(
        letter if prot & bit else "-" for letter, bit in (("r", READ), ("w", WRITE), ("x", EXECUTE))
    )
    for prot in range(_ALL_BITS + 1)
]


class MemoryMap(Record):
    """Mappings of one process.

    Attributes:
        start, end: u64[m] first address (AVMA) and the one after the last.
        pgoff: u64[m] file offset of `start`, in bytes.
        prot: i8[m] PROT_* bits, -1 if the recording does not say.
        hits: i64[m] of all events.
        path: what is mapped, one a row.
        read_ns: when mappings of data were as they are here, on the recording's clock; None if
            only executable ones are known.
    """

    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    pgoff: NDArray[np.uint64]
    prot: NDArray[np.int8]
    hits: NDArray[np.int64]
    path: list[str]
    read_ns: int | None = None

    def __len__(self) -> int:
        return len(self.path)

    @property
    def size_bytes(self) -> NDArray[np.uint64]:
        """u64[m]."""
        return self.end - self.start

    @property
    def is_data(self) -> NDArray[np.bool_]:
        """bool[m]: whether it is known that code cannot run there."""
        found: NDArray[np.bool_] = (self.prot >= 0) & (self.prot & EXECUTE == 0)
        return found

    @property
    def permissions(self) -> list[str]:
        """The permissions, as /proc/PID/maps shows them, "" where unknown."""
        return [_PERMISSIONS[prot & _ALL_BITS] if prot >= 0 else "" for prot in self.prot.tolist()]

    @property
    def mapped_bytes(self) -> int:
        """All of them together, what several cover once; rows in the order of `start`."""
        if not len(self):
            return 0
        covered = np.maximum.accumulate(self.end)
        begin = np.maximum(self.start[1:], covered[:-1])
        more = np.where(self.end[1:] > begin, self.end[1:] - begin, np.uint64(0))
        return int(self.end[0] - self.start[0]) + int(more.sum())

    @staticmethod
    def empty() -> MemoryMap:
        """Return a map without a row."""
        none = np.empty(0, np.uint64)
        return MemoryMap(none, none, none, np.empty(0, np.int8), np.empty(0, np.int64), [])
