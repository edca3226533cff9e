"""Samples of timers, laid on the grid of ticks that each timer keeps.

Comes in: the samples, clocks and clock stops of a Profile. Goes out: for each *stretch* (a clock of
a CPU, from a start of its timer to the next stop) its samples in time order, the tick that each
was taken for and how late it came.

A timer that is served late is forwarded by whole periods, so its grid stands still while it runs:
a sample's distance from the grid is how late it was. When another user of perf opens an event on
the CPU, the kernel stops all timers there and restarts them with what was left of their period,
some microseconds later; `phases` follows that.
Source: ``perf_swevent_hrtimer()``, ``perf_swevent_cancel_hrtimer()`` in ``kernel/events/core.c``,
``hrtimer_forward()`` in ``kernel/time/hrtimer.c`` (Linux 6.18).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns import sorting
from prospect.columns.buffers import segments
from prospect.columns.table_rows import looked_up
from prospect.estimate.clocks.phases import grid_phases
from prospect.estimate.clocks.sample_ticks import Members, Periods, ticks_of_samples
from prospect.estimate.clocks.stretches import clock_stretches
from prospect.profile.model import NO_CPU
from prospect.records import Record, replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.clocks.phases import Phases
    from prospect.estimate.clocks.sample_ticks import Jumps
    from prospect.estimate.clocks.stretches import Stretches
    from prospect.profile.model import Profile

    Rows = NDArray[np.int64]
    Numbers = NDArray[np.float64]

_MOST_NARROW = np.iinfo(np.int32).max
_SAMPLES_AT_ONCE = 1 << 16
_CPU_BITS = 16  # of a CPU's number in a sample


class Grid(Record):
    """The samples of all stretches, stretch by stretch in time order.

    Attributes:
        stretches: when timers ran.
        recorded: i64[c] samples of each clock row, in a stretch or not.
        members: where each stretch's samples are below.
        sample_index: i32 or i64[m] into the samples.
        time_ns: u64[n] of all samples.
        phases: of the grid around each sample, from its stretch's begin on.
        jumps: the ticks that they were taken for, where these do not follow each other.
        late_ns: f64[m] how long after its tick each came; a little under 0 for the earliest.
        ran_before: bool[s] whether the timer ran before the stretch's begin, as that of a window
            of a longer time does: tick 0 is one then, and not the moment of switching on.
    """

    stretches: Stretches
    recorded: Rows
    members: Members
    sample_index: NDArray[np.integer]
    time_ns: NDArray[np.uint64]
    phases: Phases
    jumps: Jumps
    late_ns: Numbers
    ran_before: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.sample_index)

    @property
    def start(self) -> Rows:
        """Where each stretch's samples begin, i64[s + 1]."""
        return self.members.start

    def phase_ns(self, rows: Rows) -> Numbers:
        """Return the phase of the grid around some samples, f64[r]."""
        return self.phases.at(rows, self.members.stretch_of(rows))

    def due_ns(self, part: slice) -> Numbers:
        """Return when the ticks of a part of the samples were due, from their stretch's begin."""
        begin_ns = self.stretches.begin_ns.take(self.members.of_part(part)).astype(np.uint64)
        since_ns = self.time_ns.take(self.sample_index[part]) - begin_ns
        return since_ns.astype(np.float64) - self.late_ns[part]


def tick_grid(profile: Profile) -> Grid | None:
    """Lay the samples of a completed profile's clocks on their grids; None where no clock has one.

    Error bars, the tick ledger and the lateness of samples are all made of it.
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
    """Return the grid of a window whose timers ran before it, but for those that began in it.

    Args:
        grid: of the window.
        begin_ns: of the window.
    """
    stretches = grid.stretches
    ran = stretches.is_first & (stretches.begin_ns <= begin_ns)
    return replace(grid, ran_before=ran)


def _pieces(
    stretches: Stretches, time_ns: NDArray[np.uint64], bounds: list[tuple[int, int]]
) -> tuple[Rows, Rows]:
    """Return where each stretch's samples begin and how many there are, up to the next stretch.

    A sample that comes with the throttle belongs to the stretch that the throttle ends.
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


def _with_late_ends(
    stretches: Stretches, members: Members, time_ns: NDArray[np.uint64]
) -> Stretches:
    """Return stretches that end with their last sample, where that is later."""
    rows = members.filled()
    end_ns = stretches.end_ns.copy()
    last_ns = time_ns.take(members.start[rows + 1] - 1).astype(np.int64)
    end_ns[rows] = np.maximum(end_ns[rows], last_ns)
    return replace(stretches, end_ns=end_ns)


def _by_clock(
    profile: Profile,
) -> tuple[NDArray[np.integer], NDArray[np.uint64], list[tuple[int, int]]]:
    """Sort samples by clock row and time.

    Returns:
        i32 or i64[n] sample rows, u64[n] their times, and for each clock row where its samples
        begin and end among them: all samples of that event, clock and CPU, up to the begin of the
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
    # Numbers of another type would make numpy convert the whole column first.
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


def _narrowed(order: Rows) -> NDArray[np.integer]:
    return order.astype(np.int32) if len(order) <= _MOST_NARROW else order


def _groups(profile: Profile) -> tuple[Rows, NDArray[Any], int]:
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
