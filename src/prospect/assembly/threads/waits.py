"""Switches of the scheduler → the running and waiting times of threads, and the table of waits.

The period of each sample at a switch becomes the length of the wait that began there, and its event
"blocked" or "runnable", which are after all others. When its code has names, `with_wait_table`
makes a table of these samples. If wake-ups were recorded, a wait is blocked until the wake-up and
runnable from then on, and has a waker. `ThreadTimes` follows when threads have names. Samples
without a wait, such as those of process zero, and wake-ups are left out.

Samples of ``sched:sched_switch`` are read like the kernel's records of switches, those of
``sched:sched_waking`` as marks of wake-ups. Source: ``include/trace/events/sched.h`` (Linux 6.18):
`prev_state` of a runnable task is 0, or TASK_REPORT_MAX (0x100) since 4.14. ``enum
trace_flag_type`` in ``include/linux/trace_events.h`` for the flags after a record's type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.assembly.extras import interval_ns
from prospect.assembly.threads import thread_states as states
from prospect.columns.buffers import gather
from prospect.events.record_columns import (
    TASK_EXIT,
    TASK_FORK,
    Switches,
    chosen_samples,
    kept_samples,
)
from prospect.events.runtime_records import of_chosen_samples
from prospect.profile.model import BLOCKED, RUNNABLE, ThreadTimes, WaitTable
from prospect.records import NamedTuple, Record, replace
from prospect.spaces.attribution import task_pid, task_tid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.assembly.threads.thread_states import Marks, ThreadStates
    from prospect.columns.array_types import I32, I64, U8, U64, Bools
    from prospect.events.record_columns import Events, RawFields, Samples
    from prospect.profile.model import Profile
    from prospect.profile.run_info import RunInfo
    from prospect.spaces.process_history import ProcessHistory
    from prospect.wall.schedule_records import Processes

SWITCH_EVENT = "sched:sched_switch"
WAKING_EVENT = "sched:sched_waking"
_NS = 1e-9
_MOST_EVENTS = 1 << 16
# 104 days: sums of times are exact as floats.
_MOST_NS = 1 << 53
_TID_SHIFT = np.uint64(32)
# The bits of a state in which a task waits.
_WAITING_BITS = 0xFF
_FLAGS_SHIFT = 16
_TRACEPOINT_FIELDS = 2  # of a switch by the tracepoint itself; --wall adds its own
_FEW_IDS = 1 << 24  # more than any kernel's pid_max
_IN_INTERRUPT = 0x08 | 0x10  # TRACE_FLAG_HARDIRQ, TRACE_FLAG_SOFTIRQ
BY_INTERRUPT = 0


# By whether a switch was before the recording; then for arrival, departure, preemption.
_KINDS_OF_SWITCHES = np.array(
    [
        [states.MARK_IN, states.MARK_OUT, states.MARK_OUT_READY],
        [states.MARK_STAYS_IN, states.MARK_STAYS_OUT, states.MARK_STAYS_READY],
    ],
    np.uint8,
)


class Waits(Record):
    """The switches of a recording.

    Attributes:
        events: the records, with waits for samples of switches.
        info: the recording's description, with the events of those samples.
        first_event: row of the event "blocked", which "runnable" follows; -1 if the recording has
            no samples of switches.
        waker: i32[n] the thread that ended each sample's wait, as in `WaitTable`; None if not
            recorded.
        calls: i64[n] the system call of each sample's wait, for `with_calls`; None if call chains
            have it.
    """

    events: Events
    info: RecordingInfo
    states: ThreadStates
    first_event: int
    waker: I32 | None = None
    calls: I64 | None = None


def with_copies_of_waits(events: Events, info: RecordingInfo) -> Events:
    """Return the records with the copies of stacks whose pieces are recorded once."""
    row = switch_event(info)
    if row < 0 or not info.events[row].attr.has_pieces_of_stacks:
        return events
    from prospect.assembly.threads import wait_copies  # noqa: PLC0415 - only with copies of waits

    return wait_copies.with_copies_of_waits(events, info, row)


def records_switches(info: RecordingInfo) -> bool:
    """Return whether a recording's events make records or samples of context switches."""
    makes_records = any(event.attr.flags & abi.FLAG_CONTEXT_SWITCH for event in info.events)
    return makes_records or switch_event(info) >= 0


