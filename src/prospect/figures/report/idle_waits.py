"""Idle waits, for work that has not come yet, and waits within work.

No recording tells them apart. A server's thread returns to one place to wait for its next piece of
work: its idle place, near the outermost function of its stack. Waits further inside are for an
answer of a database, a lock or a pool. Rules, in this order (docs/waiting.md):

- Locks are work: Python's global lock, a mutex.
- The end of children (`wait4`) and threads, and the schedulers of runtimes (Go's) are idle.
- A thread that waits in an event loop (`epoll_wait`, `accept` and their kin) has its idle place
  there; its `poll` and `select` are for an answer. Other threads may have it in `poll`, `select` or
  a condition, and if they have such waits, also in reading a pipe or a socket.
- The idle place is the outermost of these. Waits below more of the thread's work, or deeper by more
  than a few frames, are within work.
- The outermost place is within work too if it is far from where the thread's stacks diverge, and
  many of them share some of the way to it: from a loop to its wait it is not far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import gather
from prospect.columns.forests import levels
from prospect.columns.grouping import alike
from prospect.columns.sorting import distinct
from prospect.figures.stacks.call_forest import regrown
from prospect.figures.stacks.frames import is_kernel_frame
from prospect.figures.stacks.stack_weights import paths
from prospect.profile.model import CUT_OBJECT, KIND_PYTHON
from prospect.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import F64, I8, I32, I64, Bools, Ints
    from prospect.figures.stacks.frames import FrameTable, NamedForest
    from prospect.profile.complete import CompleteProfile

_KINDS = range(10)
WORK, LOOP, POLL, SLEEP, CHILD, CONDITION, READ, SCHEDULER, MUTEX, GLOBAL_LOCK = _KINDS

LOOPS = frozenset(
    (
        *("accept", "accept4", "epoll_wait", "epoll_pwait", "epoll_pwait2"),
        *("io_getevents", "io_pgetevents", "io_uring_enter"),
    )
)
POLLS = frozenset(["poll", "ppoll", "select", "pselect6", "_newselect"])
SLEEPS = frozenset(["nanosleep", "clock_nanosleep", "pause", "rt_sigtimedwait", "rt_sigsuspend"])
# A child's end: its work meanwhile is the child's own time.
CHILDREN = frozenset(["wait4", "waitid"])
FUTEX = "futex"
READS = frozenset(["read", "readv", "recvfrom", "recvmsg"])
# Kernel functions: the read is not of a file, which a disk may hold up.
_STREAMS = ("pipe_read", "sock_recvmsg", "tcp_recvmsg", "unix_stream_read", "skb_wait")
_KIND_OF_CALL = {
    name: kind
    for names, kind in ((LOOPS, LOOP), (POLLS, POLL), (SLEEPS, SLEEP), (CHILDREN, CHILD))
    for name in names
}
# glibc waits for condition variables, semaphores and the end of threads in the first functions,
# Rust in the next. The JVM and Go use these or other calls.
_CONDITIONS = (
    *("__futex_abstimed_wait", "cond_wait", "cond_timedwait", "cond_clockwait", "sem_wait"),
    *("sem_timedwait", "sem_clockwait", "condvar::futex", "Condvar", "thread_parking"),
)
_MUTEXES = (
    *("mutex_lock", "mutex_cond_lock", "lll_lock_wait", "rwlock"),
    *("mutex::futex", "lock_contended", "RawMutex::lock_slow", "runtime.lock2"),
    *("ObjectMonitor::enter", "ObjectSynchronizer::enter"),
)
# CPython's global lock uses a condition variable.
_GLOBAL_LOCKS = ("take_gil", "PyEval_RestoreThread", "PyEval_AcquireThread")
_TIMED_CONDITIONS = ("cond_timedwait", "cond_clockwait")
# The end of a thread: its work meanwhile is its own time.
_JOINS = ("pthread_clockjoin", "pthread_join", "Thread.join", "Thread._wait_for_tstate_lock")
# A thread of Go's that has no goroutine to run.
_SCHEDULERS = (
    *("runtime.findRunnable", "runtime.findrunnable", "runtime.stopm", "runtime.sysmon"),
    *("runtime.stoplockedm", "runtime.templateThread", "runtime.notetsleep"),
)
# Limit for the stacks of places, and for other stacks, those of most samples first.
_MOST_FRAMES = 1 << 22
_LEAST_STACKS = 10  # of a thread, to locate its work
_TRUNK = 0.5  # of the thread's other stacks share the way to its idle place
_BRANCH = 0.1  # of them, in the function that leads to a wait: the wait is within work
_LEAST_OF_THREAD = 0.02  # of a thread's waits, or of their time, in its idle place
_MORE_FRAMES = 2  # than in the idle place, such as wrappers, do not make a wait deeper
_FAR = 1 << 20
_MOST_BELOW_PYTHON = 3
_NEAR = 6  # frames from a loop to its wait, such as those of a queue


class UserStacks(Record):
    """Facts about the program's part of each row of a forest of named stacks, [t] each.

    Attributes:
        user_row: i64 the row of its innermost frame of the program, -1 for none.
        depth: i64 how many frames of the program it has.
        is_cut: bool whether outer frames are missing.
        in_condition, in_mutex, in_global_lock, in_join, in_scheduler, in_stream: bool whether
            functions show that the thread waits for a condition or a semaphore, for a lock, for the
            end of a thread, for work of a runtime's scheduler, or for a pipe or a socket.
    """

    user_row: I64
    depth: I64
    is_cut: Bools
    in_condition: Bools
    in_mutex: Bools
    in_global_lock: Bools
    in_join: Bools
    in_scheduler: Bools
    in_stream: Bools


def from_outermost_python(forest: NamedForest, is_python: Bools) -> NamedForest:
    """Return the same stacks without the callers of their outermost Python function.

    Whether the functions that start a thread are known depends on the size of a copy of its stack.

    `is_python` is bool[f] of the frames.
    """
    python = is_python.take(forest.frame_index)
    has_python = np.append(python, False)
    depth = np.append(np.zeros(len(forest), np.int64), -1)
    for rows in levels(forest.depth):
        above = forest.caller_index.take(rows)
        is_first = python.take(rows) & ~has_python.take(above)
        has_python[rows] |= has_python.take(above)
        depth[rows] = np.where(is_first, 0, depth.take(above) + 1)
    return regrown(forest, np.arange(len(forest)), depth[:-1])


def user_stacks(
    profile: CompleteProfile, frames: FrameTable, labels: Sequence[str], forest: NamedForest
) -> UserStacks:
    """Describe the program's part of each stack."""
    is_kernel = is_kernel_frame(profile, frames)

    def named(parts: Sequence[str], *, kernel: bool = False) -> Bools:
        found = [any(part in label for part in parts) for label in labels]
        is_named: Bools = np.array(found, np.bool_) & (is_kernel == kernel)
        return is_named.take(forest.frame_index)

    is_user = ~is_kernel.take(forest.frame_index)
    is_python = is_python_frame(profile, frames).take(forest.frame_index)
    cut = np.array([path == CUT_OBJECT for path in profile.objects.path], np.bool_)
    is_cut = cut.take(frames.object_index).take(forest.frame_index)
    caller = forest.caller_index
    # How many frames are below a Python function, without the interpreter's own: only its global
    # lock is a condition with a time-out that is so near.
    below = np.append(np.where(is_python, 0, _FAR), _FAR)
    for rows in levels(forest.depth):
        below[rows] = np.minimum(below[rows], below.take(caller.take(rows)) + 1)
    is_near = below[:-1] <= _MOST_BELOW_PYTHON
    is_global = named(_GLOBAL_LOCKS) | (named(_TIMED_CONDITIONS) & is_near)
    flags = [is_cut, named(_CONDITIONS), named(_MUTEXES), is_global]
    flags += [named(_JOINS), named(_SCHEDULERS), named(_STREAMS, kernel=True)]
    size = len(forest)
    # One row more, for the caller of outermost frames.
    user_row = np.append(np.where(is_user, np.arange(size), -1), -1)
    depth = np.append(is_user.astype(np.int64), 0)
    on_path = [np.append(flag, False) for flag in flags]
    for rows in levels(forest.depth)[1:]:
        above = caller.take(rows)
        depth[rows] += depth.take(above)
        user_row[rows] = np.where(is_user.take(rows), rows, user_row.take(above))
        for flag in on_path:
            flag[rows] |= flag.take(above)
    return UserStacks(user_row[:-1], depth[:-1], *(flag[:-1] for flag in on_path))


