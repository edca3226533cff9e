"""Code that runtimes compile while they run: memory without a file that may be executed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prospect.profile.model import KIND_ANON
from prospect.symbols.objects import classify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.events.record_columns import Mmaps

_EXECUTABLE = 4  # PROT_EXEC
_ADDRESS_BITS = 47
_MOST_PROCESSES = 1 << 16


class MadeCode(NamedTuple):
    """Where processes have such memory, at any time.

    Attributes:
        pid: i64[p] the processes that have some, ascending.
        begin, end: u64[r] with the row of the process in the high bits; begin ascends, and end is
            the highest up to there.
    """

    pid: NDArray[np.int64]
    begin: NDArray[np.uint64]
    end: NDArray[np.uint64]

    def covers(self, pid: NDArray[np.int64], address: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return whether each address of a process is in such memory, bool[n]."""
        if not len(self.begin):
            return np.zeros(len(address), np.bool_)
        row = np.searchsorted(self.pid, pid)
        is_there = self.pid.take(row, mode="clip") == pid
        is_there &= address < np.uint64(1 << _ADDRESS_BITS)
        key = row.astype(np.uint64) << np.uint64(_ADDRESS_BITS) | address
        at = np.searchsorted(self.begin, key, side="right") - 1
        is_there &= (at >= 0) & (key < self.end.take(at, mode="clip"))
        found: NDArray[np.bool_] = is_there
        return found


def find_made_code(mmaps: Mmaps, names: Sequence[bytes], pids: NDArray[np.int64]) -> MadeCode:
    """Find such memory of some processes, distinct and ascending."""
    is_anonymous = np.array([classify(name) == KIND_ANON for name in names] + [False], np.bool_)
    chosen = (mmaps.prot & _EXECUTABLE > 0) & is_anonymous.take(mmaps.name)
    pids = pids[:_MOST_PROCESSES]
    chosen &= np.isin(mmaps.pid, pids)
    chosen &= mmaps.start + mmaps.length < np.uint64(1 << _ADDRESS_BITS)
    high = np.searchsorted(pids, mmaps.pid[chosen]).astype(np.uint64) << np.uint64(_ADDRESS_BITS)
    begin = high | mmaps.start[chosen]
    order = np.argsort(begin, kind="stable")
    end = np.maximum.accumulate((begin + mmaps.length[chosen]).take(order))
    return MadeCode(pids, begin.take(order), end)
