"""How often one hit followed another: all that the error of programs without a rhythm is made of.

Comes in: the sequence of what each tick hit, and maybe which hits are as one. Goes out: for each
distance between ticks the pairs of hits that differ, and how often each occurs. A hit that follows
itself is no change of any row, so that what is left, made once, is a small part of the sequence for
the rows of every table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.sorting import distinct, run_lengths, run_starts
from prospect.estimate.errors.sequence import MISSING, OUTSIDE
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

# Of so many pairs at most half may be different ones, or it does not pay to count all.
_TRIED = 1 << 16
_BOUND_OF_HITS = 1 << 31
_LEAST_TABLE = 1 << 16
# Pairs to an entry of a table of counts: where it is larger, sorting them touches less memory.
_LEAST_PAIRS = 16
_MOST_SHORT = 1 << 32
# Ticks to an entry of a table that takes all pairs, those that are alike too.
_LEAST_FILLING = 4
# A block's columns and temporaries stay in a processor's cache.
_TICKS_AT_ONCE = 1 << 16


class Pairs(NamedTuple):
    """Pairs of hits that differ; none of them is `OUTSIDE`.

    Attributes:
        earlier, later: i[p] rows of hits, or parts of them, or MISSING.
        times: i64[p] how often; None where each pair stands for one occurrence.
    """

    earlier: NDArray[Any]
    later: NDArray[Any]
    times: NDArray[np.int64] | None


class Succession(NamedTuple):
    """All pairs `lag` ticks apart: `merged`, or where hardly any are alike, in the sequence still.

    Attributes:
        lag: how many ticks are from one to the other.
        sequence: i[s] as of `successions`, of parts.
        merged: None where they are to be found once more each time.
    """

    lag: int
    sequence: NDArray[Any]
    merged: Pairs | None

    def pairs(self, ticks: int = 0) -> Iterator[Pairs]:
        """Yield the pairs, block by block; blocks are of so many ticks where that is worth it."""
        if self.merged is not None:
            yield self.merged
            return
        size = max(ticks, _TICKS_AT_ONCE)
        for first in range(0, len(self.sequence) - self.lag, size):
            block = self.sequence[first : first + size + self.lag]
            yield Pairs(*_inside(*_differing(block, self.lag)), None)


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


def _differing(block: NDArray[Any], lag: int) -> tuple[NDArray[Any], NDArray[Any]]:
    differs = np.flatnonzero(block[:-lag] != block[lag:])
    return block.take(differs), block[lag:].take(differs)


def _inside(earlier: NDArray[Any], later: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    inside = (earlier != OUTSIDE) & (later != OUTSIDE)
    return (earlier, later) if inside.all() else (earlier[inside], later[inside])


def _succession(sequence: NDArray[Any], lag: int, bound: int) -> Succession:
    """Join pairs that are alike, where that is worth it; hits and parts are below `bound`."""
    tried = sequence[: _TICKS_AT_ONCE + lag]
    earlier, later = _differing(tried, lag) if len(tried) > lag else (tried[:0], tried[:0])
    size = bound - OUTSIDE
    if 2 * len(earlier) > len(tried) and size * size <= len(sequence) // _LEAST_FILLING:
        return Succession(lag, sequence, _in_table(sequence, lag, size))
    pair = _packed(earlier, later, size)
    if size * size > _LEAST_TABLE and 2 * len(distinct(pair)) > len(pair):
        return Succession(lag, sequence, None)
    packed = [pair]
    for first in range(_TICKS_AT_ONCE, len(sequence) - lag, _TICKS_AT_ONCE):
        block = sequence[first : first + _TICKS_AT_ONCE + lag]
        packed.append(_packed(*_differing(block, lag), size))
    return Succession(lag, sequence, _counted(np.concatenate(packed), size))


def _in_table(sequence: NDArray[Any], lag: int, size: int) -> Pairs:
    """Count every pair in a table of all possible ones, of `size` sides."""
    ticks = max(len(sequence) - lag, 0)
    pair = np.empty(ticks, np.int64)
    for first in range(0, ticks, _TICKS_AT_ONCE):
        block = sequence[first : first + _TICKS_AT_ONCE + lag].astype(np.int64)
        block -= OUTSIDE
        own = np.multiply(block[:-lag], size, out=pair[first : first + _TICKS_AT_ONCE])
        own += block[lag:]
    times = np.bincount(pair, minlength=size * size).reshape(size, size)
    np.fill_diagonal(times, 0)
    met = np.flatnonzero(times)
    return _unpacked(met, times.take(met), size)


def _packed(earlier: NDArray[Any], later: NDArray[Any], size: int) -> NDArray[Any]:
    """Return pairs as one number each, u32 where that will do: half as wide, it sorts faster."""
    kind = np.uint32 if size * size <= _MOST_SHORT else np.int64
    # Shifted, so that what is outside is 0; what is negative wraps round and back.
    pair: NDArray[Any] = earlier.astype(kind)
    pair += kind(-OUTSIDE)
    pair *= kind(size)
    pair += later.astype(kind)
    pair += kind(-OUTSIDE)
    return pair


def _counted(pair: NDArray[Any], size: int) -> Pairs:
    """Count pairs; those of which one is outside are left out."""
    if size * size <= max(len(pair) // _LEAST_PAIRS, _LEAST_TABLE):
        times = np.bincount(pair, minlength=size * size)
        met = np.flatnonzero(times)
        return _unpacked(met, times.take(met), size)
    pair.sort()
    start = run_starts(pair)
    return _unpacked(pair.take(start), run_lengths(start, len(pair)), size)


def _unpacked(pair: NDArray[Any], times: NDArray[np.int64], size: int) -> Pairs:
    one, other = np.divmod(pair, pair.dtype.type(size))
    inside = np.flatnonzero((one != 0) & (other != 0))
    return Pairs(
        earlier=one.take(inside).astype(np.int32) + np.int32(OUTSIDE),
        later=other.take(inside).astype(np.int32) + np.int32(OUTSIDE),
        times=times.take(inside),
    )
