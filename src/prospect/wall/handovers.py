"""Waits that timed out, after which the thread that had the lock gave it up.

A wait for a lock may end by its own timer instead of by the holder: CPython's global lock is waited
for in turns of 5 ms, after each of which the holder is asked to let go. If it does so before the
waiter sleeps again, no wake-up says who held the lock. Such a hand-over looks like this: one
thread waits, and another one of its process does not; soon after the timer, while the waiter
runs, that one blocks. It cannot go on since it has let go. CPython then makes it wait until the
other one has the lock.

Source: take_gil() and drop_gil() in ``Python/ceval_gil.c`` (CPython 3.11 to 3.14; FORCE_SWITCHING).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.records import NamedTuple
from prospect.wall.records import BY_INTERRUPT
from prospect.wall.stretches import by_thread_and_time, numbered_with_times

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.wall.records import SchedulerRecords
    from prospect.wall.stretches import Stretches, Threads

# From the waiter's turn on a CPU until the holder has let go and blocks: some 10 us on an idle
# machine. The holder had the lock as the wait began; what it does first may take as long.
_HANDED_OVER_NS = 200_000
_LEAST_WAIT_NS = 2 * _HANDED_OVER_NS
_MOST_LEAVING = 4  # threads of a process that block at the same time: so many are looked at


class Handovers(NamedTuple):
    """Stretches that began because a timer ended a wait for a lock.

    `taken` is i64[k] rows of these stretches, `held` i64[k] those of the holder at the timer.
    """

    taken: NDArray[np.int64]
    held: NDArray[np.int64]


def handovers(
    records: SchedulerRecords,
    threads: Threads,
    found: Stretches,
    wakes: tuple[NDArray[np.uint64], NDArray[np.int32]],
) -> Handovers:
    """Find the holders of locks whose waiters were woken by their own timers.

    Args:
        records: of the recording.
        threads: of the stretches.
        found: the stretches.
        wakes: u64[s] when the wait before each stretch ended, and i32[s] by which thread.
    """
    wake_ns, waker = wakes
    is_timed = (waker == BY_INTERRUPT) & ~found.is_first
    is_timed &= wake_ns - found.since_ns >= np.uint64(_LEAST_WAIT_NS)
    waits = np.flatnonzero(is_timed)
    left = _left_blocked(found)
    if not len(waits) or not len(left):
        return Handovers(waits[:0], waits[:0])
    pid_of_thread = records.processes.pid_of(threads.tids)
    processes = numbered_with_times(pid_of_thread, records)
    process = processes.row(pid_of_thread)
    of_left = process.take(found.thread.take(left))
    order = by_thread_and_time(of_left, found.out_ns.take(left))
    left = left.take(order)
    keys = processes.key(of_left.take(order), found.out_ns.take(left))
    of_wait = process.take(found.thread.take(waits))
    in_ns, out_ns = found.in_ns.take(waits), found.out_ns.take(waits)
    until_ns = np.minimum(out_ns, in_ns + np.uint64(_HANDED_OVER_NS))
    at = np.searchsorted(keys, processes.key(of_wait, in_ns), "right")
    end = np.searchsorted(keys, processes.key(of_wait, until_ns), "right")
    awake_ns = _awake_since(found)
    latest_ns = found.since_ns.take(waits) + np.uint64(_HANDED_OVER_NS)
    held = np.full(len(waits), -1, np.int64)
    for step in range(_MOST_LEAVING):
        holder = left.take(np.minimum(at + step, len(left) - 1))
        is_it = (at + step < end) & (held < 0)
        is_it &= found.thread.take(holder) != found.thread.take(waits)
        is_it &= (awake_ns.take(holder) <= latest_ns) & (
            found.in_ns.take(holder) < wake_ns.take(waits)
        )
        held = np.where(is_it, holder, held)
    kept = np.flatnonzero(held >= 0)
    return Handovers(waits.take(kept), held.take(kept))


def _left_blocked(found: Stretches) -> NDArray[np.int64]:
    """Return the stretches, i64[n], that a thread ended to wait, long after the wait before."""
    is_long = found.out_ns - _awake_since(found) > np.uint64(_LEAST_WAIT_NS - _HANDED_OVER_NS)
    return np.flatnonzero(found.is_known & ~found.is_preempted & is_long)


def _awake_since(found: Stretches) -> NDArray[np.uint64]:
    """Return u64[s] since when the thread had not waited for anything but a CPU."""
    rows = np.arange(len(found), dtype=np.int32)
    goes_on = ~found.is_first
    goes_on[1:] &= found.is_preempted[:-1]
    return found.in_ns.take(np.maximum.accumulate(np.where(goes_on, np.int32(0), rows)))
