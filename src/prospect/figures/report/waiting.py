"""Waiting in a report: each thread's life by what it did, and what blocked it.

Times on and off the CPU are exact; user and system divide the former in proportion to the samples
of the thread. A wait is idle if it is for work that has not come yet (`figures.report.idle_waits`).

The thread that wakes a waiter had the lock. Its functions meanwhile are those of its samples on
a CPU within the wait, each worth its time, and of its own waits, whose length is exact, but not
before it got the lock, if it waited for it too. A wait for Python's global lock that ends by its
time-out, after 5 ms, is followed by others, until its holder ends one.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import gather
from prospect.columns.sorting import distinct, run_lengths, run_starts
from prospect.figures.entry_reasons import ENTRY_REASON_KIND_NAMES
from prospect.figures.modes import MODE_USER, event_has_time, event_seconds, hit_modes
from prospect.figures.processes import are_chosen_waits, chosen_by_detail
from prospect.figures.report.idle_waits import (
    FUTEX,
    GLOBAL_LOCK,
    LOOPS,
    MUTEX,
    WORK,
    ThreadStacks,
    ThreadWaits,
    from_outermost_python,
    idle_waits,
    is_idle_call,
    is_python_frame,
    user_stacks,
    wait_kinds,
)
from prospect.figures.stacks.frames import frame_labels, frame_table, named_forest
from prospect.figures.stacks.stack_weights import paths, stack_samples, waits_alone, with_waits
from prospect.profile.model import CPUMODE_KERNEL, ENTRY_REASON_SYSCALL
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.columns.array_types import F64, I8, I32, I64, U64, Bools, Ints
    from prospect.figures.report.idle_waits import UserStacks
    from prospect.figures.stacks.frames import FrameTable, NamedForest
    from prospect.figures.stacks.stack_weights import StackSamples
    from prospect.options import Detail
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import ThreadTimes


_MOST_HOLDERS = 1000  # threads, those with the longest waiters
_MOST_ROWS = 10
# A function of these is not the reason for the lock.
_SYSTEM_LIBRARIES = ("libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "[vdso]")


class LockHolder(NamedTuple):
    """A function of threads that had a lock, while others waited for it.

    Attributes:
        lock: the kind of lock.
        function: innermost of the program, not of the C library.
        caller: "" if unknown.
        seconds: how long others waited meanwhile, summed over waiters.
    """

    lock: str
    function: str
    caller: str
    seconds: float


class LockWaits(Record):
    """Waits for locks: `lock` i8[n] the kind, `tid` and `holder` i32[n], from and until ns i64[n].

    `holder` is not above 0 if unknown.
    """

    lock: I8
    tid: I32
    holder: I32
    begin_ns: I64
    end_ns: I64


class ThreadMoments(Record):
    """Moments of threads: `tid` i32[m], from and until ns i64[m], and `row` i64[m] of a forest.

    `seconds` f64[m] is the time of a moment without a length, such as a sample; NaN for others.
    """

    tid: I32
    begin_ns: I64
    end_ns: I64
    row: I64
    seconds: F64


def with_next_holders(waits: LockWaits) -> LockWaits:
    """Return waits by thread and time, each with the holder that ended the thread's next."""
    order = np.lexsort((waits.begin_ns, waits.tid, waits.lock))
    waits = gather(waits, order)
    tid, lock, holder = waits.tid, waits.lock, waits.holder
    places = np.where(holder > 0, np.arange(len(order)), len(order))
    following = np.minimum.accumulate(places[::-1])[::-1]
    at = np.minimum(following, len(order) - 1)
    is_its = (following < len(order)) & (tid.take(at) == tid) & (lock.take(at) == lock)
    return replace(waits, holder=np.where(is_its, holder.take(at), np.int32(0)))


