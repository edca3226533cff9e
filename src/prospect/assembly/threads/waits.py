"""Switches of the scheduler → how long each thread ran and waited, and each wait as a sample.

Comes in: decoded records with switches. Goes out: the same records, in which each sample that was
taken at a switch is worth the wait that began there, as one of the events "blocked" and "runnable",
which stand behind all others. Where it was recorded who was woken, a wait is blocked until then
and runnable from then on, and it is known who ended it. And what becomes `ThreadTimes` once
threads have names. Samples without a wait, such as those of process zero, are left out, and so are
wake-ups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.extras import interval_ns
from prospect.assembly.threads import thread_states as states
from prospect.events.columns import TASK_EXIT, TASK_FORK, Samples
from prospect.events.python_records import of_chosen_samples
from prospect.events.selection import chosen_samples, kept_samples
from prospect.profile.model import BLOCKED, RUNNABLE, ThreadTimes
from prospect.records import Record, replace
from prospect.spaces.attribution import attribute
from prospect.spaces.runs import task_pid, task_tid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.abi.recording import RecordingInfo
    from prospect.assembly.threads.thread_states import Marks, ThreadStates
    from prospect.events.columns import Events, Switches
    from prospect.profile.run_info import RunInfo
    from prospect.spaces.world import World

SWITCH_EVENT = "sched:sched_switch"
WAKING_EVENT = "sched:sched_waking"
_NS = 1e-9
_MOST_EVENTS = 1 << 16
# 104 days: sums of times are exact as real numbers.
_MOST_NS = 1 << 53
_TID_SHIFT = np.uint64(32)


class Waits(Record):
    """What the switches of a recording say.

    Attributes:
        events: the records, with waits for samples of switches.
        info: the recording's description, with the events of those samples.
        states: of all threads.
        first_event: row of the event "blocked", that of "runnable" follows; -1 where the recording
            has no samples of switches.
        waker: i32[n] of the samples, the thread that ended the wait, as in `SampleTable`; None
            where that was not recorded.
    """

    events: Events
    info: RecordingInfo
    states: ThreadStates
    first_event: int
    waker: NDArray[np.int32] | None = None


def records_switches(info: RecordingInfo) -> bool:
    """Return whether a recording's events make records or samples of context switches."""
    makes_records = any(event.attr.flags & abi.FLAG_CONTEXT_SWITCH for event in info.events)
    return makes_records or switch_event(info) >= 0


def find_waits(events: Events, info: RecordingInfo, *, as_samples: bool) -> Waits | None:
    """Follow every thread through the recording; None where no switches were recorded.

    Args:
        events: all records.
        info: what the recording says of itself.
        as_samples: whether waits are wanted as samples; else those of switches are left out.
    """
    begin_ns, end_ns = interval_ns(info, events)
    row, waking = switch_event(info), _traced_event(info, WAKING_EVENT)
    if events.switches is None:
        events = _with_traced_switches(events, row)
    if events.switches is None or not 0 < end_ns - begin_ns < _MOST_NS or end_ns >= 1 << 63:
        return None
    of_switch = np.flatnonzero(events.samples.event == row)
    marks = _marks(events, events.switches, of_switch, waking)
    found = states.thread_states(marks, begin_ns, end_ns)
    if row < 0:
        return Waits(events, info, found, -1)
    described = [event for number, event in enumerate(info.events) if number not in (row, waking)]
    first = len(described)
    number = np.cumsum(~np.isin(np.arange(len(info.events)), (row, waking))) - 1
    samples, waker = events.samples, None
    if as_samples or not described:
        switch = info.events[row]
        described += [switch._replace(name=BLOCKED), switch._replace(name=RUNNABLE, ids=())]
        samples, rows, waker = _worth_waits(samples, number, found, (row, waking))
    else:
        is_kept = ~np.isin(samples.event, (row, waking))
        rows = np.flatnonzero(is_kept)
        samples = kept_samples(samples, is_kept)
        samples = replace(samples, event=number.take(samples.event).astype(np.uint16))
    python = events.python and of_chosen_samples(events.python, rows)
    return Waits(
        events=replace(events, samples=samples, python=python),
        info=info._replace(events=tuple(described)),
        states=found,
        first_event=first,
        waker=waker if waking >= 0 else None,
    )