def with_switches(events: Events, info: RecordingInfo) -> Events:
    """Return the records with switches, from samples of the tracepoint if there are no records.

    Switches at impossible times are dropped.
    """
    if events.switches is None:
        switches = _traced_switches(events, info, _traced_event(info, SWITCH_EVENT))
        events = replace(events, switches=switches)
    begin_ns, end_ns = interval_ns(info, events)
    is_possible = 0 < end_ns - begin_ns < _MOST_NS and end_ns < 1 << 63
    return events if is_possible else replace(events, switches=None)


def find_waits(events: Events, info: RecordingInfo, *, as_samples: bool) -> Waits | None:
    """Follow every thread through the recording; None for records without switches.

    Args:
        events: all records, from `with_switches`.
        as_samples: whether waits become samples; else samples of switches are left out.
    """
    if events.switches is None:
        return None
    begin_ns, end_ns = interval_ns(info, events)
    row, waking = switch_event(info), _traced_event(info, WAKING_EVENT)
    of_switches = _EventsOfSwitches(row, _traced_event(info, SWITCH_EVENT), waking)
    first = info.extras.get("followed_threads", ())
    marks = [_marks(events, events.switches, of_switches, first)]
    found = states.thread_states(marks, begin_ns, end_ns)
    if row < 0:
        return Waits(events, info, found, -1)
    described = [event for number, event in enumerate(info.events) if number not in of_switches]
    first_event = len(described)
    number = np.cumsum(~np.isin(np.arange(len(info.events)), of_switches)) - 1
    samples, waker, calls = events.samples, None, None
    if as_samples or not described:
        switch = info.events[row]
        described += [switch._replace(name=BLOCKED), switch._replace(name=RUNNABLE, ids=())]
        samples, rows, waker = _worth_waits(samples, number, found, of_switches)
        if len(switch.fields) > _TRACEPOINT_FIELDS:
            from prospect.assembly.threads.followed_threads import calls_of_waits  # noqa: PLC0415 - only with --wall

            is_blocked = samples.event == first_event
            calls = calls_of_waits(events.samples, rows, is_blocked)
    else:
        is_kept = ~np.isin(samples.event, of_switches)
        rows = np.flatnonzero(is_kept)
        samples = kept_samples(samples, is_kept)
        samples = replace(samples, event=number.take(samples.event).astype(np.uint16))
    runtimes = events.runtimes and of_chosen_samples(events.runtimes, rows)
    return Waits(
        events=replace(events, samples=samples, runtimes=runtimes),
        info=info._replace(events=tuple(described)),
        states=found,
        first_event=first_event,
        waker=waker if waking >= 0 else None,
        calls=calls,
    )


def with_wait_events(run: RunInfo, waits: Waits) -> RunInfo:
    """Mark the events of waits, whose periods are time, and count their samples separately."""
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


def with_wait_table(profile: Profile, waits: Waits) -> Profile:
    """Return a profile with waits in their own table instead of among its hits and samples."""
    first_event = waits.first_event
    events = profile.run.events
    if not 0 <= first_event < len(events):
        return profile
    hits, samples = profile.hits, profile.samples
    is_hit = hits.event < first_event
    is_sample = is_hit.take(samples.hit_index)
    kept, rows = np.flatnonzero(is_sample), np.flatnonzero(~is_sample)
    row_of_hit = (np.cumsum(is_hit) - 1).astype(np.int32)
    row_of_sample = np.cumsum(is_sample) - 1
    of_samples = gather(samples, rows)
    of_hits = gather(hits, of_samples.hit_index.astype(np.intp))
    table = WaitTable(
        is_runnable=of_hits.event > first_event,
        process_index=of_hits.process_index,
        comm_index=of_hits.comm_index,
        location_index=of_hits.location_index,
        mode=of_hits.mode,
        entry_reason_index=of_hits.entry_reason_index,
        tid=task_tid(waits.events.samples.task.take(rows)),
        cpu=of_samples.cpu,
        begin_ns=of_samples.time_ns,
        length_ns=waits.events.samples.period.take(rows),
        stack_index=of_samples.stack_index,
        label_index=of_hits.label_index,
        waker=None if waits.waker is None else waits.waker.take(rows),
    )
    samples = gather(samples, kept)
    return replace(
        profile,
        run=replace(profile.run, events=events[:first_event], wait_events=events[first_event:]),
        hits=gather(hits, np.flatnonzero(is_hit)),
        samples=replace(samples, hit_index=row_of_hit.take(samples.hit_index)),
        sample_data=tuple(
            replace(one, sample=row_of_sample.take(one.sample)) for one in profile.sample_data
        ),
        waits=table,
    )


