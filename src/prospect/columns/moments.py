"""Moments of threads as numbers in one order: by thread, then by time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KEY_BITS = 63


def moment_keys(
    *moments: tuple[NDArray[np.int32], NDArray[np.uint64]],
) -> list[NDArray[np.int64]]:
    """Return keys, i64[n], of several columns of threads and times, which compare with each other.

    Times that many threads and a long interval leave no room for lose their lowest bits.

    Args:
        moments: i32[n] threads and u64[n] times in ns.
    """
    tids = distinct(np.concatenate([tid for tid, _ in moments]))
    times = [time_ns for _, time_ns in moments if len(time_ns)]
    begin_ns = np.uint64(min((int(one.min()) for one in times), default=0))
    length_ns = max((int(one.max()) for one in times), default=0) - int(begin_ns)
    room = _KEY_BITS - max(len(tids), 1).bit_length()
    bits = min(max(length_ns, 1).bit_length(), room)
    shift = np.uint64(max(length_ns.bit_length() - room, 0))
    return [
        (np.searchsorted(tids, tid).astype(np.int64) << bits)
        | ((time_ns - begin_ns) >> shift).astype(np.int64)
        for tid, time_ns in moments
    ]
