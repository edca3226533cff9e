"""Recordings with the switches of followed threads only, and the system calls of their waits.

Such a recording has every switch of some threads: those that it followed from the beginning, their
descendants, and threads that wake one of these, from the first wake-up on. For any other thread it
only shows that it had a CPU before or after one of these.

Source: `prospect.capture.following.switch_programs` writes the fields `followed` and `syscall`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi.syscall_names import syscall_name
from prospect.assembly.entry_reasons.entry_points import OUTSIDE_OF_CALLS, EntryReason
from prospect.assembly.entry_reasons.hit_reasons import NO_CHAIN, SampleEntryReasons
from prospect.assembly.threads import thread_states as states
from prospect.columns.buffers import appended, gather, inserted
from prospect.columns.sorting import distinct
from prospect.profile.model import ENTRY_REASON_SYSCALL
from prospect.records import replace
from prospect.spaces.attribution import task_tid
from prospect.wall.schedule_records import by_thread_and_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.assembly.threads.thread_states import Marks
    from prospect.columns.array_types import I32, I64, U64, Bools
    from prospect.events.record_columns import RawFields, Samples, Switches

# Columns of `EventDescription.fields` of switches.
_CALL, _FOLLOWED, _RAN_NS = 2, 3, 4
_FOLLOWS_PREV, _FOLLOWS_NEXT = 1, 2
_COMPAT_BIT = 1 << 16
_NUMBER_MASK = _COMPAT_BIT - 1
_OUTSIDE, _UNKNOWN = -1, -2
_MOST_LABELS = 1 << 16


def followed_samples(found: RawFields) -> I64:
    """Return the samples of switches at which a followed task leaves."""
    rows = np.flatnonzero(found.values[_FOLLOWED] & _FOLLOWS_PREV)
    return found.sample.take(rows)


def left_with(samples: Samples, of_switch: I64, times: int) -> tuple[I64, U64]:
    """Return the samples with stacks that follow the record of their switch, and its times.

    The program writes its record first, and no other of these follows on that CPU before the
    sample. If another profiler runs, the sample may have that one's time.

    Args:
        samples: of the recording; those of one CPU in their order.
        of_switch: rows of samples with stacks.
        times: the event of the program's records of switches.
    """
    rows = np.union1d(of_switch, np.flatnonzero(samples.event == times))
    order = np.argsort(samples.cpu.take(rows), kind="stable")
    rows = rows.take(order)
    is_record = samples.event.take(rows) == times
    cpu, task = samples.cpu.take(rows), samples.task.take(rows)
    is_found = is_record[:-1] & ~is_record[1:] & (cpu[:-1] == cpu[1:]) & (task[:-1] == task[1:])
    at = np.flatnonzero(is_found)
    by_sample = np.argsort(rows.take(at + 1))
    found, before = rows.take(at + 1).take(by_sample), rows.take(at).take(by_sample)
    return found, samples.time_ns.take(before)


def switches_of_followed(switches: Switches, found: RawFields) -> Switches:
    """Return switches with marks of followed threads, and with the missing arrivals of these.

    An arrival is missing if its record was lost, or if the kernel records nothing for the previous
    task. The thread then leaves a CPU twice, and has run in between as long as the kernel's account
    of its time shows.

    Args:
        switches: two of each sample, first of the leaving task, then of the arriving one.
    """
    which = found.values[_FOLLOWED]
    sides = np.stack(((which & _FOLLOWS_PREV) != 0, (which & _FOLLOWS_NEXT) != 0), axis=1)
    switches = replace(switches, is_followed=sides.reshape(-1))
    rows = np.flatnonzero(sides)
    before, after = _twice_out(switches, rows)
    length = (switches.time_ns.take(after) - switches.time_ns.take(before)).view(np.int64)
    ran_ns = found.values[_RAN_NS]
    ran = ran_ns.take(after // 2).astype(np.int64) - ran_ns.take(before // 2)
    is_known = (ran > 0) & (ran <= length)
    came = gather(switches, after[is_known])
    nothing = np.zeros(len(came), np.bool_)
    came_ns = came.time_ns - ran[is_known].view(np.uint64)
    came = replace(came, time_ns=came_ns, is_out=nothing, is_preempted=nothing)
    if not (switches.time_ns[1:] >= switches.time_ns[:-1]).all():
        every = appended(switches, came, np.arange(len(came)))
        return gather(every, np.argsort(every.time_ns, kind="stable"))
    came = gather(came, np.argsort(came.time_ns, kind="stable"))
    place = np.searchsorted(switches.time_ns, came.time_ns, "right")
    return inserted(switches, came, place)


def _twice_out(switches: Switches, rows: I64) -> tuple[I64, I64]:
    """Return the rows of departures without an arrival before the thread's next one, and these."""
    is_out = switches.is_out.take(rows)
    # If a thread arrives and leaves at one time, it arrives first.
    rows = np.concatenate((rows[~is_out], rows[is_out]))
    tids = task_tid(switches.task.take(rows))
    rows = rows.take(by_thread_and_time(tids, switches.time_ns.take(rows)))
    is_out = switches.is_out.take(rows)
    again = np.flatnonzero(is_out[1:] & is_out[:-1])
    before, after = rows.take(again), rows.take(again + 1)
    is_same = task_tid(switches.task.take(before)) == task_tid(switches.task.take(after))
    return before[is_same], after[is_same]


