"""The sampling variance of each row, from the changes of its hits: for programs without a rhythm.

The samples of an event, on their grids if there are any, become one long sequence of hits, CPU by
CPU in time order, with places for ticks without a sample. For each distance between ticks a
`Succession` has the pairs of hits that differ, and the number of each. A hit that follows itself is
no change of any row, so that the pairs, made once, are a small part of the sequence for the rows of
every table. Variances are in squared ticks.

A systematic sample with period T errs, for a program whose presence x(t) has the autocovariance
c(τ), by a variance of T Σ_j c(jT) - ∫ c(τ) dτ for each unit of time (Cochran, Sampling Techniques,
1977, chapter 8, has the sum for samples from a list). K clocks without a common measure divide it
by K, and they look at the program K times within each period, so that c is known at lags shorter
than T. The *variogram* has it, half the sum of (x(t + τ) - x(t))², at one, two and
three ticks apart, D1, D2 and D3 (successive differences: Wolter, Introduction to Variance
Estimation, 2007, section 8.2). Their weights are such that

- a program whose hits are independent of each other gets the binomial variance exactly,
- one that stays in a row for long gets T²/12 for each time it comes or goes, exactly,
- one that changes at random, however fast, gets its own variance as nearly as possible.

For 4 clocks that is 0.74 D1 + 0.86 D2 - 0.60 D3, correct within 3 % at every speed of change. With
one clock lags under a period are unknown: the weights then err to the safe side.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.buffers import segments
from prospect.columns.sorting import distinct, run_lengths, run_starts
from prospect.estimate.errors.ticks import stretch_parts
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from prospect.columns.array_types import F64, I32, I64, U16, U64
    from prospect.estimate.errors.ticks import OrderedTicks

MISSING = -1
OUTSIDE = -2
# A block's columns and temporaries stay in a CPU's cache.
_TICKS_AT_ONCE = 1 << 16
# Shorter runs, on average, are sorted as rows.
_LEAST_RUN = 64

# If more than half of so many pairs are distinct, counting all does not pay.
_TRIED = 1 << 16
_BOUND_OF_HITS = 1 << 31
_LEAST_TABLE = 1 << 16
# Pairs to an entry of a table of counts: for larger tables, sorting touches less memory.
_LEAST_PAIRS = 16
_MOST_SHORT = 1 << 32
# Ticks to an entry of a table of all pairs, equal hits included.
_LEAST_FILLING = 4

_SPEEDS = np.geomspace(0.05, 300.0, 60)  # changes a period, from hardly any to many
_NODES = 400
_NOBODY = -2
_TICKS_A_ROW = 8


def tick_sequence(ticks: OrderedTicks, hit_index: I32, reach: int) -> I32:
    """Return the hit of each tick: rows of hits, MISSING, or OUTSIDE between stretches, i32[s].

    `hit_index` i32 is the hit of each of the profile's samples. `reach` is the largest distance at
    which ticks will be compared: runs of missing ticks are truncated to it.
    """
    parts = list(stretch_parts(ticks.start))
    after, missing = ticks.missing.after, np.minimum(ticks.missing.number, reach)
    gap = np.searchsorted(after, [part.start for part, _ in parts]).tolist()
    at_end = np.minimum(ticks.missing.at_end, reach).tolist()
    stretches = list(dict.fromkeys(stretch for _, stretch in parts))
    size = len(ticks.order) + sum(at_end[stretch] + reach for stretch in stretches)
    sequence = np.full(size + int(missing.sum()), MISSING, np.int32)
    place = 0
    for (part, stretch), own in zip(parts, itertools.pairwise([*gap, len(missing)]), strict=True):
        places = np.zeros(part.stop - part.start, np.int64)
        places[after[slice(*own)] - part.start] = missing[slice(*own)]
        np.cumsum(places, out=places)
        places += np.arange(place, place + len(places))
        sequence[places] = hit_index.take(ticks.order[part])
        place = int(places[-1]) + 1
        if part.stop == ticks.start[stretch + 1]:
            place += at_end[stretch] + reach
            sequence[place - reach : place] = OUTSIDE
    return sequence


def plain_sequence(hit_index: I32, cpu: U16, time_ns: U64, reach: int) -> I32:
    """Return the hits of samples without a grid, by CPU and time; OUTSIDE between CPUs."""
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
    """Successive samples of one CPU: [r] the CPU, where they begin, and how many."""

    cpu: U16
    begin: I64
    length: I64


def _runs_in_order(cpu: U16, time_ns: U64) -> _Runs | None:
    """Return runs of a CPU's samples by CPU, then time; None if samples are not in such runs.

    A recorder drains the CPUs' buffers in turn, each in order of time, so that only the runs have
    to be sorted.
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


