"""Samples of the tracepoints of the scheduler → switches, and who was woken.

Comes in: samples of ``sched:sched_switch`` and ``sched:sched_waking`` with the fields of their
records. Goes out: `Switches`, as the kernel's own records of switches are, marks of wake-ups, and
who woke.

Source: ``include/trace/events/sched.h`` (Linux 6.18): `prev_state` is 0, or TASK_REPORT_MAX (0x100)
since 4.14, of a task that could have gone on. ``enum trace_flag_type`` in
``include/linux/trace_events.h`` for the flags that stand behind a record's type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.assembly.threads import thread_states as states
from prospect.events.columns import Switches
from prospect.spaces.runs import task_pid, task_tid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.events.columns import Events, RawFields, Samples

_TID_SHIFT = np.uint64(32)
# The bits of a state in which a task waits.
_WAITING_BITS = 0xFF
_FLAGS_SHIFT = 16
_IN_INTERRUPT = 0x08 | 0x10  # TRACE_FLAG_HARDIRQ, TRACE_FLAG_SOFTIRQ
BY_INTERRUPT = 0


def traced_switches(events: Events, event: int) -> Switches | None:
    """Return the switches in samples of ``sched:sched_switch``, two for each; None without.

    Args:
        events: all records.
        event: row of the event.
    """
    found = _fields_of(events, event)
    if found is None:
        return None
    sample, state, tid = found.sample, found.values[:, 0], found.values[:, 1].astype(np.int32)
    samples = events.samples
    before = samples.task.take(sample)
    following = _tasks(_pids_of(tid, events, samples.task), tid)
    time_ns = samples.time_ns.take(sample)
    count = len(sample)
    nobody = np.zeros(count, np.bool_)
    # The task that leaves stands before the one that comes at the same time.
    return Switches(
        order=np.arange(2 * count),
        time_ns=np.repeat(time_ns, 2),
        task=np.stack((before, following), axis=1).reshape(-1),
        cpu=np.repeat(samples.cpu.take(sample).astype(np.int32), 2),
        is_out=np.stack((~nobody, nobody), axis=1).reshape(-1),
        is_preempted=np.stack(((state & _WAITING_BITS) == 0, nobody), axis=1).reshape(-1),
    )


def wake_marks(events: Events, switches: Switches, event: int) -> states.Marks | None:
    """Return a mark for each sample of ``sched:sched_waking``: who was woken; None without.

    Args:
        events: all records.
        switches: of the recording: whose tasks give the processes of threads.
        event: row of the event.
    """
    found = _fields_of(events, event)
    if found is None:
        return None
    tid = found.values[:, 0].astype(np.int32)
    return states.Marks(
        tid=tid,
        pid=_pids_of(tid, events, switches.task),
        time_ns=events.samples.time_ns.take(found.sample),
        kind=np.full(len(tid), states.MARK_WAKE, np.uint8),
        sample=found.sample,
    )


def wakers(samples: Samples, sample: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return i32[n] the threads that samples of ``sched:sched_waking`` were taken of.

    Args:
        samples: of the recording.
        sample: i64[n] rows; BY_INTERRUPT for what was not the thread's doing, -1 of no row.
    """
    tid = task_tid(samples.task).take(sample, mode="clip")
    raw = samples.raw
    if raw is not None and len(raw):
        place = np.minimum(np.searchsorted(raw.sample, sample), len(raw) - 1)
        flags = raw.values[:, 1].take(place) >> _FLAGS_SHIFT
        tid = np.where(flags & _IN_INTERRUPT, BY_INTERRUPT, tid)
    return np.where(sample < 0, -1, tid).astype(np.int32)


def _pids_of(
    tid: NDArray[np.int32], events: Events, tasks: NDArray[np.uint64]
) -> NDArray[np.int32]:
    """Return the processes of threads, as tasks met say; the thread's own number where none does.

    Args:
        tid: i32[n].
        events: whose births and names count too.
        tasks: u64 of samples or switches.
    """
    tids = np.concatenate((events.tasks.tid, task_tid(tasks)))
    pids = np.concatenate((events.tasks.pid, task_pid(tasks)))
    known, first = np.unique(tids, return_index=True)
    if not len(known):
        return tid
    place = np.minimum(np.searchsorted(known, tid), len(known) - 1)
    is_known = known.take(place) == tid
    return np.where(is_known, pids.take(first).take(place), tid).astype(np.int32)


def _fields_of(events: Events, event: int) -> RawFields | None:
    raw = events.samples.raw
    if event < 0 or raw is None:
        return None
    rows = np.flatnonzero(events.samples.event.take(raw.sample) == event)
    if not len(rows):
        return None
    return type(raw)(raw.sample.take(rows), raw.values.take(rows, axis=0))


def _tasks(pid: NDArray[np.int32], tid: NDArray[np.int32]) -> NDArray[np.uint64]:
    low = pid.astype(np.uint32).astype(np.uint64)
    high = tid.astype(np.uint32).astype(np.uint64)
    return low | high << _TID_SHIFT