def wait_kinds(calls: Sequence[str], call: Ints, row: I64, stacks: UserStacks) -> I8:
    """Return the kind of each wait, i8[n]: WORK, LOOP and so on.

    Args:
        calls: names of system calls, "" for other entry reasons.
        call: i[n] row of `calls`.
        row: i64[n] rows of the forest that `stacks` describes.
    """
    of_call = [_KIND_OF_CALL.get(name, WORK) for name in calls]
    kind = np.array(of_call, np.int8).take(call)
    is_futex = np.array([name == FUTEX for name in calls], np.bool_).take(call)
    is_read = np.array([name in READS for name in calls], np.bool_).take(call)
    kind[is_read & stacks.in_stream.take(row)] = READ
    kind[is_futex & stacks.in_condition.take(row)] = CONDITION
    kind[is_futex & stacks.in_join.take(row)] = CHILD
    kind[is_futex & stacks.in_mutex.take(row)] = MUTEX
    kind[is_futex & stacks.in_global_lock.take(row)] = GLOBAL_LOCK
    is_waiting = is_futex | np.isin(kind, (LOOP, SLEEP))
    kind[is_waiting & stacks.in_scheduler.take(row) & (kind != MUTEX)] = SCHEDULER
    return kind


def is_python_frame(profile: CompleteProfile, frames: FrameTable) -> Bools:
    """Return bool[f]: the frames of Python functions."""
    found: Bools = profile.objects.kind.take(frames.object_index) == KIND_PYTHON
    return found


