"""Late samples: how much of a kernel function's time was sampled after interrupts had been masked.

A timer cannot interrupt while interrupts are masked: its sample is taken when they are enabled
again, and the time before that is charged to that place. Such a sample is late on its clock's grid.
The usual delay is that of each CPU's samples in user mode, where nothing masks interrupts: one in
twenty of them counts as late. A row with a far larger share shows time that was *ending at* its
function; where it was spent is unknown.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.estimate.clocks.grid import tick_grid
from prospect.figures.modes import hit_modes, is_kernel_mode
from prospect.profile.model import CPUMODE_USER
from prospect.records import Record

if TYPE_CHECKING:
    from prospect.columns.array_types import F64, I32, I64, Bools, Ints
    from prospect.estimate.clocks.grid import Grid
    from prospect.figures.report.report_view import EventView
    from prospect.profile.complete import ProfileByFunction

# The share of samples in user mode that counts as late, by definition.
USUAL_SHARE = 0.05
# With fewer samples in user mode the usual delay is unknown; with fewer in a row, its share.
_LEAST_USUAL = 100
_MOST_USUAL = 1 << 15  # more would be slower, and no more precise
_LEAST_OF_ROW = 10


class Lateness(Record):
    """The late samples of a recording.

    Attributes:
        cpu: i32[n] CPUs in ascending order.
        limit_ns: f64[n] the delay from which on a sample counts as late; nan if unknown.
        usual_ns: f64[n] the median delay of samples in user mode.
        on_grid: i64[h] samples of each hit row with a known delay.
        late: i64[h] those of them that were late.
    """

    cpu: I32
    limit_ns: F64
    usual_ns: F64
    on_grid: I64
    late: I64


def sample_lateness(profile: ProfileByFunction, grid: Grid | None = None) -> Lateness | None:
    """Find the late samples of a completed profile; None if no clock has a grid."""
    grid = tick_grid(profile) if grid is None else grid
    if grid is None:
        return None
    is_user = profile.hits.mode == CPUMODE_USER
    cpu, limit_ns, usual_ns = _usual(profile, grid, is_user)
    row_of_stretch = np.searchsorted(cpu, profile.clocks.cpu.take(grid.stretches.clock_index))
    limit_of_stretch = limit_ns.take(row_of_stretch)
    # A comparison with nan is false: if the usual delay is unknown, nothing is late.
    is_known = np.isfinite(limit_of_stretch)
    on_grid, late = (np.zeros(len(profile.hits), np.int64) for _ in range(2))
    for part in grid.members.parts():
        stretch = grid.members.of_part(part)
        hit = profile.samples.hit_index.take(grid.sample_index[part])
        np.add.at(late, hit[grid.late_ns[part] > limit_of_stretch.take(stretch)], 1)
        if not is_known.take(stretch).all():
            hit = hit[np.broadcast_to(is_known.take(stretch), len(hit))]
        np.add.at(on_grid, hit, 1)
    return Lateness(cpu=cpu, limit_ns=limit_ns, usual_ns=usual_ns, on_grid=on_grid, late=late)


def _usual(profile: ProfileByFunction, grid: Grid, is_user: Bools) -> tuple[I32, F64, F64]:
    """Return each CPU, its limit for late samples, and the median delay, in user mode."""
    cpu_of_stretch = profile.clocks.cpu.take(grid.stretches.clock_index)
    cpu = distinct(cpu_of_stretch)
    by_cpu = np.argsort(cpu_of_stretch, kind="stable").tolist()
    edges = [*np.searchsorted(np.sort(cpu_of_stretch), cpu).tolist(), len(by_cpu)]
    found = []
    for begin, end in itertools.pairwise(edges):
        own = [slice(grid.start[row], grid.start[row + 1]) for row in by_cpu[begin:end]]
        hits = [profile.samples.hit_index.take(grid.sample_index[part]) for part in own]
        rows = [
            part.start + np.flatnonzero(is_user.take(hit))
            for part, hit in zip(own, hits, strict=True)
        ]
        found.append(_quantiles(grid.late_ns, np.concatenate(rows)))
    usual_ns, limit_ns = np.array(found, np.float64).reshape(-1, 2).T
    return cpu, limit_ns, usual_ns


def late_shares(lateness: Lateness | None, row_of_hit: Ints, row_count: int) -> F64:
    """Return the share of each row's samples that came late, 0 to 1.

    `row_of_hit` has the row of each row of hits, -1 for none.

    Returns:
        f64[r], nan if unknown: no timer, or too few samples.
    """
    shares = np.full(row_count, np.nan)
    if lateness is None:
        return shares
    member = np.flatnonzero((row_of_hit >= 0) & (lateness.on_grid > 0))
    row = row_of_hit[member]
    on_grid = np.bincount(row, lateness.on_grid[member], row_count)
    late = np.bincount(row, lateness.late[member], row_count)
    enough = on_grid >= _LEAST_OF_ROW
    shares[enough] = late[enough] / on_grid[enough]
    return shares


def _quantiles(late_ns: F64, rows: I64) -> tuple[float, float]:
    """Return the median and the limit of usual delays; nan with too few samples.

    `late_ns` is of all samples; `rows` are those in user mode.
    """
    if len(rows) < _LEAST_USUAL:
        return np.nan, np.nan
    some_ns = late_ns.take(rows[:: len(rows) // _MOST_USUAL + 1])
    middle, limit = len(some_ns) // 2, int(len(some_ns) * (1 - USUAL_SHARE))
    ordered = np.partition(some_ns, (middle, limit))
    return float(ordered[middle]), float(ordered[limit])


class LateFunctions(Record):
    """Late shares of one event's kernel functions, f64, nan if unknown.

    Attributes:
        functions: of the rows of `EventView.functions`; nan outside the kernel.
        kernel: of those of `EventView.kernel.whole`; none if that is None.
        kernel_parts: of those of each of `EventView.kernel.parts`.
    """

    functions: F64
    kernel: F64
    kernel_parts: tuple[F64, ...]


def late_functions(
    profile: ProfileByFunction, event: EventView, lateness: Lateness | None
) -> LateFunctions | None:
    """Return the late shares of an event's functions; None if it has no timer.

    The profile is the report's `by_function`.
    """
    if lateness is None or event.event_index not in profile.clocks.event:
        return None
    functions, kernel = event.functions, event.kernel
    is_kernel = is_kernel_mode(hit_modes(profile))
    in_kernel = np.where(is_kernel, functions.row_of_hit, np.int32(-1))
    of_functions = late_shares(lateness, in_kernel, len(functions.function))
    if kernel is None:
        return LateFunctions(of_functions, np.empty(0), ())
    ends = np.cumsum([len(table) for _, table in kernel.parts])
    of_parts = late_shares(lateness, kernel.part_row_of_hit, int(ends[-1]))
    return LateFunctions(
        of_functions,
        late_shares(lateness, kernel.row_of_hit, len(kernel.whole)),
        tuple(np.split(of_parts, ends[:-1])),
    )
