"""What was hit, tick by tick: the order in which a row's presence comes and goes.

Comes in: the samples of an event, on their grids where there are any. Goes out: one long sequence
of hits, CPU by CPU in time order, in which ticks without a sample have their places.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import segments
from prospect.columns.sorting import run_starts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.errors.ticks import Ticks

MISSING = -1
OUTSIDE = -2
# A block's columns and temporaries stay in a processor's cache.
_TICKS_AT_ONCE = 1 << 16


def tick_sequence(ticks: Ticks, reach: int) -> NDArray[np.int32]:
    """Return what each tick hit: rows of hits, MISSING, or OUTSIDE between stretches, i32[s].

    Args:
        ticks: the samples.
        reach: how far apart ticks will be compared. Runs of missing ticks are truncated to it.
    """
    blocks = [
        (stretch, slice(first, min(first + _TICKS_AT_ONCE, end)))
        for stretch, (begin, end) in enumerate(itertools.pairwise(ticks.start.tolist()))
        for first in range(begin, end, _TICKS_AT_ONCE)
    ]
    at_end = np.minimum(ticks.missing_at_end, reach).tolist()
    stretches = list(dict.fromkeys(stretch for stretch, _ in blocks))
    size = len(ticks.hit_index) + sum(at_end[stretch] + reach for stretch in stretches)
    size += sum(int(np.minimum(ticks.missing[block], reach).sum()) for _, block in blocks)
    sequence = np.full(size, MISSING, np.int32)
    place = 0
    for stretch, block in blocks:
        places = np.minimum(ticks.missing[block], reach)
        np.cumsum(places, out=places)
        places += np.arange(place, place + len(places))
        sequence[places] = ticks.hit_index[block]
        place = int(places[-1]) + 1
        if block.stop == ticks.start[stretch + 1]:
            place += at_end[stretch] + reach
            sequence[place - reach : place] = OUTSIDE
    return sequence


def plain_sequence(
    hit_index: NDArray[np.int32],
    cpu: NDArray[np.uint16],
    time_ns: NDArray[np.uint64],
    reach: int,
) -> NDArray[np.int32]:
    """Return what samples without a grid hit, CPU by CPU in time order; OUTSIDE between CPUs."""
    order = _by_cpu_and_time(cpu, time_ns)
    ends = np.append(np.flatnonzero(np.diff(cpu.take(order))) + 1, len(order))
    sequence = np.full(len(order) + reach * (len(ends) - 1), OUTSIDE, np.int32)
    begin = place = 0
    for end in ends.tolist():
        hit_index.take(order[begin:end], out=sequence[place : place + end - begin])
        begin, place = end, place + end - begin + reach
    return sequence


def _by_cpu_and_time(cpu: NDArray[np.uint16], time_ns: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the order by CPU, then time: of what was recorded in that order, without sorting.

    A recorder empties the CPUs' buffers one after the other, each in order of time, so that only
    the runs of one CPU's samples are to be put in order.
    """
    start = run_starts(cpu)
    turn = np.argsort(cpu.take(start), kind="stable")
    length = np.diff(start, append=len(cpu))
    order = segments(start.take(turn), length.take(turn))
    ordered_ns, ordered_cpu = time_ns.take(order), cpu.take(order)
    if ((ordered_ns[1:] < ordered_ns[:-1]) & (ordered_cpu[1:] == ordered_cpu[:-1])).any():
        return np.lexsort((time_ns, cpu))
    return order