def marks_of_followed(marks: Marks, first: Sequence[int], wakes: Samples, waking: int) -> Marks:
    """Leave out marks of threads while they are not followed.

    Args:
        marks: of switches of followed threads, and of births, deaths and wake-ups of all.
        first: threads that were followed from the beginning.
        wakes: samples; those of the event `waking` are of tasks that wake others.
        waking: row of that event, -1 for none.
    """
    is_switch = np.isin(marks.kind, (states.MARK_IN, states.MARK_OUT, states.MARK_OUT_READY))
    switches = np.flatnonzero(is_switch)
    roots = np.array(first, np.int32)
    followed = np.union1d(roots, marks.tid[is_switch])
    found = _found(marks, switches, roots, (wakes, waking))
    is_kept = np.isin(marks.tid, followed)
    if len(found.tid):
        row = np.minimum(np.searchsorted(found.tid, marks.tid), len(found.tid) - 1)
        is_before = found.tid.take(row) == marks.tid
        is_before &= marks.time_ns < found.time_ns.take(row)
        is_kept &= ~is_before
        del row, is_before
    came = found._replace(kind=np.full(len(found.tid), states.MARK_IN, np.uint8))
    return states.joined_marks((marks, found, came), is_kept)


def _found(marks: Marks, switches: I64, first: I32, of_wakes: tuple[Samples, int]) -> Marks:
    """Return births, by ascending thread, of threads that are followed since they woke another.

    Such a thread has a CPU then, so its first recorded switch is that it leaves it.
    """
    wakes, waking = of_wakes
    switches = switches[~np.isin(marks.tid.take(switches), first)]
    order = np.lexsort((marks.time_ns.take(switches), marks.tid.take(switches)))
    of_thread = marks.take(switches.take(order))
    is_first = np.append(True, of_thread.tid[1:] != of_thread.tid[:-1])[: len(order)]
    begins = of_thread.take(is_first & (of_thread.kind != states.MARK_IN))
    time_ns = begins.time_ns.copy()
    by = np.flatnonzero(wakes.event == waking) if waking >= 0 else np.empty(0, np.int64)
    woke = task_tid(wakes.task.take(by))
    row = np.searchsorted(begins.tid, woke)
    is_one = begins.tid.take(row, mode="clip") == woke if len(begins.tid) else np.zeros(0, np.bool_)
    if is_one.any():
        np.minimum.at(time_ns, row[is_one], wakes.time_ns.take(by[is_one]))
    return states.Marks(
        tid=begins.tid,
        pid=begins.pid,
        time_ns=time_ns,
        kind=np.full(len(begins.tid), states.MARK_FORK, np.uint8),
        sample=np.full(len(begins.tid), -1, np.int32),
    )


def calls_of_waits(samples: Samples, rows: I64, is_blocked: Bools) -> I64:
    """Return i64[n] the system call in which each wait began.

    Args:
        samples: of the recording, with raw data of switches.
        rows: i64[n] rows of samples.
        is_blocked: bool[n] whether they are waits for something other than a CPU.
    """
    calls = np.full(len(rows), _UNKNOWN, np.int64)
    raw = samples.raw
    if raw is not None and len(raw):
        place = np.minimum(np.searchsorted(raw.sample, rows), len(raw) - 1)
        calls[is_blocked] = raw.values[_CALL].take(place[is_blocked])
    return calls


def with_calls(labelled: SampleEntryReasons, calls: I64, machine: str) -> SampleEntryReasons:
    """Return the entry reasons of samples, those of waits by their system calls.

    Args:
        labelled: entry reasons by call chains.
        calls: i64[n] of all samples, from `calls_of_waits`.
        machine: of uname(2), for the names of system calls.
    """
    rows = {entry_reason: row for row, entry_reason in enumerate(labelled.entry_reasons)}
    met = distinct(calls).tolist()
    label_of = np.zeros(len(met), np.uint16)
    for place, call in enumerate(met):
        if call == _UNKNOWN:
            continue
        entry_reason = OUTSIDE_OF_CALLS
        if call >= 0:
            number, compat = call & _NUMBER_MASK, bool(call & _COMPAT_BIT)
            entry_reason = EntryReason(
                ENTRY_REASON_SYSCALL, syscall_name(machine, number, compat=compat)
            )
        if entry_reason in rows or len(rows) < _MOST_LABELS:
            label_of[place] = rows.setdefault(entry_reason, len(rows))
    label = labelled.label
    if label is None:
        label = np.full(len(calls), NO_CHAIN, np.uint16)
    by_call = label_of.take(np.searchsorted(np.array(met, np.int64), calls))
    return SampleEntryReasons(np.where(calls == _UNKNOWN, label, by_call), list(rows))
