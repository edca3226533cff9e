"""The ticks of a clock bank: on which tick of its clock's grid each sample was taken.

Comes in: the samples and the clocks of one event. Goes out: samples in time order by *stretch*, a
time that one CPU was on line, each at the time its tick was due, with the exact number of ticks
that every clock had. An idle CPU delivers fewer samples than its clocks had ticks, so ticks are
counted on the grid and never from samples.

A timer is never early and mostly a few µs late, so a clock's phase is the lower edge of where most
of its samples fall within a period. One phase a clock and stretch is near enough here: where the
kernel restarts a timer in between, which moves it by some µs, a sample still finds its tick.
Source: ``kernel/events/core.c`` perf_swevent_hrtimer() and ``kernel/time/hrtimer.c``
hrtimer_forward() (Linux 6.18): expiry times stay on the grid however late the handler runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.profile.model import NO_CPU
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.profile.model import ClockTable, Profile

_PHASE_BINS = 64
# A sample is of the tick that it is at most this part of a period before, or else behind.
_EARLIEST = 0.25
# At least this part of the samples must be nearer to their tick than that; half are by chance.
_LEAST_ON_GRID = 0.75
# A clock that starts with the stretch has its first tick one period later, not at once.
_NEVER_AT_ONCE = 0.25
_LEAST_KNOWN = 0.99


class Ticks(Record):
    """Samples on the grids of their clocks, by stretch, in the order in which they were due.

    Attributes:
        hit_index: i32[n] rows of the profile's hits.
        clock: i64[n].
        due_ns: f64[n] when the tick was due, from the beginning of the stretch.
        start: i64[s + 1] where each stretch begins in the columns above.
        length_ns: f64[s] of each stretch.
        first_ns: f64[s, K] each clock's first tick, from the beginning of the stretch.
        period_ns: f64[K].
        count: i64[s, K] ticks that each clock had.
    """

    hit_index: NDArray[np.int32]
    clock: NDArray[np.int64]
    due_ns: NDArray[np.float64]
    start: NDArray[np.int64]
    length_ns: NDArray[np.float64]
    first_ns: NDArray[np.float64]
    period_ns: NDArray[np.float64]
    count: NDArray[np.int64]

    @property
    def stretch(self) -> NDArray[np.int64]:
        """The stretch of each sample, i64[n]."""
        return np.repeat(np.arange(len(self.length_ns)), np.diff(self.start))


class _Stretches(Record):
    """One row a stretch, by CPU and time: `cpu` i64[s], `begin_ns` and `end_ns` i64[s]."""

    cpu: NDArray[np.int64]
    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    period_ns: NDArray[np.float64]


def event_ticks(profile: Profile, event_index: int) -> Ticks | None:
    """Put the samples of an event on the grids of its clocks.

    Returns:
        None where there is no grid: no clocks are known, or the samples do not lie on theirs.
    """
    clocks = profile.run.events[event_index].clocks
    stretches = _stretches(profile.clocks, event_index, clocks)
    if stretches is None:
        return None
    samples = profile.samples
    chosen = np.flatnonzero(profile.hits.event.take(samples.hit_index) == event_index)
    stretch = _stretch_of(
        stretches, samples.cpu[chosen].astype(np.int64), samples.time_ns[chosen].astype(np.int64)
    )
    known = (stretch >= 0) & (samples.clock[chosen] < clocks)
    if not len(chosen) or np.count_nonzero(known) < _LEAST_KNOWN * len(chosen):
        return None
    chosen, stretch = chosen[known], stretch[known]
    order = np.argsort(stretch.astype(_smallest(len(stretches.cpu))), kind="stable")
    chosen, stretch = chosen.take(order), stretch.take(order)
    since_begin = samples.time_ns.take(chosen).astype(np.int64) - stretches.begin_ns.take(stretch)
    return _on_grids(
        samples.hit_index.take(chosen),
        samples.clock.take(chosen).astype(np.int64),
        since_begin.astype(np.float64),
        stretch,
        stretches,
    )


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
    return _Stretches(
        cpu=by_cpu[:, 0],
        begin_ns=begin.take(order).reshape(-1, clocks).min(axis=1),
        end_ns=end.take(order).reshape(-1, clocks).max(axis=1),
        period_ns=periods[0],
    )


def _turn_within(sorted_keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0, 1, 2 … within each run of equal keys."""
    is_first = np.append(True, sorted_keys[1:] != sorted_keys[:-1])
    row = np.arange(len(sorted_keys))
    return row - np.maximum.accumulate(np.where(is_first, row, 0))