def describe_threads(waits: Waits, history: ProcessHistory) -> ThreadTimes:
    """Add up the times of each thread, and find its program and its name."""
    found = waits.states
    count = len(found.tid)
    process, comm = _programs(found, history)

    def summed(chosen: Bools) -> I64:
        sums = np.bincount(found.life[chosen], found.length_ns[chosen], count)
        return sums.astype(np.int64)

    def counted(chosen: Bools) -> I64:
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


class _EventsOfSwitches(NamedTuple):
    """Rows of events; -1 for none.

    Attributes:
        stacks: samples of tasks that leave a CPU.
        times: samples of switches by a tracepoint; the same as `stacks` if these are the only ones.
        waking: samples of wake-ups.
    """

    stacks: int
    times: int
    waking: int


def _marks(
    events: Events, switches: Switches, of_events: _EventsOfSwitches, first: Sequence[int]
) -> Marks:
    """Return the marks of threads in the records, including threads from before the recording.

    `first` are the threads that are followed from the beginning, unless all are.
    """
    samples, tasks = events.samples, events.tasks
    row, times, waking = of_events
    of_switch = np.flatnonzero(samples.event == row)
    left_ns = samples.time_ns.take(of_switch)
    is_followed = switches.is_followed
    if is_followed is not None:
        from prospect.assembly.threads import followed_threads  # noqa: PLC0415 - only of these

        if row != times:
            of_switch, left_ns = followed_threads.left_with(samples, of_switch, times)
        elif fields := _fields_of(events, row):
            of_switch = followed_threads.followed_samples(fields)
            left_ns = samples.time_ns.take(of_switch)
            del fields  # each of these is 100 MB of ten million switches
        if not is_followed.all():
            switches = gather(switches, np.flatnonzero(is_followed))
    is_task = np.isin(tasks.kind, (TASK_FORK, TASK_EXIT)) | (tasks.time_ns == 0)
    kind_of_task = np.where(tasks.kind == TASK_EXIT, states.MARK_EXIT, states.MARK_FORK)
    kind_of_task = np.where(tasks.time_ns == 0, states.MARK_BEGIN, kind_of_task)
    kind_of_switch = _KINDS_OF_SWITCHES[
        (switches.time_ns == 0).view(np.uint8),
        switches.is_out.view(np.uint8) + (switches.is_out & switches.is_preempted),
    ]
    parts = [] if waking < 0 else _wake_marks(events, switches, waking)
    parts.append(_marks_of(switches.task, switches.time_ns, kind_of_switch))
    del switches, kind_of_switch
    marks = states.joined_marks(
        [
            *parts,
            _marks_of(
                samples.task.take(of_switch),
                left_ns,
                np.full(len(of_switch), states.MARK_SAMPLE, np.uint8),
            )._replace(sample=of_switch.astype(np.int32)),
            states.Marks(
                tid=tasks.tid[is_task],
                pid=tasks.pid[is_task],
                time_ns=tasks.time_ns[is_task],
                kind=kind_of_task[is_task].astype(np.uint8),
                sample=np.full(int(is_task.sum()), -1, np.int32),
            ),
        ]
    )
    del parts
    if is_followed is not None:
        marks = followed_threads.marks_of_followed(marks, first, samples, waking)
    # Process zero has an idle thread on each CPU, all with tid 0.
    is_thread = marks.tid > 0
    return marks if is_thread.all() else marks.take(is_thread)