class ThreadStacks(Record):
    """Stacks of threads: i32[m] the thread, and i64[m] a row of a forest."""

    tid: I32
    row: I64


class ThreadWaits(Record):
    """Waits of blocked threads.

    Attributes:
        kind: i8[n] as from `wait_kinds`.
        entry_reason: i64[n] a number for each system call.
        tid: i32[n].
        row: i64[n] a row of a forest.
        ns: i64[n] their lengths.
    """

    kind: I8
    entry_reason: I64
    tid: I32
    row: I64
    ns: I64


class OtherStacks:
    """Numbers of each thread's other stacks, in which it worked, at or below a frame."""

    def __init__(self, stacks: ThreadStacks, forest: NamedForest) -> None:
        """Count the stacks of a forest by frame."""
        self._size = max(len(forest), 1)
        self._tids = distinct(stacks.tid)
        thread = np.searchsorted(self._tids, stacks.tid).astype(np.int64)
        key, count = np.unique(thread * self._size + stacks.row, return_counts=True)
        order = np.argsort(-count, kind="stable")
        frames = np.cumsum(forest.depth.take(key.take(order) % self._size) + 1)
        order = order[: int(np.searchsorted(frames, _MOST_FRAMES, "right"))]
        thread, row = np.divmod(key.take(order), self._size)
        start, path = paths(forest.caller_index, forest.depth, row)
        lengths = np.diff(start)
        keys = np.repeat(thread, lengths) * self._size + path
        self._keys, place = np.unique(keys, return_inverse=True)
        weight = np.repeat(count.take(order), lengths)
        self._count = np.bincount(place, weight, len(self._keys))

    def below(self, tid: I32, row: I64) -> F64:
        """Return f64[k]: how many stacks of a thread contain a row of the forest."""
        if not len(self._keys):
            return np.zeros(len(row))
        thread = np.minimum(np.searchsorted(self._tids, tid), len(self._tids) - 1)
        key = thread.astype(np.int64) * self._size + row
        place = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        is_there = (self._tids.take(thread) == tid) & (self._keys.take(place) == key)
        return np.where(is_there, self._count.take(place), 0.0)


