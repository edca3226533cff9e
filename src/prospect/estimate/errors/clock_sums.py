"""How far the clocks of a bank disagree about a row: over the whole run, and in blocks of it.

Each clock alone covers all the time, so that K clocks are K estimates of the same time, and the
variance of their mean is that of the K sums by K. The stretches of time in which clocks ran are cut
into `Blocks` of several lengths, each of which gives a variance. A block's ends cut a row's stays,
which would add disagreement without an error: but the position of the ends within each clock's
period is known, and so is the row that ran there. The remaining disagreement is about when the row
came and went in between, without bias at any length of block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import looked_up
from prospect.columns.grouping import counted
from prospect.columns.sorting import distinct, run_starts
from prospect.estimate.errors.ticks import stretch_parts
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from prospect.columns.array_types import F64, I32, I64, Ints
    from prospect.estimate.errors.ticks import DueTicks, Ticks

_MOST_LEVELS = 3
_PERIODS_A_BLOCK = 16
# Limits for cells of hits, stretches, blocks and clocks that are kept by hit.
_MOST_CELLS = 1 << 22
_LEAST_CELLS = 1 << 16

# Sums in memory; a partition with more pairs of row and CPU gets fewer blocks.
_MOST_SUMS = 1 << 23
_LARGEST_TABLE = 1 << 26
_SUMS_AT_ONCE = 1 << 15


class Blocks(Record):
    """Stretches cut into 4^levels equal blocks, which are joined in fours up to the whole stretch.

    Attributes:
        levels: how often blocks are joined in fours until a stretch is one block.
        start: i64[s + 1] where each stretch's samples begin, in the order in which they were due.
        hit_index: i32[n] their hits.
        slot: u8 or wider [n] of each sample: its block within its stretch, times K, plus its clock.
        sawtooth_ns: f64[s, b + 1, K] by how much more a clock has counted at each end of a block
            than it does on average: from -T/2 just before a tick to T/2 just after.
        before, after: i32[s, b + 1] the last hit before and the first after each end, -1 for none.
        hits: i32[h, s, b * K] samples of each hit, by stretch and slot; None if that would be
            larger than the samples.
    """

    levels: int
    start: I64
    hit_index: I32
    slot: Ints
    sawtooth_ns: F64
    before: I32
    after: I32
    hits: I32 | None


def cut_in_blocks(ticks: DueTicks, of_sample: I32, hit_count: int) -> Blocks:
    """Cut each stretch into blocks, at most 64, with at least 16 periods of a clock in each.

    `of_sample` is the i32 hit of each of the profile's samples, -1 for none.
    """
    periods = float(ticks.length_ns.max()) / float(ticks.period_ns.max())
    levels = 0
    while levels < _MOST_LEVELS and periods >= _PERIODS_A_BLOCK * 4 ** (levels + 1):
        levels += 1
    blocks, clocks = 4**levels, len(ticks.period_ns)
    block_ns = ticks.length_ns / blocks
    hit_index = looked_up(of_sample, ticks.order)
    slot = np.empty(len(ticks.due_ns), np.min_scalar_type(blocks * clocks))
    sizes = np.zeros((len(block_ns), blocks), np.int64)
    for part, stretch in stretch_parts(ticks.start):
        since_ns = ticks.due_ns[part] - ticks.begin_ns[stretch]
        block = np.clip(since_ns / block_ns[stretch], 0, blocks - 1).astype(np.int64)
        sizes[stretch] += np.bincount(block, minlength=blocks)
        slot[part] = block * clocks + ticks.clock[part]
    ends_ns = block_ns[:, None] * np.arange(blocks + 1)
    before, after = _around(ticks, hit_index, sizes, ends_ns)
    start = ticks.start
    if int(hit_index.min(initial=0)) < 0:
        # Samples outside the part have no row.
        of_hits = np.flatnonzero(hit_index >= 0)
        start = np.searchsorted(of_hits, start)
        hit_index, slot = hit_index.take(of_hits), slot.take(of_hits)
    return Blocks(
        levels=levels,
        start=start,
        hit_index=hit_index,
        slot=slot,
        sawtooth_ns=_next_ticks(ticks, ends_ns) - ends_ns[:, :, None] - ticks.period_ns / 2.0,
        before=before,
        after=after,
        hits=_hits_by_slot((start, hit_index, slot), (hit_count, len(block_ns), blocks * clocks)),
    )


def _hits_by_slot(columns: tuple[I64, I32, Ints], shape: tuple[int, int, int]) -> I32 | None:
    (start, hit_index, slot), (hits, stretches, slots) = columns, shape
    cells = hits * stretches * slots
    if cells > min(_MOST_CELLS, max(len(slot), _LEAST_CELLS)):
        return None
    counts = np.zeros(cells, np.int32)
    for part, stretch in stretch_parts(start):
        cell = hit_index[part].astype(np.int64)
        cell *= stretches
        cell += stretch
        cell *= slots
        cell += slot[part]
        np.add.at(counts, cell, 1)
    return counts.reshape(shape)


def _next_ticks(ticks: DueTicks, ends_ns: F64) -> F64:
    """Return each clock's first tick at or after each end of a block, f64[s, b + 1, K].

    It is on the grid of the clock's last sample before that end: grids move when the kernel
    restarts its timers.
    """
    own, period_ns = ticks.own, ticks.period_ns
    base_ns = np.repeat(own.first_ns[:, None, :], ends_ns.shape[1], axis=1)
    has_sample = np.zeros(base_ns.shape, np.bool_)
    for stretch, clock in np.argwhere(own.end > own.begin).tolist():
        due_ns = own.line_ns[own.begin[stretch, clock] : own.end[stretch, clock]]
        begin_ns = ticks.begin_ns[stretch]
        before = np.searchsorted(due_ns, begin_ns + ends_ns[stretch])
        at = np.flatnonzero(before)
        base_ns[stretch, at, clock] = due_ns.take(before[at] - 1) - begin_ns
        has_sample[stretch, at, clock] = True
    steps = np.ceil((ends_ns[:, :, None] - base_ns) / period_ns)
    return base_ns + np.where(has_sample, steps, np.maximum(steps, 0.0)) * period_ns


def _around(ticks: DueTicks, hit_index: I32, sizes: I64, ends_ns: F64) -> tuple[I32, I32]:
    """Return the hits around each end of a block, if within a period of it.

    `sizes` i64[s, b] is how many samples are in each block; `ends_ns` f64[s, b + 1] counts from the
    stretch's beginning.
    """
    inner = np.cumsum(sizes, axis=1)
    at_begin = np.zeros((len(sizes), 1), np.int64)
    after = ticks.start[:-1, None] + np.concatenate([at_begin, inner], axis=1)
    begin, end = ticks.start[:-1, None], ticks.start[1:, None]
    near_ns = float(ticks.period_ns.max())

    def hit(at: I64) -> I32:
        place = np.clip(at, 0, len(ticks.due_ns) - 1)
        since_ns = ticks.due_ns.take(place) - ticks.begin_ns[:, None]
        is_near = np.abs(since_ns - ends_ns) <= near_ns
        inside = (at >= begin) & (at < end)
        return np.where(inside & is_near, hit_index.take(place), np.int32(-1))

    before_hit, after_hit = hit(after - 1), hit(after)
    # Outside the stretch, the hits just inside are assumed.
    before_hit[:, 0], after_hit[:, -1] = after_hit[:, 0], before_hit[:, -1]
    return before_hit, after_hit


class Cells(NamedTuple):
    """Samples by hit, stretch and slot, or counts of them.

    Attributes:
        hit: i32[c] the hits, or parts of them.
        start: i64[s + 1] where each stretch begins.
        slot: i[c] as in `Blocks`.
        times: i64[c] how many samples; None for one each.
    """

    hit: I32
    start: I64
    slot: Ints
    times: I64 | None


class Disagreement(Record):
    """The variance of each row's time, from the clocks' disagreement in blocks of one length.

    `variance` f64[r] in ns²; `freedom` f64[r], its degrees of freedom.
    Source: Satterthwaite, Biometrics Bulletin 2 (1946), for the degrees of freedom of a sum.
    """

    variance: F64
    freedom: F64


class ClockSums(Record):
    """The counts of each clock for each row.

    Attributes:
        row, stretch: i64[p] the pairs of a row and a stretch with a sample.
        hits: i64[p, K] samples of each.
        bias_ns: f64[r] the known part of each row's error: cut off where the interval
            began and ended, while the row was running.
        by_level: from the whole stretch to the shortest blocks.
    """

    row: I64
    stretch: I64
    hits: I64
    bias_ns: F64
    by_level: tuple[Disagreement, ...]


def merged_cells(ticks: Ticks, blocks: Blocks, part_of_hit: I32, parts: int) -> Cells:
    """Count the samples of each part of the hits by stretch and slot."""
    stretches = len(ticks.count)
    slots = 4**blocks.levels * len(ticks.period_ns)
    # Samples of no part have part 0, which is removed in the end.
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
    row_of_hit: I32,
    rows: int,
    merged: tuple[Cells, I32] | None = None,
) -> ClockSums:
    """Add up each row's samples by clock, and compare the clocks.

    `row_of_hit` is i32[h], -1 for none. `merged` has the cells of parts of the hits and the row of
    each part, if known.
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


