"""How often one hit followed another: all that the error of programs without a rhythm is made of.

Comes in: the sequence of what each tick hit, and maybe which hits are as one. Goes out: for each
distance between ticks the pairs of hits that differ, and how often each occurs. A hit that follows
itself is no change of any row, so that what is left, made once, is a small part of the sequence for
the rows of every table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.sorting import distinct, run_starts
from prospect.estimate.errors.sequence import MISSING, OUTSIDE
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

# Of so many pairs at most half may be different ones, or it does not pay to count all.
_TRIED = 1 << 16
_BOUND_OF_HITS = 1 << 31
_LEAST_TABLE = 1 << 16
_MOST_SHORT = 1 << 32
# Ticks to an entry of a table that takes all pairs, those that are alike too.
_LEAST_FILLING = 4
# A block's columns and temporaries stay in a processor's cache.
_TICKS_AT_ONCE = 1 << 16


class Succession(NamedTuple):
    """Pairs of hits `lag` ticks apart that differ; none of them is `OUTSIDE`.

    Attributes:
        lag: how many ticks are from one to the other.
        earlier, later: i[p] rows of hits, or parts of them, or MISSING.
        times: i64[p] how often; None where each pair stands for one occurrence.
    """

    lag: int
    earlier: NDArray[Any]
    later: NDArray[Any]
    times: NDArray[np.int64] | None


def successions(
    sequence: NDArray[np.int32], lags: Iterable[int], part_of_hit: NDArray[np.int32] | None = None
) -> tuple[Succession, ...]:
    """Find the changes in a sequence at each distance.

    Args:
        sequence: i32[s] of `tick_sequence`.
        lags: the distances, ascending.
        part_of_hit: i32[h] what stands for each hit, -1 for none; None for the hits themselves.
    """
    bound = _BOUND_OF_HITS
    if part_of_hit is not None:
        bound = int(part_of_hit.max(initial=-1)) + 1
        sequence = _in_parts(sequence, part_of_hit, bound)
    return tuple(_succession(sequence, lag, bound) for lag in lags)


def _in_parts(
    sequence: NDArray[np.int32], part_of_hit: NDArray[np.int32], bound: int
) -> NDArray[Any]:
    """Return the sequence with the part in place of each hit, in as few bytes as will do."""
    # What is no hit counts from the table's end, and stays what it is.
    table = np.concatenate((part_of_hit, np.array([OUTSIDE, MISSING], np.int32)))
    table = table.astype(np.min_scalar_type(-bound - 1))
    parts = np.empty(len(sequence), table.dtype)
    for first in range(0, len(sequence), _TICKS_AT_ONCE):
        block = slice(first, first + _TICKS_AT_ONCE)
        parts[block] = table.take(sequence[block])
    return parts


def _succession(sequence: NDArray[Any], lag: int, bound: int) -> Succession:
    tried = sequence[: _TICKS_AT_ONCE + lag]
    is_mostly_change = 2 * np.count_nonzero(tried[:-lag] != tried[lag:]) > len(tried)
    if is_mostly_change and (bound - OUTSIDE) ** 2 <= len(sequence) // _LEAST_FILLING:
        return _in_table(sequence, lag, bound - OUTSIDE)
    earlier, later = [sequence[:0]], [sequence[:0]]
    for first in range(0, len(sequence) - lag, _TICKS_AT_ONCE):
        block = sequence[first : first + _TICKS_AT_ONCE + lag]
        differs = np.flatnonzero(block[:-lag] != block[lag:])
        earlier.append(block.take(differs))
        later.append(block[lag:].take(differs))
    one, other = np.concatenate(earlier), np.concatenate(later)
    inside = (one != OUTSIDE) & (other != OUTSIDE)
    if not inside.all():
        one, other = one[inside], other[inside]
    return _counted_pairs(lag, one, other, bound)


def _in_table(sequence: NDArray[Any], lag: int, size: int) -> Succession:
    """Count every pair in a table of all possible ones, of `size` sides."""
    ticks = max(len(sequence) - lag, 0)
    pair = np.empty(ticks, np.int64)
    for first in range(0, ticks, _TICKS_AT_ONCE):
        block = sequence[first : first + _TICKS_AT_ONCE + lag].astype(np.int64)
        block -= OUTSIDE
        own = np.multiply(block[:-lag], size, out=pair[first : first + _TICKS_AT_ONCE])
        own += block[lag:]
    times = np.bincount(pair, minlength=size * size).reshape(size, size)
    times[0], times[:, 0] = 0, 0
    np.fill_diagonal(times, 0)
    one, other = np.nonzero(times)
    return Succession(
        lag=lag,
        earlier=(one + OUTSIDE).astype(np.int32),
        later=(other + OUTSIDE).astype(np.int32),
        times=times[one, other],
    )


def _counted_pairs(lag: int, earlier: NDArray[Any], later: NDArray[Any], bound: int) -> Succession:
    """Join pairs that are alike, where that is worth it; all of a pair is below `bound`."""
    # Shifted, so that what is missing is 0.
    size = bound - MISSING
    pair = (earlier - earlier.dtype.type(MISSING)).astype(np.int64)
    pair *= size
    pair += later
    pair -= MISSING
    if size * size <= max(len(pair), _LEAST_TABLE):
        times = np.bincount(pair, minlength=size * size)
        met = np.flatnonzero(times)
        times = times.take(met)
    elif 2 * len(distinct(pair[:_TRIED])) > min(len(pair), _TRIED):
        return Succession(lag, earlier, later, None)
    else:
        # Half as wide, sorting takes half the time.
        ordered = np.sort(pair.astype(np.uint32) if size * size <= _MOST_SHORT else pair)
        start = run_starts(ordered)
        met, times = ordered.take(start), np.diff(start, append=len(ordered))
    one, other = np.divmod(met, met.dtype.type(size))
    return Succession(
        lag=lag,
        earlier=one.astype(np.int32) + np.int32(MISSING),
        later=other.astype(np.int32) + np.int32(MISSING),
        times=times,
    )
