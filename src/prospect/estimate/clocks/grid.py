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
from prospect.estimate.clocks.phases import earliest_ns, grid_phases
from prospect.estimate.clocks.stretches import clock_stretches
from prospect.profile.model import NO_CPU
from prospect.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.estimate.clocks.stretches import Stretches
    from prospect.profile.model import Profile

    Rows = NDArray[np.int64]
    Members = NDArray[np.int32]
    Numbers = NDArray[np.float64]

_ROWS_AT_ONCE = 1 << 15
_CPU_BITS = 16  # of a CPU's number in a sample


class Grid(Record):
    """The samples of all stretches, stretch by stretch in time order.

    Attributes:
        stretches: when timers ran.
        recorded: i64[c] samples of each clock row, in a stretch or not.
        start: i64[s + 1] where each stretch's samples begin below.
        sample_index: i64[m] into the samples.
        stretch: i32[m] of each.
        time_ns: u64[n] of all samples.
        phase_ns: f64[m] of the grid around the sample, from the stretch's begin on.
        tick: f64[m] whole number: the tick it was taken for; tick 0 is due at the phase.
        late_ns: f64[m] how long after its tick it came; a little under 0 for the earliest.
        ran_before: bool[s] whether the timer ran before the stretch's begin, as that of a window
            of a longer time does: tick 0 is one then, and not the moment of switching on.
    """

    stretches: Stretches
    recorded: Rows
    start: Rows
    sample_index: Rows
    stretch: Members
    time_ns: NDArray[np.uint64]
    phase_ns: Numbers
    tick: Numbers
    late_ns: Numbers
    ran_before: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.sample_index)


