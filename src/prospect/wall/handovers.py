"""Waits that timed out, after which the thread that had the lock gave it up.

A wait for a lock may end by its own timer instead of by the holder: CPython's global lock is waited
for in turns of 5 ms, after each of which the holder is asked to let go. If it does so before the
waiter sleeps again, no wake-up says who held the lock. Such a hand-over looks like this: one
thread waits, and another one of its process does not; soon after the timer, and before the waiter
waits again, that one blocks. It cannot go on since it has let go: CPython makes it wait until the
other one has the lock. "Soon" is a time on a CPU: both threads may lose theirs in between.

Source: take_gil() and drop_gil() in ``Python/ceval_gil.c`` (CPython 3.11 to 3.14; FORCE_SWITCHING).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.records import NamedTuple
from prospect.wall.schedule_records import BY_INTERRUPT
from prospect.wall.stretches import by_thread_and_time, numbered_with_times, stretch_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.wall.schedule_records import SchedulerRecords
    from prospect.wall.stretches import Stretches, Threads

# On a CPU, from the waiter's turn until the holder has let go and blocks: some 10 us on an idle
# machine. The holder had the lock as the wait began; what it does first may take as long.
_HANDED_OVER_NS = 200_000
_LEAST_WAIT_NS = 2 * _HANDED_OVER_NS
_MOST_LEAVING = 4  # threads of a process that block at the same time: so many are looked at


class Handovers(NamedTuple):
    """Stretches that began because a timer ended a wait for a lock.

    Attributes:
        taken: i64[k] rows of these stretches.
        held: i64[k] the holder's stretch at the timer, or the last one before.
        at_ns: u64[k] the timer, or the end of that stretch if it was before.
    """

    taken: NDArray[np.int64]
    held: NDArray[np.int64]
    at_ns: NDArray[np.uint64]


def handovers(
    records: SchedulerRecords,
    threads: Threads,
    found: Stretches,
    keys: NDArray[np.int64],
    wakes: tuple[NDArray[np.uint64], NDArray[np.int32]],
) -> Handovers:
    """Find the holders of locks whose waiters were woken by their own timers.

    Args:
        records: of the recording.
        threads: of the stretches.
        found: the stretches.
        keys: i64[s] of the stretches, by when they began.
        wakes: u64[s] when the wait before each stretch ended, and i32[s] by which thread.
    """
    wake_ns, waker = wakes
    is_timed = (waker == BY_INTERRUPT) & ~found.is_first
    is_timed &= wake_ns - found.since_ns >= np.uint64(_LEAST_WAIT_NS)
    waits = np.flatnonzero(is_timed)
    first, last = _turns(found)
    awake_ns = wake_ns.take(first)
    left = np.flatnonzero(
        found.is_known & (last == np.arange(len(found))) & _is_long(found.out_ns, awake_ns)
    )
    if not len(waits) or not len(left):
        return Handovers(waits[:0], waits[:0], wake_ns[:0])
    pid_of_thread = records.processes.pid_of(threads.tids)
    processes = numbered_with_times(pid_of_thread, records)
    process = processes.row(pid_of_thread)
    of_left = process.take(found.thread.take(left))
    left = left.take(by_thread_and_time(of_left, found.out_ns.take(left)))
    left_keys = processes.key(process.take(found.thread.take(left)), found.out_ns.take(left))
    of_wait = process.take(found.thread.take(waits))
    until_ns = found.out_ns.take(last.take(waits))
    at = np.searchsorted(left_keys, processes.key(of_wait, found.in_ns.take(waits)), "right")
    end = np.searchsorted(left_keys, processes.key(of_wait, until_ns), "right")
    latest_ns = found.since_ns + np.uint64(_HANDED_OVER_NS)
    ran = _RanUntil(threads, found, keys)
    held = np.full(len(waits), -1, np.int64)
    for step in range(_MOST_LEAVING):
        tried = np.flatnonzero((at + step < end) & (held < 0))
        wait, holder = waits.take(tried), left.take(at.take(tried) + step)
        is_it = found.thread.take(holder) != found.thread.take(wait)
        is_it &= awake_ns.take(holder) <= latest_ns.take(wait)
        since_ns, left_ns = found.in_ns.take(wait), found.out_ns.take(holder)
        for row in (wait, holder):
            took_ns = ran.until(row, left_ns) - ran.until(row, since_ns)
            is_it &= took_ns <= _HANDED_OVER_NS
        held[tried[is_it]] = holder[is_it]
    kept = np.flatnonzero(held >= 0)
    waits, held = waits.take(kept), held.take(kept)
    timer_ns = wake_ns.take(waits)
    held = stretch_at(threads, keys, threads.tids.take(found.thread.take(held)), timer_ns)
    return Handovers(waits, held, np.minimum(timer_ns, found.out_ns.take(held)))


def _is_long(until_ns: NDArray[np.uint64], since_ns: NDArray[np.uint64]) -> NDArray[np.bool_]:
    return until_ns - since_ns > np.uint64(_LEAST_WAIT_NS - _HANDED_OVER_NS)


def _turns(found: Stretches) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return of each stretch the first and the last that no wait is between, i32[s] each."""
    rows = np.arange(len(found), dtype=np.int32)
    goes_on = ~found.is_first
    goes_on[1:] &= found.is_preempted[:-1]
    first = np.maximum.accumulate(np.where(goes_on, np.int32(0), rows))
    is_last = np.append(~goes_on[1:], True)[: len(rows)]
    last = np.where(is_last, rows, np.int32(len(rows)))
    return first, np.minimum.accumulate(last[::-1])[::-1]


class _RanUntil:
    """How long threads ran until some time."""

    def __init__(self, threads: Threads, found: Stretches, keys: NDArray[np.int64]) -> None:
        self._threads, self._found, self._keys = threads, found, keys
        self._before_ns = np.cumsum(found.out_ns - found.in_ns) - (found.out_ns - found.in_ns)

    def until(self, row: NDArray[np.int64], time_ns: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return i64[n], of which those of a thread can be compared.

        Args:
            row: i64[n] any stretch of each thread, which began before these times.
            time_ns: u64[n].
        """
        found = self._found
        tid = self._threads.tids.take(found.thread.take(row))
        at = np.maximum(stretch_at(self._threads, self._keys, tid, time_ns), 0)
        within = np.minimum(time_ns, found.out_ns.take(at)) - found.in_ns.take(at)
        ran: NDArray[np.int64] = (self._before_ns.take(at) + within).view(np.int64)
        return ran
