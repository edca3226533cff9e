"""Samples of timers, aligned with the grid of ticks that each timer keeps.

For each *stretch* (a clock of a CPU, from a start of its timer to the next stop) a `Grid` has the
samples in time order, the tick of each and its delay.

A timer that is served late is forwarded by whole periods, so its grid does not move while it runs:
a sample's distance from the grid is its delay. When another user of perf opens an event on the CPU,
the kernel stops all timers there and restarts them with the rest of their period, some microseconds
later. So the phase of the grid is estimated from the samples themselves (`grid_phases`): a timer is
never early and mostly a few microseconds late, so the phase is just before the place in the period
where samples are densest.

Only the columns of ticks and of delays are as long as the samples. All others are made part by
part, in the CPU's cache, and made again when needed. That is faster than memory that was not
touched before.
Source: ``perf_swevent_hrtimer()``, ``perf_swevent_cancel_hrtimer()`` in ``kernel/events/core.c``,
``hrtimer_forward()`` in ``kernel/time/hrtimer.c`` (Linux 6.18).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from prospect.columns import sorting
from prospect.columns.buffers import looked_up, segments
from prospect.profile.model import NO_CPU, STOP_THROTTLED
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from prospect.columns.array_types import F64, I64, U64, Bools, Ints
    from prospect.profile.model import ClockStopTable, ClockTable, Profile

# Samples that share one estimate of the phase: few enough to follow restarts, many enough that the
# earliest of them was hardly late.
_BLOCK = 64
# So many blocks and their temporaries stay in a CPU's second-level cache.
_BLOCKS_AT_ONCE = 512
# The longest time, in blocks, in which every sample comes late. Not more: recordings on another
# clock than the timers' drift against these in either direction.
_BLOCKS_AHEAD = 16
# The phase is where this many samples of a block are closest together: timely samples are within
# microseconds, late ones anywhere in the period.
_DENSE = _BLOCK // 4
# How far before its tick a sample may seem to be, as a part of the period: the phase is an
# estimate, and a sample that is late by nearly a whole period is rarer than a timely one. Samples
# of one timer vary by some microseconds with any period, which is a large part of a short one.
_EARLIEST = 1 / 64
_LEAST_EARLIEST_NS = 5_000.0
_MOST_EARLIEST = 1 / 4

# 146 years of uptime: later is damage, and sums of times must fit in 64 bits.
_LATEST_NS = np.uint64(2**62)
_SHORTEST_PERIOD_NS = 1.0

_ROWS_AT_ONCE = 1 << 15

_MOST_NARROW = np.iinfo(np.int32).max
_SAMPLES_AT_ONCE = 1 << 16
_CPU_BITS = 16  # of a CPU's number in a sample


def earliest_ns(period_ns: F64) -> F64:
    """Return how long before its tick a sample of a timer may seem to come, f64[s]."""
    longest = period_ns * _MOST_EARLIEST
    earliest: F64 = np.clip(period_ns * _EARLIEST, np.minimum(_LEAST_EARLIEST_NS, longest), longest)
    return earliest


class Phases(Record):
    """The phase of the grid around each sample.

    Attributes:
        start: i64[s + 1] where each stretch's samples begin.
        first_block: i64[s] where each stretch's blocks of samples begin.
        block_ns: f64[b] from the stretch's start on; that of its first block is within 0 and the
            period.
    """

    start: I64
    first_block: I64
    block_ns: F64

    def at(self, rows: I64, stretch: I64) -> F64:
        """Return the phase at samples, f64[r].

        `stretch` is i64[r], or [1] if all are in one.
        """
        number = rows - self.start.take(stretch)
        number //= _BLOCK
        number += self.first_block.take(stretch)
        return self.block_ns.take(number)


def grid_phases(residues_ns: Callable[[slice], F64], start: I64, period_ns: F64) -> Phases:
    """Estimate the phase of each sample's grid.

    The phase of a block is its earliest sample near the place where its samples are closest
    together. From block to block the phase moves the shorter way round.

    Args:
        residues_ns: returns f64[rows] time since the stretch's start, modulo the period.
        start: i64[s + 1] where stretches begin.
        period_ns: f64[s].
    """
    size = np.diff(start)
    blocks = -(-size // _BLOCK)
    stretch = np.repeat(np.arange(len(size)), blocks)
    number = np.arange(len(stretch)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    own_size, period = size.take(stretch), period_ns.take(stretch)
    # A last, incomplete block borrows from the one before; a short stretch repeats itself.
    first = start.take(stretch) + np.minimum(number * _BLOCK, np.maximum(own_size - _BLOCK, 0))
    width = np.minimum(own_size, _BLOCK)
    phase = np.empty(len(first))
    for begin in range(0, len(first), _BLOCKS_AT_ONCE):
        part = slice(begin, begin + _BLOCKS_AT_ONCE)
        own_first, own_width = first[part], width[part]
        residue_ns = residues_ns(slice(int(own_first[0]), int(own_first[-1] + own_width[-1])))
        own_first = own_first - own_first[0]
        if int(own_width.min()) == _BLOCK:
            blocked = sliding_window_view(residue_ns, _BLOCK)[own_first]
        else:
            blocked = residue_ns.take(own_first[:, None] + np.arange(_BLOCK) % own_width[:, None])
        blocked.sort(axis=1)
        phase[part] = _block_phases(blocked, period[part])
    moved = np.diff(phase, prepend=phase[:1])
    moved -= np.rint(moved / period) * period
    is_first = number == 0
    moved[is_first] = phase[is_first]
    # A running sum within each stretch: the sum before its first block is subtracted.
    running = np.cumsum(moved)
    before = (running - moved)[is_first]
    running -= np.repeat(before, blocks[blocks > 0])
    return Phases(start, np.cumsum(blocks) - blocks, _settled(running, stretch))


def _settled(phase_ns: F64, stretch: I64) -> F64:
    """Undo apparent restarts that were times in which every sample came late.

    A timer is never early and a restart only delays it, so a phase never goes back: if a later
    block has an earlier phase, that was the phase before, too. A single block that differs from its
    neighbours does not count.
    """
    settled = phase_ns
    if len(phase_ns) > 2:
        middle = np.sort((phase_ns[:-2], phase_ns[1:-1], phase_ns[2:]), axis=0)[1]
        has_both = stretch[:-2] == stretch[2:]
        settled = phase_ns.copy()
        settled[1:-1][has_both] = middle[has_both]
    earliest = settled.copy()
    for ahead in range(1, min(_BLOCKS_AHEAD, len(phase_ns) - 1) + 1):
        later = np.where(stretch[:-ahead] == stretch[ahead:], settled[ahead:], np.inf)
        earliest[:-ahead] = np.minimum(earliest[:-ahead], later)
    return earliest


def _block_phases(residue_ns: F64, period_ns: F64) -> F64:
    """Return the phase of each block of sorted residues, f64[blocks]."""
    ring = np.concatenate((residue_ns, residue_ns[:, : _DENSE - 1] + period_ns[:, None]), axis=1)
    spread = ring[:, _DENSE - 1 :] - residue_ns
    densest = spread.argmin(axis=1)
    rows = np.arange(len(residue_ns))
    guard = np.minimum(spread[rows, densest], earliest_ns(period_ns))
    earliest = residue_ns[rows, densest] - guard
    found = np.count_nonzero(residue_ns < earliest[:, None], axis=1)
    phases: F64 = residue_ns[rows, found]
    return phases


class Stretches(Record):
    """Times in which a timer ran, in order of clock row and time.

    Attributes:
        clock_index: i64[s] into clocks.
        begin_ns, end_ns: i64[s].
        is_first: bool[s] whether the timer was switched on at `begin_ns`, so that its first tick
            comes a period later. After a throttle it comes at once.
    """

    clock_index: I64
    period_ns: F64
    begin_ns: I64
    end_ns: I64
    is_first: Bools

    def __len__(self) -> int:
        return len(self.clock_index)


def clock_stretches(clocks: ClockTable, stops: ClockStopTable | None) -> Stretches:
    """Cut the time that each clock ran at its throttles; each clock has one stretch at least."""
    rows = np.arange(len(clocks))
    begin_ns = np.minimum(clocks.begin_ns, _LATEST_NS).astype(np.int64)
    end_ns = np.maximum(np.minimum(clocks.end_ns, _LATEST_NS).astype(np.int64), begin_ns)
    throttled, from_ns, until_ns = _throttles(stops, len(clocks))
    from_ns = np.clip(from_ns, begin_ns.take(throttled), end_ns.take(throttled))
    until_ns = np.clip(until_ns, begin_ns.take(throttled), end_ns.take(throttled))
    row = np.concatenate((rows, throttled))
    begins, ends = np.concatenate((begin_ns, until_ns)), np.concatenate((from_ns, end_ns))
    by_begin = np.lexsort((begins, row))
    # The ends have their rows in another order: throttles first, the clock's own end last.
    by_end = np.lexsort((ends, np.concatenate((throttled, rows))))
    row = row.take(by_begin)
    begins = begins.take(by_begin)
    return Stretches(
        clock_index=row,
        period_ns=usable_periods_ns(clocks).take(row),
        begin_ns=begins,
        end_ns=np.maximum(ends.take(by_end), begins),
        is_first=np.diff(row, prepend=-1) != 0,
    )


def usable_periods_ns(clocks: ClockTable) -> F64:
    """Return f64[c] periods, at least 1, also for invalid ones in a damaged recording."""
    period_ns = np.nan_to_num(clocks.period_ns, nan=0.0, posinf=0.0, neginf=0.0)
    usable: F64 = np.maximum(period_ns, _SHORTEST_PERIOD_NS)
    return usable


def _throttles(stops: ClockStopTable | None, clock_count: int) -> tuple[I64, I64, I64]:
    """Return clock row, begin and end of each throttle of a known clock."""
    if stops is None:
        return (np.empty(0, np.int64),) * 3
    index = stops.clock_index.astype(np.int64)
    chosen = (stops.kind == STOP_THROTTLED) & (index >= 0) & (index < clock_count)
    return (
        index[chosen],
        np.minimum(stops.begin_ns[chosen], _LATEST_NS).astype(np.int64),
        np.minimum(stops.end_ns[chosen], _LATEST_NS).astype(np.int64),
    )


class Members(Record):
    """The samples of stretches, one stretch after the other; `len` is how many samples.

    Attributes:
        start: i64[s + 1] where each stretch begins.
    """

    start: I64

    def __len__(self) -> int:
        return int(self.start[-1])

    def stretch_of(self, rows: I64) -> I64:
        """Return the stretch of each of some samples, i64[r]."""
        return np.searchsorted(self.start, rows, "right") - 1

    def of_part(self, part: slice) -> I64:
        """Return the stretch of each sample of a part, i64[rows], or [1] if all have the same.

        Both broadcast with columns of the part's length.
        """
        first, last = self.stretch_of(np.array([part.start, part.stop - 1])).tolist()
        stretches = np.arange(first, last + 1)
        if first == last:
            return stretches
        edges = np.clip(self.start[first : last + 2], part.start, part.stop)
        return stretches.repeat(np.diff(edges))

    def filled(self) -> I64:
        """Return the stretches that have samples."""
        return np.flatnonzero(np.diff(self.start))

    def counted(self, chosen: Bools) -> I64:
        """Return how many samples of each stretch are chosen, i64[s]."""
        counts, filled = np.zeros(len(self.start) - 1, np.int64), self.filled()
        first = self.start.take(filled)
        counts[filled] = np.add.reduceat(chosen.view(np.uint8), first, dtype=np.int64)
        return counts

    def parts(self) -> Iterator[slice]:
        """Cut the samples into parts whose columns and temporaries stay in a CPU's cache."""
        for first in range(0, len(self), _ROWS_AT_ONCE):
            yield slice(first, min(first + _ROWS_AT_ONCE, len(self)))