def tick_grid(profile: Profile) -> Grid | None:
    """Lay the samples of a completed profile's clocks on their grids; None where no clock has one.

    Error bars, the tick ledger and the lateness of samples are all made of it.
    """
    if not len(profile.clocks):
        return None
    order, bounds = _by_clock(profile)
    time_ns = profile.samples.time_ns.take(order)
    stretches = clock_stretches(profile.clocks, profile.clock_stops)
    first, size = _pieces(stretches, time_ns, bounds)
    start = np.concatenate((np.zeros(1, np.int64), np.cumsum(size)))
    stretch = np.repeat(np.arange(len(stretches), dtype=np.int32), size)
    if start[-1] < len(order) or np.any(first != start[:-1]):
        chosen = np.arange(len(stretch)) + np.repeat(first - start[:-1], size)
        order, time_ns = order.take(chosen), time_ns.take(chosen)
    since_ns, tick, residue_ns = _since_begin(stretches, stretch, time_ns)
    phase_ns = grid_phases(residue_ns, start, stretches.period_ns)
    seems_late_ns = _settle_ticks(stretches, stretch, tick, residue_ns, phase_ns)
    _give_own_ticks(tick, seems_late_ns, start, stretches.period_ns)
    stretches = _with_late_ends(stretches, start, since_ns)
    return Grid(
        stretches=stretches,
        recorded=np.array([end - begin for begin, end in bounds], np.int64),
        start=start,
        sample_index=order,
        stretch=stretch,
        time_ns=profile.samples.time_ns,
        phase_ns=phase_ns,
        tick=tick,
        late_ns=_late(stretches, stretch, since_ns, phase_ns, tick),
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


def _parts(rows: int) -> Iterator[slice]:
    """Cut rows into parts whose columns and temporaries stay in a processor's cache."""
    return (slice(first, first + _ROWS_AT_ONCE) for first in range(0, rows, _ROWS_AT_ONCE))


def _since_begin(
    stretches: Stretches, stretch: Members, time_ns: NDArray[np.uint64]
) -> tuple[Numbers, Numbers, Numbers]:
    """Return the time since each sample's stretch began, its whole periods, and what is left."""
    since_ns, whole, residue_ns = (np.empty(len(stretch)) for _ in range(3))
    begin_ns = stretches.begin_ns.astype(np.uint64)
    for part in _parts(len(stretch)):
        period = stretches.period_ns.take(stretch[part])
        since = since_ns[part]
        since[:] = time_ns[part] - begin_ns.take(stretch[part])
        np.floor(since / period, out=whole[part])
        np.subtract(since, whole[part] * period, out=residue_ns[part])
    return since_ns, whole, residue_ns


def _settle_ticks(
    stretches: Stretches, stretch: Members, tick: Numbers, residue_ns: Numbers, phase_ns: Numbers
) -> Numbers:
    """Count `tick`, whole periods since the begin, from the phase on; return how late it seems."""
    earliest = earliest_ns(stretches.period_ns)
    for part in _parts(len(stretch)):
        period, residue = stretches.period_ns.take(stretch[part]), residue_ns[part]
        residue -= phase_ns[part]
        behind = np.floor((residue + earliest.take(stretch[part])) / period)
        tick[part] += behind
        residue -= behind * period
    return residue_ns


def _late(
    stretches: Stretches, stretch: Members, since_ns: Numbers, phase_ns: Numbers, tick: Numbers
) -> Numbers:
    """Return how late each sample came, in the memory of `since_ns`."""
    for part in _parts(len(stretch)):
        late_ns = since_ns[part]
        late_ns -= phase_ns[part]
        late_ns -= tick[part] * stretches.period_ns.take(stretch[part])
    return since_ns


def _give_own_ticks(tick: Numbers, late_ns: Numbers, start: Rows, period_ns: Numbers) -> None:
    """Give two samples that fell to one tick a tick each: a timer expires once a period.

    The second one was early, as phases are estimates, if it seems later than half a period. Else
    the first one was later than it seems, if the tick before is free.
    """
    is_first = np.zeros(len(tick) + 1, np.bool_)
    is_first[start] = True
    again = np.flatnonzero((tick[1:] <= tick[:-1]) & ~is_first[1:-1]) + 1
    period = period_ns.take(np.searchsorted(start, again, "right") - 1)
    is_early = late_ns[again] > period / 2
    tick[again[is_early]] += 1
    late = again[~is_early] - 1
    before = np.where(is_first[late], -1.0, tick[late - 1])
    tick[late[tick[late] - before > 1]] -= 1


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


def _with_late_ends(stretches: Stretches, start: Rows, since_ns: Numbers) -> Stretches:
    """Return stretches that end with their last sample, where that is later."""
    rows = np.flatnonzero(np.diff(start) > 0)
    end_ns = stretches.end_ns.copy()
    last_ns = stretches.begin_ns[rows] + since_ns[start[rows + 1] - 1].astype(np.int64)
    end_ns[rows] = np.maximum(end_ns[rows], last_ns)
    return replace(stretches, end_ns=end_ns)


def _by_clock(profile: Profile) -> tuple[Rows, list[tuple[int, int]]]:
    """Sort samples by clock row and time.

    Returns:
        i64[n] sample rows, and for each clock row where its samples begin and end among them: all
        samples of that event, clock and CPU, up to the begin of the next row of the same.
    """
    clocks, samples = profile.clocks, profile.samples
    group_of_row, group, group_count = _groups(profile)
    order = np.argsort(group, kind="stable")
    time_ns, sorted_group = samples.time_ns.take(order), group.take(order)
    # A CPU's samples are recorded in order of time; other recorders' need not be.
    if np.any((time_ns[1:] < time_ns[:-1]) & (sorted_group[1:] == sorted_group[:-1])):
        order = np.lexsort((samples.time_ns, group))
        time_ns = samples.time_ns.take(order)
    edges = np.searchsorted(sorted_group, np.arange(group_count + 1))
    bounds = [(0, 0)] * len(clocks)
    rows = np.lexsort((clocks.begin_ns, group_of_row)).tolist()
    for number, same in itertools.groupby(rows, key=group_of_row.tolist().__getitem__):
        siblings = list(same)
        begin, end = int(edges[number]), int(edges[number + 1])
        inner = np.searchsorted(time_ns[begin:end], clocks.begin_ns.take(siblings[1:]))
        cuts = [begin, *(begin + inner).tolist(), end]
        for row, piece in zip(siblings, itertools.pairwise(cuts), strict=True):
            bounds[row] = piece
    return order, bounds


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
    place_of_sample = (samples.clock.astype(np.uint32) << np.uint32(_CPU_BITS)) | samples.cpu
    group: NDArray[Any] = np.zeros(len(samples), dtype)
    for event in sorting.distinct(events).tolist():
        # Clocks beyond the table's last one find the 0 at its end.
        of_place = np.zeros(((int(clock.max()) + 1) << _CPU_BITS) + 1, dtype)
        of_event = np.flatnonzero(is_possible & (events == event))
        of_place[(clock[of_event] << _CPU_BITS) | cpu[of_event]] = of_event + 1
        found = of_place.take(place_of_sample, mode="clip")
        is_other = profile.hits.event != event
        if is_other.any():
            found[is_other.take(samples.hit_index)] = 0
        group = np.maximum(group, found)
    return of_row.reshape(-1).astype(np.int64) + 1, group, len(cpu) + 1
