"""Gaps: runs of ticks without a sample in the grids of timers.

A gap has a place and a number of ticks, and comes before one of the samples of all timers. Gaps
with full buffers of the kernel, and ticks of a timer that the kernel had stopped, are separate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.columns.buffers import segments
from prospect.columns.sorting import distinct, run_starts
from prospect.profile.model import STOP_FULL
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.columns.array_types import F64, I64, U64, Bools
    from prospect.estimate.clocks.grid import Grid
    from prospect.profile.model import ClockStopTable


GAP_INNER = 0
GAP_FULL = 1  # the kernel's buffer was full at some time in the gap
GAP_END = 2  # after the last sample of a stretch
GAP_KINDS = 3
# Longer than the walk of a Python stack in the interrupt, shorter than any clock's period.
_SEEKING_NS = np.uint64(50_000)
# Ticks are counted in 64 bits; only a damaged table has more.
_MOST_TICKS = 2.0**52
_Number = TypeVar("_Number", np.int64, np.float64)
# A due time is a sum of products; its error is less than this, in periods.
_ROUNDING = 1e-6


class Gaps(Record):
    """Runs of missing ticks, each within one stretch.

    Attributes:
        kind: i64[g] GAP_*.
        count: i64[g] missing ticks, at least 1.
        before, after: i64[g] rows of the grid: the samples around the gap, -1 for none.
        due_ns: f64[g] when the tick before the first missing one was due, from the stretch's start.
    """

    stretch: I64
    kind: I64
    count: I64
    before: I64
    after: I64
    due_ns: F64

    def __len__(self) -> int:
        return len(self.stretch)


class MissingTicks(NamedTuple):
    """Ticks of all clocks without a sample.

    Attributes:
        after: i64[q] the samples, ascending, that come after such ticks.
        number: i64[q] of these ticks, from the sample before or the stretch's beginning on.
        at_end: i64[s] those after each stretch's last sample.
    """

    after: I64
    number: I64
    at_end: I64


class _Ends(Record):
    """The grid at both ends of each stretch.

    Without a sample, the phase is 0; for a timer that ran before, as if it had begun at time 0: so
    the ticks of successive windows add up to those of all their time.

    Attributes:
        first, last: i64[·] rows of the grid, of those that have samples.
        tick_before: f64[s] the tick before the first possible one.
        last_tick: f64[s] the last possible one.
        first_phase_ns, last_phase_ns: f64[s].
    """

    has_samples: Bools
    first: I64
    last: I64
    tick_before: F64
    last_tick: F64
    first_phase_ns: F64
    last_phase_ns: F64


def find_gaps(grid: Grid, stops: ClockStopTable | None) -> Gaps:
    """Find every gap of every stretch."""
    ends = _ends(grid)
    # Before a sample: after the sample before, or the stretch's start.
    inner = grid.jumps.row
    is_first = np.zeros(len(inner), np.bool_)
    is_first[np.searchsorted(inner, ends.first)] = True
    before, before_tick = inner - 1, grid.jumps.before.copy()
    before[is_first], before_tick[is_first] = -1, ends.tick_before[ends.has_samples]
    missing = np.clip(grid.jumps.tick - before_tick - 1, 0.0, _MOST_TICKS)
    is_gap = missing > 0
    inner, before, before_tick = inner[is_gap], before[is_gap], before_tick[is_gap]
    # At each stretch's end: after its last sample, or its start.
    last, tick = np.full(len(ends.last_tick), -1), ends.tick_before.copy()
    last[ends.has_samples], tick[ends.has_samples] = ends.last, grid.jumps.last[ends.has_samples]
    missing_at_end = np.clip(ends.last_tick - tick, 0.0, _MOST_TICKS)
    at_end = np.flatnonzero(missing_at_end > 0)
    stretch = grid.members.stretch_of(inner)
    inner_ns = ends.first_phase_ns.take(stretch)
    inner_ns[before >= 0] = grid.phase_ns(before[before >= 0])
    period_ns = grid.stretches.period_ns
    gaps = Gaps(
        stretch=np.concatenate((stretch, at_end)),
        kind=np.repeat([GAP_INNER, GAP_END], [len(inner), len(at_end)]),
        count=np.concatenate((missing[is_gap], missing_at_end[at_end])).astype(np.int64),
        before=np.concatenate((before, last[at_end])),
        after=np.concatenate((inner, np.full(len(at_end), -1))),
        due_ns=np.concatenate(
            (
                inner_ns + before_tick * period_ns.take(stretch),
                ends.last_phase_ns[at_end] + tick[at_end] * period_ns[at_end],
            )
        ),
    )
    if stops is not None:
        gaps.kind[_holds_full_buffer(grid, stops, gaps)] = GAP_FULL
    return gaps


def missing_of_one_clock(grid: Grid, stretch: I64, start: I64) -> MissingTicks:
    """Return missing ticks if each CPU has one clock, whose gaps hold no other clock's samples.

    Args:
        grid: its samples are in the order in which they were due.
        stretch: i64[l] the CPU's stretch of each of the grid's.
        start: i64[s + 1] where each stretch's samples begin.
    """
    gaps = find_gaps(grid, None)
    of_gap = stretch.take(gaps.stretch)
    # A stretch that a throttle ended continues in the next of the grid's stretches.
    after = np.where(gaps.after >= 0, gaps.after, grid.start.take(gaps.stretch + 1))
    is_inside = after < start.take(of_gap + 1)
    row, count = _by_sample(after[is_inside], gaps.count[is_inside])
    at_end = np.bincount(of_gap[~is_inside], gaps.count[~is_inside], len(start) - 1)
    return MissingTicks(row, count, at_end.astype(np.int64))


def missing_of_bank(grid: Grid, line: tuple[F64, F64], stretch: I64, start: I64) -> MissingTicks:
    """Return missing ticks if the gap of a clock may hold samples of other clocks.

    Args:
        line: f64[l] where each of the grid's stretches begins on one line of time, and f64[n] when
            the samples' ticks were due on it, ascending.
        stretch: i64[l] the CPU's stretch of each of the grid's; `s` for those of other events.
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
    # Other clocks' samples among a gap's ticks: the n-th tick is n periods after `from_ns`.
    first = np.searchsorted(due_ns, from_ns + _ROUNDING * period_ns, "right")
    after = np.searchsorted(due_ns, from_ns + (ticks + 1 - _ROUNDING) * period_ns)
    after = np.clip(after, first, np.maximum(start.take(of_gap + 1), first))
    among = after - first
    at = segments(first, among)
    since = (due_ns.take(at) - np.repeat(from_ns, among)) / np.repeat(period_ns, among)
    before = np.clip(np.ceil(since - _ROUNDING) - 1.0, 0.0, np.repeat(ticks, among))
    own = np.diff(before, prepend=0.0)
    heads = (np.cumsum(among) - among)[among > 0]
    own[heads] = before[heads]
    left = ticks.astype(np.float64)
    left[among > 0] -= before[np.cumsum(among)[among > 0] - 1]
    is_inside = after < start.take(of_gap + 1)
    at_end = np.bincount(of_gap[~is_inside], left[~is_inside], count)
    row, missing = _by_sample(
        np.concatenate((at, after[is_inside])), np.concatenate((own, left[is_inside]))
    )
    return MissingTicks(row, missing.astype(np.int64), at_end.astype(np.int64))