def _marks_of(task: U64, time_ns: U64, kind: U8) -> Marks:
    return states.Marks(
        tid=task_tid(task),
        pid=task_pid(task),
        time_ns=time_ns,
        kind=kind,
        sample=np.full(len(task), -1, np.int32),
    )


def _worth_waits(
    samples: Samples, number: I64, found: ThreadStates, left_out: _EventsOfSwitches
) -> tuple[Samples, I64, I32]:
    """Return the samples; those of switches have the length of the wait that began there.

    Args:
        number: i64[e] new row of each event.
        left_out: the events of switches and of wake-ups.

    Returns:
        The samples; those of waits have the events after the others. Then i64[n] the former row of
        each sample, and i32[n] the thread that ended each wait.
    """
    blocked = int(number[-1]) + 1
    is_wait = (found.state == states.BLOCKED) | (found.state == states.RUNNABLE)
    waits = np.flatnonzero((found.sample >= 0) & is_wait)
    is_other = ~np.isin(samples.event, left_out)
    others = np.flatnonzero(is_other)
    is_runnable = found.state.take(waits) == states.RUNNABLE
    rows = np.concatenate((others, found.sample.take(waits).astype(np.int64)))
    # A wait with a wake-up is two: blocked, then runnable.
    order = np.argsort(rows, kind="stable")
    event = np.concatenate(
        (number.take(samples.event.take(others)), np.where(is_runnable, blocked + 1, blocked))
    )
    length = found.length_ns.take(waits).view(np.uint64)
    # The fields of tracepoints of switches have been read.
    is_other = ~np.isin(samples.event, left_out)
    fields = samples.raw and _fields_at(samples.raw, is_other)
    chosen = chosen_samples(replace(samples, raw=fields), rows.take(order))
    time_ns = np.concatenate((samples.time_ns.take(others), found.start_ns.take(waits)))
    by = found.waker.take(waits).astype(np.int64)
    waker = np.append(np.full(len(others), -1, np.int32), _wakers(samples, by))
    waits_only = replace(
        chosen,
        time_ns=time_ns.take(order),
        period=np.append(samples.period.take(others), length).take(order),
        event=event.take(order).astype(np.uint16),
    )
    return waits_only, rows.take(order), waker.take(order)


def _fields_at(raw: RawFields, is_chosen: Bools) -> RawFields | None:
    """Return the fields of some samples, bool[n]; None if there are none."""
    rows = np.flatnonzero(is_chosen.take(raw.sample))
    return raw.chosen(rows, raw.sample.take(rows)) if len(rows) else None


def _programs(found: ThreadStates, history: ProcessHistory) -> tuple[I32, list[str]]:
    """Return each thread's last process row, i32[t], and its last name."""
    # Just before its end: with the death the number is free.
    last_ns = np.maximum(found.begin_ns, np.maximum(found.end_ns, np.uint64(1)) - np.uint64(1))
    process, comm = history.timeline.programs_at(found.pid, found.tid, last_ns)
    names = [name.decode("utf-8", "surrogateescape") for name in history.names]
    return process, [names[row] if row >= 0 else "?" for row in comm.tolist()]


def _no_switches() -> Switches:
    """Return the switches of a recording without switches of followed threads."""
    nothing = np.zeros(0, np.bool_)
    return Switches(
        time_ns=np.zeros(0, np.uint64),
        task=np.zeros(0, np.uint64),
        cpu=np.zeros(0, np.int32),
        is_out=nothing,
        is_preempted=nothing,
        is_followed=nothing,
    )


