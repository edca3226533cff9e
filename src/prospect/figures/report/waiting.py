"""Waiting in a report: each thread's life by what it did, and what blocked it.

Times on and off the CPU are exact; user and system divide the former as the samples that hit the
thread do. A wait is idle if it is for work that has not come yet, and not within work. Nothing
separates the two for sure; the rule of thumb is what a thread's own loop waits with
(docs/waiting.md).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct, run_lengths, run_starts
from prospect.columns.table_rows import gather
from prospect.figures.causes import CAUSE_KIND_NAMES
from prospect.figures.portions import PORTION_USER, event_seconds, hit_portions
from prospect.figures.processes import chosen_by_detail, chosen_waits
from prospect.figures.stacks.frames import frame_labels, frame_table, named_forest
from prospect.figures.stacks.stack_weights import paths, stack_samples
from prospect.figures.stacks.wall_time import waits_alone
from prospect.profile.model import CAUSE_SYSCALL, MODE_KERNEL
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from prospect.figures.stacks.stack_weights import StackSamples
    from prospect.options import Detail
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import ThreadTimes

_NS = 1e-9
_MOST_STACKS = 10
_TIME_BITS = 41
_INTERRUPT = 0  # of `WaitTable.waker`
# Where a task gives up the CPU: the same in every wait.
_SCHEDULER = ("schedule", "__schedule", "preempt_schedule", "schedule_timeout")


class Blocker(NamedTuple):
    """A reason that threads waited for.

    Attributes:
        name: a system call, or what else made them enter the kernel.
        idle: whether it was for work that had not come yet, see `is_idle`.
        waits, seconds, longest_s: how many, how long, and the longest.
    """

    name: str
    idle: bool
    waits: int
    seconds: float
    longest_s: float


class Waker(NamedTuple):
    """The end of waits by a thread, by its name and its program's; or an interrupt, as of a timer.

    Attributes:
        who: likewise.
        name, idle, waits, seconds, longest_s: as of a `Blocker`, of the waits that it ended.
    """

    who: str
    name: str
    idle: bool
    waits: int
    seconds: float
    longest_s: float


class BlockedStack(NamedTuple):
    """A stack by which threads waited, its frames from the inside out, the scheduler's left out."""

    waits: int
    seconds: float
    longest_s: float
    kernel: tuple[str, ...]
    user: tuple[str, ...]


class Waiting(Record):
    """The figures of waiting.

    Attributes:
        threads: every thread.
        shown: i64[r] rows of the threads that `-V` chose, those that ran longest first.
        user_s, system_s: f64[t] time on the CPU in user space, and in the kernel with interrupts;
            NaN where no sample hit the thread.
        sampled_s: time on the CPU of the threads shown, by samples alone.
        blockers: what the threads shown were blocked by, the longest first; None where waits have
            no table.
        wakers: who ended those waits, likewise; None where that is not recorded.
        stacks: the stacks with most time blocked, likewise.
        more_stacks: how many more there are.
        named_s: the part of `blockers` without a stack, in seconds: waits that began before the
            recording, in a system call that was read from /proc.
    """

    threads: ThreadTimes
    shown: NDArray[np.int64]
    user_s: NDArray[np.float64]
    system_s: NDArray[np.float64]
    sampled_s: float
    blockers: tuple[Blocker, ...] | None
    wakers: tuple[Waker, ...] | None
    stacks: tuple[BlockedStack, ...]
    more_stacks: int
    named_s: float = 0.0

    @property
    def runnable_s(self) -> float:
        """How long the threads shown waited for a CPU, or for their group's limit, together."""
        return float(self.threads.runnable_ns.take(self.shown).sum()) * _NS

    @property
    def stackless_s(self) -> float:
        """How long the threads shown waited for unknown reasons, together."""
        return float(self.threads.stackless_ns.take(self.shown).sum()) * _NS - self.named_s


def waiting(profile: CompleteProfile, detail: Detail) -> Waiting | None:
    """Compute the figures; None for a recording without switches.

    Args:
        profile: completed.
        detail: `-V`.
    """
    threads = profile.threads
    if threads is None:
        return None
    chosen = chosen_by_detail(profile.processes, detail)
    is_shown = np.append(chosen, chosen.all()).take(threads.process_index)
    rows = np.flatnonzero(is_shown)
    order = np.lexsort((-threads.runnable_ns.take(rows), -threads.cpu_ns.take(rows)))
    user_s, system_s = _sampled(profile, threads)
    sampled_s = user_s + system_s
    share = threads.cpu_ns * _NS / np.where(sampled_s > 0, sampled_s, np.nan)
    stacks = _blocked(profile, detail)
    before = _blockers_before(profile, threads, rows)
    return Waiting(
        threads=threads,
        shown=rows.take(order),
        user_s=user_s * share,
        system_s=system_s * share,
        sampled_s=float(sampled_s[is_shown].sum()),
        blockers=_together(stacks.blockers(), before) if stacks else None,
        wakers=stacks.wakers(threads) if stacks else None,
        stacks=stacks.stacks() if stacks else (),
        more_stacks=max(stacks.count - _MOST_STACKS, 0) if stacks else 0,
        named_s=sum(one.seconds for one in before) if stacks else 0.0,
    )


