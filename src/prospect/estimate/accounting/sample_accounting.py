"""The sample accounting: the result of every tick that the clocks of each CPU should have had.

For each CPU and each of its clocks there are the ticks expected, recorded, lost, throttled and
missing, and the remaining difference: the closure error.

Expected ticks follow from the time that a clock ran, missing ones from the gaps in the grid of its
samples, lost ones from the kernel's counters: none is adjusted to balance the accounting. If the
kernel's buffer was full during a gap, its ticks are lost ones as far as the kernel counted any, and
missing beyond that.

A timer that is held up, because interrupts are masked or the host took the CPU, fires as soon as it
can: the sample after its gap is late. A timer that comes back on time may have been held up for
whole periods, its handler may have run past a tick, or its CPU slept. So a gap counts as idle if
process zero was hit on both sides. If only the sample after it is on time, /proc/stat must have
seen the CPU idle for as long; if that is unknown, one side must have hit process zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import looked_up
from prospect.estimate.clocks.gaps import (
    GAP_END,
    GAP_FULL,
    GAP_INNER,
    GAP_KINDS,
    find_gaps,
    throttled_ticks,
    window_ticks,
)
from prospect.estimate.clocks.grid import tick_grid, usable_periods_ns
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from prospect.columns.array_types import F64, I32, I64, U8, Bools
    from prospect.estimate.clocks.gaps import Gaps
    from prospect.estimate.clocks.grid import Grid
    from prospect.profile.complete import ProfileByFunction
    from prospect.profile.model import ClockTable


# The kind of a gap: idle as far as the kernel's accounting says so, or regardless of it.
_BUSY, _IDLE, _MAY_BE_IDLE = 0, 1, 2
_STATES = 3
# How late a timer that was not held up may be, as part of its period; never less than the usual
# work of an interrupt, never so much that half of the held-up ones would pass.
_ON_TIME = 1 / 32
_LEAST_ON_TIME_NS = 50_000.0
_MOST_ON_TIME = 1 / 4
_MOST_TICKS = 2.0**52
_HALF_WIDTH = 1.96  # of a 95 % interval, in standard deviations
_ACCOUNTING_HZ = 100.0  # USER_HZ, which /proc/stat counts in


class TickCounts(NamedTuple):
    """Ticks by kind, i64[r] each.

    Attributes:
        expected: whole periods in the time that the clock ran; for a window, ticks due in it.
        lost: samples that the kernel could not deliver, as it counted them, those without space in
            the file, and those dropped because of other tracers' programs.
        throttled: ticks while the kernel had stopped the timer.
        idle: ticks without a sample while the CPU was idle.
        busy: ticks without a sample without evidence that the CPU was idle.
    """

    expected: I64
    recorded: I64
    lost: I64
    throttled: I64
    idle: I64
    busy: I64

    @property
    def closure(self) -> I64:
        """Expected ticks that no other column accounts for, i64[r]; negative for too many."""
        closure: I64 = self.expected - sum(self[1:])
        return closure

    @property
    def closure_share(self) -> F64:
        """The closure error as a share of the expected ticks, f64[r]."""
        return self.closure / np.maximum(self.expected, 1)

    def summed(self, group: I64, group_count: int) -> TickCounts:
        """Return the sums of rows by group."""
        return TickCounts(
            *(np.bincount(group, column, group_count).astype(np.int64) for column in self)
        )


def count_ticks(
    profile: ProfileByFunction, grid: Grid, group: I64, idle_s: F64
) -> tuple[TickCounts, I64, int]:
    """Count ticks by clock and CPU, over all stretches.

    `group` i64[c] is the clock and CPU of each clock row, `idle_s` f64[g] how long each CPU was
    idle by the kernel's accounting, nan if unknown.

    Returns:
        the counts, i64[g] those of the throttled ticks that passed while the CPU was idle, and how
        many other records were lost.
    """
    clocks, group_count = profile.clocks, len(idle_s)
    # The last row is for no sample: the sample on the other side of the gap decides.
    is_zero = profile.processes.pid.take(profile.hits.process_index) == 0
    hits_zero = looked_up(looked_up(is_zero, profile.samples.hit_index), grid.sample_index)
    is_idle = np.append(hits_zero, True)

    def summed(ticks: F64 | I64) -> I64:
        return np.rint(np.bincount(group, ticks, group_count)).astype(np.int64)

    def by_clock(ticks: F64 | I64) -> I64:
        return summed(np.bincount(grid.stretches.clock_index, ticks, len(clocks)))

    gaps = find_gaps(grid, profile.clock_stops)
    missing = _missing(grid, gaps, group, is_idle, np.isfinite(idle_s))
    idle_hits = by_clock(grid.members.counted(hits_zero))
    expected = summed(_expected(clocks, grid))
    first = np.unique(group, return_index=True)[1]
    period_s = usable_periods_ns(clocks)[first] * 1e-9
    _, of_cpu, cpu_clocks = np.unique(
        np.stack((clocks.cpu[first], clocks.event[first])),
        axis=1,
        return_inverse=True,
        return_counts=True,
    )
    most_idle = _most_idle(idle_s, period_s, cpu_clocks.take(of_cpu.reshape(-1)), expected)
    held_up = missing[:, GAP_INNER, _BUSY]
    missing, room = _by_accounting(missing, most_idle, idle_hits)
    # A timer that came back on time while its CPU was busy has no other explanation.
    dropped = np.where(profile.run.dropped_share > 0, missing[:, GAP_INNER, _BUSY] - held_up, 0)
    cut_off = missing[:, GAP_END].sum(axis=1) if profile.run.is_cut else np.zeros_like(expected)
    if profile.run.is_cut:
        # The clocks ran on, and the file had no room for their samples.
        missing[:, GAP_END] = 0
    throttled = throttled_ticks(grid)
    has_others = np.zeros(group_count, np.bool_)
    has_others[group] = clocks.clock == 0
    reported = summed(np.clip(clocks.lost, 0, _MOST_TICKS))
    lost, missing = _share_out(reported, missing, room, has_others)
    dropped = np.minimum(dropped, missing[:, _BUSY])
    counts = TickCounts(
        expected=expected,
        recorded=summed(grid.recorded),
        lost=lost + cut_off + dropped,
        throttled=by_clock(throttled),
        idle=missing[:, _IDLE],
        busy=missing[:, _BUSY] - dropped,
    )
    idle_throttled = by_clock(throttled * _is_idle_before(grid, is_idle))
    return counts, idle_throttled, int((reported - lost).sum())


def _expected(clocks: ClockTable, grid: Grid) -> F64:
    ran_ns = np.maximum(clocks.end_ns, clocks.begin_ns) - clocks.begin_ns
    ticks = np.floor(ran_ns.astype(np.float64) / usable_periods_ns(clocks))
    expected: F64 = np.minimum(ticks, _MOST_TICKS)
    expected[grid.stretches.clock_index[grid.ran_before]] = window_ticks(grid, clocks.end_ns)
    return expected


def _is_idle_before(grid: Grid, is_idle: Bools) -> Bools:
    """Return bool[s]: whether the CPU was idle on both sides of each stretch's start."""
    has_samples = np.diff(grid.start) > 0
    none = len(is_idle) - 1
    first = np.where(has_samples, grid.start[:-1], none)
    last = np.roll(np.where(has_samples, grid.start[1:] - 1, none), 1)
    is_known = (first != none) | (last != none)
    both: Bools = is_idle.take(first) & is_idle.take(last) & is_known
    return both