def _traced_switches(events: Events, info: RecordingInfo, event: int) -> Switches | None:
    """Return the switches in samples of ``sched:sched_switch``, two for each; None without."""
    found = _fields_of(events, event)
    if found is None:
        follows = event >= 0 and len(info.events[event].fields) > _TRACEPOINT_FIELDS
        return _no_switches() if follows else None
    sample, state, tid = found.sample, found.values[0], found.values[1].astype(np.int32)
    samples = events.samples
    before = samples.task.take(sample)
    following = _tasks(processes_of(events, samples.task).pid_of(tid), tid)
    time_ns = samples.time_ns.take(sample)
    count = len(sample)
    nobody = np.zeros(count, np.bool_)
    # The leaving task precedes the arriving one of the same time.
    switches = Switches(
        time_ns=np.repeat(time_ns, 2),
        task=np.stack((before, following), axis=1).reshape(-1),
        cpu=np.repeat(samples.cpu.take(sample).astype(np.int32), 2),
        is_out=np.stack((~nobody, nobody), axis=1).reshape(-1),
        is_preempted=np.stack(((state & _WAITING_BITS) == 0, nobody), axis=1).reshape(-1),
    )
    if len(info.events[event].fields) > _TRACEPOINT_FIELDS:
        from prospect.assembly.threads.followed_threads import switches_of_followed  # noqa: PLC0415 - only with --wall

        return switches_of_followed(switches, found)
    return switches


def _wake_marks(events: Events, switches: Switches, event: int) -> list[Marks]:
    """Return a mark of the woken thread for each sample of ``sched:sched_waking``.

    The tasks of `switches` have the processes of threads; `event` is the row of the event.
    """
    found = _fields_of(events, event)
    if found is None:
        return []
    tid = found.values[0].astype(np.int32)
    marks = states.Marks(
        tid=tid,
        pid=processes_of(events, switches.task).pid_of(tid),
        time_ns=events.samples.time_ns.take(found.sample),
        kind=np.full(len(tid), states.MARK_WAKE, np.uint8),
        sample=found.sample.astype(np.int32),
    )
    return [marks]


def wakings(events: Events, info: RecordingInfo) -> tuple[U64, I32, I32]:
    """Return time, thread and waker of the recorded wake-ups by time; see `_wakers`."""
    found = _fields_of(events, _traced_event(info, WAKING_EVENT))
    if found is None:
        none = np.empty(0, np.int32)
        return np.empty(0, np.uint64), none, none
    time_ns = events.samples.time_ns.take(found.sample)
    tid, waker = found.values[0].astype(np.int32), _wakers(events.samples, found.sample)
    order = np.argsort(time_ns, kind="stable")
    return time_ns.take(order), tid.take(order), waker.take(order)


def _wakers(samples: Samples, sample: I64) -> I32:
    """Return i32[n] the threads of samples of ``sched:sched_waking``, rows i64[n].

    BY_INTERRUPT if an interrupt woke the thread, -1 for row -1.
    """
    if not (sample >= 0).any():
        return np.full(len(sample), -1, np.int32)
    tid = task_tid(samples.task).take(sample, mode="clip")
    raw = samples.raw
    if raw is not None and len(raw):
        place = np.minimum(np.searchsorted(raw.sample, sample), len(raw) - 1)
        flags = raw.values[1].take(place) >> _FLAGS_SHIFT
        tid = np.where(flags & _IN_INTERRUPT, BY_INTERRUPT, tid)
    return np.where(sample < 0, -1, tid).astype(np.int32)


def processes_of(events: Events, tasks: U64) -> Processes:
    """Return the first process of each thread in `tasks`, u64, and in the events of tasks."""
    from prospect.wall.schedule_records import Processes  # noqa: PLC0415 - only of switches

    tids = np.concatenate((events.tasks.tid, task_tid(tasks)))
    pids = np.concatenate((events.tasks.pid, task_pid(tasks)))
    if len(tids) and not 0 <= int(tids.min()) <= int(tids.max()) < _FEW_IDS:
        known, first = np.unique(tids, return_index=True)
        return Processes(known, pids.take(first))
    pid_of = np.full(int(tids.max(initial=0)) + 1, -1, np.int32)
    pid_of[tids[::-1]] = pids[::-1]  # of several values for one place the last stays
    known = np.flatnonzero(pid_of >= 0).astype(np.int32)
    return Processes(known, pid_of.take(known))


def _fields_of(events: Events, event: int) -> RawFields | None:
    raw = events.samples.raw
    if event < 0 or raw is None:
        return None
    return _fields_at(raw, events.samples.event == event)


def _tasks(pid: I32, tid: I32) -> U64:
    low = pid.astype(np.uint32).astype(np.uint64)
    high = tid.astype(np.uint32).astype(np.uint64)
    return low | high << _TID_SHIFT