def is_idle_call(name: str, has_loop: bool) -> bool:  # noqa: FBT001 - a fact, not a switch
    """Return whether a wait in a system call, without a known stack, is idle."""
    return name in LOOPS | SLEEPS | CHILDREN or (name in POLLS and not has_loop)


def idle_waits(
    waits: ThreadWaits, stacks: UserStacks, forest: NamedForest, work: ThreadStacks
) -> Bools:
    """Return the idle waits, bool[n].

    `work` is the stacks in which threads worked: of samples, and of other waits.
    """
    kind, tid, row = waits.kind, waits.tid, waits.row
    has_loop = np.isin(tid, _looping(waits))
    found: Bools = np.isin(kind, (LOOP, SLEEP, CHILD, CONDITION, SCHEDULER))
    found |= (kind == POLL) & ~has_loop
    is_open = np.isin(kind, (LOOP, POLL, SLEEP, CONDITION, READ))
    is_known = is_open & ~stacks.is_cut.take(row) & (stacks.depth.take(row) > 0)
    known = np.flatnonzero(is_known)
    if not len(known):
        return found
    of_known = gather(waits, known)
    of_known = replace(of_known, row=stacks.user_row.take(of_known.row))
    places = alike((of_known.kind, of_known.tid, of_known.row))
    at = places.row.astype(np.intp)
    others = _without(work, gather(waits, np.flatnonzero(kind != WORK)), stacks)
    is_idle = _idle_places(
        gather(of_known, at),
        has_loop.take(known.take(at)),
        _are_rare(of_known, at, places.place),
        stacks,
        _trunks(gather(of_known, at), forest, others),
    )
    found[known] = is_idle.take(places.place)
    # Waits without a whole stack are like most waits of the thread in the same call.
    unknown = np.flatnonzero(is_open & ~is_known)
    key = tid.astype(np.int64) * (int(waits.entry_reason.max()) + 1) + waits.entry_reason
    keys, place = np.unique(key.take(known), return_inverse=True)
    balance = np.where(found.take(known), 1.0, -1.0) * of_known.ns
    mostly = np.bincount(place, balance, len(keys))
    nearest = np.minimum(np.searchsorted(keys, key.take(unknown)), len(keys) - 1)
    is_met = keys.take(nearest) == key.take(unknown)
    found[unknown] = np.where(is_met, mostly.take(nearest) > 0, found.take(unknown))
    return found


def _without(work: ThreadStacks, waits: ThreadWaits, stacks: UserStacks) -> ThreadStacks:
    """Return the program's part of stacks in which threads worked, without those that wait.

    A thread is also sampled as it enters the call that waits, and it waits for a CPU after it was
    woken: neither shows where it works.
    """
    size = len(stacks.depth) + 1
    user_row = stacks.user_row.take(work.row)
    own = distinct(waits.tid.astype(np.int64) * size + stacks.user_row.take(waits.row))
    is_other = (user_row >= 0) & np.isin(work.tid, distinct(waits.tid))
    is_other &= ~np.isin(work.tid.astype(np.int64) * size + user_row, own)
    return ThreadStacks(work.tid[is_other], user_row[is_other])


def _looping(waits: ThreadWaits) -> I32:
    """Return the threads with an event loop, in which they wait often, or for long."""
    tids, thread = np.unique(waits.tid, return_inverse=True)
    is_loop = waits.kind == LOOP
    has_loop = np.zeros(len(tids), np.bool_)
    for amount in (np.ones(len(thread)), waits.ns.astype(np.float64)):
        whole = np.bincount(thread, amount, len(tids))
        has_loop |= np.bincount(thread, amount * is_loop, len(tids)) > _LEAST_OF_THREAD * whole
    looping: I32 = tids[has_loop]
    return looping