def _missing(grid: Grid, gaps: Gaps, group: I64, is_idle: Bools, has_accounting: Bools) -> I64:
    """Return i64[g, GAP_KINDS, _STATES]: missing ticks by group of clock rows."""
    period_ns = grid.stretches.period_ns.take(gaps.stretch)
    limit_ns = np.maximum(period_ns * _ON_TIME, _LEAST_ON_TIME_NS)
    limit_ns = np.minimum(limit_ns, period_ns * _MOST_ON_TIME)
    # If a clock stopped before a sample came, there is no evidence that its timer was held up.
    late_ns = np.append(grid.late_ns, 0.0).take(gaps.after)
    before, after = is_idle.take(gaps.before), is_idle.take(gaps.after)
    row = group.take(grid.stretches.clock_index.take(gaps.stretch))
    is_known = has_accounting.take(row)
    may_be_idle = (late_ns <= limit_ns) & (before | after | is_known)
    state = np.where(may_be_idle, _MAY_BE_IDLE, _BUSY)
    # At the ends of a clock's time there is a hit on one side only.
    is_between = (gaps.before >= 0) & (gaps.after >= 0)
    state[before & after & (is_between | ~is_known)] = _IDLE
    cell = (row * GAP_KINDS + gaps.kind) * _STATES + state
    ticks = np.bincount(cell, gaps.count, len(has_accounting) * GAP_KINDS * _STATES)
    return ticks.astype(np.int64).reshape(-1, GAP_KINDS, _STATES)


