"""The tick ledger: what became of every tick that the clocks of each CPU ought to have had.

Comes in: a completed Profile. Goes out: for each CPU and each of its clocks the ticks expected,
recorded, lost, throttled and missing, and what these leave over: the closure error.

Expected ticks follow from the time that a clock ran, missing ones from the gaps in the grid of its
samples, lost ones from the kernel's counters: none is made up to balance the books. Where the
kernel's buffer was full during a gap, its ticks are lost ones as far as the kernel counted any, and
missing beyond that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.clocks.grid import tick_grid
from prospect.estimate.clocks.stretches import usable_periods_ns
from prospect.estimate.ledger.tick_counts import TickCounts, count_ticks
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.clocks.grid import Grid
    from prospect.profile.complete import ProfileByRoutine

    Rows = NDArray[np.int64]


class TickLedger(Record):
    """The books of one recording.

    Attributes:
        cpu: i32[n] in ascending order.
        by_cpu: n rows.
        clock_cpu: i64[k] row of `cpu` of each clock.
        clock: u8[k] which clock of the bank.
        period_ns: f64[k].
        by_clock: k rows; a CPU's row is the sum of its clocks'.
        idle_s: f64[n] time that no sample stands for and that the CPU was idle: missing ticks, and
            throttled ones between two hits in process zero.
        busy_s: f64[n] the time of the other missing ticks.
        accounted_idle_s, accounted_steal_s: f64[n] by /proc/stat, nan where it is not known.
        unsampled_s: the time of ticks that were lost, missing while busy, or throttled while busy.
        unwatched_s: for how long clocks of these CPUs did not run in the interval: the CPU was off
            line, or was back and not yet watched.
        unclocked: samples of no clock in the table.
        other_losses: records lost that were no samples.
    """

    cpu: NDArray[np.int32]
    by_cpu: TickCounts
    clock_cpu: Rows
    clock: NDArray[np.uint8]
    period_ns: NDArray[np.float64]
    by_clock: TickCounts
    idle_s: NDArray[np.float64]
    busy_s: NDArray[np.float64]
    accounted_idle_s: NDArray[np.float64]
    accounted_steal_s: NDArray[np.float64]
    unsampled_s: float
    unwatched_s: float
    unclocked: int
    other_losses: int


def tick_ledger(profile: ProfileByRoutine, grid: Grid | None = None) -> TickLedger | None:
    """Balance the books of a completed profile; None where no clock has a grid.

    Args:
        profile: what was recorded.
        grid: its `tick_grid`, where that is known already.
    """
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
    worth_s = _worth_s(profile, clocks.event[first], period_ns)
    idle_s, busy_s = (
        np.bincount(clock_cpu, ticks * worth_s, len(cpu)).astype(np.float64)
        for ticks in (counts.idle + idle_throttled, counts.busy)
    )
    return TickLedger(
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


def _worth_s(
    profile: ProfileByRoutine, event: NDArray[np.uint16], period_ns: NDArray[np.float64]
) -> NDArray[np.float64]:
    worth = np.array([known.seconds_per_period for known in profile.run.events])
    worth_s: NDArray[np.float64] = period_ns * worth.take(event, mode="clip")
    return worth_s


def _unwatched_s(profile: ProfileByRoutine, group: Rows, clock_cpu: Rows) -> float:
    clocks, run = profile.clocks, profile.run
    ran_ns = np.maximum(clocks.end_ns, clocks.begin_ns) - clocks.begin_ns
    by_clock = np.bincount(group, ran_ns.astype(np.float64))
    by_cpu = np.bincount(clock_cpu, by_clock) / np.bincount(clock_cpu)
    missing_ns = np.maximum(max(run.end_ns - run.begin_ns, 0) - by_cpu, 0.0)
    return float(missing_ns.sum()) * 1e-9


def _accounted(
    profile: ProfileByRoutine, cpus: NDArray[np.int32], keys: tuple[str, ...]
) -> NDArray[np.float64]:
    known = profile.run.cpu_accounting
    seconds = [
        sum(known[cpu].get(key, np.nan) for key in keys) if cpu in known else np.nan
        for cpu in cpus.tolist()
    ]
    return np.array(seconds, np.float64)