class Pairs(NamedTuple):
    """Pairs of hits that differ; none of them is `OUTSIDE`.

    Attributes:
        earlier, later: i[p] rows of hits, or parts of them, or MISSING.
        times: i64[p] how often; None if each pair is one occurrence.
    """

    earlier: NDArray[Any]
    later: NDArray[Any]
    times: I64 | None


class Succession(NamedTuple):
    """All pairs `lag` ticks apart.

    Attributes:
        sequence: i[s] as from `tick_sequence`, or its parts.
        merged: None if hardly any are equal: then they are found again each time.
    """

    lag: int
    sequence: NDArray[Any]
    merged: Pairs | None

    def pairs(self, ticks: int = 0) -> Iterator[Pairs]:
        """Yield the pairs in blocks of at least `ticks` ticks."""
        if self.merged is not None:
            yield self.merged
            return
        size = max(ticks, _TICKS_AT_ONCE)
        for first in range(0, len(self.sequence) - self.lag, size):
            block = self.sequence[first : first + size + self.lag]
            yield Pairs(*_inside(*_differing(block, self.lag)), None)


def successions(
    sequence: I32, lags: Iterable[int], part_of_hit: I32 | None = None
) -> tuple[Succession, ...]:
    """Find the changes in a sequence at each distance.

    `lags` are the distances, ascending. `part_of_hit` i32[h] replaces each hit, -1 for none; None
    for the hits themselves.
    """
    bound = _BOUND_OF_HITS
    if part_of_hit is not None:
        bound = int(part_of_hit.max(initial=-1)) + 1
        sequence = _in_parts(sequence, part_of_hit, bound)
    return tuple(_succession(sequence, lag, bound) for lag in lags)


def _in_parts(sequence: I32, part_of_hit: I32, bound: int) -> NDArray[Any]:
    """Return the sequence with the part of each hit, in the smallest type."""
    # MISSING and OUTSIDE index the table's end, and are unchanged.
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
    """Merge equal pairs, if that pays; hits and parts are below `bound`."""
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
    """Return pairs as one number each, u32 if possible: half as wide, it sorts faster."""
    kind = np.uint32 if size * size <= _MOST_SHORT else np.int64
    # Shifted, so that OUTSIDE is 0; negative values wrap around and back.
    pair: NDArray[Any] = earlier.astype(kind)
    pair += kind(-OUTSIDE)
    pair *= kind(size)
    pair += later.astype(kind)
    pair += kind(-OUTSIDE)
    return pair


