"""The error bars of any rows of one event: what annotations and disassembled profiles show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import error_bars

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prospect.profile.model import Profile


def half_widths(
    profile: Profile, event: int, row_of_hit: NDArray[np.int32], rows: int
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