def _most_idle(idle_s: F64, period_s: F64, cpu_clocks: I64, expected: I64) -> F64:
    """Return f64[g]: how many ticks of each clock may be idle by the kernel's accounting.

    Args:
        idle_s: f64[g] idle time of its CPU by /proc/stat, nan if unknown: then all.
        period_s: f64[g].
        cpu_clocks: i64[g] how many clocks its CPU has.
        expected: i64[g].
    """
    in_accounting = idle_s / period_s
    busy = np.maximum(expected - in_accounting, 0.0) / np.maximum(expected, 1)
    # The sampling error of a sum of independent clocks, in equal parts.
    sampling = _HALF_WIDTH * np.sqrt(in_accounting * busy / cpu_clocks)
    error = 1 / (_ACCOUNTING_HZ * period_s) + sampling
    most = in_accounting + np.where(in_accounting > 0, error, 0.0)
    return np.nan_to_num(most, nan=np.inf)


def _by_accounting(missing: I64, most_idle: F64, idle_hits: I64) -> tuple[I64, F64]:
    """Count ticks that may be idle as idle, as far as the kernel's accounting allows.

    Args:
        missing: i64[g, GAP_KINDS, _STATES].
        most_idle: f64[g].
        idle_hits: i64[g] samples of the idle CPU.

    Returns:
        i64[g, GAP_KINDS, 2]: those of _BUSY and _IDLE; and f64[g] how many more may be idle.
    """
    # Ticks of full buffers are mostly lost, and not missing.
    between = missing[:, :, _IDLE].sum(axis=1) - missing[:, GAP_FULL, _IDLE]
    left = most_idle - idle_hits - between
    known = missing[:, :, : _IDLE + 1].copy()
    for kind in (GAP_INNER, GAP_END, GAP_FULL):
        may_be = missing[:, kind, _MAY_BE_IDLE]
        idle = np.clip(np.rint(left), 0, may_be).astype(np.int64)
        known[:, kind] += np.stack((may_be - idle, idle), axis=1)
        left -= idle
    return known, np.maximum(left, 0.0)


def _share_out(reported: I64, missing: I64, room: F64, has_others: Bools) -> tuple[I64, I64]:
    """Charge losses to the gaps that may hold them.

    Losses at the very end of a run have no record with their time. Ticks missing next to losses are
    idle in the same proportion as in the other gaps, within the kernel's accounting: after a long
    gap the delay of the next sample is no evidence.

    Args:
        reported: i64[g] losses as the kernel counted them.
        missing: i64[g, GAP_KINDS, 2] ticks without a sample.
        room: f64[g] how many more of them may be idle by the accounting.
        has_others: bool[g] whether the counter counts other records too: that of the one clock that
            reports mappings and tasks does. Losses beyond the ticks due are of that kind.

    Returns:
        i64[g] lost ticks, and i64[g, 2] missing ones.
    """
    inner = missing[:, GAP_INNER]
    left, rest = reported.copy(), inner.copy()
    for kind in (GAP_FULL, GAP_END):
        ticks = missing[:, kind].sum(axis=1)
        taken = np.minimum(left, ticks)
        left -= taken
        witness = np.where(inner.sum(axis=1, keepdims=True) > 0, inner, missing[:, kind])
        idle_share = witness[:, _IDLE] / np.maximum(witness.sum(axis=1), 1)
        # Those of the gap itself are in the accounting already.
        most = missing[:, kind, _IDLE] + room
        idle = np.rint(np.minimum((ticks - taken) * idle_share, most)).astype(np.int64)
        room = most - idle
        rest[:, _IDLE] += idle
        rest[:, _BUSY] += ticks - taken - idle
    # No tick is lost and missing: the record of a loss may follow a sample of another clock.
    of_inner = np.minimum(np.where(has_others, 0, left), inner.sum(axis=1))
    of_busy = np.minimum(of_inner, inner[:, _BUSY])
    rest -= np.stack((of_busy, of_inner - of_busy), axis=1)
    return reported - np.where(has_others, left, 0), rest