def _stretch_of(
    stretches: _Stretches, cpu: NDArray[np.int64], time_ns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the stretch of each sample, i64[n], -1 for none."""
    first_of_cpu = np.full(max(int(cpu.max(initial=0)), int(stretches.cpu.max())) + 2, -1)
    first_of_cpu[stretches.cpu[::-1]] = np.arange(len(stretches.cpu))[::-1]
    stretch = first_of_cpu.take(cpu)
    turns = _turn_within(stretches.cpu)
    for turn in range(1, int(turns.max()) + 1):  # a CPU seldom leaves and comes back
        later = np.flatnonzero(turns == turn)
        begin_of_cpu = np.full(len(first_of_cpu), np.iinfo(np.int64).max)
        begin_of_cpu[stretches.cpu[later]] = stretches.begin_ns[later]
        stretch += time_ns >= begin_of_cpu.take(cpu)
    begin = stretches.begin_ns.take(stretch)
    # The last tick before a CPU leaves may be delivered late.
    end = stretches.end_ns.take(stretch) + stretches.period_ns.max()
    inside = (stretch >= 0) & (time_ns >= begin) & (time_ns <= end)
    return np.where(inside, stretch, -1)


def _on_grids(
    hit_index: NDArray[np.int32],
    clock: NDArray[np.int64],
    since_begin_ns: NDArray[np.float64],
    stretch: NDArray[np.int64],
    stretches: _Stretches,
) -> Ticks | None:
    period_ns, count = stretches.period_ns, len(stretches.cpu)
    clocks = len(period_ns)
    group = stretch * clocks + clock
    period = period_ns.take(clock)
    phase_ns, on_grid = _phases(group, since_begin_ns, period, count * clocks)
    if on_grid < _LEAST_ON_GRID:
        return None
    number = np.floor((since_begin_ns - phase_ns.take(group)) / period + _EARLIEST)
    at_once = np.zeros(count * clocks, np.bool_)
    at_once[group[number <= 0]] = True
    each_period = np.tile(period_ns, count)
    late_start = ~at_once & (phase_ns < _NEVER_AT_ONCE * each_period)
    first_ns = np.where(late_start, phase_ns + each_period, phase_ns)
    length_ns = (stretches.end_ns - stretches.begin_ns).astype(np.float64)
    ticks = np.floor((np.repeat(length_ns, clocks) - first_ns) / each_period) + 1.0
    due_ns = phase_ns.take(group) + number * period
    # Samples come in order of time; two ticks that were due in one µs may have changed places.
    offset_ns = np.cumsum(length_ns + 4.0 * period_ns.max())
    order = np.argsort(due_ns + offset_ns.take(stretch), kind="stable")
    return Ticks(
        hit_index=hit_index.take(order),
        clock=clock.take(order),
        due_ns=due_ns.take(order),
        start=np.searchsorted(stretch, np.arange(count + 1)),
        length_ns=length_ns,
        first_ns=first_ns.reshape(count, clocks),
        period_ns=period_ns,
        count=np.maximum(ticks, 0.0).astype(np.int64).reshape(count, clocks),
    )


def _phases(
    group: NDArray[np.int64],
    since_begin_ns: NDArray[np.float64],
    period: NDArray[np.float64],
    group_count: int,
) -> tuple[NDArray[np.float64], float]:
    """Return each group's phase in ns, f64[g], and the part of all samples that is on its grid."""
    within = _fraction(since_begin_ns / period)
    bins = np.minimum((within * _PHASE_BINS).astype(np.int64), _PHASE_BINS - 1)
    histogram = np.bincount(group * _PHASE_BINS + bins, minlength=group_count * _PHASE_BINS)
    fullest = histogram.reshape(group_count, _PHASE_BINS).argmax(axis=1)
    # The window begins a bin before the fullest one: the phase may be just under its edge.
    window = (fullest - 1.0) / _PHASE_BINS
    behind = _fraction(within - window.take(group))
    least = np.ones(group_count)
    np.minimum.at(least, group, behind)
    least = np.where(least < 1.0, least, 0.0)
    on_grid = _fraction(behind - least.take(group) + _EARLIEST) < 2 * _EARLIEST
    period_of_group = np.ones(group_count)
    period_of_group[group] = period
    phase = _fraction(window + least) * period_of_group
    return phase, float(np.count_nonzero(on_grid)) / max(len(group), 1)


def _fraction(number: NDArray[np.float64]) -> NDArray[np.float64]:
    # Several times as fast as numpy's mod().
    return number - np.floor(number)


def _smallest(count: int) -> type[np.unsignedinteger[Any]]:
    """Return the smallest type of integers under `count`: numpy sorts small ones by radix."""
    return np.uint8 if count <= 1 << 8 else np.uint16 if count <= 1 << 16 else np.uint64