def _counted(pair: NDArray[Any], size: int) -> Pairs:
    """Count pairs, without those of which one is OUTSIDE."""
    if size * size <= max(len(pair) // _LEAST_PAIRS, _LEAST_TABLE):
        times = np.bincount(pair, minlength=size * size)
        met = np.flatnonzero(times)
        return _unpacked(met, times.take(met), size)
    pair.sort()
    start = run_starts(pair)
    return _unpacked(pair.take(start), run_lengths(start, len(pair)), size)


def _unpacked(pair: NDArray[Any], times: I64, size: int) -> Pairs:
    one, other = np.divmod(pair, pair.dtype.type(size))
    inside = np.flatnonzero((one != 0) & (other != 0))
    return Pairs(
        earlier=one.take(inside).astype(np.int32) + np.int32(OUTSIDE),
        later=other.take(inside).astype(np.int32) + np.int32(OUTSIDE),
        times=times.take(inside),
    )


class LocalError(NamedTuple):
    """The error of each row.

    `variance` f64[r] is in squared ticks, `changes` i64[r] is how often the row came or went.
    `between` f64[r] is the variance of the difference of a row and its `other`, less the sum of
    theirs.
    """

    variance: F64
    changes: I64
    between: F64


def local_error(
    changes: tuple[Succession, ...], row_of_hit: I32, other: I64, clocks: int
) -> LocalError:
    """Estimate the variance of each row's number of ticks.

    `changes` are the pairs of hits that differ, at the lags of `lag_weights`; `row_of_hit` is
    i32[h] and `other`, the row to compare each with, i64[r], both -1 for none.
    """
    rows = len(other)
    variance, between, nearest = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    for turn, (pairs, (lag, weight)) in enumerate(zip(changes, lag_weights(clocks), strict=True)):
        came_or_went, with_other = _added_up(pairs, row_of_hit, other)
        half = 0.5 * came_or_went
        variance += weight * half
        nearest = half / lag if not turn else nearest
        between += weight * with_other
    # Weights can be negative; the variance of long stays is the minimum.
    variance = np.maximum(variance, nearest * clocks / 12.0)
    return LocalError(variance, (2.0 * nearest).astype(np.int64), between)


def _added_up(changes: Succession, row_of_hit: I32, other: I64) -> tuple[F64, F64]:
    """Return the changes of each row, f64[r], and those between it and its other one."""
    rows = len(other)
    # MISSING is the last entry of the table, and a row of -1 compares with no other.
    table = np.append(row_of_hit, np.int32(-1))
    partner = np.append(other, _NOBODY)
    is_compared = bool((other >= 0).any())
    if not rows:
        return np.zeros(0), np.zeros(0)
    # Shifted by one, so that rows of -1 need no extra pass.
    found, between = np.zeros(rows + 1), np.zeros(rows + 1)
    # Each block costs a pass over all rows.
    for pairs in changes.pairs(_TICKS_A_ROW * rows):
        first, second, times = table.take(pairs.earlier), table.take(pairs.later), pairs.times
        differs = np.flatnonzero(first != second)
        if len(differs) < len(first):
            first, second = first.take(differs), second.take(differs)
            times = None if times is None else times.take(differs)
        found += np.bincount(first + 1, times, rows + 1)
        found += np.bincount(second + 1, times, rows + 1)
        if is_compared:
            forth = np.flatnonzero(partner.take(first) == second)
            back = np.flatnonzero(partner.take(second) == first)
            for row, chosen in ((first, forth), (second, back)):
                weights = None if times is None else times.take(chosen)
                between += np.bincount(row.take(chosen) + 1, weights, rows + 1)
    return found[1:], between[1:]


@cache
def lag_weights(clocks: int) -> tuple[tuple[int, float], ...]:
    """Return (lag in ticks, weight) for a bank of `clocks` clocks; lags reach to 3/4 of a period.

    The weights solve a least-squares problem with two constraints: they sum to 1 (independent
    hits), and the lags they weigh average to a sixth of a period (long stays). For presence that
    changes u times a period at random, whose variogram is 1 - exp(-uτ), their sum approximates the
    true variance, coth(u/2) - 2/u.
    """
    step = max(round(clocks / 4), 1)
    lags = [step * turn for turn in range(1, 4 if clocks > 2 else 3)]
    seen = np.stack([_variogram(lag, clocks) for lag in lags], axis=1)
    true = 1.0 / np.tanh(_SPEEDS / 2.0) - 2.0 / _SPEEDS
    relative = seen / true[:, None]
    constraints = np.array([np.ones(len(lags)), lags])
    normal = relative.T @ relative
    system = np.block([[normal, constraints.T], [constraints, np.zeros((2, 2))]])
    wanted = np.concatenate([relative.sum(axis=0), [1.0, clocks / 6.0]])
    weights = np.linalg.solve(system, wanted)[: len(lags)]
    return tuple(zip(lags, weights.tolist(), strict=True))


def compared_lags(clocks: int) -> tuple[int, ...]:
    """Return the distances at which ticks are compared, the longest last."""
    return tuple(lag for lag, _ in lag_weights(clocks))


def _variogram(lag: int, clocks: int) -> F64:
    """Return the mean of 1 - exp(-uτ) over the distances of ticks that are `lag` apart, f64[u].

    The phases of clocks without a common measure are practically random: K points on a circle, of
    which the j-th next is at a distance with the distribution Beta(j, K - j).
    """
    whole, within = divmod(lag, clocks)
    if not within:
        return np.asarray(1.0 - np.exp(-_SPEEDS * whole), np.float64)
    at = (np.arange(_NODES) + 0.5) / _NODES
    density = at ** (within - 1) * (1.0 - at) ** (clocks - within - 1)
    values = 1.0 - np.exp(-_SPEEDS[:, None] * (whole + at))
    return np.asarray(values @ density / density.sum(), np.float64)