class Jumps(Record):
    """The ticks of samples, as whole numbers; tick 0 is due at the phase.

    Attributes:
        row: i64[j] ascending: samples of another tick than the one after that of the sample before,
            and the first of each stretch.
        tick: f64[j] theirs.
        before: f64[j] that of the sample before; meaningless for a first sample.
        last: f64[s] that of each stretch's last sample; 0 if it has none.
    """

    row: I64
    tick: F64
    before: F64
    last: F64


class _Since(NamedTuple):
    """The time of a part's samples since their stretch began: whole periods, and the rest.

    `stretch` is from `Members.of_part`, `period_ns` is its column of periods.
    """

    stretch: I64
    period_ns: F64
    since_ns: F64
    whole: F64
    residue_ns: F64


class Periods(Record):
    """Times of samples in periods of their timers."""

    stretches: Stretches
    members: Members
    time_ns: U64

    def since_begin(self, part: slice) -> _Since:
        """Divide the time since the stretch's start by the period."""
        stretch = self.members.of_part(part)
        period_ns = self.stretches.period_ns.take(stretch)
        begin_ns = self.stretches.begin_ns.take(stretch).astype(np.uint64)
        since_ns = (self.time_ns[part] - begin_ns).astype(np.float64)
        whole = np.floor(since_ns / period_ns)
        return _Since(stretch, period_ns, since_ns, whole, since_ns - whole * period_ns)

    def residues_ns(self, part: slice) -> F64:
        """Return a part's time since the stretch's start, modulo the period, f64[rows]."""
        return self.since_begin(part).residue_ns


