"""The half widths of any rows of one event: what calls, annotations and summaries show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import error_bars

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.errors.design import Design
    from prospect.profile.complete import CompleteProfile


def half_widths(
    profile: CompleteProfile, event: int, row_of_hit: NDArray[np.int32], rows: int
) -> NDArray[np.float64] | None:
    """Estimate how far the time of each row may be off.

    Args:
        profile: completed.
        event: row of its events.
        row_of_hit: i32[h] the row of each hit, -1 for none.
        rows: how many there are.

    Returns:
        f64[rows] half of each 95 % interval in seconds; None where the event has no time.
    """
    design = sampling_design(profile, event)
    return error_bars(design, row_of_hit, rows).half_width_s if design.has_time else None


def known_half_widths(
    design: Design, row_of_hit: NDArray[np.integer], rows: int
) -> NDArray[np.float64]:
    """Return half of each row's 95 % interval, f64[rows] s; NaN where the event has no time.

    Args:
        design: how the event's samples were taken.
        row_of_hit: i[h] the row of each hit, -1 for none.
        rows: how many there are.
    """
    if not (design.has_time and rows):
        return np.full(rows, np.nan)
    return error_bars(design, row_of_hit.astype(np.int32, copy=False), rows).half_width_s