def _with_traced_switches(events: Events, event: int) -> Events:
    """Take the switches from samples of the tracepoint, where the recording has these instead."""
    if event < 0 or events.samples.raw is None:
        return events
    from prospect.assembly.threads.traced_switches import traced_switches  # noqa: PLC0415 - seldom

    return replace(events, switches=traced_switches(events, event))


def with_wait_events(run: RunInfo, waits: Waits) -> RunInfo:
    """Say of the events of waits that their periods are time, and count them apart."""
    if waits.first_event < 0:
        return run
    number = int(np.count_nonzero(waits.events.samples.event >= waits.first_event))
    samples = run.statistics.get("samples", 0) - number
    return replace(
        run,
        events=tuple(
            replace(event, seconds_per_period=_NS, is_waiting=True)
            if row >= waits.first_event
            else event
            for row, event in enumerate(run.events)
        ),
        statistics=run.statistics | {"samples": samples},
    )


def describe_threads(waits: Waits, world: World) -> ThreadTimes:
    """Add up what each thread did, and find its program and its name."""
    found = waits.states
    count = len(found.tid)
    process, comm = _programs(found, world)

    def summed(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        sums = np.bincount(found.life[chosen], found.length_ns[chosen], count)
        return sums.astype(np.int64)

    def counted(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(found.life[chosen], minlength=count)

    is_blocked = found.state == states.BLOCKED
    is_runnable = found.state == states.RUNNABLE
    longest = np.zeros(count, np.int64)
    np.maximum.at(longest, found.life[is_blocked], found.length_ns[is_blocked])
    return ThreadTimes(
        process_index=process,
        name=comm,
        tid=found.tid,
        begin_ns=found.begin_ns,
        end_ns=found.end_ns,
        cpu_ns=summed(found.state == states.CPU),
        runnable_ns=summed(is_runnable),
        blocked_ns=summed(is_blocked),
        unknown_ns=summed(found.state == states.UNKNOWN),
        stackless_ns=summed((is_blocked | is_runnable) & (found.sample < 0)),
        since_before_ns=summed((is_blocked | is_runnable) & (found.mark < states.MARK_FORK)),
        blocks=counted(found.mark == states.MARK_OUT),
        preemptions=counted(found.mark == states.MARK_OUT_READY),
        longest_ns=longest,
    )


def switch_event(info: RecordingInfo) -> int:
    """Return the row of the event that samples every switch, -1 without."""
    for row, event in enumerate(info.events[: _MOST_EVENTS - 1]):
        attr = event.attr
        is_switch = (attr.type, attr.config) == (
            abi.PERF_TYPE_SOFTWARE,
            abi.PERF_COUNT_SW_CONTEXT_SWITCHES,
        )
        if is_switch and attr.sample_period == 1 and attr.frequency_hz is None:
            return row
    return _traced_event(info, SWITCH_EVENT)


def _traced_event(info: RecordingInfo, name: str) -> int:
    """Return the row of a tracepoint that is recorded each time, with its fields; -1 without."""
    for row, event in enumerate(info.events[: _MOST_EVENTS - 1]):
        is_each = event.attr.sample_period == 1 and event.attr.frequency_hz is None
        if event.fields and event.name.partition(":u")[0] == name and is_each:
            return row
    return -1


def _marks(events: Events, switches: Switches, of_switch: NDArray[np.int64], waking: int) -> Marks:
    """Return what the records say of threads, and who is there from earlier times."""
    samples, tasks = events.samples, events.tasks
    is_task = np.isin(tasks.kind, (TASK_FORK, TASK_EXIT)) | (tasks.time_ns == 0)
    kind_of_task = np.where(tasks.kind == TASK_EXIT, states.MARK_EXIT, states.MARK_FORK)
    kind_of_task = np.where(tasks.time_ns == 0, states.MARK_BEGIN, kind_of_task)
    kind_of_switch = np.where(
        switches.is_out,
        np.where(switches.is_preempted, states.MARK_OUT_READY, states.MARK_OUT),
        states.MARK_IN,
    )
    stays = np.where(
        switches.is_out,
        np.where(switches.is_preempted, states.MARK_STAYS_READY, states.MARK_STAYS_OUT),
        states.MARK_STAYS_IN,
    )
    kind_of_switch = np.where(switches.time_ns == 0, stays, kind_of_switch)
    parts = [] if waking < 0 else _wake_marks(events, switches, waking)
    marks = states.joined_marks(
        [
            *parts,
            _marks_of(switches.task, switches.time_ns, kind_of_switch),
            _marks_of(
                samples.task.take(of_switch),
                samples.time_ns.take(of_switch),
                np.full(len(of_switch), states.MARK_SAMPLE),
            )._replace(sample=of_switch),
            states.Marks(
                tid=tasks.tid[is_task],
                pid=tasks.pid[is_task],
                time_ns=tasks.time_ns[is_task],
                kind=kind_of_task[is_task].astype(np.uint8),
                sample=np.full(int(is_task.sum()), -1, np.int64),
            ),
        ]
    )
    # Process zero has a thread on each CPU, all of one number, which run while nobody else does.
    return marks.take(marks.tid > 0)


def _wake_marks(events: Events, switches: Switches, waking: int) -> list[Marks]:
    from prospect.assembly.threads.traced_switches import wake_marks  # noqa: PLC0415 - seldom

    found = wake_marks(events, switches, waking)
    return [] if found is None else [found]


def _marks_of(
    task: NDArray[np.uint64], time_ns: NDArray[np.uint64], kind: NDArray[np.int64]
) -> Marks:
    return states.Marks(
        tid=task_tid(task),
        pid=task_pid(task),
        time_ns=time_ns,
        kind=kind.astype(np.uint8),
        sample=np.full(len(task), -1, np.int64),
    )


def _worth_waits(
    samples: Samples, number: NDArray[np.int64], found: ThreadStates, left_out: tuple[int, int]
) -> tuple[Samples, NDArray[np.int64], NDArray[np.int32]]:
    """Return the samples, those of switches worth the waits that began with them.

    Args:
        samples: of the recording.
        number: i64[e] of each event, without those that are left out.
        found: of all threads.
        left_out: the events of switches and of wake-ups.

    Returns:
        The samples; those of waits are of the events behind the others. Then i64[n] the row that
        each was, and i32[n] the thread that ended each wait.
    """
    blocked = int(number[-1]) + 1
    is_wait = (found.state == states.BLOCKED) | (found.state == states.RUNNABLE)
    waits = np.flatnonzero((found.sample >= 0) & is_wait)
    others = np.flatnonzero(~np.isin(samples.event, left_out))
    is_runnable = found.state.take(waits) == states.RUNNABLE
    rows = np.concatenate((others, found.sample.take(waits)))
    # A wait that was ended before the thread had a CPU is two: blocked, then runnable.
    order = np.argsort(rows, kind="stable")
    event = np.concatenate(
        (number.take(samples.event.take(others)), np.where(is_runnable, blocked + 1, blocked))
    )
    length = found.length_ns.take(waits).view(np.uint64)
    chosen = chosen_samples(samples, rows.take(order))
    time_ns = np.concatenate((samples.time_ns.take(others), found.start_ns.take(waits)))
    by = found.waker.take(waits)
    waker = np.append(np.full(len(others), -1, np.int32), _wakers(samples, by))
    waits_only = replace(
        chosen,
        time_ns=time_ns.take(order),
        period=np.append(samples.period.take(others), length).take(order),
        event=event.take(order).astype(np.uint16),
    )
    return waits_only, rows.take(order), waker.take(order)


def _wakers(samples: Samples, sample: NDArray[np.int64]) -> NDArray[np.int32]:
    if not (sample >= 0).any():
        return np.full(len(sample), -1, np.int32)
    from prospect.assembly.threads.traced_switches import wakers  # noqa: PLC0415 - seldom

    return wakers(samples, sample)


def _programs(found: ThreadStates, world: World) -> tuple[NDArray[np.int32], list[str]]:
    """Return each thread's last process row, i32[t], and its last name."""
    count = len(found.tid)
    # Just before its end: with the death the number is free.
    last_ns = np.maximum(found.begin_ns, np.maximum(found.end_ns, np.uint64(1)) - np.uint64(1))
    nothing = np.zeros(count, np.uint64)
    moments = Samples(
        ip=nothing,
        task=found.pid.astype(np.uint32) | found.tid.astype(np.uint64) << _TID_SHIFT,
        time_ns=last_ns,
        mode=np.zeros(count, np.uint8),
        cpu=np.zeros(count, np.uint16),
        period=nothing,
        event=np.zeros(count, np.uint16),
        clock=np.zeros(count, np.uint8),
    )
    at = attribute(moments, world.timeline)
    names = [name.decode("utf-8", "surrogateescape") for name in world.names]
    comm = at.comm.take(at.sample_row).tolist()
    return at.process_row.take(at.sample_row), [names[row] if row >= 0 else "?" for row in comm]