def ticks_of_samples(periods: Periods, phases: Phases) -> tuple[Jumps, F64]:
    """Find the tick of each sample, and its delay.

    The delays, f64[m] in ns, overwrite the memory of the samples' times.
    """
    members, period_ns = periods.members, periods.stretches.period_ns
    earliest = earliest_ns(period_ns)
    tick, late_ns = np.empty(len(members)), periods.time_ns.view(np.float64)
    again = [np.empty(0, np.int64)]
    for part in members.parts():
        stretch, period, since_ns, whole, residue_ns = periods.since_begin(part)
        phase_ns = phases.at(np.arange(part.start, part.stop), stretch)
        residue_ns -= phase_ns
        residue_ns += earliest.take(stretch)
        residue_ns /= period
        whole += np.floor(residue_ns, out=residue_ns)
        tick[part] = whole
        since_ns -= phase_ns
        since_ns -= whole * period
        late_ns[part] = since_ns
        # Next to the part before, except for the first.
        first = max(part.start - 1, 0)
        with_before = tick[first : part.stop]
        again.append(np.flatnonzero(with_before[1:] <= with_before[:-1]) + first + 1)
    _give_own_ticks(tick, late_ns, np.concatenate(again), members, period_ns)
    return _jumps(tick, members), late_ns


