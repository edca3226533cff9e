"""When each timer ran without a stop.

Comes in: the clocks of a Profile, and when the kernel throttled them. Goes out: `Stretches`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.model import STOP_THROTTLED
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.profile.model import ClockStopTable, ClockTable

# 146 years of uptime: later is damage, and sums of times must fit in 64 bits.
_LATEST_NS = np.uint64(2**62)
_SHORTEST_PERIOD_NS = 1.0


class Stretches(Record):
    """Times in which a timer ran, in order of clock row and time.

    Attributes:
        clock_index: i64[s] into clocks.
        period_ns: f64[s], at least 1.
        begin_ns, end_ns: i64[s].
        is_first: bool[s] whether the timer was switched on at `begin_ns`, so that its first tick
            comes a period later. After a throttle it comes at once.
    """

    clock_index: NDArray[np.int64]
    period_ns: NDArray[np.float64]
    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    is_first: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.clock_index)


def clock_stretches(clocks: ClockTable, stops: ClockStopTable | None) -> Stretches:
    """Cut the time that each clock ran at its throttles; each clock has one stretch at least."""
    rows = np.arange(len(clocks))
    begin_ns = np.minimum(clocks.begin_ns, _LATEST_NS).astype(np.int64)
    end_ns = np.maximum(np.minimum(clocks.end_ns, _LATEST_NS).astype(np.int64), begin_ns)
    throttled, from_ns, until_ns = _throttles(stops, len(clocks))
    from_ns = np.clip(from_ns, begin_ns.take(throttled), end_ns.take(throttled))
    until_ns = np.clip(until_ns, begin_ns.take(throttled), end_ns.take(throttled))
    row = np.concatenate((rows, throttled))
    begins, ends = np.concatenate((begin_ns, until_ns)), np.concatenate((from_ns, end_ns))
    by_begin = np.lexsort((begins, row))
    # The ends have their rows in another order: throttles first, the clock's own end last.
    by_end = np.lexsort((ends, np.concatenate((throttled, rows))))
    row = row.take(by_begin)
    begins = begins.take(by_begin)
    return Stretches(
        clock_index=row,
        period_ns=usable_periods_ns(clocks).take(row),
        begin_ns=begins,
        end_ns=np.maximum(ends.take(by_end), begins),
        is_first=np.diff(row, prepend=-1) != 0,
    )


def usable_periods_ns(clocks: ClockTable) -> NDArray[np.float64]:
    """Return f64[c] periods, at least 1: what is no time in a damaged recording is no division."""
    period_ns = np.nan_to_num(clocks.period_ns, nan=0.0, posinf=0.0, neginf=0.0)
    usable: NDArray[np.float64] = np.maximum(period_ns, _SHORTEST_PERIOD_NS)
    return usable


def _throttles(
    stops: ClockStopTable | None, clock_count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return clock row, begin and end of each throttle of a known clock."""
    if stops is None:
        return (np.empty(0, np.int64),) * 3
    index = stops.clock_index.astype(np.int64)
    chosen = (stops.kind == STOP_THROTTLED) & (index >= 0) & (index < clock_count)
    return (
        index[chosen],
        np.minimum(stops.begin_ns[chosen], _LATEST_NS).astype(np.int64),
        np.minimum(stops.end_ns[chosen], _LATEST_NS).astype(np.int64),
    )