def _added_up(levels: int, of_hit: I32, ticks: Ticks, row_of_hit: I32) -> tuple[int, I64, Ints]:
    """Add up counts by hit; returns what `_counted` returns."""
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
    cells: Cells, shape: tuple[int, int], row_of_hit: I32, rows: int
) -> tuple[int, I64, Ints]:
    """Count each row's samples by stretch, block and clock.

    Args:
        shape: how often blocks are joined in fours, and how many clocks there are.
        row_of_hit: i32 the row of each of the cells' hits, -1 for none.

    Returns:
        how often blocks are joined in fours, i64[p] the pairs of a row and a stretch with a sample,
        as row times the number of stretches plus stretch, and [p, b, K] the counts.
    """
    most_levels, clocks = shape
    stretches = len(cells.start) - 1
    # Samples of no row have row 0, which is removed in the end.
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
    """The distinct keys below `bound`, in a table of all, or sorted if that is too large."""

    def __init__(self, bound: int) -> None:
        self._is_met = np.zeros(bound, np.bool_) if bound <= _LARGEST_TABLE else None
        self._parts: list[I64] = []
        self._keys = np.empty(0, np.int64)
        self._place = np.empty(0, np.int64)

    def add(self, keys: I64) -> None:
        if self._is_met is not None:
            self._is_met[keys] = True
        else:
            self._parts.append(distinct(keys))

    def keys(self) -> I64:
        """Return all keys that were added, ascending; `place` works from then on."""
        if self._is_met is None:
            self._keys = distinct(np.concatenate([self._keys, *self._parts]))
        else:
            self._keys = np.flatnonzero(self._is_met)
            self._place = np.zeros(len(self._is_met), np.int64)
            self._place[self._keys] = np.arange(len(self._keys))
        return self._keys

    def place(self, keys: I64) -> I64:
        """Return the number of each key among the distinct ones."""
        if self._is_met is None:
            return np.searchsorted(self._keys, keys)
        return self._place.take(keys)


def _take_ends_out(sums_ns: F64, blocks: Blocks, coarser: int, row_of_hit: I32, pairs: I64) -> F64:
    """Remove the effect of a block's ends from its sums; return that of the outer ends, f64[p].

    The row that ran across an end has the sawtooth of each clock in the block before, and the
    negative of it in the block after. If the hits on either side are of two rows, each has half of
    it.
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


def _by_level(sums_ns: F64, of_row: I64, rows: int) -> tuple[Disagreement, ...]:
    """Compare the clocks in blocks of each length, from the longest."""
    pairs, blocks, clocks = sums_ns.shape
    lengths = 1 + (blocks.bit_length() - 1) // 2
    variance, squares = np.empty((lengths, pairs)), np.empty((lengths, pairs))
    # Some pairs at once, so that temporaries stay in the cache.
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
