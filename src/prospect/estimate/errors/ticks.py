"""The ticks of a clock bank, CPU by CPU: those of all clocks of a CPU, in the order due.

The samples of an event are kept by *stretch*, a time that one CPU was online, with places between
them for the ticks of every clock without a sample. An idle CPU delivers fewer samples than its
clocks had ticks, so ticks are counted on the grid and never from samples; a clock that the kernel
had stopped had none.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import looked_up
from prospect.estimate.clocks.gaps import missing_of_bank, missing_of_one_clock, tick_bounds
from prospect.profile.model import NO_CPU
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.columns.array_types import F64, I64, U8, Bools, Ints
    from prospect.estimate.clocks.gaps import MissingTicks
    from prospect.estimate.clocks.grid import Grid
    from prospect.profile.model import ClockTable, Profile

# At least this share of the samples must come within a quarter of a period of their tick; random
# samples do so half the time.
_LEAST_ON_GRID = 0.75
_ON_GRID = 0.25
_LEAST_KNOWN = 0.99
_SAMPLES_AT_ONCE = 1 << 16


class Ticks(Record):
    """How many ticks the clocks of a bank had, by stretch.

    Attributes:
        count: i64[s, K] ticks of each clock.
    """

    period_ns: F64
    count: I64


class OrderedTicks(Ticks):
    """The same with the samples, by stretch, in the order in which their ticks were due.

    Attributes:
        order: i32 or i64[n] the samples.
        start: i64[s + 1] where each stretch begins in `order`.
        length_ns: f64[s] of each stretch.
        missing: the ticks without a sample.
    """

    order: Ints
    start: I64
    length_ns: F64
    missing: MissingTicks

    def without_samples(self) -> Ticks:
        """Return the counts alone, for error bars of rows."""
        return Ticks(period_ns=self.period_ns, count=self.count)


class DueTicks(OrderedTicks):
    """The same for several clocks, with the time due of each.

    Attributes:
        due_ns: f64[n] when the tick was due, on a line that has one stretch after the other.
        begin_ns: f64[s] where each stretch begins on that line.
        own: the same ticks, clock by clock.
    """

    clock: U8
    due_ns: F64
    begin_ns: F64
    own: ClockTicks


class ClockTicks(Record):
    """When the samples of each clock in each stretch were due, in that order.

    Attributes:
        line_ns: f64[m] when ticks were due, on the line of `DueTicks`.
        begin, end: i64[s, K] where the samples of a stretch and a clock are in `line_ns`.
        first_ns: f64[s, K] each clock's first tick, from the beginning of the stretch.
    """

    line_ns: F64
    begin: I64
    end: I64
    first_ns: F64


def stretch_parts(start: I64) -> Iterator[tuple[slice, int]]:
    """Cut samples into parts of one stretch each, so that temporaries stay in the cache."""
    for stretch, (first, end) in enumerate(itertools.pairwise(start.tolist())):
        for begin in range(first, end, _SAMPLES_AT_ONCE):
            yield slice(begin, min(begin + _SAMPLES_AT_ONCE, end)), stretch


class _BankStretches(Record):
    """Times that a CPU was online, by CPU and time.

    Attributes:
        period_ns: f64[K] of the bank's clocks.
        place: i64[c] the stretch of each row of the clocks times K plus its clock, -1 for rows of
            other events.
    """

    begin_ns: I64
    end_ns: I64
    period_ns: F64
    place: I64

    def __len__(self) -> int:
        return len(self.begin_ns)

    @property
    def length_ns(self) -> F64:
        """How long each is, f64[s]."""
        return (self.end_ns - self.begin_ns).astype(np.float64)


def event_ticks(
    profile: Profile, event_index: int, grid: Grid | None
) -> OrderedTicks | DueTicks | None:
    """Sort the samples of an event by the time that their ticks were due.

    Returns:
        `DueTicks` of several clocks; None if there is no grid: no clocks are known, or the
        samples are not on theirs.
    """
    clocks = profile.run.events[event_index].clocks
    stretches = _bank_stretches(profile.clocks, event_index, clocks) if grid else None
    if stretches is None or grid is None:
        return None
    place = stretches.place.take(grid.stretches.clock_index)
    is_chosen = place >= 0
    size = np.where(is_chosen, np.diff(grid.start), 0)
    of_event = profile.hits.event == event_index
    expected = np.count_nonzero(looked_up(of_event, profile.samples.hit_index))
    if not expected or size.sum() < _LEAST_KNOWN * expected or not _is_on_grid(grid, is_chosen):
        return None
    count = len(stretches)
    stretch = np.where(is_chosen, place // clocks, count)
    start = np.append(0, np.cumsum(np.bincount(stretch, size, count + 1)[:count])).astype(np.int64)
    first_ns, had = tick_bounds(grid)
    ticks = np.bincount(place[is_chosen], had[is_chosen], count * clocks)
    ticks = ticks.astype(np.int64).reshape(count, clocks)
    line = _line(grid, stretches)
    if clocks == 1 and is_chosen.all() and line.is_ascending(grid):
        return OrderedTicks(
            period_ns=stretches.period_ns,
            count=ticks,
            order=grid.sample_index,
            start=start,
            length_ns=stretches.length_ns,
            missing=missing_of_one_clock(grid, stretch, start),
        )
    every_ns = line.all_ns(grid)
    order, due_ns = _by_due_time(grid, every_ns, is_chosen)
    return DueTicks(
        period_ns=stretches.period_ns,
        count=ticks,
        order=order,
        start=start,
        length_ns=stretches.length_ns,
        missing=missing_of_bank(grid, (line.offset_ns, due_ns), stretch, start),
        clock=looked_up(profile.samples.clock, order),
        due_ns=due_ns,
        begin_ns=line.begin_ns,
        own=_own(grid, stretches, line, every_ns, first_ns),
    )


def _is_on_grid(grid: Grid, is_chosen: Bools) -> bool:
    """Return whether most samples of the chosen stretches, bool[l], come soon after their ticks."""
    near_ns = np.where(is_chosen, _ON_GRID * grid.stretches.period_ns, -np.inf)
    near = sum(
        np.count_nonzero(grid.late_ns[part] < near_ns.take(grid.members.of_part(part)))
        for part in grid.members.parts()
    )
    return bool(near >= _LEAST_ON_GRID * np.diff(grid.start)[is_chosen].sum())


class _Line(NamedTuple):
    """All stretches of all CPUs, one after another on one line of time, with gaps.

    Attributes:
        begin_ns: f64[s] where each CPU's stretch begins on the line.
        offset_ns: f64[l] where each stretch of the grid does.
    """

    begin_ns: F64
    offset_ns: F64

    def due_ns(self, grid: Grid, part: slice) -> F64:
        """Return when the ticks of a part of the grid's samples were due, on the line."""
        return grid.due_ns(part) + self.offset_ns.take(grid.members.of_part(part))

    def all_ns(self, grid: Grid) -> F64:
        """Return the same for all of the grid's samples, f64[m]."""
        due_ns = np.empty(len(grid))
        for part in grid.members.parts():
            due_ns[part] = self.due_ns(grid, part)
        return due_ns

    def is_ascending(self, grid: Grid) -> bool:
        """Whether the grid's samples are in the order in which they were due."""
        before_ns = np.full(1, -np.inf)
        for part in grid.members.parts():
            due_ns = self.due_ns(grid, part)
            if due_ns[0] <= before_ns[0] or not (due_ns[1:] > due_ns[:-1]).all():
                return False
            before_ns = due_ns[-1:]
        return True


