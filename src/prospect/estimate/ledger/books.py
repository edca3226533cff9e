"""All books of a run at once: every format shows them and computes nothing itself.

Comes in: a completed Profile. Goes out: `RunBooks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.estimate.clocks.grid import tick_grid
from prospect.estimate.ledger.lateness import sample_lateness
from prospect.estimate.ledger.ledger import tick_ledger
from prospect.figures.report.own_cost import OwnCost, own_cost
from prospect.records import Record

if TYPE_CHECKING:
    from prospect.estimate.clocks.grid import Grid
    from prospect.estimate.ledger.lateness import Lateness
    from prospect.estimate.ledger.ledger import TickLedger
    from prospect.profile.complete import ProfileByRoutine


class RunBooks(Record):
    """What became of the clocks' ticks, which samples came late, and what profiling cost.

    `ledger` and `lateness` are None where no clock keeps a grid: hardware counters, and the clocks
    of single tasks, which stop whenever the task does.
    """

    ledger: TickLedger | None
    lateness: Lateness | None
    cost: OwnCost


def run_books(profile: ProfileByRoutine, grid: Grid | None = None) -> RunBooks:
    """Balance the books of a completed profile.

    Args:
        profile: what was recorded.
        grid: its `tick_grid`, where that is known already.
    """
    cost = own_cost(profile)
    grid = tick_grid(profile) if grid is None else grid
    if grid is None:
        return RunBooks(None, None, cost)
    return RunBooks(tick_ledger(profile, grid), sample_lateness(profile, grid), cost)
