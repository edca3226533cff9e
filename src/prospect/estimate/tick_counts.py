"""Ticks by what became of them, clock by clock.

Comes in: the clocks and samples of a Profile, and their grid. Goes out: `TickCounts`.

A timer that is held up, because interrupts are masked or the host took the CPU, fires as soon as it
can: the sample behind its gap is late. A timer that comes back on time was not held up; its CPU
slept, or the kernel withheld the samples of what ran (some sandboxes do, of idle CPUs too). So a
gap counts as idle if the sample behind it is on time, or if process zero was hit on both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prospect.estimate.gaps import (
    GAP_END,
    GAP_FULL,
    GAP_INNER,
    GAP_KINDS,
    find_gaps,
    throttled_ticks,
)
from prospect.estimate.stretches import usable_periods_ns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.gaps import Gaps
    from prospect.estimate.grid import Grid
    from prospect.profile.model import ClockTable, Profile

    Rows = NDArray[np.int64]

_BUSY, _IDLE = 0, 1
# How late a timer that was not held up may be, as part of its period; never less than the usual
# work of an interrupt, never so much that half of the held-up ones would pass.
_ON_TIME = 1 / 32
_LEAST_ON_TIME_NS = 50_000.0
_MOST_ON_TIME = 1 / 4
_MOST_TICKS = 2.0**52


class TickCounts(NamedTuple):
    """Ticks by kind, i64[r] each.

    Attributes:
        expected: whole periods in the time that the clock ran.
        recorded: samples.
        lost: samples that the kernel could not deliver, as it counted them.
        throttled: ticks while the kernel had stopped the timer.
        idle: ticks without a sample, the CPU being idle or the timer not held up.
        busy: ticks without a sample, the timer being held up.
    """

    expected: Rows
    recorded: Rows
    lost: Rows
    throttled: Rows
    idle: Rows
    busy: Rows

    @property
    def closure(self) -> Rows:
        """Expected ticks that no other column accounts for, i64[r]; negative where too many are."""
        closure: Rows = self.expected - sum(self[1:])
        return closure

    @property
    def closure_share(self) -> NDArray[np.float64]:
        """The closure error as a part of the expected ticks, f64[r]."""
        return self.closure / np.maximum(self.expected, 1)

    def summed(self, group: Rows, group_count: int) -> TickCounts:
        """Return the sums of rows by group."""
        return TickCounts(
            *(np.bincount(group, column, group_count).astype(np.int64) for column in self)
        )


def count_ticks(
    profile: Profile, grid: Grid, group: Rows, group_count: int
) -> tuple[TickCounts, Rows, int]:
    """Count ticks by clock and CPU, whatever stretches these ran in.

    Returns:
        the counts, i64[g] those of the throttled ticks that passed while the CPU was idle, and how
        many other records were lost.
    """
    clocks = profile.clocks
    # One more, for "no sample": it leaves the other side to tell.
    is_idle = np.append(_hits_idle(profile).take(grid.sample_index), True)

    def summed(ticks: NDArray[np.float64] | Rows) -> Rows:
        return np.rint(np.bincount(group, ticks, group_count)).astype(np.int64)

    def by_clock(ticks: NDArray[np.float64]) -> Rows:
        return summed(np.bincount(grid.stretches.clock_index, ticks, len(clocks)))

    gaps = find_gaps(grid, profile.clock_stops)
    missing = _missing(grid, gaps, group, group_count, is_idle)
    throttled = throttled_ticks(grid)
    has_others = np.zeros(group_count, np.bool_)
    has_others[group] = clocks.clock == 0
    told = summed(np.clip(clocks.lost, 0, _MOST_TICKS))
    lost, missing = _share_out(told, missing, has_others)
    counts = TickCounts(
        expected=summed(_expected(clocks)),
        recorded=summed(grid.recorded),
        lost=lost,
        throttled=by_clock(throttled),
        idle=missing[:, _IDLE],
        busy=missing[:, _BUSY],
    )
    idle_throttled = by_clock(throttled * _is_idle_before(grid, is_idle))
    return counts, idle_throttled, int((told - lost).sum())


def _hits_idle(profile: Profile) -> NDArray[np.bool_]:
    """Return bool[n]: which samples hit process zero."""
    is_zero = profile.processes.pid.take(profile.hits.process_index) == 0
    is_idle: NDArray[np.bool_] = is_zero.take(profile.samples.hit_index)
    return is_idle


def _expected(clocks: ClockTable) -> NDArray[np.float64]:
    ran_ns = np.maximum(clocks.end_ns, clocks.begin_ns) - clocks.begin_ns
    ticks = np.floor(ran_ns.astype(np.float64) / usable_periods_ns(clocks))
    expected: NDArray[np.float64] = np.minimum(ticks, _MOST_TICKS)
    return expected


def _is_idle_before(grid: Grid, is_idle: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return bool[s]: whether the CPU was idle on both sides of each stretch's begin."""
    has_samples = np.diff(grid.start) > 0
    none = len(is_idle) - 1
    first = np.where(has_samples, grid.start[:-1], none)
    last = np.roll(np.where(has_samples, grid.start[1:] - 1, none), 1)
    is_known = (first != none) | (last != none)
    both: NDArray[np.bool_] = is_idle.take(first) & is_idle.take(last) & is_known
    return both


