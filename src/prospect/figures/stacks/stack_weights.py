"""The weight of each call stack, from which every export of stacks is made.

Samples keep their stacks, and are added up by process, thread name, event, entry reason and stack.
A profile without call chains has stacks of one frame, its hits; one without samples has a row for
each hit.

A profile keeps waits in their own table (`WaitTable`). A flame graph of wall time, a timeline, or
the callers of a wait need them next to the samples of the clock: `with_waits` makes them samples of
further events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns import sorting
from prospect.columns.buffers import appended, gather, is_scalar
from prospect.columns.grouping import (
    alike,
    counted,
    distinct_keys,
    exact_sums,
    first_rows,
    group_sums,
)
from prospect.errors import UsageError
from prospect.figures.modes import event_has_time, event_seconds
from prospect.figures.processes import DETAILS, shown_processes
from prospect.profile.complete import complete
from prospect.profile.model import CPUMODE_KERNEL, NO_CPU, HitTable, SampleTable, StackTable
from prospect.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.columns.array_types import I32, I64, U16, U64, Ints
    from prospect.options import Detail
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile


_MOST_THREADS = 1 << 22  # PID_MAX_LIMIT, include/linux/threads.h


class StackSamples(Record):
    """Samples and their stacks, in the order of the recording.

    Attributes:
        profile: completed.
        stacks: with stacks of one frame at the end, for samples without a chain.
        hit_index: i32[n] row of hits.
        stack_index: i32[n] row of `stacks`, the sample's own frame.
        count: i64[n] samples of a row: 1, or a hit's if there are no samples.
        period: i64[n] in the event's unit: if samples have none, the rounded mean of their hit.
            Like `count`, a broadcast scalar if all are equal.
        cpu: u16[n], NO_CPU if unknown.
        tid: i32[n], -1 if unknown.
        time_ns: u64[n] since the interval's start; None if the profile has no samples.
        stack_of_hit: i32[h] of the profile's hits, if all samples of each have one stack; None if
            there are call chains.
    """

    profile: CompleteProfile
    stacks: StackTable
    hit_index: I32
    stack_index: I32
    count: I64
    period: I64
    cpu: U16
    tid: I32
    time_ns: U64 | None
    stack_of_hit: I32 | None = None

    def __len__(self) -> int:
        return len(self.hit_index)

    def of_hit(self, column: NDArray[Any]) -> I64:
        """Return i64[n]: a column of the hit table, by sample."""
        return column.take(self.hit_index).astype(np.int64)


class StackWeights(Record):
    """Sums over samples, one row for each distinct combination of the keys.

    Rows ascend by these keys. All columns are i64[w]; `cpu` is NO_CPU and `tid` -1 if it was not
    a key or is unknown.
    """

    process_index: I64
    comm_index: I64
    event: I64
    entry_reason_index: I64
    cpu: I64
    tid: I64
    stack_index: I64
    count: I64
    period: I64

    def __len__(self) -> int:
        return len(self.count)

    def chosen(self, rows: NDArray[Any]) -> StackWeights:
        """Return some of the rows, by number or by bool[w]."""
        return StackWeights(**{name: column[rows] for name, column in vars(self).items()})


def stack_samples(profile: Profile, detail: Detail = "3") -> StackSamples:
    """Select samples and find their stacks.

    Detail "k" is the samples of all processes that were taken in the kernel, with their user
    callers.

    Raises:
        UsageError: an unknown detail.
    """
    if detail not in DETAILS:
        raise UsageError(f"-V {detail} is not one of {', '.join(DETAILS)}")
    profile = complete(profile)
    hits, samples = profile.hits, profile.samples
    if len(samples):
        hit_index = samples.hit_index
        count, period = np.broadcast_to(np.int64(1), len(samples)), _periods(profile)
        earliest, begin = samples.time_ns.min(), np.uint64(profile.run.begin_ns)
        begin_ns = begin if 0 < begin <= earliest else earliest
        cpu, time_ns = samples.cpu, samples.time_ns - begin_ns
        tid = samples.tid
    else:
        hit_index = np.arange(len(hits), dtype=np.int32)
        count, period = hits.count, np.maximum(hits.period, 0)
        cpu, time_ns, tid = np.full(len(hits), NO_CPU, np.uint16), None, None
    stacks, stack_index, stack_of_hit = _with_single_frames(profile, hit_index)
    if detail == "k":
        is_chosen = hits.mode == CPUMODE_KERNEL
    else:
        is_chosen = shown_processes(profile.processes, detail).take(hits.process_index)
    rows = slice(None) if is_chosen.all() else is_chosen.take(hit_index)
    return StackSamples(
        profile=profile,
        stacks=stacks,
        hit_index=hit_index[rows],
        stack_index=stack_index[rows],
        count=count[rows],
        period=period[rows],
        cpu=cpu[rows],
        tid=np.full(len(hit_index), -1, np.int32)[rows] if tid is None else tid[rows],
        time_ns=None if time_ns is None else time_ns[rows],
        stack_of_hit=stack_of_hit,
    )


def stack_weights(samples: StackSamples, *, by_place: bool = False) -> StackWeights:
    """Sum samples by process, thread name, event, entry reason and stack.

    CPUs and threads are separate too if `by_place`.
    """
    hits = samples.profile.hits
    columns = (hits.process_index, hits.comm_index, hits.event, hits.entry_reason_index)
    contexts = alike(columns)
    keys: list[Ints] = [contexts.place.take(samples.hit_index)]
    if by_place:
        # Threads are numbered from -1.
        places, place = np.unique(
            samples.cpu.astype(np.int64) << 32 | samples.tid.astype(np.int64) + 1,
            return_inverse=True,
        )
        keys.append(place)
    keys.append(samples.stack_index)
    found, (count, period) = group_sums(keys, (samples.count, samples.period))
    rows = contexts.row.take(found[0])
    process, comm, event, entry_reason = (column.take(rows).astype(np.int64) for column in columns)
    return StackWeights(
        process_index=process,
        comm_index=comm,
        event=event,
        entry_reason_index=entry_reason,
        cpu=places.take(found[1]) >> 32 if by_place else np.full(len(count), NO_CPU, np.int64),
        tid=(
            (places.take(found[1]) & 0xFFFF_FFFF) - 1
            if by_place
            else np.full(len(count), -1, np.int64)
        ),
        stack_index=found[-1],
        count=count,
        period=period,
    )


class SampleThreads(Record):
    """The threads of samples: a row for each thread of a program image.

    Attributes:
        process_index: i64[t].
        comm_index: i64[t] the name at the first sample.
        tid: i64[t]; if unknown, a number above all that Linux assigns.
        thread_index: i32[n] row of this table for each sample.
    """

    process_index: I64
    comm_index: I64
    tid: I64
    thread_index: I32

    def __len__(self) -> int:
        return len(self.tid)


def sample_threads(samples: StackSamples) -> SampleThreads:
    """Separate samples by thread; by process if threads are unknown."""
    hits = samples.profile.hits
    process_of_sample = hits.process_index.take(samples.hit_index)
    # A CPU's samples are contiguous, and its threads change less often than it is sampled.
    start = sorting.run_starts(process_of_sample, samples.tid)
    key = process_of_sample.take(start).astype(np.int64) << 32
    key |= samples.tid.take(start).astype(np.int64) + 1
    thread = counted(key.view(np.uint64)).place
    first = start.take(first_rows(thread))
    tid: I64 = samples.tid.take(first).astype(np.int64)
    return SampleThreads(
        process_index=process_of_sample.take(first).astype(np.int64),
        comm_index=hits.comm_index.take(samples.hit_index.take(first)).astype(np.int64),
        tid=np.where(tid >= 0, tid, _MOST_THREADS + 1 + np.arange(len(tid))),
        thread_index=thread.repeat(sorting.run_lengths(start, len(samples))),
    )


def weights_by_event(weights: StackWeights) -> Iterator[tuple[int, StackWeights]]:
    """Yield each event with a weight, and its rows."""
    for event in sorting.distinct(weights.event).tolist():
        yield event, weights.chosen(weights.event == event)


def main_weights(profile: CompleteProfile, weights: StackWeights) -> StackWeights:
    """Return the rows of the first event; with waits, of all timed events: that is wall time."""
    events = profile.run.events
    present = sorting.distinct(weights.event).tolist()
    if any(events[event].is_waiting for event in present):
        timed = [event for event in present if event_has_time(events[event])]
        return weights.chosen(np.isin(weights.event, timed))
    return weights.chosen(weights.event == present[0]) if present else weights


def nanoseconds(profile: CompleteProfile, event: I64, count: I64, period: I64) -> I64:
    """Return i64[n] the time of counts and periods; 0 if their event has none."""
    found = np.zeros(len(count), np.int64)
    for number, info in enumerate(profile.run.events):
        if event_has_time(info):
            rows = np.flatnonzero(event == number)
            seconds = event_seconds(info, count.take(rows), period.take(rows))
            found[rows] = np.rint(np.minimum(seconds * 1e9, 2.0**62))
    return found


def paths(caller_index: NDArray[Any], depth: NDArray[Any], rows: NDArray[Any]) -> tuple[I64, I64]:
    """Return the frames of stacks, outermost first.

    Args:
        caller_index: i[s] of a forest, such as `StackTable`.
        depth: i[s].
        rows: i[n] the stacks' own frames.

    Returns:
        i64[n + 1] where each stack begins, and i64[m] rows of the forest.
    """
    start = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(depth.take(rows).astype(np.int64) + 1, out=start[1:])
    frames = np.empty(int(start[-1]), np.int64)
    place, row = start[1:] - 1, rows.astype(np.int64)
    while len(row):
        frames[place] = row
        row = caller_index.take(row).astype(np.int64)
        goes_on = row >= 0
        place, row = place[goes_on] - 1, row[goes_on]
    return start, frames


def _periods(profile: CompleteProfile) -> I64:
    hits, samples = profile.hits, profile.samples
    if samples.period is not None:
        if is_scalar(samples.period):
            return np.broadcast_to(_in_62_bits(samples.period[:1]), len(samples))
        return _in_62_bits(samples.period)
    mean = np.rint(np.maximum(hits.period, 0) / np.maximum(hits.count, 1)).astype(np.int64)
    return mean.take(samples.hit_index)


def _in_62_bits(period: U64) -> I64:
    return np.minimum(period, np.uint64(2**62)).astype(np.int64)


def _with_single_frames(
    profile: CompleteProfile, hit_index: I32
) -> tuple[StackTable, I32, I32 | None]:
    """Add stacks of one frame, for samples that have none.

    Returns:
        The stacks, i32[n] that of each sample, and `StackSamples.stack_of_hit`.
    """
    stacks = profile.stacks or StackTable(*(np.empty(0, np.int32) for _ in range(4)))  # type: ignore[arg-type]  # no rows of any type
    recorded = profile.samples.stack_index if len(profile.samples) else profile.hits.stack_index
    if profile.stacks is None:
        recorded = None
    if recorded is not None and (not len(recorded) or int(recorded.min()) >= 0):
        return stacks, recorded, None
    hits = profile.hits
    modes = int(hits.mode.max(initial=0)) + 1
    place = hits.location_index.astype(np.int64) * modes + hits.mode
    single, place_of_hit = distinct_keys(place, len(profile.locations) * modes)
    location, mode = np.divmod(single, modes)
    of_hit = (place_of_hit + len(stacks)).astype(np.int32)
    table = replace(
        stacks,
        caller_index=np.append(stacks.caller_index, np.full(len(location), -1, np.int32)),
        location_index=np.append(stacks.location_index, location.astype(np.int32)),
        mode=np.append(stacks.mode, mode).astype(np.uint8),
        depth=np.append(stacks.depth, np.zeros(len(location), np.int32)),
    )
    of_sample = of_hit.take(hit_index)
    if recorded is None:
        return table, of_sample, of_hit
    return table, np.where(recorded < 0, of_sample, recorded), None


def with_waits(profile: Profile) -> CompleteProfile:
    """Return a completed profile with its waits as samples, after all others.

    They are of the events `RunInfo.wait_events`, which follow `RunInfo.events`; their periods are
    their lengths in ns. The waits of a part of a recording, which has no samples, become hits.
    """
    profile = complete(profile)
    waits = profile.waits
    if waits is None:
        return profile
    hits, samples = profile.hits, profile.samples
    event = (len(profile.run.events) + waits.is_runnable).astype(np.uint16)
    columns: dict[str, NDArray[Any]] = {
        "process_index": waits.process_index,
        "comm_index": waits.comm_index,
        "location_index": waits.location_index,
        "mode": waits.mode,
        "event": event,
        "entry_reason_index": waits.entry_reason_index,
    }
    if waits.label_index is not None:
        columns["label_index"] = waits.label_index
    is_part = profile.part_of is not None
    if is_part and waits.stack_index is not None:
        columns["stack_index"] = waits.stack_index
    found = alike(list(columns.values()))
    rows = len(found.row)
    of_waits = HitTable(
        **{name: column.take(found.row) for name, column in columns.items()},
        count=np.bincount(found.place, minlength=rows).astype(np.int64),
        period=exact_sums(found.place, waits.length_ns.astype(np.int64), rows),
    )
    if not is_part:
        more = SampleTable(
            hit_index=found.place + np.int32(len(hits)),
            time_ns=waits.begin_ns,
            cpu=waits.cpu,
            clock=np.zeros(len(waits), np.uint8),
            period=waits.length_ns,
            tid=waits.tid,
            stack_index=waits.stack_index,
        )
        samples = appended(samples, more, np.arange(len(waits)))
    return replace(
        profile,
        run=replace(
            profile.run, events=(*profile.run.events, *profile.run.wait_events), wait_events=()
        ),
        hits=appended(hits, of_waits, np.arange(rows)),
        samples=samples,
        waits=None,
    )


def waits_alone(profile: CompleteProfile) -> CompleteProfile:
    """Return a profile with its waits as its only samples, in the order of their table."""
    nothing = np.empty(0, np.intp)
    return with_waits(
        replace(
            profile,
            hits=gather(profile.hits, nothing),
            samples=gather(profile.samples, nothing),
            part_of=None,
        )
    )
