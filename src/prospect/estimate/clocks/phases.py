"""The phase of a timer's grid, estimated from its samples.

Comes in: when samples came, modulo the timer's period. Goes out: for each sample the phase of the
grid around it. A timer is never early and mostly a few microseconds late, so the phase lies just
before the place in the period where samples are densest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Rows = NDArray[np.int64]
    Numbers = NDArray[np.float64]

# Samples that share one estimate of the phase: few enough to follow restarts, many enough that the
# earliest of them was hardly late.
_BLOCK = 64
# So many blocks and their temporaries stay in a processor's second-level cache.
_BLOCKS_AT_ONCE = 512
# How many blocks a time may last in which every sample comes late. Not more: recordings on another
# clock than the timers' drift against these, to either side.
_BLOCKS_AHEAD = 16
# The phase is sought where this many of a block lie closest together: timely samples lie within
# microseconds, late ones anywhere in the period.
_DENSE = _BLOCK // 4
# How far before its tick a sample may seem to be, as part of the period: the phase is an estimate,
# and a sample that is late by all but this of a period is rarer than one that is timely. Samples
# of one timer vary by some microseconds whatever its period, which is a large part of a short one.
_EARLIEST = 1 / 64
_LEAST_EARLIEST_NS = 5_000.0
_MOST_EARLIEST = 1 / 4


def earliest_ns(period_ns: Numbers) -> Numbers:
    """Return how long before its tick a sample of a timer may seem to come, f64[s]."""
    longest = period_ns * _MOST_EARLIEST
    earliest: Numbers = np.clip(
        period_ns * _EARLIEST, np.minimum(_LEAST_EARLIEST_NS, longest), longest
    )
    return earliest


class Phases(Record):
    """The phase of the grid around each sample.

    Attributes:
        start: i64[s + 1] where each stretch's samples begin.
        first_block: i64[s] where each stretch's blocks of samples do.
        block_ns: f64[b] from the stretch's begin on; that of its first block is within 0 and the
            period.
    """

    start: Rows
    first_block: Rows
    block_ns: Numbers

    def at(self, rows: Rows, stretch: Rows) -> Numbers:
        """Return the phase at samples, f64[r].

        Args:
            rows: i64[r] the samples.
            stretch: i64[r] that each is in, or [1] the one that all are in.
        """
        number = rows - self.start.take(stretch)
        number //= _BLOCK
        number += self.first_block.take(stretch)
        return self.block_ns.take(number)


def grid_phases(residues_ns: Callable[[slice], Numbers], start: Rows, period_ns: Numbers) -> Phases:
    """Estimate the phase of each sample's grid.

    The phase of a block is its earliest sample near the place where its samples lie closest
    together. From block to block the phase moves the shorter way round.

    Args:
        residues_ns: returns f64[rows] time since the stretch's begin, modulo the period.
        start: i64[s + 1] where stretches begin.
        period_ns: f64[s].
    """
    size = np.diff(start)
    blocks = -(-size // _BLOCK)
    stretch = np.repeat(np.arange(len(size)), blocks)
    number = np.arange(len(stretch)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    own_size, period = size.take(stretch), period_ns.take(stretch)
    # A last, incomplete block borrows from the one before; a short stretch repeats itself.
    first = start.take(stretch) + np.minimum(number * _BLOCK, np.maximum(own_size - _BLOCK, 0))
    width = np.minimum(own_size, _BLOCK)
    phase = np.empty(len(first))
    for begin in range(0, len(first), _BLOCKS_AT_ONCE):
        part = slice(begin, begin + _BLOCKS_AT_ONCE)
        own_first, own_width = first[part], width[part]
        residue_ns = residues_ns(slice(int(own_first[0]), int(own_first[-1] + own_width[-1])))
        own_first = own_first - own_first[0]
        if int(own_width.min()) == _BLOCK:
            blocked = sliding_window_view(residue_ns, _BLOCK)[own_first]
        else:
            blocked = residue_ns.take(own_first[:, None] + np.arange(_BLOCK) % own_width[:, None])
        blocked.sort(axis=1)
        phase[part] = _block_phases(blocked, period[part])
    moved = np.diff(phase, prepend=phase[:1])
    moved -= np.rint(moved / period) * period
    is_first = number == 0
    moved[is_first] = phase[is_first]
    # A running sum within each stretch: what came before its first block is taken off.
    running = np.cumsum(moved)
    before = (running - moved)[is_first]
    running -= np.repeat(before, blocks[blocks > 0])
    return Phases(start, np.cumsum(blocks) - blocks, _settled(running, stretch))


def _settled(phase_ns: Numbers, stretch: Rows) -> Numbers:
    """Take back what looked like a restart and was a time when every sample came late.

    A timer is never early and a restart only delays it, so a phase never goes back: where a later
    block has an earlier phase, that was the phase all along. One odd block among its neighbours
    does not count.
    """
    settled = phase_ns
    if len(phase_ns) > 2:
        middle = np.sort((phase_ns[:-2], phase_ns[1:-1], phase_ns[2:]), axis=0)[1]
        has_both = stretch[:-2] == stretch[2:]
        settled = phase_ns.copy()
        settled[1:-1][has_both] = middle[has_both]
    earliest = settled.copy()
    for ahead in range(1, min(_BLOCKS_AHEAD, len(phase_ns) - 1) + 1):
        later = np.where(stretch[:-ahead] == stretch[ahead:], settled[ahead:], np.inf)
        earliest[:-ahead] = np.minimum(earliest[:-ahead], later)
    return earliest


def _block_phases(residue_ns: Numbers, period_ns: Numbers) -> Numbers:
    """Return the phase of each block of sorted residues, f64[blocks]."""
    ring = np.concatenate((residue_ns, residue_ns[:, : _DENSE - 1] + period_ns[:, None]), axis=1)
    spread = ring[:, _DENSE - 1 :] - residue_ns
    densest = spread.argmin(axis=1)
    rows = np.arange(len(residue_ns))
    guard = np.minimum(spread[rows, densest], earliest_ns(period_ns))
    earliest = residue_ns[rows, densest] - guard
    found = np.count_nonzero(residue_ns < earliest[:, None], axis=1)
    phases: Numbers = residue_ns[rows, found]
    return phases
