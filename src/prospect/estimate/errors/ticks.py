"""The ticks of a clock bank, CPU by CPU: what all clocks of a CPU saw, in the order it was due.

Comes in: the grid of the recording's timers. Goes out: the samples of one event by *stretch*, a
time that one CPU was on line, with the ticks of every clock that gave no sample in their places. An
idle CPU delivers fewer samples than its clocks had ticks, so ticks are counted on the grid and
never from samples; a clock that the kernel had stopped had none.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import segments
from prospect.columns.sorting import run_starts
from prospect.estimate.clocks.gaps import find_gaps, tick_bounds
from prospect.profile.model import NO_CPU
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.estimate.clocks.grid import Grid
    from prospect.profile.model import ClockTable, Profile

# At least this part of the samples must come within a quarter of a period of their tick; samples
# at any time do so half the time.
_LEAST_ON_GRID = 0.75
_ON_GRID = 0.25
_LEAST_KNOWN = 0.99
# A due time is a sum of products; a tick is never this much nearer to another, in periods.
_ROUNDING = 1e-6
_SAMPLES_AT_ONCE = 1 << 16


class Ticks(Record):
    """Samples on the grids of their clocks, by stretch, in the order in which they were due.

    Attributes:
        hit_index: i32[n] rows of the profile's hits.
        start: i64[s + 1] where each stretch begins in `hit_index`.
        period_ns: f64[K].
        count: i64[s, K] ticks that each clock had.
    """

    hit_index: NDArray[np.int32]
    start: NDArray[np.int64]
    period_ns: NDArray[np.float64]
    count: NDArray[np.int64]


class DueTicks(Ticks):
    """The same with when each was due: of millions of samples columns to drop soon.

    Attributes:
        clock: u8[n].
        due_ns: f64[n] when the tick was due, on a line that has one stretch behind the other.
        begin_ns: f64[s] where each stretch begins on that line.
        behind: i64[q] the samples, ascending, that ticks without one stand before.
        missing: i64[q] how many ticks of all clocks these are, from the sample before or the
            stretch's beginning on.
        missing_at_end: i64[s] those behind each stretch's last sample.
        length_ns: f64[s] of each stretch.
        own: the same ticks, clock by clock.
    """

    clock: NDArray[np.uint8]
    due_ns: NDArray[np.float64]
    begin_ns: NDArray[np.float64]
    behind: NDArray[np.int64]
    missing: NDArray[np.int64]
    missing_at_end: NDArray[np.int64]
    length_ns: NDArray[np.float64]
    own: ClockTicks

    def without_times(self) -> Ticks:
        """Return the ticks alone: what error bars of rows need once time was cut into blocks."""
        return Ticks(
            hit_index=self.hit_index,
            start=self.start,
            period_ns=self.period_ns,
            count=self.count,
        )


class ClockTicks(Record):
    """When the samples of each clock in each stretch were due, in that order.

    Attributes:
        line_ns: f64[m] when ticks were due, on the line of `DueTicks`.
        begin, end: i64[s, K] where the samples of a stretch and a clock are in `line_ns`.
        first_ns: f64[s, K] each clock's first tick, from the beginning of the stretch.
    """

    line_ns: NDArray[np.float64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    first_ns: NDArray[np.float64]


def stretch_parts(start: NDArray[np.int64]) -> Iterator[tuple[slice, int]]:
    """Cut samples into parts of one stretch each whose temporaries stay in the cache.

    Args:
        start: i64[s + 1] where each stretch begins.
    """
    for stretch, (first, end) in enumerate(itertools.pairwise(start.tolist())):
        for begin in range(first, end, _SAMPLES_AT_ONCE):
            yield slice(begin, min(begin + _SAMPLES_AT_ONCE, end)), stretch


class _Stretches(Record):
    """Times that a CPU was on line: `cpu` i64[s], `begin_ns` and `end_ns` i64[s].

    `place` i64[c] is, of each row of the clocks, its stretch times K plus its clock, -1 for rows of
    other events.
    """

    cpu: NDArray[np.int64]
    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    period_ns: NDArray[np.float64]
    place: NDArray[np.int64]


def event_ticks(profile: Profile, event_index: int, grid: Grid | None) -> DueTicks | None:
    """Order the samples of an event as their ticks were due.

    Args:
        profile: what was recorded.
        event_index: row of its events.
        grid: its `tick_grid`.

    Returns:
        None where there is no grid: no clocks are known, or the samples do not lie on theirs.
    """
    clocks = profile.run.events[event_index].clocks
    stretches = _stretches(profile.clocks, event_index, clocks) if grid else None
    if stretches is None or grid is None:
        return None
    place = stretches.place.take(grid.stretches.clock_index)
    size = np.where(place >= 0, np.diff(grid.start), 0)
    of_event = profile.hits.event.take(profile.samples.hit_index) == event_index
    expected = np.count_nonzero(of_event)
    if not expected or size.sum() < _LEAST_KNOWN * expected:
        return None
    if not _is_on_grid(grid, place >= 0):
        return None
    return _in_order(profile, grid, stretches, _line(grid, stretches))


def _is_on_grid(grid: Grid, is_chosen: NDArray[np.bool_]) -> bool:
    """Whether most samples of the chosen stretches, bool[l], come soon after their ticks."""
    near_ns = np.where(is_chosen, _ON_GRID * grid.stretches.period_ns, -np.inf)
    near = sum(
        np.count_nonzero(grid.late_ns[part] < near_ns.take(grid.members.of_part(part)))
        for part in grid.members.parts()
    )
    return bool(near >= _LEAST_ON_GRID * np.diff(grid.start)[is_chosen].sum())


class _Line(NamedTuple):
    """All stretches of all CPUs, one behind the other on one line of time, none near the next.

    Attributes:
        begin_ns: f64[s] where each CPU's stretch begins on the line.
        offset_ns: f64[l] where each stretch of the grid does.
        due_ns: f64[m] when the tick of each of the grid's samples was due, on the line.
    """

    begin_ns: NDArray[np.float64]
    offset_ns: NDArray[np.float64]
    due_ns: NDArray[np.float64]


def _line(grid: Grid, stretches: _Stretches) -> _Line:
    period_ns, clocks = stretches.period_ns, len(stretches.period_ns)
    span_ns = (stretches.end_ns - stretches.begin_ns) + 4.0 * period_ns.max()
    begin_ns = np.cumsum(span_ns) - span_ns
    of_cpu = stretches.place.take(grid.stretches.clock_index) // clocks
    offset_ns = grid.stretches.begin_ns - stretches.begin_ns.take(of_cpu) + begin_ns.take(of_cpu)
    due_ns = np.empty(len(grid))
    for part in grid.members.parts():
        stretch = grid.members.of_part(part)
        due = due_ns[part]
        np.multiply(grid.tick[part], grid.stretches.period_ns.take(stretch), out=due)
        due += grid.phases.at(np.arange(part.start, part.stop), stretch)
        due += offset_ns.take(stretch)
    return _Line(begin_ns, offset_ns, due_ns)


def _in_order(profile: Profile, grid: Grid, stretches: _Stretches, line: _Line) -> DueTicks:
    samples, clocks, count = profile.samples, len(stretches.period_ns), len(stretches.cpu)
    place = stretches.place.take(grid.stretches.clock_index)
    size = np.where(place >= 0, np.diff(grid.start), 0)
    order, due_ns = _by_due_time(grid, line, place >= 0)
    stretch = np.where(place >= 0, place // clocks, count)
    start = np.append(0, np.cumsum(np.bincount(stretch, size, count + 1)[:count])).astype(np.int64)
    behind, missing, at_end = _missing(grid, line, due_ns, stretch, start)
    first_ns, ticks = tick_bounds(grid)
    of_bank = place >= 0
    by_clock = np.bincount(place[of_bank], ticks[of_bank], count * clocks)
    return DueTicks(
        hit_index=samples.hit_index.take(order),
        clock=samples.clock.take(order),
        due_ns=due_ns,
        begin_ns=line.begin_ns,
        start=start,
        behind=behind,
        missing=missing,
        missing_at_end=at_end,
        length_ns=(stretches.end_ns - stretches.begin_ns).astype(np.float64),
        period_ns=stretches.period_ns,
        count=by_clock.astype(np.int64).reshape(count, clocks),
        own=_own(grid, stretches, line, first_ns),
    )


def _by_due_time(
    grid: Grid, line: _Line, is_chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the chosen samples in the order in which their ticks were due, and when, on the line.

    Args:
        grid: the recording's.
        line: its samples on one line of time.
        is_chosen: bool[l] by the grid's stretches.
    """
    order, due_ns = grid.sample_index, line.due_ns
    if not is_chosen.all():
        chosen = np.repeat(is_chosen, np.diff(grid.start))
        order, due_ns = order[chosen], due_ns[chosen]
    if (due_ns[1:] > due_ns[:-1]).all():
        return order, due_ns
    # Of each CPU there are as many ordered runs as it has clocks: that is soon sorted.
    turn = np.argsort(due_ns, kind="stable")
    in_turn_ns = due_ns.take(turn)
    if not (in_turn_ns[1:] > in_turn_ns[:-1]).all():
        # Ticks of several clocks at once stand in the order of the recording.
        turn = np.lexsort((order, due_ns))
    return order.take(turn), in_turn_ns


