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
from prospect.wall.handovers import handovers
from prospect.wall.schedule_records import BY_INTERRUPT, NOT_RECORDED
from prospect.wall.stretches import by_thread_and_time, stretch_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.wall.schedule_records import SchedulerRecords
    from prospect.wall.stretches import Stretches, Threads

# From a task's leaving its queue, when it can be woken, to the record of the switch: a sample with
# a stack is between.
_LEAVING_NS = 20_000
_BLOCK = 1 << 18


class Steps(Record):
    """What was before each stretch.

    Attributes:
        ready_ns: u64[s] since when the thread waited for a CPU; `Stretches.in_ns` if not at all.
        blocked_ns: u64[s] since when it was blocked until then; `ready_ns` if the path goes
            elsewhere.
        ended_by: i32[s] thread that ended the blocked time, BY_INTERRUPT or NOT_RECORDED.
        previous: i32[s] the stretch with which the path goes on, -1 for none.
        enter_ns: u64[s] when the path enters that.
    """

    ready_ns: NDArray[np.uint64]
    blocked_ns: NDArray[np.uint64]
    ended_by: NDArray[np.int32]
    previous: NDArray[np.int32]
    enter_ns: NDArray[np.uint64]


class _Wakes(Record):
    """The wake-up that ended the wait before each stretch.

    `wake_ns` and `at_ns` u64[s] are when it counts, and when it was; `waker` i32[s] is NOT_RECORDED
    for none.
    """

    wake_ns: NDArray[np.uint64]
    at_ns: NDArray[np.uint64]
    waker: NDArray[np.int32]


def steps(
    records: SchedulerRecords,
    threads: Threads,
    found: Stretches,
    tid: int,
    *,
    everybody: bool,
) -> Steps:
    """Find the step from the start of each stretch.

    Args:
        records: of the recording.
        threads: of the stretches.
        found: the stretches.
        tid: the root of the threads that the path follows.
        everybody: whether it follows all others too.
    """
    keys = threads.key(found.thread, found.in_ns)
    own = np.arange(len(found), dtype=np.int32)
    wakes = _wakes(records, threads, found)
    previous = np.where(found.is_first, np.int32(-1), own - np.int32(1))
    ready_ns, blocked_ns = found.in_ns.copy(), found.since_ns.copy()
    enter_ns = found.since_ns.copy()
    was_preempted = ~found.is_first & np.append(False, found.is_preempted[:-1])[: len(found)]
    is_born = found.birth >= 0
    ready_ns[was_preempted | is_born] = found.since_ns[was_preempted | is_born]
    # By a wake-up.
    is_woken = ~was_preempted & ~is_born & (wakes.waker != NOT_RECORDED)
    ready_ns[is_woken] = wakes.wake_ns[is_woken]
    at = np.flatnonzero(is_woken & (wakes.waker > 0))
    by = stretch_at(threads, keys, wakes.waker.take(at), wakes.at_ns.take(at))
    follows = (by >= 0) & (found.in_ns.take(by) < found.in_ns.take(at)) & (by != at)
    follows &= found.thread.take(by) != found.thread.take(at)
    wake_ns = np.where(is_woken, wakes.wake_ns, found.since_ns)
    timed = handovers(records, threads, found, keys, (wake_ns, wakes.waker))
    at, by = np.append(at[follows], timed.taken), np.append(by[follows], timed.held)
    woken_ns = np.minimum(wakes.at_ns, wakes.wake_ns)
    woken_ns[timed.taken] = timed.at_ns
    if not everybody:
        is_mine = _is_descendant(records, threads, found, keys, tid)
        followed = np.flatnonzero(is_mine.take(by))
        at, by = at.take(followed), by.take(followed)
    previous[at] = by
    enter_ns[at] = woken_ns.take(at)
    ready_ns[at] = enter_ns[at]
    blocked_ns[at] = enter_ns[at]
    # By birth.
    at = np.flatnonzero(is_born)
    birth = found.birth.take(at)
    parent = stretch_at(
        threads, keys, records.births.parent_tid.take(birth), found.since_ns.take(at)
    )
    is_known = (parent >= 0) & (found.in_ns.take(parent) <= found.since_ns.take(at))
    previous[at] = np.where(is_known, parent, -1)
    blocked_ns = np.minimum(blocked_ns, ready_ns)
    ended_by = np.where(blocked_ns < ready_ns, wakes.waker, np.int32(NOT_RECORDED))
    return Steps(ready_ns, blocked_ns, ended_by, previous, enter_ns)


def _wakes(records: SchedulerRecords, threads: Threads, found: Stretches) -> _Wakes:
    """Find the first wake-up in the time off the CPU before each stretch."""
    wakings = records.wakings
    row = threads.row(wakings.tid)
    order = by_thread_and_time(row, wakings.time_ns)
    order = order[int(np.count_nonzero(row < 0)) :]
    time_ns = wakings.time_ns.take(order)
    keys = threads.key(row.take(order), time_ns)
    count = len(found)
    none = np.full(count, NOT_RECORDED, np.int32)
    if not len(keys) or not count:
        return _Wakes(found.in_ns, found.in_ns, none)
    wake_ns, at_ns, by = found.in_ns.copy(), found.in_ns.copy(), none
    waker = np.maximum(wakings.waker.take(order), np.int32(BY_INTERRUPT))
    for first in range(0, count, _BLOCK):
        rows = slice(first, first + _BLOCK)
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
    return _Wakes(wake_ns, at_ns, by)


def _is_descendant(
    records: SchedulerRecords,
    threads: Threads,
    found: Stretches,
    keys: NDArray[np.int64],
    tid: int,
) -> NDArray[np.bool_]:
    """Return which stretches are of a thread or of those that descend from it, bool[s]."""
    count = len(found)
    # Lives of threads, and the life of the parent of each; those without have themselves.
    life = np.cumsum(found.is_first) - 1
    first = np.flatnonzero(found.is_first)
    born = found.birth.take(first)
    has_birth = born >= 0
    births = records.births
    parent_tid = births.parent_tid.take(born, mode="clip") if len(births.tid) else born
    at = stretch_at(threads, keys, parent_tid, found.since_ns.take(first))
    above = np.where(has_birth & (at >= 0), life.take(at, mode="clip"), np.arange(len(first)))
    is_mine = threads.tids.take(found.thread.take(first)) == tid
    # A number that was given again is another thread's: the root was there first.
    is_mine[np.flatnonzero(is_mine)[1:]] = False
    above[is_mine] = np.flatnonzero(is_mine)
    # Each round looks twice as many generations up.
    for _ in range(max(count, 1).bit_length()):
        is_mine |= is_mine.take(above)
        further = above.take(above)
        if np.array_equal(further, above):
            break
        above = further
    found_mine: NDArray[np.bool_] = is_mine.take(life)
    return found_mine
