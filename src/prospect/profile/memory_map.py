"""What a process had mapped: mappings with hits, and the executable ones without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray


class MemoryMap(Record):
    """Mappings of one process.

    Attributes:
        start, end: u64[m] first address (AVMA) and the one behind the last.
        pgoff: u64[m] file offset of `start`, in bytes.
        hits: i64[m] of all events.
        path: what is mapped, one a row.
    """

    start: NDArray[np.uint64]
    end: NDArray[np.uint64]
    pgoff: NDArray[np.uint64]
    hits: NDArray[np.int64]
    path: list[str]

    def __len__(self) -> int:
        return len(self.path)

    @property
    def size_bytes(self) -> NDArray[np.uint64]:
        """u64[m]."""
        return self.end - self.start

    @staticmethod
    def empty() -> MemoryMap:
        """Return a map without a row."""
        none = np.empty(0, np.uint64)
        return MemoryMap(none, none, none, np.empty(0, np.int64), [])
