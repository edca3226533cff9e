"""How often one hit followed another: all that the error of programs without a rhythm is made of.

Comes in: the sequence of what each tick hit. Goes out: for each distance between ticks the pairs of
hits that differ, and how often each occurs. A hit that follows itself is no change of any row, so
that what is left, made once, is a small part of the sequence for the rows of every table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.counting import counted
from prospect.columns.grouping import exact_sums
from prospect.estimate.errors.sequence import MISSING, OUTSIDE
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

# Of so many pairs at most half may be different ones, or it does not pay to count all.
_TRIED = 1 << 16
_HIT_BITS = 32


class Succession(NamedTuple):
    """Pairs of hits `lag` ticks apart that differ; none of them is `OUTSIDE`.

    Attributes:
        lag: how many ticks are from one to the other.
        earlier, later: i32[p] rows of hits, or MISSING.
        times: i64[p] how often; None where each pair stands for one occurrence.
    """

    lag: int
    earlier: NDArray[np.int32]
    later: NDArray[np.int32]
    times: NDArray[np.int64] | None


def successions(sequence: NDArray[np.int32], lags: Iterable[int]) -> tuple[Succession, ...]:
    """Find the changes in a sequence, i32[s] of `tick_sequence`, at each distance."""
    return tuple(_succession(sequence, lag) for lag in lags)


def merged(
    changes: tuple[Succession, ...], part_of_hit: NDArray[np.int32]
) -> tuple[Succession, ...]:
    """Return the changes between parts of the hits: i32[h] the part of each, -1 for none."""
    # MISSING is the last entry of the table, and stays what it is.
    table = np.append(part_of_hit, np.int32(MISSING))
    return tuple(
        _of_pairs(one.lag, table.take(one.earlier), table.take(one.later), one.times)
        for one in changes
    )


def _succession(sequence: NDArray[np.int32], lag: int) -> Succession:
    differs = np.flatnonzero(sequence[:-lag] != sequence[lag:])
    earlier, later = sequence.take(differs), sequence[lag:].take(differs)
    inside = (earlier != OUTSIDE) & (later != OUTSIDE)
    if not inside.all():
        earlier, later = earlier[inside], later[inside]
    return _counted_pairs(lag, earlier, later, None)


def _of_pairs(
    lag: int,
    earlier: NDArray[np.int32],
    later: NDArray[np.int32],
    times: NDArray[np.int64] | None,
) -> Succession:
    """Return the pairs whose sides differ."""
    differs = np.flatnonzero(earlier != later)
    if len(differs) < len(earlier):
        earlier, later = earlier.take(differs), later.take(differs)
        times = None if times is None else times.take(differs)
    return _counted_pairs(lag, earlier, later, times)


def _counted_pairs(
    lag: int,
    earlier: NDArray[np.int32],
    later: NDArray[np.int32],
    times: NDArray[np.int64] | None,
) -> Succession:
    """Join pairs that are alike, where that is worth it."""
    # Shifted, so that what is missing is 0.
    pair = (earlier - MISSING).astype(np.uint64) << np.uint64(_HIT_BITS)
    pair |= (later - MISSING).astype(np.uint64)
    if 2 * len(counted(pair[:_TRIED]).value) > min(len(pair), _TRIED):
        return Succession(lag, earlier, later, times)
    pairs = counted(pair)
    return Succession(
        lag=lag,
        earlier=(pairs.value >> np.uint64(_HIT_BITS)).astype(np.int32) + np.int32(MISSING),
        later=pairs.value.astype(np.uint32).view(np.int32) + np.int32(MISSING),
        times=pairs.rows if times is None else exact_sums(pairs.place, times, len(pairs.value)),
    )
