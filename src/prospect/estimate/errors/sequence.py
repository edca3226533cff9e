"""What was hit, tick by tick: the order in which a row's presence comes and goes.

Comes in: the samples of an event, on their grids where there are any. Goes out: one long sequence
of hits, CPU by CPU in time order, in which ticks without a sample have their places.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import segments
from prospect.columns.sorting import run_lengths, run_starts
from prospect.estimate.errors.ticks import stretch_parts
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.errors.ticks import OrderedTicks

MISSING = -1
OUTSIDE = -2
# A block's columns and temporaries stay in a processor's cache.
_TICKS_AT_ONCE = 1 << 16
# Shorter runs, on average, are put in order as columns of rows.
_LEAST_RUN = 64


def tick_sequence(
    ticks: OrderedTicks, hit_index: NDArray[np.int32], reach: int
) -> NDArray[np.int32]:
    """Return what each tick hit: rows of hits, MISSING, or OUTSIDE between stretches, i32[s].

    Args:
        ticks: the samples.
        hit_index: i32 what each of the profile's samples hit.
        reach: how far apart ticks will be compared. Runs of missing ticks are truncated to it.
    """
    parts = list(stretch_parts(ticks.start))
    behind, missing = ticks.missing.behind, np.minimum(ticks.missing.number, reach)
    gap = np.searchsorted(behind, [part.start for part, _ in parts]).tolist()
    at_end = np.minimum(ticks.missing.at_end, reach).tolist()
    stretches = list(dict.fromkeys(stretch for _, stretch in parts))
    size = len(ticks.order) + sum(at_end[stretch] + reach for stretch in stretches)
    sequence = np.full(size + int(missing.sum()), MISSING, np.int32)
    place = 0
    for (part, stretch), own in zip(parts, itertools.pairwise([*gap, len(missing)]), strict=True):
        places = np.zeros(part.stop - part.start, np.int64)
        places[behind[slice(*own)] - part.start] = missing[slice(*own)]
        np.cumsum(places, out=places)
        places += np.arange(place, place + len(places))
        sequence[places] = hit_index.take(ticks.order[part])
        place = int(places[-1]) + 1
        if part.stop == ticks.start[stretch + 1]:
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
    runs = _runs_in_order(cpu, time_ns)
    if runs is None or _LEAST_RUN * len(runs.cpu) > len(cpu):
        order = np.lexsort((time_ns, cpu)) if runs is None else segments(runs.begin, runs.length)
        hit_index, cpu = hit_index.take(order), cpu.take(order)
        begin = run_starts(cpu)
        runs = _Runs(cpu.take(begin), begin, run_lengths(begin, len(cpu)))
    gaps = np.count_nonzero(runs.cpu[1:] != runs.cpu[:-1])
    sequence = np.full(len(hit_index) + reach * gaps, OUTSIDE, np.int32)
    place, before = 0, None
    for own, begin, length in zip(*(column.tolist() for column in runs), strict=True):
        if before not in (None, own):
            place += reach
        sequence[place : place + length] = hit_index[begin : begin + length]
        place, before = place + length, own
    return sequence


class _Runs(NamedTuple):
    """Samples of one CPU behind each other: [r] the CPU, where they begin, and how many."""

    cpu: NDArray[np.uint16]
    begin: NDArray[np.int64]
    length: NDArray[np.int64]


def _runs_in_order(cpu: NDArray[np.uint16], time_ns: NDArray[np.uint64]) -> _Runs | None:
    """Return runs of a CPU's samples by CPU, then time; None where that is not in such runs.

    A recorder empties the CPUs' buffers one after the other, each in order of time, so that only
    the runs are to be put in order.
    """
    begin = run_starts(cpu)
    for first in range(0, len(cpu), _TICKS_AT_ONCE):
        block = slice(first, first + _TICKS_AT_ONCE + 1)
        falls = time_ns[block][1:] < time_ns[block][:-1]
        if falls.any() and (falls & (cpu[block][1:] == cpu[block][:-1])).any():
            return None
    turn = np.argsort(cpu.take(begin), kind="stable")
    length = run_lengths(begin, len(cpu)).take(turn)
    runs = _Runs(cpu.take(begin.take(turn)), begin.take(turn), length)
    last = runs.begin[:-1] + runs.length[:-1] - 1
    falls = time_ns.take(runs.begin[1:]) < time_ns.take(last)
    return None if (falls & (runs.cpu[1:] == runs.cpu[:-1])).any() else runs