def _blockers_before(
    profile: CompleteProfile, threads: ThreadTimes, rows: NDArray[np.int64]
) -> list[Blocker]:
    """Return the waits of these threads that began before the interval, by their system call."""
    read_ns, calls = profile.run.calls_before
    begin_ns = np.uint64(profile.run.begin_ns)
    # One that ended before the calls were read was another wait.
    least_ns = max(read_ns - profile.run.begin_ns, 0)
    lasts = (threads.since_before_ns > least_ns) & (threads.begin_ns == begin_ns)
    waits = [row for row in rows[lasts.take(rows)].tolist() if int(threads.tid[row]) in calls]
    names = [calls[int(threads.tid[row])] for row in waits]
    tids, nothing = threads.tid.take(waits), np.zeros(len(waits), np.bool_)
    idle = is_idle(names, np.arange(len(waits)), tids, nothing)
    seconds = threads.since_before_ns.take(waits) * _NS
    return [
        Blocker(name, is_of_idle, 1, lasted_s, lasted_s)
        for name, is_of_idle, lasted_s in zip(names, idle.tolist(), seconds.tolist(), strict=True)
    ]


def _together(blockers: tuple[Blocker, ...], others: list[Blocker]) -> tuple[Blocker, ...]:
    """Return both, added up by name and kind, the longest first."""
    found = {(one.name, one.idle): one for one in blockers}
    for one in others:
        known = found.get((one.name, one.idle), one._replace(waits=0, seconds=0.0))
        found[one.name, one.idle] = one._replace(
            waits=known.waits + one.waits,
            seconds=known.seconds + one.seconds,
            longest_s=max(known.longest_s, one.longest_s),
        )
    return tuple(sorted(found.values(), key=lambda one: -one.seconds)) if others else blockers


def blocked_stacks(
    profile: CompleteProfile, tids: NDArray[np.int32], most: int
) -> tuple[BlockedStack, ...]:
    """Return by which stacks some threads were blocked, those with most time first.

    Args:
        profile: completed.
        tids: i32 the threads.
        most: how many stacks.
    """
    found = _blocked(profile, "4")
    return found.of_threads(tids).stacks(most) if found else ()