def _give_own_ticks(tick: F64, late_ns: F64, again: I64, members: Members, period_ns: F64) -> None:
    """Give two samples with the same tick a tick each: a timer expires once a period.

    The second one was early, as phases are estimates, if it seems later than half a period. Else
    the first one was later than it seems, if the tick before is free.

    Args:
        tick: f64[m] of all samples; changed.
        late_ns: f64[m] delay after its tick; changed with it.
        again: i64[r] samples that are not of a later tick than the sample before.
        period_ns: f64[s].
    """
    stretch = members.stretch_of(again)
    first = members.start.take(stretch)
    again, stretch, first = (column[again != first] for column in (again, stretch, first))
    period = period_ns.take(stretch)
    is_early = late_ns.take(again) > period / 2
    early = again[is_early]
    tick[early] += 1
    late_ns[early] -= period[is_early]
    late, first, period = again[~is_early] - 1, first[~is_early], period[~is_early]
    before = np.where(late == first, -1.0, tick.take(late - 1))
    is_free = tick.take(late) - before > 1
    tick[late[is_free]] -= 1
    late_ns[late[is_free]] += period[is_free]


def _jumps(tick: F64, members: Members) -> Jumps:
    is_jump = np.zeros(len(tick), np.bool_)
    for part in members.parts():
        first = max(part.start - 1, 0)
        own = tick[first : part.stop]
        np.not_equal(own[1:] - own[:-1], 1.0, out=is_jump[first + 1 : part.stop])
    filled = members.filled()
    is_jump[members.start.take(filled)] = True
    row, last = np.flatnonzero(is_jump), np.zeros(len(members.start) - 1)
    last[filled] = tick.take(members.start.take(filled + 1) - 1)
    return Jumps(row=row, tick=tick.take(row), before=tick.take(row - 1), last=last)


