"""Stretches of time in which clocks ran, cut into blocks.

Comes in: samples on the grids of their clocks. Goes out: `Blocks`, each sample's among them, and
what was hit around their ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.table_rows import looked_up
from prospect.estimate.errors.ticks import stretch_parts
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.errors.ticks import DueTicks

_MOST_LEVELS = 3
_PERIODS_A_BLOCK = 16
# Of hits, stretches, blocks and clocks: more cells than that are not kept by hit.
_MOST_CELLS = 1 << 22
_LEAST_CELLS = 1 << 16


class Blocks(Record):
    """Stretches cut into 4^levels equal blocks, and each again into one block in fours.

    Attributes:
        levels: how often blocks are joined in fours until a stretch is one block.
        start: i64[s + 1] where each stretch's samples begin, in the order in which they were due.
        hit_index: i32[n] what they hit.
        slot: u8 or wider [n] of each sample: its block within its stretch, times K, plus its clock.
        sawtooth_ns: f64[s, b + 1, K] by how much more a clock has counted at each end of a block
            than it does on average: from -T/2 just before a tick to T/2 just after.
        before, after: i32[s, b + 1] what was hit last before and first after each end, -1 for none.
        hits: i32[h, s, b * K] samples of each hit, by stretch and slot; None where that would be
            larger than what it is counted from.
    """

    levels: int
    start: NDArray[np.int64]
    hit_index: NDArray[np.int32]
    slot: NDArray[np.integer]
    sawtooth_ns: NDArray[np.float64]
    before: NDArray[np.int32]
    after: NDArray[np.int32]
    hits: NDArray[np.int32] | None


def cut_in_blocks(ticks: DueTicks, of_sample: NDArray[np.int32], hit_count: int) -> Blocks:
    """Cut each stretch into blocks, as many as leave a clock 16 periods in each, at most 64.

    Args:
        ticks: the samples.
        of_sample: i32 hit of each of the profile's samples, -1 for those not asked for.
        hit_count: how many rows of hits there are.
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


def _hits_by_slot(
    columns: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.integer]],
    shape: tuple[int, int, int],
) -> NDArray[np.int32] | None:
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


def _next_ticks(ticks: DueTicks, ends_ns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each clock's first tick at or behind each end of a block, f64[s, b + 1, K].

    It is on the grid of the clock's last sample before that end: grids move where the kernel
    restarts its timers.
    """
    own, period_ns = ticks.own, ticks.period_ns
    base_ns = np.repeat(own.first_ns[:, None, :], ends_ns.shape[1], axis=1)
    is_behind = np.zeros(base_ns.shape, np.bool_)
    for stretch, clock in np.argwhere(own.end > own.begin).tolist():
        due_ns = own.line_ns[own.begin[stretch, clock] : own.end[stretch, clock]]
        begin_ns = ticks.begin_ns[stretch]
        before = np.searchsorted(due_ns, begin_ns + ends_ns[stretch])
        at = np.flatnonzero(before)
        base_ns[stretch, at, clock] = due_ns.take(before[at] - 1) - begin_ns
        is_behind[stretch, at, clock] = True
    steps = np.ceil((ends_ns[:, :, None] - base_ns) / period_ns)
    return base_ns + np.where(is_behind, steps, np.maximum(steps, 0.0)) * period_ns


def _around(
    ticks: DueTicks,
    hit_index: NDArray[np.int32],
    sizes: NDArray[np.int64],
    ends_ns: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return what was hit around each end of a block; nothing, if not within a period of it.

    Args:
        ticks: the samples.
        hit_index: i32[n] what they hit.
        sizes: i64[s, b] how many there are in each block.
        ends_ns: f64[s, b + 1] from the stretch's beginning on.
    """
    inner = np.cumsum(sizes, axis=1)
    at_begin = np.zeros((len(sizes), 1), np.int64)
    after = ticks.start[:-1, None] + np.concatenate([at_begin, inner], axis=1)
    begin, end = ticks.start[:-1, None], ticks.start[1:, None]
    near_ns = float(ticks.period_ns.max())

    def hit(at: NDArray[np.int64]) -> NDArray[np.int32]:
        place = np.clip(at, 0, len(ticks.due_ns) - 1)
        since_ns = ticks.due_ns.take(place) - ticks.begin_ns[:, None]
        is_near = np.abs(since_ns - ends_ns) <= near_ns
        inside = (at >= begin) & (at < end)
        return np.where(inside & is_near, hit_index.take(place), np.int32(-1))

    before_hit, after_hit = hit(after - 1), hit(after)
    # Outside the stretch nothing is known but what is just inside.
    before_hit[:, 0], after_hit[:, -1] = after_hit[:, 0], before_hit[:, -1]
    return before_hit, after_hit
