"""What was hit, tick by tick: the order in which a row's presence comes and goes.

Comes in: the samples of an event, on their grids where there are any. Goes out: one long sequence
of hits, CPU by CPU in time order, in which ticks without a sample have their places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.errors.ticks import Ticks

MISSING = -1
OUTSIDE = -2
# A due time is a sum of products; a tick is never this much nearer to another, in periods.
_ROUNDING = 1e-6


def tick_sequence(ticks: Ticks, reach: int) -> NDArray[np.int32]:
    """Return what each tick hit: rows of hits, MISSING, or OUTSIDE between stretches, i32[s].

    Args:
        ticks: the samples.
        reach: how far apart ticks will be compared. Where more are missing in a row, so many of
            them stand for all.
    """
    before = _ticks_before(ticks)
    missing = np.diff(before, prepend=0.0) - 1.0
    starts = ticks.start[:-1]
    full = np.flatnonzero(np.diff(ticks.start))  # stretches with a sample
    first, last = starts[full], ticks.start[1:][full] - 1
    missing[first] = before[first]
    at_end = _bounded(ticks.count.sum(axis=1)[full] - before[last] - 1.0, reach)
    gap = _bounded(missing, reach)
    after = np.zeros(len(gap), np.int64)
    after[last] = at_end + reach
    places = np.arange(len(gap)) + np.cumsum(gap) + np.cumsum(after) - after
    size = len(gap) + int(gap.sum()) + int(after.sum())
    sequence = np.full(size, MISSING, np.int32)
    sequence[places] = ticks.hit_index
    for place in range(reach):
        sequence[places[last] + at_end + 1 + place] = OUTSIDE
    return sequence


def plain_sequence(
    hit_index: NDArray[np.int32],
    cpu: NDArray[np.uint16],
    time_ns: NDArray[np.uint64],
    reach: int,
) -> NDArray[np.int32]:
    """Return what samples without a grid hit, CPU by CPU in time order; OUTSIDE between CPUs."""
    order = np.lexsort((time_ns, cpu))
    cuts = np.flatnonzero(np.diff(cpu.take(order).astype(np.int64))) + 1
    return np.insert(hit_index.take(order), np.repeat(cuts, reach), OUTSIDE)


def _ticks_before(ticks: Ticks) -> NDArray[np.float64]:
    """Return how many ticks of all clocks the stretch had before each sample's own, f64[n]."""
    per_stretch = np.diff(ticks.start)
    before = np.zeros(len(ticks.due_ns))
    for clock, period_ns in enumerate(ticks.period_ns.tolist()):
        first_ns = np.repeat(ticks.first_ns[:, clock], per_stretch)
        before += np.maximum(np.ceil((ticks.due_ns - first_ns) / period_ns - _ROUNDING), 0.0)
    return before


def _bounded(missing: NDArray[np.float64], reach: int) -> NDArray[np.int64]:
    return np.clip(missing, 0.0, reach).astype(np.int64)
