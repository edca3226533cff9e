"""How much of the wall time each hit took, from the samples of a clock alone.

While n threads of those asked for had a CPU, each of them took 1/n of the wall time. Each sample of
a CPU's clock says what that CPU did from half way to the sample before to half way to the one
behind. n counts the threads that the samples nearest in time name, each once: a thread that has
just moved to another CPU is not two. So a sample is worth its CPU time divided by n, and all of
them together the time in which anything that was asked for ran.

It is an estimate: threads that alternate faster than the clocks tick look as if they ran at once.
`perf report --latency` weighs samples the same way, with n from the records of context switches
(``tools/perf/Documentation/cpu-and-latency-overheads.txt``, Linux 6.15).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.model import NO_CPU
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.errors.design import Design
    from prospect.profile.complete import ProfileByRoutine

_NS = 1e-9
# Threads' numbers and nanoseconds share a word: 3.2 days, and 32,768 threads.
_TIME_BITS = 48
_MOST_THREADS = 1 << 15


class WallTime(NamedTuple):
    """The wall time of what is asked for, by samples.

    Attributes:
        total_s: of the run.
        busy_s: in which any of it ran.
        at_once: on how many CPUs it ran then, on average.
    """

    total_s: float
    busy_s: float
    at_once: float

    @property
    def idle_s(self) -> float:
        """Time in which nothing of it ran."""
        return max(self.total_s - self.busy_s, 0.0)


def wall_seconds(
    profile: ProfileByRoutine, design: Design, chosen: NDArray[np.bool_]
) -> NDArray[np.float64] | None:
    """Return f64[h] the wall time of each of some hits, 0 for the others.

    Args:
        profile: with its samples.
        design: how those of an event of time were taken.
        chosen: bool[h] the hits that are asked for, of this event.

    Returns:
        None if neither time nor thread of the samples is known.
    """
    samples = profile.samples
    if not len(samples) or samples.tid is None or not design.has_time:
        return None
    rows = np.flatnonzero((design.hits > 0).take(samples.hit_index))
    time_ns, tid = samples.time_ns.take(rows), samples.tid.take(rows)
    is_asked = chosen.take(samples.hit_index.take(rows))
    if not is_asked.any():
        return None
    clock: NDArray[np.integer] = samples.cpu.take(rows)
    if (clock == NO_CPU).any():
        clock = tid  # a clock of each thread, as `perf record COMMAND` has them
    begin_ns = time_ns.min()
    time = (time_ns - begin_ns).view(np.int64)
    threads, thread = np.unique(tid[is_asked], return_inverse=True)
    if len(threads) > _MOST_THREADS or int(time.max()) >= 1 << (_TIME_BITS - 1):
        return None
    tick_ns = design.seconds[chosen].sum() / design.hits[chosen].sum() / _NS
    longest_ns = int(design.clocks * tick_ns)
    start, end = _cells(time, clock, longest_ns)
    at_once = _threads_at(time[is_asked], *_stretches(thread, start[is_asked], end[is_asked]))
    share = np.bincount(
        samples.hit_index.take(rows[is_asked]), 1.0 / at_once, minlength=len(chosen)
    )
    return np.where(chosen, share * design.seconds / np.maximum(design.hits, 1), 0.0)


def _cells(
    time: NDArray[np.int64], clock: NDArray[np.integer], longest_ns: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return i64[s] from when to when each sample is the one of its CPU that is nearest in time.

    Args:
        time: i64[s] when each was taken.
        clock: i[s] its CPU, or the thread whose clock it is.
        longest_ns: time between two ticks of a busy CPU at most; in a longer gap it was idle.
    """
    order = np.lexsort((time, clock))
    at, of_clock = time.take(order), clock.take(order)
    half = longest_ns // 2
    gap = np.diff(at)
    is_last = of_clock[1:] != of_clock[:-1]
    to_next = np.where(is_last | (gap > longest_ns), half, gap // 2)
    start, end = np.empty_like(time), np.empty_like(time)
    start[order] = at - np.append(half, to_next)
    end[order] = at + np.append(to_next, half)
    return start, end


def _stretches(
    thread: NDArray[np.integer], start: NDArray[np.int64], end: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return i64[p] each from when to when threads ran, without what two cells of one share."""
    order = np.lexsort((start, thread))
    of_thread, start, end = thread.take(order).astype(np.int64), start.take(order), end.take(order)
    latest = np.maximum.accumulate((of_thread << _TIME_BITS) + end)
    before = np.append(np.int64(-1) << _TIME_BITS, latest[:-1])
    start = np.maximum(start, before - (of_thread << _TIME_BITS))
    is_there = start < end
    return start[is_there], end[is_there]


def _threads_at(
    time: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return i64[s] how many stretches there are at each time, at least one."""
    started = np.searchsorted(np.sort(start), time, "right")
    ended = np.searchsorted(np.sort(end), time, "right")
    count: NDArray[np.int64] = np.maximum(started - ended, 1)
    return count
