"""Stretches → steps: where the critical path goes from the start of each stretch, backwards.

A thread gets its CPU after it became ready: by its birth, by the loss of the CPU while it could
have gone on, or by a wake-up. If the path may follow the thread that woke it, it goes on with that
thread. If the wait for a lock timed out, and the holder then let go, it goes on with the holder.
Otherwise the thread was blocked, and the path goes on with its stretch before. All steps are found
at once, so that following the path is one look-up a step.

Source: try_to_wake_up() and __schedule() in ``kernel/sched/core.c`` (Linux 6.18).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.records import Record
from prospect.wall.schedule_records import (
    BLOCK,
    BY_INTERRUPT,
    NOT_RECORDED,
    by_thread_and_time,
    threads_with_times,
)

if TYPE_CHECKING:
    from prospect.columns.array_types import I32, I64, U64, Bools
    from prospect.wall.schedule_records import SchedulerRecords, Stretches

# The longest time from a task's leaving its queue, when it can be woken, to the record of the
# switch: the kernel may take a sample with a stack in between.
_LEAVING_NS = 20_000


class Steps(Record):
    """The time before each stretch.

    Attributes:
        ready_ns: u64[s] since when the thread waited for a CPU; `Stretches.in_ns` if not at all.
        blocked_ns: u64[s] since when it was blocked until then; `ready_ns` if the path goes
            elsewhere.
        ended_by: i32[s] thread that ended the blocked time, BY_INTERRUPT or NOT_RECORDED.
        previous: i32[s] the stretch with which the path goes on, -1 for none.
        enter_ns: u64[s] when the path enters that.
    """

    ready_ns: U64
    blocked_ns: U64
    ended_by: I32
    previous: I32
    enter_ns: U64


def steps(records: SchedulerRecords, found: Stretches, root: int | None) -> Steps:
    """Find the step from the start of each stretch.

    The path follows the thread `root` and its descendants, or every thread if that is None.
    """
    own = np.arange(len(found), dtype=np.int32)
    wake_ns, at_ns, waker = _wakes(records, found)
    previous = np.where(found.is_first, np.int32(-1), own - np.int32(1))
    ready_ns, blocked_ns = found.in_ns.copy(), found.since_ns.copy()
    enter_ns = found.since_ns.copy()
    was_preempted = ~found.is_first & np.append(False, found.is_preempted[:-1])[: len(found)]
    is_born = found.birth >= 0
    ready_ns[was_preempted | is_born] = found.since_ns[was_preempted | is_born]
    # By a wake-up.
    is_woken = ~was_preempted & ~is_born & (waker != NOT_RECORDED)
    ready_ns[is_woken] = wake_ns[is_woken]
    at = np.flatnonzero(is_woken & (waker > 0))
    by = found.last_before(waker.take(at), at_ns.take(at))
    follows = (by >= 0) & (found.in_ns.take(by) < found.in_ns.take(at))
    follows &= found.thread.take(by) != found.thread.take(at)
    waited_until_ns = np.where(is_woken, wake_ns, found.since_ns)
    taken, held, timer_ns = _handovers(records, found, waited_until_ns, waker)
    at, by = np.append(at[follows], taken), np.append(by[follows], held)
    woken_ns = np.minimum(at_ns, wake_ns)
    woken_ns[taken] = timer_ns
    if root is not None:
        followed = np.flatnonzero(_is_descendant(records, found, root).take(by))
        at, by = at.take(followed), by.take(followed)
    previous[at] = by
    enter_ns[at] = woken_ns.take(at)
    ready_ns[at] = enter_ns[at]
    blocked_ns[at] = enter_ns[at]
    # By birth.
    at = np.flatnonzero(is_born)
    parent_tid = records.births.parent_tid.take(found.birth.take(at))
    parent = found.last_before(parent_tid, found.since_ns.take(at))
    is_known = (parent >= 0) & (found.in_ns.take(parent) <= found.since_ns.take(at))
    previous[at] = np.where(is_known, parent, -1)
    blocked_ns = np.minimum(blocked_ns, ready_ns)
    ended_by = np.where(blocked_ns < ready_ns, waker, np.int32(NOT_RECORDED))
    return Steps(ready_ns, blocked_ns, ended_by, previous, enter_ns)


def _wakes(records: SchedulerRecords, found: Stretches) -> tuple[U64, U64, I32]:
    """Find the first wake-up in the time off the CPU before each stretch.

    Returns:
        u64[s] from when it counts, u64[s] its time, and i32[s] the waker, NOT_RECORDED for none.
    """
    wakings, threads = records.wakings, found.threads
    row = threads.row(wakings.tid)
    order = by_thread_and_time(row, wakings.time_ns)
    order = order[int(np.count_nonzero(row < 0)) :]
    time_ns = wakings.time_ns.take(order)
    keys = threads.key(row.take(order), time_ns)
    count = len(found)
    wake_ns, at_ns = found.in_ns.copy(), found.in_ns.copy()
    by = np.full(count, NOT_RECORDED, np.int32)
    if not len(keys):
        return wake_ns, at_ns, by
    waker = np.maximum(wakings.waker.take(order), np.int32(BY_INTERRUPT))
    for first in range(0, count, BLOCK):
        rows = slice(first, first + BLOCK)
        since_ns, in_ns = found.since_ns[rows], found.in_ns[rows]
        # A thread can be woken as soon as it is off its queue, before the switch is recorded.
        before = found.in_ns.take(np.arange(first - 1, first - 1 + len(in_ns)), mode="clip")
        leaving_ns = since_ns - np.minimum(since_ns, np.uint64(_LEAVING_NS))
        leaving_ns = np.where(found.is_first[rows], since_ns, np.maximum(leaving_ns, before))
        thread = found.thread[rows]
        at = np.searchsorted(keys, threads.key(thread, leaving_ns))
        is_there = (at < len(keys)) & (keys.take(at, mode="clip") <= threads.key(thread, in_ns))
        woken = np.flatnonzero(is_there)
        at = at.take(woken)
        at_ns[first + woken] = time_ns.take(at)
        by[first + woken] = waker.take(at)
        in_gap_ns = np.maximum(time_ns.take(at), since_ns.take(woken))
        wake_ns[first + woken] = np.minimum(in_gap_ns, in_ns.take(woken))
    return wake_ns, at_ns, by


def _is_descendant(records: SchedulerRecords, found: Stretches, root: int) -> Bools:
    """Return which stretches are of a thread or of its descendants, bool[s]."""
    # `above` is the life of each life's parent; a life without a parent is its own.
    life = np.cumsum(found.is_first) - 1
    first = np.flatnonzero(found.is_first)
    born = found.birth.take(first)
    has_birth = born >= 0
    births = records.births
    parent_tid = births.parent_tid.take(born, mode="clip") if len(births.tid) else born
    at = found.last_before(parent_tid, found.since_ns.take(first))
    above = np.where(has_birth & (at >= 0), life.take(at, mode="clip"), np.arange(len(first)))
    is_mine = found.tid(first) == root
    # If the kernel gave this number out again, the first thread is the root.
    is_mine[np.flatnonzero(is_mine)[1:]] = False
    above[is_mine] = np.flatnonzero(is_mine)
    # Each round looks twice as many generations up.
    for _ in range(max(len(found), 1).bit_length()):
        is_mine |= is_mine.take(above)
        further = above.take(above)
        if np.array_equal(further, above):
            break
        above = further
    found_mine: Bools = is_mine.take(life)
    return found_mine


# Waits for a lock that timed out, after which the holder released the lock.
#
# A wait for a lock may end by its own timer instead of by the holder: a thread waits for CPython's
# global lock in turns of 5 ms, and asks the holder after each to release it. If the holder does so
# before the waiter sleeps again, no wake-up names the holder. Such a hand-over looks like this:
# one thread waits, and another one of its process does not; soon after the timer, and before the
# waiter waits again, the other one blocks. It blocks because it released the lock: CPython makes it
# wait until the waiter has the lock. "Soon" is a time on a CPU: both threads may lose theirs in
# between.
#
# Source: take_gil() and drop_gil() in ``Python/ceval_gil.c`` (CPython 3.11 to 3.14;
# FORCE_SWITCHING).

# The longest time on a CPU from the timer until the holder released the lock and blocks; some
# 10 us on an idle machine. The holder had the lock as the wait began, and may first do other work
# for as long.
_HANDED_OVER_NS = 200_000
_LEAST_WAIT_NS = 2 * _HANDED_OVER_NS
_MOST_LEAVING = 4  # threads that are tried of those of a process that block at the same time


def _handovers(
    records: SchedulerRecords, found: Stretches, wake_ns: U64, waker: I32
) -> tuple[I64, I64, U64]:
    """Find the holders of locks whose waiters were woken by their own timers.

    Args:
        wake_ns: u64[s] when the wait before each stretch ended.
        waker: i32[s] the thread that ended it.

    Returns:
        i64[k] stretches that began because a timer ended a wait for a lock; i64[k] the holder's
        stretch at the timer, or the last one before; u64[k] the timer, or the end of the holder's
        stretch if that was before.
    """
    is_timed = (waker == BY_INTERRUPT) & ~found.is_first
    is_timed &= wake_ns - found.since_ns >= np.uint64(_LEAST_WAIT_NS)
    waits = np.flatnonzero(is_timed)
    first, last = _turns(found)
    awake_ns = wake_ns.take(first)
    is_long = found.out_ns - awake_ns > np.uint64(_LEAST_WAIT_NS - _HANDED_OVER_NS)
    left = np.flatnonzero(found.is_known & (last == np.arange(len(found))) & is_long)
    if not len(waits) or not len(left):
        return waits[:0], waits[:0], wake_ns[:0]
    pid_of_thread = records.processes.pid_of(found.threads.tids)
    processes = threads_with_times(pid_of_thread, records)
    process = processes.row(pid_of_thread)
    of_left = process.take(found.thread.take(left))
    left = left.take(by_thread_and_time(of_left, found.out_ns.take(left)))
    left_keys = processes.key(process.take(found.thread.take(left)), found.out_ns.take(left))
    of_wait = process.take(found.thread.take(waits))
    until_ns = found.out_ns.take(last.take(waits))
    at = np.searchsorted(left_keys, processes.key(of_wait, found.in_ns.take(waits)), "right")
    end = np.searchsorted(left_keys, processes.key(of_wait, until_ns), "right")
    latest_ns = found.since_ns + np.uint64(_HANDED_OVER_NS)
    length_ns = found.out_ns - found.in_ns
    before_ns = np.cumsum(length_ns) - length_ns
    held = np.full(len(waits), -1, np.int64)
    for step in range(_MOST_LEAVING):
        tried = np.flatnonzero((at + step < end) & (held < 0))
        wait, holder = waits.take(tried), left.take(at.take(tried) + step)
        is_it = found.thread.take(holder) != found.thread.take(wait)
        is_it &= awake_ns.take(holder) <= latest_ns.take(wait)
        since_ns, left_ns = found.in_ns.take(wait), found.out_ns.take(holder)
        for row in (wait, holder):
            tid = found.tid(row)
            took_ns = _ran_until(found, before_ns, tid, left_ns)
            took_ns -= _ran_until(found, before_ns, tid, since_ns)
            is_it &= took_ns <= _HANDED_OVER_NS
        held[tried[is_it]] = holder[is_it]
    kept = np.flatnonzero(held >= 0)
    waits, held = waits.take(kept), held.take(kept)
    timer_ns = wake_ns.take(waits)
    held = found.last_before(found.tid(held), timer_ns)
    return waits, held, np.minimum(timer_ns, found.out_ns.take(held))


def _turns(found: Stretches) -> tuple[I32, I32]:
    """Return the first and the last stretch, i32[s] each, that no wait separates from each one."""
    rows = np.arange(len(found), dtype=np.int32)
    goes_on = ~found.is_first
    goes_on[1:] &= found.is_preempted[:-1]
    first = np.maximum.accumulate(np.where(goes_on, np.int32(0), rows))
    is_last = np.append(~goes_on[1:], True)[: len(rows)]
    last = np.where(is_last, rows, np.int32(len(rows)))
    return first, np.minimum.accumulate(last[::-1])[::-1]


def _ran_until(found: Stretches, before_ns: U64, tid: I32, time_ns: U64) -> I64:
    """Return how long threads had a CPU until some times, i64[n]; compare those of one thread.

    Args:
        before_ns: u64[s] the length of all stretches before each.
        tid: i32[n] threads that had a CPU before these times.
    """
    at = np.maximum(found.last_before(tid, time_ns), 0)
    within = np.minimum(time_ns, found.out_ns.take(at)) - found.in_ns.take(at)
    ran: I64 = (before_ns.take(at) + within).view(np.int64)
    return ran
