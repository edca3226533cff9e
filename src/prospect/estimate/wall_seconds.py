"""The wall time of each hit, from the samples of a clock alone.

While n of the chosen threads had a CPU, each of them took 1/n of the wall time. Each sample of a
CPU's clock shows its state from half way to the sample before to half way to the next. n counts the
threads of the samples nearest in time, each once: a thread that has just moved to another CPU is
not two. So a sample is worth its CPU time divided by n, and all of them together the time in which
any chosen thread ran.

It is an estimate: threads that alternate faster than the clocks tick seem to run at once.
`perf report --latency` weighs samples the same way, with n from the records of context switches
(``tools/perf/Documentation/cpu-and-latency-overheads.txt``, Linux 6.15).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.model import NO_CPU
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from prospect.columns.array_types import F64, I32, I64, U16, U64, Bools
    from prospect.estimate.errors.design import Design
    from prospect.profile.complete import ProfileByFunction

_NS = 1e-9
# Threads' numbers and nanoseconds share a word: 3.2 days, and 32,768 threads.
_TIME_BITS = 48
_MOST_THREADS = 1 << 15
_LARGEST_TID = 1 << 22  # PID_MAX_LIMIT
_BINS_A_TICK, _MOST_BINS = 16, 1 << 22
# More samples would add nothing: from a long recording this uses stretches of some samples each,
# evenly spaced among all samples. A subset of the times gives their bounds.
_MOST_SAMPLES, _BLOCK = 1 << 20, 1 << 14
_MOST_LOOKED_AT = 1 << 14


class WallTime(NamedTuple):
    """The wall time of the chosen threads, by samples.

    Attributes:
        total_s: of the run.
        busy_s: in which any of them ran.
        at_once: the mean number of their CPUs then.
    """

    total_s: float
    busy_s: float
    at_once: float

    @property
    def idle_s(self) -> float:
        """Time in which none of them ran."""
        return max(self.total_s - self.busy_s, 0.0)


def wall_seconds(profile: ProfileByFunction, design: Design, chosen: Bools) -> F64 | None:
    """Return f64[h] the wall time of each of some hits, 0 for the others.

    Args:
        profile: with its samples.
        design: of the samples of a timed event.
        chosen: bool[h] hits of this event.

    Returns:
        None if time or thread of the samples is unknown.
    """
    samples = profile.samples
    if not len(samples) or samples.tid is None or not design.has_time:
        return None
    is_met = (design.hits > 0).take(samples.hit_index)
    count = int(np.count_nonzero(is_met))
    stretches = _stretches(samples.time_ns, count) if count > _MOST_SAMPLES else None
    if stretches is not None:
        is_met &= np.searchsorted(stretches, samples.time_ns, "right") & 1 == 1
    rows = np.flatnonzero(is_met)
    time_ns = samples.time_ns.take(rows)
    if (time_ns[1:] < time_ns[:-1]).any():
        order = np.argsort(time_ns, kind="stable")
        rows, time_ns = rows.take(order), time_ns.take(order)
    tick_ns = int(design.seconds[chosen].sum() / max(design.hits[chosen].sum(), 1) / _NS)
    longest_ns = design.clocks * tick_ns
    if stretches is None:
        time = (time_ns - time_ns[:1]).view(np.int64)
    else:
        time = _moved(time_ns, stretches, longest_ns)
    hit, tid = samples.hit_index.take(rows), samples.tid.take(rows)
    asked = np.flatnonzero(chosen.take(hit))
    if not len(asked):
        return None
    thread, clock = _numbered(tid.take(asked)), samples.cpu.take(rows)
    if (clock == NO_CPU).any():
        # A clock of each thread, as `perf record COMMAND` has them.
        clock = _numbered(tid)
    if not len(clock) or not len(thread) or not 0 <= int(time[-1]) < 1 << (_TIME_BITS - 1):
        return None
    start, end = _cells(time, clock, longest_ns)
    start, end = _without_shared(thread, start.take(asked), end.take(asked))
    bin_ns = max(tick_ns // _BINS_A_TICK, int(time[-1]) // _MOST_BINS, 1)
    at_once = _threads_at(time.take(asked) // bin_ns, start // bin_ns, end // bin_ns)
    hit = hit.take(asked)
    share = np.bincount(hit, 1.0 / at_once, minlength=len(chosen))
    number = np.bincount(hit, minlength=len(chosen))
    # A hit in none of the stretches is like the others.
    share = np.where(number > 0, share / np.maximum(number, 1), share.sum() / len(asked))
    return np.where(chosen, share * design.seconds, 0.0)


def _stretches(time_ns: U64, count: int) -> U64:
    """Return u64[2n] bounds of stretches that have about `_MOST_SAMPLES` of `count`."""
    some = np.sort(time_ns[:: max(len(time_ns) // _MOST_LOOKED_AT, 1)])
    first = np.linspace(0, len(some), _MOST_SAMPLES // _BLOCK, endpoint=False)
    length = max(len(some) / len(first) * _MOST_SAMPLES / count, 1.0)
    ends = np.minimum(np.stack([first, first + length], 1), len(some) - 1)
    return some.take(ends.astype(np.int64).reshape(-1))


def _moved(time_ns: U64, stretches: U64, longest_ns: int) -> I64:
    """Return i64[s] times as if their stretches were contiguous."""
    begin = stretches[::2].view(np.int64)
    length = (stretches[1::2] - stretches[:-1:2]).view(np.int64) + 2 * longest_ns
    time = time_ns.view(np.int64)
    earlier = begin - (np.cumsum(length) - length)
    return time - earlier.take(np.searchsorted(begin, time, "right") - 1)


def _numbered(tid: I32) -> U16:
    """Return u16[s] a number of each thread, which sorts fast; nothing for too many threads."""
    nothing = np.empty(0, np.uint16)
    if int(tid.min()) < 0 or int(tid.max()) >= _LARGEST_TID:
        return nothing
    is_met = np.zeros(int(tid.max()) + 1, np.bool_)
    is_met[tid] = True
    number = np.cumsum(is_met) - 1
    return number.astype(np.uint16).take(tid) if number[-1] < _MOST_THREADS else nothing


def _cells(time: I64, clock: U16, longest_ns: int) -> tuple[I64, I64]:
    """Return i64[s] the bounds of the time in which each sample is the nearest of its CPU.

    Args:
        time: i64[s] when each was taken, ascending.
        clock: u16[s] its CPU, or the thread with its own clock.
        longest_ns: longest time between two ticks of a busy CPU; in a longer gap it was idle.
    """
    order = np.argsort(clock, kind="stable")
    at, of_clock = time.take(order), clock.take(order)
    is_last = of_clock[1:] != of_clock[:-1]
    gap = np.diff(at)
    half = longest_ns // 2
    to_next = np.where(is_last | (gap > longest_ns), half, gap >> 1)
    start, end = np.empty_like(time), np.empty_like(time)
    start[order] = at - np.append(half, to_next)
    end[order] = at + np.append(to_next, half)
    return start, end


def _without_shared(thread: U16, start: I64, end: I64) -> tuple[I64, I64]:
    """Return the cells without the overlap of two of one thread, which may leave empty cells.

    Args:
        thread: u16[s] of each cell, in chronological order.
        start, end: i64[s].
    """
    order = np.argsort(thread, kind="stable")
    key = thread.take(order).astype(np.int64) << _TIME_BITS
    latest = np.maximum.accumulate(key + end.take(order))
    before = np.append(np.int64(-1) << _TIME_BITS, latest[:-1]) - key
    cut = np.empty_like(start)
    cut[order] = np.maximum(start.take(order), before)
    return cut, np.maximum(end, cut)


def _threads_at(time: I64, start: I64, end: I64) -> I64:
    """Return i64[s] how many cells there are at each time, at least one; all in bins of time."""
    bins = int(time[-1]) + 1
    changes = np.bincount(np.clip(start, 0, bins), minlength=bins + 1)
    changes -= np.bincount(np.clip(end, 0, bins), minlength=bins + 1)
    count: I64 = np.maximum(np.cumsum(changes).take(time), 1)
    return count
