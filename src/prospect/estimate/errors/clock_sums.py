"""How far the clocks of a bank disagree about a row: over the whole run, and in blocks of it.

Comes in: samples on the grids of their clocks, and rows. Goes out: each row's variance from
the clocks' disagreement, at several lengths of block, and what each clock counted.

Each clock alone covers all the time, so that K clocks are K estimates of the same thing, and the
variance of their mean is that of the K sums by K. A block's ends cut a row's stays short, which
would add disagreement where there is no error: but where the ends are within each clock's period
is known, and so is what was running there. What is left is disagreement about when the row came
and went in between, without bias at any length of block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.counting import counted
from prospect.columns.sorting import distinct, run_starts
from prospect.estimate.errors.ticks import stretch_parts
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.errors.blocks import Blocks
    from prospect.estimate.errors.ticks import Ticks

# Numbers kept at once; a partition with more pairs of row and CPU gets fewer blocks.
_MOST_SUMS = 1 << 23
_LARGEST_TABLE = 1 << 26
_SUMS_AT_ONCE = 1 << 15


class Cells(NamedTuple):
    """Samples by hit, stretch and slot, or what is counted of them.

    Attributes:
        hit: i32[c] the hits, or parts of them.
        start: i64[s + 1] where each stretch begins.
        slot: i[c] as in `Blocks`.
        times: i64[c] how many samples; None for one each.
    """

    hit: NDArray[np.int32]
    start: NDArray[np.int64]
    slot: NDArray[np.integer]
    times: NDArray[np.int64] | None


class Disagreement(Record):
    """The variance of each row's time, as the clocks disagree in blocks of one length.

    `variance` f64[r] in ns²; `freedom` f64[r], its degrees of freedom.
    Source: Satterthwaite, Biometrics Bulletin 2 (1946), for the degrees of freedom of a sum.
    """

    variance: NDArray[np.float64]
    freedom: NDArray[np.float64]


class ClockSums(Record):
    """What the clocks counted for each row.

    Attributes:
        row, stretch: i64[p] the pairs of a row and a stretch with a sample.
        hits: i64[p, K] samples of each.
        bias_ns: f64[r] the known part of each row's error: what was cut off where the interval
            began and ended, while the row was running.
        by_level: from the whole stretch to the shortest blocks.
    """

    row: NDArray[np.int64]
    stretch: NDArray[np.int64]
    hits: NDArray[np.int64]
    bias_ns: NDArray[np.float64]
    by_level: tuple[Disagreement, ...]


def merged_cells(ticks: Ticks, blocks: Blocks, part_of_hit: NDArray[np.int32], parts: int) -> Cells:
    """Count the samples of each part of the hits by stretch and slot.

    Args:
        ticks: how many there were.
        blocks: from `cut_in_blocks`.
        part_of_hit: i32[h] the part of each hit, -1 for none.
        parts: how many parts there are.
    """
    stretches = len(ticks.count)
    slots = 4**blocks.levels * len(ticks.period_ns)
    # Samples of no part are those of one before the first, and are left out in the end.
    key_of_hit = (part_of_hit + 1).astype(np.uint64) * np.uint64(slots)
    keys = np.empty(len(blocks.hit_index), np.uint64)
    for part, stretch in stretch_parts(blocks.start):
        key = key_of_hit.take(blocks.hit_index[part])
        key += blocks.slot[part].astype(np.uint64)
        key += np.uint64(stretch * (parts + 1) * slots)
        keys[part] = key
    met = counted(keys)
    row, slot = np.divmod(met.value.view(np.int64), slots)
    of_stretch, part_after = np.divmod(row, parts + 1)
    chosen = np.flatnonzero(part_after)
    return Cells(
        hit=(part_after.take(chosen) - 1).astype(np.int32),
        start=np.searchsorted(of_stretch.take(chosen), np.arange(stretches + 1)),
        slot=slot.take(chosen),
        times=met.rows.take(chosen),
    )


def clock_sums(
    ticks: Ticks,
    blocks: Blocks,
    row_of_hit: NDArray[np.int32],
    rows: int,
    merged: tuple[Cells, NDArray[np.int32]] | None = None,
) -> ClockSums:
    """Add up each row's samples by clock, and compare the clocks.

    Args:
        ticks: how many there were.
        blocks: from `cut_in_blocks`.
        row_of_hit: i32[h] the row of each hit, -1 for none.
        rows: how many rows there are.
        merged: the cells of parts of the hits, where these are known, and the row of each part.
    """
    stretches = len(ticks.count)
    if blocks.hits is not None:
        levels, pairs, hits = _added_up(blocks.levels, blocks.hits, ticks, row_of_hit)
    else:
        cells, row = merged or (
            Cells(blocks.hit_index, blocks.start, blocks.slot, None),
            row_of_hit,
        )
        levels, pairs, hits = _counted(cells, (blocks.levels, len(ticks.period_ns)), row, rows)
    coarser = 4 ** (blocks.levels - levels)
    of_row, of_stretch = np.divmod(pairs, stretches)
    sums_ns = hits * ticks.period_ns
    bias_ns = _take_ends_out(sums_ns, blocks, coarser, row_of_hit, pairs) / len(ticks.period_ns)
    return ClockSums(
        row=of_row,
        stretch=of_stretch,
        hits=hits.sum(axis=1),
        bias_ns=np.bincount(of_row, bias_ns, rows).astype(np.float64),
        by_level=_by_level(sums_ns, of_row, rows),
    )


def _added_up(
    levels: int, of_hit: NDArray[np.int32], ticks: Ticks, row_of_hit: NDArray[np.int32]
) -> tuple[int, NDArray[np.int64], NDArray[np.integer]]:
    """Add up what is counted by hit already; returns what `_counted` does."""
    _, stretches, slots = of_hit.shape
    order = np.argsort(row_of_hit, kind="stable")
    order = order[np.count_nonzero(row_of_hit < 0) :]
    row = row_of_hit.take(order).astype(np.int64)
    starts = run_starts(row)
    hits = np.add.reduceat(of_hit.take(order, axis=0), starts, axis=0).reshape(-1, slots)
    pairs = (row.take(starts)[:, None] * stretches + np.arange(stretches)).reshape(-1)
    is_hit = hits.any(axis=1)
    shape = (-1, 4**levels, len(ticks.period_ns))
    return levels, pairs[is_hit], hits[is_hit].reshape(shape)


def _counted(
    cells: Cells, shape: tuple[int, int], row_of_hit: NDArray[np.int32], rows: int
) -> tuple[int, NDArray[np.int64], NDArray[np.integer]]:
    """Count each row's samples by stretch, block and clock.

    Args:
        cells: the samples.
        shape: how often blocks are joined in fours, and how many clocks there are.
        row_of_hit: i32 the row of each of the cells' hits, -1 for none.
        rows: how many rows there are.

    Returns:
        how often blocks are joined in fours, i64[p] the pairs of a row and a stretch with a sample,
        as row times the number of stretches plus stretch, and [p, b, K] the counts.
    """
    most_levels, clocks = shape
    stretches = len(cells.start) - 1
    # Samples of no row are those of a row before the first, and are left out in the end.
    key_of_hit = (row_of_hit + 1).astype(np.int64) * stretches
    met = _Met((rows + 1) * stretches)
    for part, stretch in stretch_parts(cells.start):
        met.add(key_of_hit.take(cells.hit[part]) + stretch)
    found = met.keys()
    pairs = found[found >= stretches] - stretches
    levels = most_levels
    while levels and len(pairs) * 4**levels * clocks > _MOST_SUMS:
        levels -= 1
    coarser = 4 ** (most_levels - levels)
    slots = 4**levels * clocks
    hits = np.zeros(len(found) * slots, np.int64)
    for part, stretch in stretch_parts(cells.start):
        slot = cells.slot[part]
        if coarser > 1:
            slot = slot // clocks // coarser * clocks + slot % clocks
        cell = met.place(key_of_hit.take(cells.hit[part]) + stretch) * slots
        cell += slot
        np.add.at(hits, cell, 1 if cells.times is None else cells.times[part])
    of_rows = hits[(len(found) - len(pairs)) * slots :]
    return levels, pairs, of_rows.reshape(len(pairs), 4**levels, clocks)


class _Met:
    """The distinct ones of keys below `bound`: a table of all, or where that is too large a set."""

    def __init__(self, bound: int) -> None:
        self._is_met = np.zeros(bound, np.bool_) if bound <= _LARGEST_TABLE else None
        self._parts: list[NDArray[np.int64]] = []
        self._keys = np.empty(0, np.int64)
        self._place = np.empty(0, np.int64)

    def add(self, keys: NDArray[np.int64]) -> None:
        """Take keys."""
        if self._is_met is not None:
            self._is_met[keys] = True
        else:
            self._parts.append(distinct(keys))

    def keys(self) -> NDArray[np.int64]:
        """Return all keys that were taken, ascending; `place` works from then on."""
        if self._is_met is None:
            self._keys = distinct(np.concatenate([self._keys, *self._parts]))
        else:
            self._keys = np.flatnonzero(self._is_met)
            self._place = np.zeros(len(self._is_met), np.int64)
            self._place[self._keys] = np.arange(len(self._keys))
        return self._keys

    def place(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which of the distinct ones each key is."""
        if self._is_met is None:
            return np.searchsorted(self._keys, keys)
        return self._place.take(keys)