class Grid(Record):
    """The samples of all stretches, stretch by stretch in time order.

    Attributes:
        recorded: i64[c] samples of each clock row, in a stretch or not.
        members: where each stretch's samples are below.
        sample_index: i32 or i64[m] into the samples.
        time_ns: u64[n] of all samples.
        phases: of the grid around each sample, from its stretch's start on.
        jumps: their ticks, if these are not consecutive.
        late_ns: f64[m] delay of each after its tick; a little under 0 for the earliest.
        ran_before: bool[s] whether the timer ran before the stretch's start, as in a window of a
            longer time: then tick 0 is a tick, and not the moment of switching on.
    """

    stretches: Stretches
    recorded: I64
    members: Members
    sample_index: Ints
    time_ns: U64
    phases: Phases
    jumps: Jumps
    late_ns: F64
    ran_before: Bools

    def __len__(self) -> int:
        return len(self.sample_index)

    @property
    def start(self) -> I64:
        """First rows of each stretch's samples, i64[s + 1]."""
        return self.members.start

    def phase_ns(self, rows: I64) -> F64:
        """Return the phase of the grid around some samples, f64[r]."""
        return self.phases.at(rows, self.members.stretch_of(rows))

    def due_ns(self, part: slice) -> F64:
        """Return when the ticks of a part of the samples were due, from their stretch's start."""
        begin_ns = self.stretches.begin_ns.take(self.members.of_part(part)).astype(np.uint64)
        since_ns = self.time_ns.take(self.sample_index[part]) - begin_ns
        return since_ns.astype(np.float64) - self.late_ns[part]


def tick_grid(profile: Profile) -> Grid | None:
    """Align the samples of a completed profile's clocks with their grids; None if no clock has one.

    Error bars, the sample accounting and the lateness of samples use it.
    """
    if not len(profile.clocks):
        return None
    order, time_ns, bounds = _by_clock(profile)
    stretches = clock_stretches(profile.clocks, profile.clock_stops)
    first, size = _pieces(stretches, time_ns, bounds)
    members = Members(np.concatenate((np.zeros(1, np.int64), np.cumsum(size))))
    if len(members) < len(order) or np.any(first != members.start[:-1]):
        chosen = segments(first, size)
        order, time_ns = order.take(chosen), time_ns.take(chosen)
    periods = Periods(stretches, members, time_ns)
    phases = grid_phases(periods.residues_ns, members.start, stretches.period_ns)
    stretches = _with_late_ends(stretches, members, time_ns)
    jumps, late_ns = ticks_of_samples(periods, phases)
    return Grid(
        stretches=stretches,
        recorded=np.array([end - begin for begin, end in bounds], np.int64),
        members=members,
        sample_index=order,
        time_ns=profile.samples.time_ns,
        phases=phases,
        jumps=jumps,
        late_ns=late_ns,
        ran_before=np.zeros(len(stretches), np.bool_),
    )


def as_window(grid: Grid, begin_ns: int) -> Grid:
    """Return the grid of a window whose timers ran before it, except for those that began in it."""
    stretches = grid.stretches
    ran = stretches.is_first & (stretches.begin_ns <= begin_ns)
    return replace(grid, ran_before=ran)


def _pieces(stretches: Stretches, time_ns: U64, bounds: list[tuple[int, int]]) -> tuple[I64, I64]:
    """Return where each stretch's samples begin and how many there are, up to the next stretch.

    A sample at the time of a throttle belongs to the stretch that the throttle ends.
    """
    first, size = np.zeros(len(stretches), np.int64), np.zeros(len(stretches), np.int64)
    begin_ns, end_ns = stretches.begin_ns.astype(np.uint64), stretches.end_ns.astype(np.uint64)
    until_ns = np.where(np.append(stretches.is_first[1:], True), end_ns, np.roll(begin_ns, -1))
    for row, clock in enumerate(stretches.clock_index.tolist()):
        begin, end = bounds[clock]
        own = time_ns[begin:end]
        at = int(np.searchsorted(own, begin_ns[row]))
        is_last = until_ns[row] == end_ns[row]
        to = int(np.searchsorted(own, until_ns[row], "right" if is_last else "left"))
        first[row], size[row] = begin + at, max(to - at, 0)
    return first, size


