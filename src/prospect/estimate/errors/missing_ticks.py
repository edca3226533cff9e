"""Ticks that gave no sample: before which samples they stand, in the order in which all were due.

Comes in: the gaps in the grids of timers. Goes out: `MissingTicks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.columns.buffers import segments
from prospect.columns.sorting import run_starts
from prospect.estimate.clocks.gaps import find_gaps
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.clocks.grid import Grid

    Rows = NDArray[np.int64]
    Numbers = NDArray[np.float64]

_Number = TypeVar("_Number", np.int64, np.float64)
# A due time is a sum of products; a tick is never this much nearer to another, in periods.
_ROUNDING = 1e-6


class MissingTicks(NamedTuple):
    """Ticks of all clocks without a sample.

    Attributes:
        behind: i64[q] the samples, ascending, that such ticks stand before.
        number: i64[q] how many these are, from the sample before or the stretch's beginning on.
        at_end: i64[s] those behind each stretch's last sample.
    """

    behind: Rows
    number: Rows
    at_end: Rows


def missing_of_one_clock(grid: Grid, stretch: Rows, start: Rows) -> MissingTicks:
    """Count them where each CPU has one clock, whose gaps hold no other clock's samples.

    Args:
        grid: the recording's, whose samples stand in the order in which they were due.
        stretch: i64[l] of a CPU, of each of the grid's.
        start: i64[s + 1] where each stretch's samples begin.
    """
    gaps = find_gaps(grid, None)
    of_gap = stretch.take(gaps.stretch)
    # What a throttle ended goes on with the next of the grid's stretches.
    behind = np.where(gaps.behind >= 0, gaps.behind, grid.start.take(gaps.stretch + 1))
    is_inside = behind < start.take(of_gap + 1)
    row, count = _by_sample(behind[is_inside], gaps.count[is_inside])
    at_end = np.bincount(of_gap[~is_inside], gaps.count[~is_inside], len(start) - 1)
    return MissingTicks(row, count, at_end.astype(np.int64))


def missing_of_bank(
    grid: Grid, line: tuple[Numbers, Numbers], stretch: Rows, start: Rows
) -> MissingTicks:
    """Count them where the gap of a clock may hold samples of others.

    Args:
        grid: the recording's.
        line: f64[l] where each of the grid's stretches begins on one line of time, and f64[n] when
            the samples' ticks were due on it, ascending.
        stretch: i64[l] of a CPU, of each of the grid's; `s` for those of other events.
        start: i64[s + 1] where each stretch's samples begin.
    """
    offset_ns, due_ns = line
    gaps, count = find_gaps(grid, None), len(start) - 1
    of_gap = stretch.take(gaps.stretch)
    chosen = np.flatnonzero(of_gap < count)
    of_gap, ticks = of_gap.take(chosen), gaps.count.take(chosen)
    of_grid = gaps.stretch.take(chosen)
    period_ns = grid.stretches.period_ns.take(of_grid)
    from_ns = offset_ns.take(of_grid) + gaps.due_ns.take(chosen)
    # Other clocks' samples among a gap's ticks: the n-th tick is n periods behind `from_ns`.
    first = np.searchsorted(due_ns, from_ns + _ROUNDING * period_ns, "right")
    behind = np.searchsorted(due_ns, from_ns + (ticks + 1 - _ROUNDING) * period_ns)
    behind = np.clip(behind, first, np.maximum(start.take(of_gap + 1), first))
    among = behind - first
    at = segments(first, among)
    since = (due_ns.take(at) - np.repeat(from_ns, among)) / np.repeat(period_ns, among)
    before = np.clip(np.ceil(since - _ROUNDING) - 1.0, 0.0, np.repeat(ticks, among))
    own = np.diff(before, prepend=0.0)
    heads = (np.cumsum(among) - among)[among > 0]
    own[heads] = before[heads]
    left = ticks.astype(np.float64)
    left[among > 0] -= before[np.cumsum(among)[among > 0] - 1]
    is_inside = behind < start.take(of_gap + 1)
    at_end = np.bincount(of_gap[~is_inside], left[~is_inside], count)
    row, missing = _by_sample(
        np.concatenate((at, behind[is_inside])), np.concatenate((own, left[is_inside]))
    )
    return MissingTicks(row, missing.astype(np.int64), at_end.astype(np.int64))


def _by_sample(row: Rows, count: NDArray[_Number]) -> tuple[Rows, NDArray[_Number]]:
    """Add up what stands before the same sample; return the samples, ascending, and the sums."""
    order = np.argsort(row, kind="stable")
    order = order[count.take(order) > 0]
    row, count = row.take(order), count.take(order)
    first = run_starts(row)
    return row.take(first), np.add.reduceat(count, first) if len(first) else count