def _sampled(
    profile: CompleteProfile, threads: ThreadTimes
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return f64[t] each: sampled seconds in user space, and elsewhere."""
    samples, count = profile.samples, len(threads)
    nothing = np.zeros(count)
    if not len(samples) or samples.tid is None or not count:
        return nothing, nothing
    begin_ns = threads.begin_ns.min()

    def keys(tid: NDArray[np.int32], time_ns: NDArray[np.uint64]) -> NDArray[np.int64]:
        # Microseconds: 25 days of them and a thread's number are 63 bits.
        time = np.minimum((time_ns - begin_ns) // np.uint64(1000), np.uint64((1 << _TIME_BITS) - 1))
        key: NDArray[np.int64] = tid.astype(np.int64) << _TIME_BITS | time.astype(np.int64)
        return key

    time_ns = np.maximum(samples.time_ns, begin_ns)
    row = np.searchsorted(keys(threads.tid, threads.begin_ns), keys(samples.tid, time_ns), "right")
    row = np.maximum(row - 1, 0)
    seconds_by_hit = _seconds_by_hit(profile)
    is_own = threads.tid.take(row) == samples.tid
    is_user = (hit_portions(profile) == PORTION_USER).take(samples.hit_index)
    seconds = np.where(is_own, seconds_by_hit.take(samples.hit_index), 0.0)
    user = np.bincount(row, seconds * is_user, count).astype(np.float64)
    return user, np.bincount(row, seconds, count).astype(np.float64) - user


def _seconds_by_hit(profile: CompleteProfile) -> NDArray[np.float64]:
    """Return f64[h]: the mean time of a sample of each hit; of the first event with time."""
    hits = profile.hits
    for number, event in enumerate(profile.run.events):
        if event.seconds_per_period > 0 or event.seconds_per_hit > 0:
            seconds = event_seconds(event, hits.count, hits.period) / np.maximum(hits.count, 1)
            return np.where(hits.event == number, seconds, 0.0)
    return np.zeros(len(hits))


class _Names:
    """Rows for names, each once."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._row: dict[str, int] = {}

    def row(self, name: str) -> int:
        """Return the row of a name, which may be new."""
        if name not in self._row:
            self._row[name] = len(self.names)
            self.names.append(name)
        return self._row[name]


class _Blocked(Record):
    """Waits of blocked threads.

    Attributes:
        samples: the same as samples, with the stacks of all of the profile's waits.
        stack_index: i32[n] row of `samples.stacks`.
        cause, ns: i64[n]; `tid`, `waker` i32[n]: as in `WaitTable`.
    """

    samples: StackSamples
    stack_index: NDArray[np.int32]
    cause: NDArray[np.int64]
    ns: NDArray[np.int64]
    tid: NDArray[np.int32]
    waker: NDArray[np.int32] | None

    def of_threads(self, tids: NDArray[np.int32]) -> _Blocked:
        """Return the waits of these threads alone."""
        return self._of(np.flatnonzero(np.isin(self.tid, tids)))

    def _of(self, rows: NDArray[np.int64]) -> _Blocked:
        return _Blocked(
            self.samples,
            self.stack_index.take(rows),
            self.cause.take(rows),
            self.ns.take(rows),
            self.tid.take(rows),
            None if self.waker is None else self.waker.take(rows),
        )

    @property
    def count(self) -> int:
        """How many stacks there are."""
        return len(distinct(self.stack_index))

    def blockers(self) -> tuple[Blocker, ...]:
        """Add up the waits by cause, and apart what is idle; the longest first."""
        names = self._cause_names()
        key = self.cause * 2 + self.idle
        return tuple(
            Blocker(names[row // 2], bool(row % 2), waits, seconds, longest_s)
            for row, waits, seconds, longest_s in self._by(key)
        )

    def wakers(self, threads: ThreadTimes) -> tuple[Waker, ...] | None:
        """Add up the waits by who ended them, and by cause; the longest first."""
        if self.waker is None:
            return None
        names, who = self._cause_names(), _Names()
        of_tid = {
            tid: who.row(name) for tid, name in zip(threads.tid.tolist(), threads.name, strict=True)
        }
        of_tid[_INTERRUPT] = who.row("(interrupt)")
        tids = distinct(self.waker)
        rows = [of_tid[tid] if tid in of_tid else who.row(f"thread {tid}") for tid in tids.tolist()]
        row = np.array(rows, np.int64).take(np.searchsorted(tids, self.waker))
        known = np.flatnonzero(self.waker >= 0)
        key = ((row * len(names) + self.cause) * 2 + self.idle).take(known)
        return tuple(
            Waker(
                who.names[one // 2 // len(names)],
                names[one // 2 % len(names)],
                bool(one % 2),
                waits,
                seconds,
                longest_s,
            )
            for one, waits, seconds, longest_s in _added_up(key, self.ns.take(known))
        )

    def _cause_names(self) -> list[str]:
        causes = self.samples.profile.causes
        return [
            name
            if kind == CAUSE_SYSCALL
            else " ".join(filter(None, (CAUSE_KIND_NAMES[kind], name)))
            for kind, name in zip(causes.kind.tolist(), causes.name, strict=True)
        ]

    @cached_property
    def idle(self) -> NDArray[np.bool_]:
        """bool[n] which waits are idle."""
        causes = self.samples.profile.causes
        calls = [
            name if kind == CAUSE_SYSCALL else ""
            for kind, name in zip(causes.kind.tolist(), causes.name, strict=True)
        ]
        is_lock = np.array([call == LOCKS for call in calls], np.bool_).take(self.cause)
        stacks = distinct(self.stack_index[is_lock])
        conditions = np.array(
            [waits_for_condition(user) for _, user in self._frames(stacks)] or [False], np.bool_
        )
        place = np.searchsorted(stacks, self.stack_index)
        on_condition = is_lock & conditions.take(place, mode="clip")
        return is_idle(calls, self.cause, self.tid, on_condition)

    def stacks(self, most: int = _MOST_STACKS) -> tuple[BlockedStack, ...]:
        """Return the stacks with most time."""
        top = self._by(self.stack_index)[:most]
        chosen = np.array([row for row, *_ in top], np.int64)
        found = []
        for (_, waits, seconds, longest_s), (kernel, user) in zip(
            top, self._frames(chosen), strict=True
        ):
            if not user and all(name.startswith("[") for name in kernel):
                continue  # recorded without stacks
            while len(kernel) > 1 and kernel[0] in _SCHEDULER:
                kernel.pop(0)
            found.append(BlockedStack(waits, seconds, longest_s, tuple(kernel), tuple(user)))
        return tuple(found)

    def _frames(self, chosen: NDArray[np.integer]) -> Iterator[tuple[list[str], list[str]]]:
        """Yield names of the kernel's and of the program's frames, from the inside out."""
        profile = self.samples.profile
        frames = frame_table(profile)
        labels = frame_labels(profile, frames)
        forest = named_forest(self.samples.stacks, frames)
        start, path = paths(self.samples.stacks.caller_index, self.samples.stacks.depth, chosen)
        frame = forest.frame_index.take(forest.row_of_stack.take(path)).tolist()
        is_kernel = (self.samples.stacks.mode.take(path) == MODE_KERNEL).tolist()
        for number in range(len(chosen)):
            places = range(int(start[number + 1]) - 1, int(start[number]) - 1, -1)
            yield (
                [labels[frame[place]] for place in places if is_kernel[place]],
                [labels[frame[place]] for place in places if not is_kernel[place]],
            )

    def _by(self, key: NDArray[np.integer]) -> list[tuple[int, int, float, float]]:
        return _added_up(key, self.ns)


def _blocked(profile: CompleteProfile, detail: Detail) -> _Blocked | None:
    """Return the waits of blocked threads that `-V` asks for; None without a table of waits."""
    waits = chosen_waits(profile, detail)
    if waits is None:
        return None
    waits = gather(waits, np.flatnonzero(~waits.is_runnable))
    samples = stack_samples(waits_alone(replace(profile, waits=waits)), "4")
    return _Blocked(
        samples,
        samples.stack_index,
        waits.cause_index.astype(np.int64),
        waits.length_ns.astype(np.int64),
        waits.tid,
        waits.waker,
    )


def _added_up(
    key: NDArray[np.integer], ns: NDArray[np.int64]
) -> list[tuple[int, int, float, float]]:
    """Return key, number of waits, their time and the longest, those with most time first."""
    if not len(key):
        return []
    order = np.argsort(key, kind="stable")
    keys, ns = key.take(order), ns.take(order)
    starts = run_starts(keys)
    total = np.add.reduceat(ns, starts).tolist()
    longest = np.maximum.reduceat(ns, starts).tolist()
    count = run_lengths(starts, len(keys))
    first = np.argsort(-np.array(total), kind="stable")
    return [
        (int(keys[starts[row]]), int(count[row]), total[row] * _NS, longest[row] * _NS)
        for row in first.tolist()
    ]


LOOPS = frozenset(
    (
        *("accept", "accept4", "epoll_wait", "epoll_pwait", "epoll_pwait2"),
        *("io_getevents", "io_pgetevents", "io_uring_enter"),
    )
)
# Of a thread with a loop of its own, these are for an answer; else they are the loop.
POLLS = frozenset(["poll", "ppoll", "select", "pselect6", "_newselect"])
SLEEPS = frozenset(["nanosleep", "clock_nanosleep", "pause", "rt_sigtimedwait", "rt_sigsuspend"])
# A child's end: what it did meanwhile is the child's own time.
CHILDREN = frozenset(["wait4", "waitid"])
LOCKS = "futex"
# glibc waits for condition variables and semaphores, and for the end of threads, in the first; for
# a mutex elsewhere. CPython's global lock is made of a condition variable.
_CONDITIONS = ("__futex_abstimed_wait", "cond_wait", "cond_timedwait", "cond_clockwait", "sem_wait")
_MUTEXES = (
    *("mutex_lock", "mutex_cond_lock", "lll_lock_wait", "rwlock"),
    *("take_gil", "PyEval_RestoreThread", "PyEval_AcquireThread"),
)


def is_idle(
    calls: Sequence[str],
    call: NDArray[np.int64],
    tid: NDArray[np.int32],
    on_condition: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return which waits are idle, bool[n].

    Args:
        calls: names of system calls, "" for what is none.
        call: i64[n] row of `calls`.
        tid: i32[n] the thread.
        on_condition: bool[n] whether it waits for a condition, see `waits_for_condition`.
    """

    def among(names: Iterable[str]) -> NDArray[np.bool_]:
        return np.array([one in names for one in calls], np.bool_).take(call)

    has_loop = np.isin(tid, tid[among(LOOPS)])
    idle = among(LOOPS | SLEEPS | CHILDREN) | (among(POLLS) & ~has_loop)
    found: NDArray[np.bool_] = idle | (among((LOCKS,)) & on_condition)
    return found


def waits_for_condition(frames: Iterable[str]) -> bool:
    """Guess from a program's functions whether a futex is a condition variable or a semaphore."""
    frames = list(frames)
    return any(name in frame for frame in frames for name in _CONDITIONS) and not any(
        name in frame for frame in frames for name in _MUTEXES
    )