def _with_late_ends(stretches: Stretches, members: Members, time_ns: U64) -> Stretches:
    """Return stretches that end with their last sample, if that is later."""
    rows = members.filled()
    end_ns = stretches.end_ns.copy()
    last_ns = time_ns.take(members.start[rows + 1] - 1).astype(np.int64)
    end_ns[rows] = np.maximum(end_ns[rows], last_ns)
    return replace(stretches, end_ns=end_ns)


def _by_clock(profile: Profile) -> tuple[Ints, U64, list[tuple[int, int]]]:
    """Sort samples by clock row and time.

    Returns:
        i32 or i64[n] sample rows, u64[n] their times, and for each clock row where its samples
        begin and end among them: all samples of that event, clock and CPU, up to the start of the
        next row of the same.
    """
    clocks, samples = profile.clocks, profile.samples
    group_of_row, group, group_count = _groups(profile)
    order = _narrowed(np.argsort(group, kind="stable"))
    time_ns, sorted_group = looked_up(samples.time_ns, order), looked_up(group, order)
    # A CPU's samples are recorded in order of time; other recorders' need not be.
    falls = np.flatnonzero(time_ns[1:] < time_ns[:-1])
    if np.any(sorted_group.take(falls + 1) == sorted_group.take(falls)):
        order = _narrowed(np.lexsort((samples.time_ns, group)))
        time_ns = looked_up(samples.time_ns, order)
    # For another type numpy would first convert the whole column.
    edges = np.searchsorted(sorted_group, np.arange(group_count + 1, dtype=group.dtype))
    bounds = [(0, 0)] * len(clocks)
    rows = np.lexsort((clocks.begin_ns, group_of_row)).tolist()
    for number, same in itertools.groupby(rows, key=group_of_row.tolist().__getitem__):
        siblings = list(same)
        begin, end = int(edges[number]), int(edges[number + 1])
        inner = np.searchsorted(time_ns[begin:end], clocks.begin_ns.take(siblings[1:]))
        cuts = [begin, *(begin + inner).tolist(), end]
        for row, piece in zip(siblings, itertools.pairwise(cuts), strict=True):
            bounds[row] = piece
    return order, time_ns, bounds


def _narrowed(order: I64) -> Ints:
    return order.astype(np.int32) if len(order) <= _MOST_NARROW else order


def _groups(profile: Profile) -> tuple[I64, NDArray[Any], int]:
    """Number the combinations of event, clock and CPU that have a timer, from 1.

    Returns:
        i64[c] group of each clock row, u16 or u32[n] that of each sample (0 for none), and how
        many numbers there are.
    """
    clocks, samples = profile.clocks, profile.samples
    key = np.stack((clocks.event, clocks.clock, clocks.cpu)).astype(np.int64)
    distinct, of_row = np.unique(key, axis=1, return_inverse=True)
    events, clock, cpu = distinct
    is_possible = (cpu >= 0) & (cpu < NO_CPU)
    dtype = np.uint16 if len(cpu) < np.iinfo(np.uint16).max else np.uint32
    group: NDArray[Any] = np.zeros(len(samples), dtype)
    for event in sorting.distinct(events).tolist():
        # Clocks beyond the table's last one find the 0 at its end.
        of_place = np.zeros(((int(clock.max()) + 1) << _CPU_BITS) + 1, dtype)
        of_event = np.flatnonzero(is_possible & (events == event))
        of_place[(clock[of_event] << _CPU_BITS) | cpu[of_event]] = of_event + 1
        is_other = profile.hits.event != event
        for first in range(0, len(samples), _SAMPLES_AT_ONCE):
            part = slice(first, first + _SAMPLES_AT_ONCE)
            place = samples.clock[part].astype(np.int64) << _CPU_BITS
            place |= samples.cpu[part]
            found = of_place.take(place, mode="clip")
            if is_other.any():
                found[is_other.take(samples.hit_index[part])] = 0
            np.maximum(group[part], found, out=group[part])
    return of_row.reshape(-1).astype(np.int64) + 1, group, len(cpu) + 1