def waited_meanwhile(waits: LockWaits, moments: ThreadMoments, lock: int) -> F64:
    """Return f64[m]: how long others waited for a lock of a thread during its moments."""
    of_lock = np.flatnonzero((waits.lock == lock) & (waits.holder > 0))
    found = np.zeros(len(moments.tid))
    holder, begin, end = (one.take(of_lock) for one in (waits.holder, waits.begin_ns, waits.end_ns))
    holders, place = np.unique(holder, return_inverse=True)
    total = np.bincount(place, (end - begin).astype(np.float64), len(holders))
    for number in np.argsort(-total)[:_MOST_HOLDERS].tolist():
        rows = np.flatnonzero(moments.tid == holders[number])
        if not len(rows):
            continue
        of_holder = place == number
        ended = end[of_holder]
        got = np.sort(waits.end_ns[(waits.lock == lock) & (waits.tid == holders[number])])
        got = np.append(np.iinfo(np.int64).min, got)
        got = got.take(np.searchsorted(got, ended, "left") - 1)
        begins, ends = np.sort(np.maximum(begin[of_holder], got)), np.sort(ended)
        until, since = moments.end_ns.take(rows), moments.begin_ns.take(rows)
        # The time of waits within each moment, and the number of waits at its start.
        lasting = _elapsed(begins, ends, until) - _elapsed(begins, ends, since)
        under_way = np.searchsorted(begins, since, "right") - np.searchsorted(ends, since, "right")
        seconds = moments.seconds.take(rows)
        found[rows] = np.where(np.isnan(seconds), lasting * _NS, under_way * seconds)
    return found


def _elapsed(begins: I64, ends: I64, at: I64) -> F64:
    """Return f64[k] the total length of intervals up to some moments, in ns."""

    def since(times: I64) -> F64:
        count = np.searchsorted(times, at, "right")
        sums = np.append(0.0, np.cumsum((times - begins[0]).astype(np.float64)))
        elapsed: F64 = count * (at - begins[0]).astype(np.float64) - sums.take(count)
        return elapsed

    return since(begins) - since(ends)


def lock_holders(
    waits: LockWaits,
    moments: ThreadMoments,
    names: dict[int, str],
    functions: tuple[I64, I64],
    labels: Sequence[str],
) -> tuple[LockHolder, ...]:
    """Return the functions that held others up, those with most time first.

    Args:
        names: of the kinds of locks.
        functions: i64[t] each the frame and its caller's of each row of the forest, as from
            `own_functions`, -1 for none.
        labels: of each frame.
    """
    waits = with_next_holders(waits)
    is_of_holder = np.isin(moments.tid, distinct(waits.holder))
    moments = gather(moments, np.flatnonzero(is_of_holder))
    frame, caller = (column.take(moments.row) for column in functions)
    sums: dict[tuple[str, str, str], float] = {}
    for lock, name in names.items():
        seconds = waited_meanwhile(waits, moments, lock)
        key, place = np.unique(frame * (len(labels) + 1) + caller + 1, return_inverse=True)
        total = np.bincount(place, seconds, len(key))
        for row in np.flatnonzero((total > 0) & (key >= 0)).tolist():
            function, above = divmod(int(key[row]), len(labels) + 1)
            words = (name, labels[function], labels[above - 1] if above else "")
            sums[words] = sums.get(words, 0.0) + float(total[row])
    ordered = sorted(sums.items(), key=lambda one: -one[1])
    return tuple(LockHolder(*words, seconds) for words, seconds in ordered[:_MOST_ROWS])


def own_functions(
    profile: CompleteProfile, frames: FrameTable, forest: NamedForest, user_row: I64
) -> tuple[I64, I64]:
    """Return the innermost function of each stack that is not the C library's, and its caller.

    `frames` and `forest` are of the completed profile; `user_row` i64[t] is the row of the
    program's innermost frame, -1 for none.

    Returns:
        i64[t] frames each, -1 for none.
    """
    is_system = np.array(
        [path.rpartition("/")[2].startswith(_SYSTEM_LIBRARIES) for path in profile.objects.path],
        np.bool_,
    )
    is_system_row = np.append(is_system.take(frames.object_index).take(forest.frame_index), False)
    row = user_row
    for _ in range(int(forest.depth.max(initial=0)) + 1):
        goes_on = np.flatnonzero(is_system_row.take(row))
        if not len(goes_on):
            break
        row = row.copy()
        row[goes_on] = forest.caller_index.take(row.take(goes_on))
    row = np.where(row < 0, user_row, row)
    frame_of = np.append(forest.frame_index, -1)
    above = np.append(forest.caller_index, -1).take(row)
    return frame_of.take(row), frame_of.take(above)