def _missing(
    grid: Grid, gaps: Gaps, group: Rows, group_count: int, is_idle: NDArray[np.bool_]
) -> Rows:
    """Return i64[g, GAP_KINDS, 2]: missing ticks by group of clock rows, _BUSY or _IDLE."""
    period_ns = grid.stretches.period_ns.take(gaps.stretch)
    limit_ns = np.maximum(period_ns * _ON_TIME, _LEAST_ON_TIME_NS)
    limit_ns = np.minimum(limit_ns, period_ns * _MOST_ON_TIME)
    # Where a clock stopped before a sample came, nothing tells that its timer was held up.
    late_ns = np.append(grid.late_ns, 0.0).take(gaps.behind)
    both_idle = is_idle.take(gaps.before) & is_idle.take(gaps.behind)
    state = np.where((late_ns <= limit_ns) | both_idle, _IDLE, _BUSY)
    row = group.take(grid.stretches.clock_index.take(gaps.stretch))
    cell = (row * GAP_KINDS + gaps.kind) * 2 + state
    ticks = np.bincount(cell, gaps.count, group_count * GAP_KINDS * 2)
    return ticks.astype(np.int64).reshape(-1, GAP_KINDS, 2)


def _share_out(told: Rows, missing: Rows, has_others: NDArray[np.bool_]) -> tuple[Rows, Rows]:
    """Charge losses to the gaps that may hold them.

    Losses at the very end of a run have no record that tells when they were. What is missing beside
    losses is idle in the same proportion as in the other gaps: of a long gap, how late the sample
    behind it was says little.

    Args:
        told: i64[g] losses as the kernel counted them.
        missing: i64[g, GAP_KINDS, 2] ticks without a sample.
        has_others: bool[g] whether the counter counts other records too: that of the one clock
            that reports mappings and tasks does. What is beyond the ticks due is of that kind.

    Returns:
        i64[g] lost ticks, and i64[g, 2] missing ones.
    """
    inner = missing[:, GAP_INNER]
    left, rest = told.copy(), inner.copy()
    for kind in (GAP_FULL, GAP_END):
        ticks = missing[:, kind].sum(axis=1)
        taken = np.minimum(left, ticks)
        left -= taken
        witness = np.where(inner.sum(axis=1, keepdims=True) > 0, inner, missing[:, kind])
        idle_share = witness[:, _IDLE] / np.maximum(witness.sum(axis=1), 1)
        idle = np.rint((ticks - taken) * idle_share).astype(np.int64)
        rest[:, _IDLE] += idle
        rest[:, _BUSY] += ticks - taken - idle
    return told - np.where(has_others, left, 0), rest
