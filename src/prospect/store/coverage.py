"""What a window was expected to hold and what came: the books of a store.

Without them no sum over windows is honest: nothing hit and nothing measured look the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.estimate.clocks.grid import as_window, tick_grid
from prospect.estimate.ledger.tick_ledger import tick_ledger
from prospect.store.schema import WHOLE_WINDOW

if TYPE_CHECKING:
    from prospect.profile.complete import CompleteProfile
    from prospect.store.engine import Columns


def coverage_columns(profile: CompleteProfile, begin_us: int, end_us: int) -> dict[str, Any]:
    """Return the books of a window: a row for each CPU with clocks, and one of the whole.

    Args:
        profile: of the window, with samples.
        begin_us: of the window, in microseconds since 1970.
        end_us: likewise.
    """
    grid = tick_grid(profile)
    if grid is not None:
        # Clocks run on from window to window: whole periods leave out half a tick a clock of each.
        grid = as_window(grid, profile.run.begin_ns)
    ledger = tick_ledger(profile, grid)
    event = int(profile.clocks.event[0]) if len(profile.clocks) else 0
    cpus: list[int] = []
    steal_us: list[int] = []
    counts = np.zeros((6, 0), np.int64)
    unclocked, other_losses = len(profile.samples), int(profile.losses.lost.sum())
    if ledger is not None:
        cpus = ledger.cpu.tolist()
        counts = np.stack(ledger.by_cpu)
        steal_us = np.rint(np.nan_to_num(ledger.accounted_steal_s) * 1e6).astype(int).tolist()
        unclocked = ledger.unclocked
        # Those of no clock, too, as Python's frames in a ring that was full.
        other_losses = max(other_losses - int(ledger.by_cpu.lost.sum()), ledger.other_losses)
    whole = np.array([[0], [unclocked], [other_losses], [0], [0], [0]], np.int64)
    expected, recorded, lost, throttled, idle, missing = np.hstack((counts, whole))
    rows = len(cpus) + 1
    return {
        "t": np.full(rows, begin_us, np.int64),
        "until": np.full(rows, end_us, np.int64),
        "cpu": np.array([*cpus, WHOLE_WINDOW], np.int16),
        "event": np.full(rows, event, np.uint16),
        "expected": expected,
        "recorded": recorded,
        "lost": lost,
        "throttled": throttled,
        "idle": idle,
        "missing": missing,
        "steal_us": np.array([*steal_us, 0], np.int64),
    }


def lost_samples(books: Columns) -> int:
    """Return how many samples were lost by the books of a window, or records if it has no clocks.

    Args:
        books: as `coverage_columns` returns them.
    """
    is_clock = np.asarray(books["cpu"]) != WHOLE_WINDOW
    lost = np.asarray(books["lost"])
    return int((lost[is_clock] if is_clock.any() else lost).sum())