_NS = 1e-9
_MOST_STACKS = 10
_TIME_BITS = 41
LOCK_NAMES = {GLOBAL_LOCK: "Python's global lock", MUTEX: "a mutex"}
_INTERRUPT = 0  # of `WaitTable.waker`
# Where a task gives up the CPU: the same in every wait.
_SCHEDULER = ("schedule", "__schedule", "preempt_schedule", "schedule_timeout")


class Blocker(NamedTuple):
    """A reason that threads waited for.

    Attributes:
        name: a kind of lock, a system call, or another reason for entering the kernel.
        idle: whether it was for work that had not come yet, see `idle_waits`.
        waits, seconds, longest_s: their number, their length together, and the longest.
    """

    name: str
    idle: bool
    waits: int
    seconds: float
    longest_s: float

    @property
    def call(self) -> str:
        """The system call, also of a lock."""
        return FUTEX if self.name in LOCK_NAMES.values() else self.name


class Waker(NamedTuple):
    """The end of waits by a thread, by its name and its program's; or an interrupt, as of a timer.

    Attributes:
        name, idle, waits, seconds, longest_s: as in `Blocker`, of the waits that it ended.
    """

    who: str
    name: str
    idle: bool
    waits: int
    seconds: float
    longest_s: float


class BlockedStack(NamedTuple):
    """A stack of waits, its frames from the inside out, without the scheduler's."""

    waits: int
    seconds: float
    longest_s: float
    kernel: tuple[str, ...]
    user: tuple[str, ...]


class Waiting(Record):
    """The figures of waiting.

    Attributes:
        shown: i64[r] rows of the threads that `-V` chose, those that ran longest first.
        user_s, system_s: f64[t] time on the CPU in user space, and in the kernel with interrupts;
            NaN if no sample hit the thread.
        sampled_s: time on the CPU of the threads shown, by samples alone.
        blockers: what blocked the threads shown, the longest first; None if waits have no table.
        wakers: what ended those waits, in the same way; None if that was not recorded.
        stacks: the stacks with most time blocked, in the same way.
        more_stacks: how many more there are.
        holders: functions of threads that had a lock which the threads shown waited for, in the
            same way.
        named_s: the part of `blockers` without a stack, in seconds: waits that began before the
            recording, in a system call that was read from /proc.
    """

    threads: ThreadTimes
    shown: I64
    user_s: F64
    system_s: F64
    sampled_s: float
    blockers: tuple[Blocker, ...] | None
    wakers: tuple[Waker, ...] | None
    stacks: tuple[BlockedStack, ...]
    more_stacks: int
    holders: tuple[LockHolder, ...] = ()
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
    """Compute the figures; None for a recording without switches."""
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
    stacks = blocked_waits(profile, detail, alone=False)
    before = _blockers_before(profile, threads, rows, stacks)
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
        holders=stacks.holders(_seconds_by_hit(profile)) if stacks else (),
        named_s=sum(one.seconds for one in before) if stacks else 0.0,
    )


def _blockers_before(
    profile: CompleteProfile, threads: ThreadTimes, rows: I64, stacks: BlockedWaits | None
) -> list[Blocker]:
    """Return the waits of these threads that began before the interval, by their system call."""
    read_ns, calls = profile.run.calls_before
    begin_ns = np.uint64(profile.run.begin_ns)
    # A wait that ended before the calls were read was another one.
    least_ns = max(read_ns - profile.run.begin_ns, 0)
    lasts = (threads.since_before_ns > least_ns) & (threads.begin_ns == begin_ns)
    waits = [row for row in rows[lasts.take(rows)].tolist() if int(threads.tid[row]) in calls]
    names = [calls[int(threads.tid[row])] for row in waits]
    tids = threads.tid.take(waits).tolist()
    known = {} if stacks is None else stacks.mostly_idle()
    looping = {tid for tid, name in zip(tids, names, strict=True) if name in LOOPS}
    looping |= {tid for tid, name in known if name in LOOPS}
    seconds = threads.since_before_ns.take(waits) * _NS
    return [
        Blocker(name, known.get((tid, name), is_idle_call(name, tid in looping)), 1, long_s, long_s)
        for tid, name, long_s in zip(tids, names, seconds.tolist(), strict=True)
    ]