def _line(grid: Grid, stretches: _BankStretches) -> _Line:
    period_ns, clocks = stretches.period_ns, len(stretches.period_ns)
    span_ns = (stretches.end_ns - stretches.begin_ns) + 4.0 * period_ns.max()
    begin_ns = np.cumsum(span_ns) - span_ns
    of_cpu = stretches.place.take(grid.stretches.clock_index) // clocks
    offset_ns = grid.stretches.begin_ns - stretches.begin_ns.take(of_cpu) + begin_ns.take(of_cpu)
    return _Line(begin_ns, offset_ns)


def _by_due_time(grid: Grid, due_ns: F64, is_chosen: Bools) -> tuple[Ints, F64]:
    """Return the chosen samples in the order in which their ticks were due, and when, on the line.

    `due_ns` f64[m] is when the grid's samples were due; `is_chosen` bool[l] is by its stretches.
    """
    order = grid.sample_index
    if not is_chosen.all():
        chosen = np.repeat(is_chosen, np.diff(grid.start))
        order, due_ns = order[chosen], due_ns[chosen]
    if (due_ns[1:] > due_ns[:-1]).all():
        return order, due_ns
    # Each CPU has as many ascending runs as clocks, which sort fast.
    turn = np.argsort(due_ns, kind="stable")
    in_turn_ns = due_ns.take(turn)
    if not (in_turn_ns[1:] > in_turn_ns[:-1]).all():
        # Simultaneous ticks of several clocks stay in the order of the recording.
        turn = np.lexsort((order, due_ns))
    return order.take(turn), in_turn_ns


def _own(
    grid: Grid, stretches: _BankStretches, line: _Line, due_ns: F64, first_ns: F64
) -> ClockTicks:
    shape = len(stretches), len(stretches.period_ns)
    row = np.empty(shape[0] * shape[1], np.int64)
    of_bank = np.flatnonzero(stretches.place >= 0)
    row[stretches.place[of_bank]] = of_bank
    # A clock that was throttled has several stretches in the grid, one after another.
    begin = np.searchsorted(grid.stretches.clock_index, row)
    end = np.searchsorted(grid.stretches.clock_index, row, "right")
    on_line_ns = (line.offset_ns + first_ns).take(begin).reshape(shape)
    return ClockTicks(
        line_ns=due_ns,
        begin=grid.start.take(begin).reshape(shape),
        end=grid.start.take(end).reshape(shape),
        first_ns=on_line_ns - line.begin_ns[:, None],
    )


def _bank_stretches(table: ClockTable, event_index: int, clocks: int) -> _BankStretches | None:
    """Group the clocks' rows by CPU and time; None if a stretch lacks one of the clocks."""
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
    return _BankStretches(
        begin_ns=begin.take(order).reshape(-1, clocks).min(axis=1),
        end_ns=end.take(order).reshape(-1, clocks).max(axis=1),
        period_ns=periods[0],
        place=place,
    )


def _turn_within(sorted_keys: I64) -> I64:
    """Return 0, 1, 2 … within each run of equal keys."""
    is_first = np.append(True, sorted_keys[1:] != sorted_keys[:-1])
    row = np.arange(len(sorted_keys))
    return row - np.maximum.accumulate(np.where(is_first, row, 0))