def _by_sample(row: I64, count: NDArray[_Number]) -> tuple[I64, NDArray[_Number]]:
    """Add up ticks before the same sample; return the samples, ascending, and the sums."""
    order = np.argsort(row, kind="stable")
    order = order[count.take(order) > 0]
    row, count = row.take(order), count.take(order)
    first = run_starts(row)
    return row.take(first), np.add.reduceat(count, first) if len(first) else count


def tick_bounds(grid: Grid) -> tuple[F64, F64]:
    """Return each stretch's first tick, f64[s] ns from its start, and its number of ticks.

    Ticks before a throttle and after it count; in between there are none.
    """
    ends = _ends(grid)
    first_ns = ends.first_phase_ns + (ends.tick_before + 1) * grid.stretches.period_ns
    return first_ns, np.clip(ends.last_tick - ends.tick_before, 0.0, _MOST_TICKS)


def window_ticks(grid: Grid, clock_end_ns: U64) -> F64:
    """Return how many ticks each timer that ran before a window has in it, f64[r].

    They follow from the phase of its first stretch, even if the timer was stopped later. The grid
    is from `as_window`.
    """
    rows = np.flatnonzero(grid.ran_before)
    stretches = grid.stretches
    begin_ns = stretches.begin_ns[rows]
    end_ns = clock_end_ns.take(stretches.clock_index[rows]).astype(np.int64)
    length_ns = np.maximum(end_ns, begin_ns) - begin_ns
    ticks = np.floor((length_ns - _ends(grid).first_phase_ns[rows]) / stretches.period_ns[rows])
    counted: F64 = np.clip(ticks + 1, 0.0, _MOST_TICKS)
    return counted