def _together(blockers: tuple[Blocker, ...], others: list[Blocker]) -> tuple[Blocker, ...]:
    """Return all, added up by name and kind, the longest first."""
    found = {(one.name, one.idle): one for one in blockers}
    for one in others:
        known = found.get((one.name, one.idle), one._replace(waits=0, seconds=0.0))
        found[one.name, one.idle] = one._replace(
            waits=known.waits + one.waits,
            seconds=known.seconds + one.seconds,
            longest_s=max(known.longest_s, one.longest_s),
        )
    return tuple(sorted(found.values(), key=lambda one: -one.seconds)) if others else blockers


def blocked_stacks(profile: CompleteProfile, tids: I32, most: int) -> tuple[BlockedStack, ...]:
    """Return the stacks in which some threads were blocked, those with most time first."""
    found = blocked_waits(profile, "4", alone=True)
    return found.of_threads(tids).stacks(most) if found else ()


def _sampled(profile: CompleteProfile, threads: ThreadTimes) -> tuple[F64, F64]:
    """Return f64[t] each: sampled seconds in user space, and elsewhere."""
    samples, count = profile.samples, len(threads)
    nothing = np.zeros(count)
    if not len(samples) or samples.tid is None or not count:
        return nothing, nothing
    begin_ns = threads.begin_ns.min()

    def keys(tid: I32, time_ns: U64) -> I64:
        # Microseconds: 25 days and a thread's number are 63 bits.
        time = np.minimum((time_ns - begin_ns) // np.uint64(1000), np.uint64((1 << _TIME_BITS) - 1))
        key: I64 = tid.astype(np.int64) << _TIME_BITS | time.astype(np.int64)
        return key

    time_ns = np.maximum(samples.time_ns, begin_ns)
    row = np.searchsorted(keys(threads.tid, threads.begin_ns), keys(samples.tid, time_ns), "right")
    row = np.maximum(row - 1, 0)
    seconds_by_hit = _seconds_by_hit(profile)
    is_own = threads.tid.take(row) == samples.tid
    is_user = (hit_modes(profile) == MODE_USER).take(samples.hit_index)
    seconds = np.where(is_own, seconds_by_hit.take(samples.hit_index), 0.0)
    user = np.bincount(row, seconds * is_user, count).astype(np.float64)
    return user, np.bincount(row, seconds, count).astype(np.float64) - user


def _seconds_by_hit(profile: CompleteProfile) -> F64:
    """Return f64[h]: the mean time of a sample of each hit; of the first event with time."""
    hits = profile.hits
    for number, event in enumerate(profile.run.events):
        if event_has_time(event):
            seconds = event_seconds(event, hits.count, hits.period) / np.maximum(hits.count, 1)
            return np.where(hits.event == number, seconds, 0.0)
    return np.zeros(len(hits))


class NamedStacks(NamedTuple):
    """Frames, their labels, and stacks of them."""

    frames: FrameTable
    labels: list[str]
    forest: NamedForest


class BlockedWaits(Record):
    """Waits of blocked threads.

    Attributes:
        samples: the profile's waits, as samples, after others or alone.
        first_wait: the first of them.
        rows: i64[n] their rows in the samples.
        process_index, tid, waker: i32[n], entry_reason, ns: i64[n], and begin_ns u64[n], as in
            `WaitTable`.
    """

    samples: StackSamples
    first_wait: int
    rows: I64
    process_index: I32
    entry_reason: I64
    begin_ns: U64
    ns: I64
    tid: I32
    waker: I32 | None

    @property
    def wait_rows(self) -> I64:
        """i64[n] rows of the profile's table of waits."""
        return self.rows - self.first_wait

    @property
    def stack_index(self) -> I32:
        """i32[n] row of `samples.stacks`."""
        return self.samples.stack_index.take(self.rows)

    def of_threads(self, tids: I32) -> BlockedWaits:
        """Return the waits of these threads."""
        return gather(self, np.flatnonzero(np.isin(self.tid, tids)), "samples", "first_wait")

    @property
    def count(self) -> int:
        """How many stacks there are."""
        return len(distinct(self.stack_index))

    def blockers(self) -> tuple[Blocker, ...]:
        """Add up the waits by entry reason, idle ones separately; the longest first."""
        names = self.names
        key = self.name * 2 + self.idle
        return tuple(
            Blocker(names[row // 2], bool(row % 2), waits, seconds, longest_s)
            for row, waits, seconds, longest_s in _added_up(key, self.ns)
        )

    def wakers(self, threads: ThreadTimes) -> tuple[Waker, ...] | None:
        """Add up the waits by waker, and by entry reason; the longest first."""
        if self.waker is None:
            return None
        names = self.names
        name_of = dict(zip(threads.tid.tolist(), threads.name, strict=True))
        name_of[_INTERRUPT] = "(interrupt)"
        tids = distinct(self.waker)
        wakers = [name_of.get(tid, f"thread {tid}") for tid in tids.tolist()]
        who = list(dict.fromkeys((*threads.name, *name_of.values(), *wakers)))
        number = {name: row for row, name in enumerate(who)}
        rows = np.array([number[name] for name in wakers], np.int64)
        row = rows.take(np.searchsorted(tids, self.waker))
        known = np.flatnonzero(self.waker >= 0)
        key = ((row * len(names) + self.name) * 2 + self.idle).take(known)
        return tuple(
            Waker(
                who[one // 2 // len(names)],
                names[one // 2 % len(names)],
                bool(one % 2),
                waits,
                seconds,
                longest_s,
            )
            for one, waits, seconds, longest_s in _added_up(key, self.ns.take(known))
        )

    def mostly_idle(self) -> dict[tuple[int, str], bool]:
        """Return for each thread and system call whether most of the waits' time is idle."""
        names = len(self._calls)
        key, place = np.unique(
            self.tid.astype(np.int64) * names + self.entry_reason, return_inverse=True
        )
        balance = np.bincount(place, np.where(self.idle, 1.0, -1.0) * self.ns, len(key))
        return {
            (one // names, self._calls[one % names]): mostly > 0
            for one, mostly in zip(key.tolist(), balance.tolist(), strict=True)
        }

    @cached_property
    def _calls(self) -> list[str]:
        entry_reasons = self.samples.profile.entry_reasons
        return [
            name if kind == ENTRY_REASON_SYSCALL else ""
            for kind, name in zip(entry_reasons.kind.tolist(), entry_reasons.name, strict=True)
        ]

    @cached_property
    def names(self) -> list[str]:
        """The names of entry reasons, and of locks."""
        entry_reasons = self.samples.profile.entry_reasons
        return [
            *(
                name
                if kind == ENTRY_REASON_SYSCALL
                else " ".join(filter(None, (ENTRY_REASON_KIND_NAMES[kind], name)))
                for kind, name in zip(entry_reasons.kind.tolist(), entry_reasons.name, strict=True)
            ),
            *LOCK_NAMES.values(),
        ]

    @cached_property
    def name(self) -> I64:
        """i64[n] row of `names`."""
        name = self.entry_reason
        for place, kind in enumerate(LOCK_NAMES, len(self.names) - len(LOCK_NAMES)):
            name = np.where(self.kind == kind, place, name)
        return name

    @cached_property
    def forest(self) -> NamedStacks:
        """The stacks by name, with what calls Python."""
        profile = self.samples.profile
        frames = frame_table(profile)
        return NamedStacks(
            frames, frame_labels(profile, frames), named_forest(self.samples.stacks, frames)
        )

    @cached_property
    def own_forest(self) -> NamedForest:
        """The stacks without callers of Python, which shows idle waits."""
        frames, _, forest = self.forest
        return from_outermost_python(forest, is_python_frame(self.samples.profile, frames))

    @cached_property
    def user_stacks(self) -> UserStacks:
        """Facts about the program's part of each stack."""
        frames, labels, _ = self.forest
        return user_stacks(self.samples.profile, frames, labels, self.own_forest)

    @cached_property
    def stack_row(self) -> I64:
        """i64[all samples] rows of the forest."""
        return self.own_forest.row_of_stack.take(self.samples.stack_index)

    @cached_property
    def kind(self) -> I8:
        """i8[n] as from `wait_kinds`."""
        return wait_kinds(
            self._calls, self.entry_reason, self.stack_row.take(self.rows), self.user_stacks
        )

    @cached_property
    def idle(self) -> Bools:
        """bool[n] the idle waits."""
        is_other = np.ones(len(self.samples), np.bool_)
        is_other[self.rows[self.kind != WORK]] = False
        others = np.flatnonzero(is_other)
        return idle_waits(
            ThreadWaits(
                self.kind, self.entry_reason, self.tid, self.stack_row.take(self.rows), self.ns
            ),
            self.user_stacks,
            self.own_forest,
            ThreadStacks(self.samples.tid.take(others), self.stack_row.take(others)),
        )

    def holders(self, seconds_by_hit: F64) -> tuple[LockHolder, ...]:
        """Return the functions of threads that had a lock which others waited for.

        `seconds_by_hit`, f64[h], is the time of a sample of each hit of the profile without waits.
        """
        locks = np.flatnonzero(np.isin(self.kind, list(LOCK_NAMES)))
        if self.waker is None or not len(locks):
            return ()
        frames, labels, _ = self.forest
        samples, table = self.samples, self.samples.profile.samples
        begin_ns = table.time_ns.astype(np.int64)
        end_ns = begin_ns + samples.period
        rows = self.rows.take(locks)
        is_sample = samples.hit_index < len(seconds_by_hit)
        worth = np.append(seconds_by_hit, np.nan)
        return lock_holders(
            LockWaits(
                self.kind.take(locks),
                self.tid.take(locks),
                self.waker.take(locks),
                begin_ns.take(rows),
                end_ns.take(rows),
            ),
            ThreadMoments(
                samples.tid,
                begin_ns,
                np.where(is_sample, begin_ns, end_ns),
                self.stack_row,
                worth.take(np.minimum(samples.hit_index, len(seconds_by_hit))),
            ),
            LOCK_NAMES,
            own_functions(self.samples.profile, frames, self.own_forest, self.user_stacks.user_row),
            labels,
        )

    def stacks(self, most: int = _MOST_STACKS) -> tuple[BlockedStack, ...]:
        """Return the stacks with most time."""
        top = _added_up(self.stack_index, self.ns)[:most]
        chosen = np.array([row for row, *_ in top], np.int64)
        found = []
        for (_, waits, seconds, longest_s), (kernel, user) in zip(
            top, self._frames(chosen), strict=True
        ):
            if not user and all(name.startswith("[") for name in kernel):
                continue  # the recording has no stacks
            while len(kernel) > 1 and kernel[0] in _SCHEDULER:
                kernel.pop(0)
            found.append(BlockedStack(waits, seconds, longest_s, tuple(kernel), tuple(user)))
        return tuple(found)

    def _frames(self, chosen: Ints) -> Iterator[tuple[list[str], list[str]]]:
        """Yield names of the kernel's and of the program's frames, from the inside out."""
        _, labels, forest = self.forest
        start, path = paths(self.samples.stacks.caller_index, self.samples.stacks.depth, chosen)
        frame = forest.frame_index.take(forest.row_of_stack.take(path)).tolist()
        is_kernel = (self.samples.stacks.mode.take(path) == CPUMODE_KERNEL).tolist()
        for number in range(len(chosen)):
            places = range(int(start[number + 1]) - 1, int(start[number]) - 1, -1)
            yield (
                [labels[frame[place]] for place in places if is_kernel[place]],
                [labels[frame[place]] for place in places if not is_kernel[place]],
            )


def blocked_waits(profile: CompleteProfile, detail: Detail, *, alone: bool) -> BlockedWaits | None:
    """Return the waits of blocked threads that `-V` chooses; None without a table of waits.

    Other samples, which show the idle waits, are left out if `alone`.
    """
    waits = profile.waits
    if waits is None:
        return None
    rows = np.flatnonzero(are_chosen_waits(profile, waits, detail) & ~waits.is_runnable)
    samples = stack_samples(waits_alone(profile) if alone else with_waits(profile), "4")
    chosen = gather(waits, rows)
    first_wait = len(samples) - len(waits)
    return BlockedWaits(
        samples,
        first_wait,
        rows + first_wait,
        chosen.process_index,
        chosen.entry_reason_index.astype(np.int64),
        chosen.begin_ns,
        chosen.length_ns.astype(np.int64),
        chosen.tid,
        chosen.waker,
    )


def _added_up(key: Ints, ns: I64) -> list[tuple[int, int, float, float]]:
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