class SampleAccounting(Record):
    """The accounting of one recording.

    Attributes:
        cpu: i32[n] in ascending order.
        by_cpu: n rows.
        clock_cpu: i64[k] row of `cpu` of each clock.
        clock: u8[k] number of the clock in the bank.
        period_ns: f64[k].
        by_clock: k rows; a CPU's row is the sum of its clocks'.
        idle_s: f64[n] time without a sample while the CPU was idle: missing ticks, and throttled
            ones between two hits in process zero.
        busy_s: f64[n] the time of the other missing ticks.
        accounted_idle_s, accounted_steal_s: f64[n] by /proc/stat, nan if unknown.
        unsampled_s: the time of ticks that were lost, missing while busy, or throttled while busy.
        unwatched_s: how long clocks of these CPUs did not run in the interval: the CPU was offline,
            or online again without clocks.
        unclocked: samples of no clock in the table.
        other_losses: records lost that were no samples.
    """

    cpu: I32
    by_cpu: TickCounts
    clock_cpu: I64
    clock: U8
    period_ns: F64
    by_clock: TickCounts
    idle_s: F64
    busy_s: F64
    accounted_idle_s: F64
    accounted_steal_s: F64
    unsampled_s: float
    unwatched_s: float
    unclocked: int
    other_losses: int


def sample_accounting(
    profile: ProfileByFunction, grid: Grid | None = None
) -> SampleAccounting | None:
    """Balance the accounting of a completed profile; None if no clock has a grid."""
    clocks = profile.clocks
    grid = tick_grid(profile) if grid is None else grid
    if grid is None:
        return None
    key = np.stack((clocks.cpu, clocks.event, clocks.clock)).astype(np.int64)
    distinct, first, group = np.unique(key, axis=1, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    cpu, clock_cpu = np.unique(distinct[0].astype(np.int32), return_inverse=True)
    accounted_idle_s = _accounted(profile, cpu, ("idle_s", "iowait_s"))
    counts, idle_throttled, other_losses = count_ticks(
        profile, grid, group, accounted_idle_s.take(clock_cpu)
    )
    period_ns = usable_periods_ns(clocks)[first]
    worth = np.array([event.seconds_per_period for event in profile.run.events])
    worth_s = period_ns * worth.take(clocks.event[first], mode="clip")
    idle_s, busy_s = (
        np.bincount(clock_cpu, ticks * worth_s, len(cpu)).astype(np.float64)
        for ticks in (counts.idle + idle_throttled, counts.busy)
    )
    return SampleAccounting(
        cpu=cpu,
        by_cpu=counts.summed(clock_cpu, len(cpu)),
        clock_cpu=clock_cpu.astype(np.int64),
        clock=clocks.clock[first],
        period_ns=period_ns,
        by_clock=counts,
        idle_s=idle_s,
        busy_s=busy_s,
        accounted_idle_s=accounted_idle_s,
        accounted_steal_s=_accounted(profile, cpu, ("steal_s",)),
        unsampled_s=float(
            ((counts.lost + counts.busy + counts.throttled - idle_throttled) * worth_s).sum()
        ),
        unwatched_s=_unwatched_s(profile, group, clock_cpu),
        unclocked=len(profile.samples) - int(grid.recorded.sum()),
        other_losses=other_losses,
    )


def _unwatched_s(profile: ProfileByFunction, group: I64, clock_cpu: I64) -> float:
    clocks, run = profile.clocks, profile.run
    ran_ns = np.maximum(clocks.end_ns, clocks.begin_ns) - clocks.begin_ns
    by_clock = np.bincount(group, ran_ns.astype(np.float64))
    by_cpu = np.bincount(clock_cpu, by_clock) / np.bincount(clock_cpu)
    missing_ns = np.maximum(max(run.end_ns - run.begin_ns, 0) - by_cpu, 0.0)
    return float(missing_ns.sum()) * 1e-9


def _accounted(profile: ProfileByFunction, cpus: I32, keys: tuple[str, ...]) -> F64:
    known = profile.run.cpu_accounting
    seconds = [
        sum(known[cpu].get(key, np.nan) for key in keys) if cpu in known else np.nan
        for cpu in cpus.tolist()
    ]
    return np.array(seconds, np.float64)