def _are_rare(waits: ThreadWaits, first: NDArray[np.intp], place: I32) -> Bools:
    """Return the places that have few of their thread's waits, and little of their time, bool[p].

    A thread does not return to such a place, where it waits as it begins and ends.

    Args:
        first: i64[p] one of each place.
        place: i32[n] the place of each.
    """
    tids, thread = np.unique(waits.tid, return_inverse=True)
    is_rare = np.ones(len(first), np.bool_)
    for amount in (np.ones(len(place)), waits.ns.astype(np.float64)):
        of_place = np.bincount(place, amount, len(first))
        of_thread = np.bincount(thread, amount, len(tids))
        is_rare &= of_place < _LEAST_OF_THREAD * of_thread.take(thread.take(first))
    return is_rare


def _idle_places(
    places: ThreadWaits,
    has_loop: Bools,
    is_rare: Bools,
    stacks: UserStacks,
    trunks: tuple[I64, F64],
) -> Bools:
    """Return the idle places, bool[p]; each kind, thread and stack is there once.

    Args:
        has_loop: bool[p] whether the thread has an event loop.
        is_rare: bool[p] whether the thread returns there too rarely for its idle place.
    """
    kind, tid = places.kind, places.tid
    trunk, branch = trunks
    depth = stacks.depth.take(places.row)
    is_usual = np.where(has_loop, kind == LOOP, (kind == POLL) | (kind == CONDITION))
    may_read = ~has_loop & (kind == READ) & np.isin(tid, distinct(tid[is_usual]))
    is_reference = (is_usual | may_read) & ~is_rare
    tids, thread = np.unique(tid, return_inverse=True)
    least_trunk = np.full(len(tids), np.iinfo(np.int64).max)
    np.minimum.at(least_trunk, thread[is_reference], trunk[is_reference])
    is_outer = is_reference & (trunk == least_trunk.take(thread))
    least_depth = np.full(len(tids), np.iinfo(np.int64).max - _MORE_FRAMES)
    np.minimum.at(least_depth, thread[is_outer], depth[is_outer])
    is_deeper = trunk > least_trunk.take(thread)
    is_deeper |= depth > least_depth.take(thread) + _MORE_FRAMES
    is_within = ~has_loop & (branch >= _BRANCH) & (depth > trunk + _NEAR)
    is_answer = (has_loop & (kind == POLL)) | ((kind == READ) & ~may_read)
    found: Bools = ~(is_deeper | is_within | is_answer)
    return found


def _trunks(places: ThreadWaits, forest: NamedForest, work: ThreadStacks) -> tuple[I64, F64]:
    """Return how far each place's stack is that of the thread's work, and how much follows it.

    Returns:
        i64[p] how many of the outermost frames at least half of the thread's other stacks have, 0
        if there are too few; f64[p] the share of them that has the next frame, 0 in that case. All
        are 0 if the places have too many frames together.
    """
    tid, row = places.tid, places.row
    if int(forest.depth.take(row).sum()) + len(row) > _MOST_FRAMES:
        return np.zeros(len(row), np.int64), np.zeros(len(row))
    others = OtherStacks(work, forest)
    start, path = paths(forest.caller_index, forest.depth, row)
    lengths = np.diff(start)
    count = others.below(np.repeat(tid, lengths), path)
    outermost = count.take(start[:-1])
    is_enough = outermost >= _LEAST_STACKS
    # All places of a thread are compared by the same measure.
    is_even = is_enough & ~np.isin(tid, distinct(tid[~is_enough]))
    share = count / np.repeat(np.maximum(outermost, 1.0), lengths)
    trunk = np.add.reduceat(share >= _TRUNK, start[:-1]).astype(np.int64)
    following = np.minimum(start[:-1] + trunk, len(share) - 1)
    branch = np.where(is_enough & (trunk < lengths), share.take(following), 0.0)
    return np.where(is_even, trunk, 0), branch