def _take_ends_out(
    sums_ns: NDArray[np.float64],
    blocks: Blocks,
    coarser: int,
    row_of_hit: NDArray[np.int32],
    pairs: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Take out of each block's sums what its ends put in; return what the outer ends did, f64[p].

    The row that ran across an end has the sawtooth of each clock in the block before, and the
    negative of it in the block after. Where the hits on either side are of two rows, it is half
    of one and half of the other.
    """
    stretches = len(blocks.before)
    sawtooth_ns = blocks.sawtooth_ns[:, ::coarser]
    last = sawtooth_ns.shape[1] - 1
    bias_ns = np.zeros(len(pairs))
    for hit in (blocks.before[:, ::coarser], blocks.after[:, ::coarser]):
        row = np.where(hit >= 0, row_of_hit.take(hit, mode="clip"), np.int32(-1))
        stretch, end = np.nonzero(row >= 0)
        key = row[stretch, end].astype(np.int64) * stretches + stretch
        pair = np.searchsorted(pairs, key)
        half_ns = sawtooth_ns[stretch, end] / 2.0
        closes, opens = end > 0, end < last
        np.add.at(sums_ns, (pair[closes], end[closes] - 1), -half_ns[closes])
        np.add.at(sums_ns, (pair[opens], end[opens]), half_ns[opens])
        sign = (end == last).astype(np.float64) - (end == 0)
        np.add.at(bias_ns, pair, sign * half_ns.sum(axis=1))
    return bias_ns


def _by_level(
    sums_ns: NDArray[np.float64], of_row: NDArray[np.int64], rows: int
) -> tuple[Disagreement, ...]:
    """Compare the clocks in blocks of each length, from the longest."""
    pairs, blocks, clocks = sums_ns.shape
    lengths = 1 + (blocks.bit_length() - 1) // 2
    variance, squares = np.empty((lengths, pairs)), np.empty((lengths, pairs))
    # Some pairs at once, whose temporaries stay in the cache.
    step = max(_SUMS_AT_ONCE // (blocks * clocks), 1)
    for first in range(0, pairs, step):
        part = slice(first, first + step)
        # Clocks first, so that adding them up takes whole columns.
        sums = np.ascontiguousarray(sums_ns[part].transpose(2, 0, 1))
        for length in range(lengths):
            deviation = sums - sums.sum(axis=0) / clocks
            deviation *= deviation
            of_blocks = deviation.sum(axis=0) / (clocks * (clocks - 1))
            variance[length, part] = of_blocks.sum(axis=1)
            squares[length, part] = np.einsum("pb,pb->p", of_blocks, of_blocks)
            if length < lengths - 1:
                fours = sums.reshape(clocks, sums.shape[1], -1, 4)
                sums = fours[..., 0] + fours[..., 1] + fours[..., 2] + fours[..., 3]
    levels = []
    for of_pair, squares_of_pair in zip(variance[::-1], squares[::-1], strict=True):
        total = np.bincount(of_row, of_pair, rows).astype(np.float64)
        square = np.bincount(of_row, squares_of_pair, rows)
        ratio = np.divide(total**2, square, out=np.zeros(rows), where=square > 0)
        freedom = np.maximum((clocks + 1) * ratio - 2.0, clocks - 1.0)
        levels.append(Disagreement(total, freedom))
    return tuple(levels)