def _own(
    grid: Grid, stretches: _Stretches, line: _Line, first_ns: NDArray[np.float64]
) -> ClockTicks:
    shape = len(stretches.cpu), len(stretches.period_ns)
    row = np.empty(shape[0] * shape[1], np.int64)
    of_bank = np.flatnonzero(stretches.place >= 0)
    row[stretches.place[of_bank]] = of_bank
    # A clock that was throttled has several stretches in the grid, one behind the other.
    begin = np.searchsorted(grid.stretches.clock_index, row)
    end = np.searchsorted(grid.stretches.clock_index, row, "right")
    on_line_ns = (line.offset_ns + first_ns).take(begin).reshape(shape)
    return ClockTicks(
        line_ns=line.due_ns,
        begin=grid.start.take(begin).reshape(shape),
        end=grid.start.take(end).reshape(shape),
        first_ns=on_line_ns - line.begin_ns[:, None],
    )


def _missing(
    grid: Grid,
    line: _Line,
    due_ns: NDArray[np.float64],
    stretch: NDArray[np.int64],
    start: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Count the ticks without a sample before each sample, and behind the last of each stretch.

    Returns:
        i64[q] the samples that such ticks stand before, i64[q] how many, and i64[s] those behind
        the last.

    Args:
        grid: the recording's.
        line: its samples on one line of time.
        due_ns: f64[n] the chosen samples' ticks on that line, ascending.
        stretch: i64[l] of a CPU, of each of the grid's; `s` for those of other events.
        start: i64[s + 1] where each stretch begins in `due_ns`.
    """
    gaps, count = find_gaps(grid, None), len(start) - 1
    of_gap = stretch.take(gaps.stretch)
    chosen = np.flatnonzero(of_gap < count)
    of_gap, ticks = of_gap.take(chosen), gaps.count.take(chosen)
    of_grid = gaps.stretch.take(chosen)
    period_ns = grid.stretches.period_ns.take(of_grid)
    from_ns = line.offset_ns.take(of_grid) + gaps.due_ns.take(chosen)
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
    row = np.concatenate((at, behind[is_inside]))
    missing = np.concatenate((own, left[is_inside]))
    order = np.argsort(row, kind="stable")
    order = order[missing.take(order) > 0]
    row = row.take(order)
    first = run_starts(row)
    of_row = np.add.reduceat(missing.take(order), first) if len(first) else missing[:0]
    return row.take(first), of_row.astype(np.int64), at_end.astype(np.int64)


def _stretches(table: ClockTable, event_index: int, clocks: int) -> _Stretches | None:
    """Group the clocks' rows by CPU and time; None where a stretch lacks one of the clocks."""
    rows = np.flatnonzero(table.event == event_index)
    cpu, clock = table.cpu[rows].astype(np.int64), table.clock[rows].astype(np.int64)
    begin, end = table.begin_ns[rows].astype(np.int64), table.end_ns[rows].astype(np.int64)
    period = table.period_ns[rows]
    sound = (clock < clocks) & (period >= 1.0) & (cpu >= 0) & (cpu < NO_CPU)
    sound &= (begin >= 0) & (begin < end)
    if not len(rows) or len(rows) % clocks or not sound.all():
        return None
    # The n-th row of each clock of a CPU is of the CPU's n-th stretch.
    order = np.lexsort((begin, clock, cpu))
    turn = _turn_within(cpu.take(order) * clocks + clock.take(order))
    order = order[np.lexsort((clock.take(order), turn, cpu.take(order)))]
    by_clock = clock.take(order).reshape(-1, clocks)
    by_cpu = cpu.take(order).reshape(-1, clocks)
    periods = period.take(order).reshape(-1, clocks)
    if (
        (by_clock != np.arange(clocks)).any()
        or (by_cpu != by_cpu[:, :1]).any()
        or not np.allclose(periods, periods[0], rtol=1e-6)
    ):
        return None
    place = np.full(len(table.event), -1)
    place[rows[order]] = np.arange(len(order))
    return _Stretches(
        cpu=by_cpu[:, 0],
        begin_ns=begin.take(order).reshape(-1, clocks).min(axis=1),
        end_ns=end.take(order).reshape(-1, clocks).max(axis=1),
        period_ns=periods[0],
        place=place,
    )


def _turn_within(sorted_keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0, 1, 2 … within each run of equal keys."""
    is_first = np.append(True, sorted_keys[1:] != sorted_keys[:-1])
    row = np.arange(len(sorted_keys))
    return row - np.maximum.accumulate(np.where(is_first, row, 0))
