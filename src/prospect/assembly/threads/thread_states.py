"""Births, deaths and switches of threads → the states of each thread over time.

`ThreadStates` are intervals without gaps from each thread's birth, or the recording's start, to its
death, or the recording's end. All marks are sorted by thread and time. The mark at its start
determines a state, unless the mark at its end contradicts, because records are missing.

Source: ``kernel/sched/core.c`` (Linux 6.18): __schedule() dequeues a task that is not preempted and
not TASK_RUNNING, try_to_wake_up() enqueues it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import I32, I64, U8, U64, Bools, Ints

# Kinds of marks, in their order at one thread and time.
MARK_BEGIN = 0  # the recording begins
MARK_STAYS_IN = 1  # at its begin, the thread has a CPU
MARK_STAYS_OUT = 2  # it is already waiting for something
MARK_STAYS_READY = 3  # it is already runnable
MARK_FORK = 4
MARK_IN = 5
MARK_WAKE = 6
MARK_SAMPLE = 7  # when the thread leaves its CPU
MARK_OUT = 8  # it waits for something
MARK_OUT_READY = 9  # it is still runnable
MARK_EXIT = 10
_MARK_END = 11

CPU, RUNNABLE, BLOCKED, UNKNOWN = range(4)

# From the dequeuing of a task to the record of the switch, with a sample of a stack between.
_LEAVING_NS = 20_000

# The state that begins with a mark, by that mark and the next, which must be one that ends this
# state. The next mark determines the state of a thread at the recording's start.
_STATE_OF = np.full((_MARK_END + 1, _MARK_END + 1), UNKNOWN, np.uint8)
_ON_CPU_ENDS = [MARK_OUT, MARK_OUT_READY, MARK_EXIT]
_OFF_CPU_ENDS = [MARK_IN]
for _mark, _state, _ends in (
    (MARK_IN, CPU, _ON_CPU_ENDS),
    (MARK_OUT, BLOCKED, [MARK_WAKE, *_OFF_CPU_ENDS]),
    (MARK_OUT_READY, RUNNABLE, _OFF_CPU_ENDS),
    (MARK_WAKE, RUNNABLE, _OFF_CPU_ENDS),
    (MARK_FORK, RUNNABLE, _OFF_CPU_ENDS),
    (MARK_STAYS_IN, CPU, _ON_CPU_ENDS),
    (MARK_STAYS_OUT, BLOCKED, [MARK_WAKE, *_OFF_CPU_ENDS]),
    (MARK_STAYS_READY, RUNNABLE, _OFF_CPU_ENDS),
    (MARK_BEGIN, CPU, _ON_CPU_ENDS),
    (MARK_BEGIN, BLOCKED, [MARK_WAKE, *_OFF_CPU_ENDS]),
):
    _STATE_OF[_mark, _ends] = _state
    _STATE_OF[_mark, _MARK_END] = _state


class Marks(NamedTuple):
    """The marks of threads in records, in any order.

    Attributes:
        tid: i32[m].
        pid: i32[m] of the thread's process.
        time_ns: u64[m]; 0 for the states in which the recording found threads.
        kind: u8[m] MARK_*.
        sample: i32[m] row of samples for MARK_SAMPLE and MARK_WAKE, -1 for other marks.
    """

    tid: I32
    pid: I32
    time_ns: U64
    kind: U8
    sample: I32

    def take(self, rows: Ints | Bools) -> Marks:
        """Return some of the marks, by number or by bool[m]."""
        return Marks(
            self.tid[rows], self.pid[rows], self.time_ns[rows], self.kind[rows], self.sample[rows]
        )


def joined_marks(parts: Sequence[Marks], is_kept: Bools | None = None) -> Marks:
    """Return the marks of several tables; `is_kept` bool[m] selects those of the first one."""
    head = slice(None) if is_kept is None or is_kept.all() else is_kept
    return Marks(
        *(np.concatenate([columns[0][head], *columns[1:]]) for columns in zip(*parts, strict=True))
    )


class ThreadStates(Record):
    """Lives of threads, and their intervals.

    Attributes:
        tid, pid: i32[t]; the last process of the thread.
        begin_ns, end_ns: u64[t].
        last_ns: u64[t] time of its last record.
        life: i32[i] row of the above of each interval, ascending.
        state: u8[i] CPU, RUNNABLE, BLOCKED or UNKNOWN.
        start_ns: u64[i].
        length_ns: i64[i].
        mark: u8[i] MARK_* at its start.
        sample: i32[i] row of the sample at which the thread left its CPU, -1 without.
        waker: i32[i] row of the sample of the wake-up that ended it, -1 without.
    """

    tid: I32
    pid: I32
    begin_ns: U64
    end_ns: U64
    last_ns: U64
    life: I32
    state: U8
    start_ns: U64
    length_ns: I64
    mark: U8
    sample: I32
    waker: I32


def thread_states(handed_over: list[Marks], begin_ns: int, end_ns: int) -> ThreadStates:
    """Find the intervals.

    Args:
        handed_over: marks of all threads except those of process zero; they are removed from the
            list, as ten million switches take 400 MB. Marks just before the start or after the end
            count as marks of that time, in their order.
    """
    marks, life = _lives([_with_begins(handed_over)])
    np.clip(marks.time_ns, np.uint64(begin_ns), np.uint64(end_ns), out=marks.time_ns)
    marks, life = _with_samples_of_switches(marks, life)
    marks = _with_wakes_behind_switches(marks, life)
    marks, life = _without_idle_wakes(marks, life)
    is_last = np.append(life[1:] != life[:-1], True)[: len(life)]
    is_first = np.append(True, is_last[:-1])[: len(life)]
    is_death = marks.kind == MARK_EXIT
    following = np.where(is_last, np.uint8(_MARK_END), np.roll(marks.kind, -1))
    until_ns = np.where(is_last, np.uint64(end_ns), np.roll(marks.time_ns, -1))
    until_ns = np.where(is_death, marks.time_ns, until_ns)
    # If a tid was reused without the record of a death, the reuse is the death.
    is_again = np.append(marks.tid[1:] == marks.tid[:-1], False)[: len(life)]
    given_again = is_last & ~is_death & is_again
    until_ns = np.where(given_again, np.roll(marks.time_ns, -1), until_ns)
    woken = marks.kind == MARK_WAKE
    stack = np.where(woken, np.roll(marks.sample, 1), marks.sample)
    waker = np.where(following == MARK_WAKE, np.roll(marks.sample, -1), np.int32(-1))
    kept = ~is_death
    return ThreadStates(
        tid=marks.tid[is_last],
        pid=marks.pid[is_last],
        begin_ns=marks.time_ns[is_first],
        end_ns=until_ns[is_last],
        last_ns=marks.time_ns[is_last],
        life=life[kept],
        state=_STATE_OF[marks.kind, following][kept],
        start_ns=marks.time_ns[kept],
        length_ns=(until_ns - marks.time_ns).view(np.int64)[kept],
        mark=marks.kind[kept],
        sample=stack[kept],
        waker=waker[kept],
    )


def _with_begins(handed_over: list[Marks]) -> Marks:
    """Return the marks in order, with exactly one MARK_BEGIN of each thread."""
    from prospect.wall.schedule_records import by_thread_and_time  # noqa: PLC0415 - only of switches

    marks = handed_over.pop()
    tids, first = np.unique(marks.tid, return_index=True)
    begins = Marks(
        tid=tids,
        pid=marks.pid.take(first),
        time_ns=np.zeros(len(tids), np.uint64),
        kind=np.full(len(tids), MARK_BEGIN, np.uint8),
        sample=np.full(len(tids), -1, np.int32),
    )
    every = joined_marks((marks, begins), marks.kind != MARK_BEGIN)
    del marks
    by_kind = np.argsort(every.kind, kind="stable")
    order = by_thread_and_time(every.tid.take(by_kind), every.time_ns.take(by_kind))
    return every.take(by_kind.take(order))


def _lives(handed_over: list[Marks]) -> tuple[Marks, I32]:
    """Separate the threads of one tid, and drop marks between death and last switch.

    Returns:
        The remaining marks, and i32[m] the life of each.
    """
    marks = handed_over.pop()
    is_begin, is_birth = marks.kind == MARK_BEGIN, marks.kind == MARK_FORK
    # A thread born later was not there at the start.
    is_kept = ~(is_begin & np.append(is_birth[1:], False)[: len(is_begin)])
    starts = (is_begin & is_kept) | is_birth
    life = np.cumsum(starts, dtype=np.int32) - np.int32(1)
    is_death = marks.kind == MARK_EXIT
    deaths = np.cumsum(is_death, dtype=np.int32) - is_death
    is_kept &= deaths == deaths[np.flatnonzero(starts)].take(life, mode="clip")
    return (marks, life) if is_kept.all() else (marks.take(is_kept), life[is_kept])


def _with_samples_of_switches(marks: Marks, life: I32) -> tuple[Marks, I32]:
    """Give each departure from a CPU the row of its sample, and leave out the samples' marks.

    The record of the switch follows its sample, possibly after a wake-up.
    """
    others = np.flatnonzero(marks.kind != MARK_WAKE)
    kind, whose = marks.kind.take(others), life.take(others)
    is_sampled = np.isin(kind[1:], (MARK_OUT, MARK_OUT_READY)) & (kind[:-1] == MARK_SAMPLE)
    places = np.flatnonzero(is_sampled & (whose[1:] == whose[:-1]))
    sample = np.where(marks.kind == MARK_WAKE, marks.sample, np.int32(-1))
    sample[others.take(places + 1)] = marks.sample.take(others.take(places))
    kept = marks.kind != MARK_SAMPLE
    return marks._replace(sample=sample).take(kept), life[kept]


def _with_wakes_behind_switches(marks: Marks, life: I32) -> Marks:
    """Move wake-ups of threads that are just leaving their CPU after the departure, in place.

    A task is dequeued, and can be woken, a little before its switch is recorded. Otherwise no
    wake-up would end such a wait.
    """
    kind, time_ns = marks.kind, marks.time_ns
    if len(marks.kind) < 3 or not (kind == MARK_WAKE).any():
        return marks
    is_out = (kind[:-2] == MARK_WAKE) & (kind[1:-1] == MARK_OUT) & (kind[2:] == MARK_IN)
    is_out &= (life[:-2] == life[2:]) & (time_ns[1:-1] - time_ns[:-2] <= np.uint64(_LEAVING_NS))
    wake = np.flatnonzero(is_out)
    for column in marks:
        column[wake], column[wake + 1] = column.take(wake + 1), column.take(wake)
    time_ns[wake + 1] = time_ns[wake]
    return marks


def _without_idle_wakes(marks: Marks, life: I32) -> tuple[Marks, I32]:
    """Leave out wake-ups of threads that did not wait, and all but the first of each wait."""
    is_wake = marks.kind == MARK_WAKE
    before = np.append(_MARK_END, marks.kind[:-1])[: len(is_wake)]
    ends_wait = is_wake & np.isin(before, (MARK_OUT, MARK_STAYS_OUT, MARK_BEGIN))
    kept = ~is_wake | ends_wait
    return marks.take(kept), life[kept]