def throttled_ticks(grid: Grid) -> F64:
    """Return f64[s]: how many ticks passed between each stretch and the one before it.

    This is the time from the last possible tick before a throttle to the first one after it, less
    one period: the first one's own. 0 for the first stretch of a clock.
    """
    stretches, ends = grid.stretches, _ends(grid)
    period_ns = stretches.period_ns
    # If not even tick 1 was due before the throttle, time counts from the start: tick 0.
    last_due_ns = np.maximum(ends.last_phase_ns + ends.last_tick * period_ns, 0.0)
    first_due_ns = ends.first_phase_ns + (ends.tick_before + 1) * period_ns
    passed_ns = np.diff(stretches.begin_ns, prepend=0) + first_due_ns - np.roll(last_due_ns, 1)
    ticks = passed_ns / period_ns - 1
    # If no tick followed, the last period is incomplete.
    ticks = np.where(ends.has_samples, ticks, np.floor(ticks))
    ticks[stretches.is_first] = 0.0
    clipped: F64 = np.clip(ticks, 0.0, _MOST_TICKS)
    return clipped


def _ends(grid: Grid) -> _Ends:
    stretches = grid.stretches
    has_samples = np.diff(grid.start) > 0
    first, last = grid.start[:-1][has_samples], grid.start[1:][has_samples] - 1
    first_phase_ns, last_phase_ns = np.zeros(len(stretches)), np.zeros(len(stretches))
    first_phase_ns[has_samples] = grid.phase_ns(first)
    last_phase_ns[has_samples] = grid.phase_ns(last)
    is_bare = grid.ran_before & ~has_samples
    first_phase_ns[is_bare] = (-stretches.begin_ns % stretches.period_ns)[is_bare]
    last_phase_ns[is_bare] = first_phase_ns[is_bare]
    # Tick 0 is the moment of switching on. After a throttle, some kernels have a tick at once.
    tick_before = np.where(grid.ran_before, -1.0, 0.0)
    first_tick = grid.jumps.tick.take(np.searchsorted(grid.jumps.row, first))
    tick_before[has_samples] = np.minimum(first_tick - 1, tick_before[has_samples])
    length_ns = (stretches.end_ns - stretches.begin_ns).astype(np.float64)
    return _Ends(
        has_samples=has_samples,
        first=first,
        last=last,
        tick_before=tick_before,
        last_tick=np.floor((length_ns - last_phase_ns) / stretches.period_ns),
        first_phase_ns=first_phase_ns,
        last_phase_ns=last_phase_ns,
    )


def _holds_full_buffer(grid: Grid, stops: ClockStopTable, gaps: Gaps) -> Bools:
    """Return bool[g]: gaps in or right after which the kernel reported a full buffer."""
    stretches = grid.stretches
    is_full = stops.kind == STOP_FULL
    stop_clock, stop_ns = stops.clock_index[is_full], stops.end_ns[is_full]
    clock, begin_ns = stretches.clock_index[gaps.stretch], stretches.begin_ns[gaps.stretch]
    end_ns = stretches.end_ns[gaps.stretch]
    after_ns = _sampled_ns(grid, gaps.before, begin_ns)
    until_ns = _sampled_ns(grid, gaps.after, end_ns)
    holds = np.zeros(len(gaps), np.bool_)
    for row in distinct(stop_clock).tolist():
        known_ns = np.sort(stop_ns[stop_clock == row])
        chosen = np.flatnonzero(clock == row)
        # A sample whose callers BPF reads has its time before these are written, and the record of
        # the loss comes in between.
        before, until = (
            np.searchsorted(known_ns, sampled_ns[chosen].astype(np.uint64) + _SEEKING_NS, "right")
            for sampled_ns in (after_ns, until_ns)
        )
        holds[chosen] = until > before
    return holds


def _sampled_ns(grid: Grid, rows: I64, otherwise_ns: I64) -> I64:
    """Return i64 the times of the grid's samples; `otherwise_ns` for -1."""
    sampled_ns, is_there = otherwise_ns.copy(), rows >= 0
    sampled_ns[is_there] = grid.time_ns.take(grid.sample_index.take(rows[is_there]))
    return sampled_ns
