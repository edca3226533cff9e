"""The late share of each routine of a report's kernel tables, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.ledger.lateness import late_shares
from prospect.figures.portions import (
    hit_portions,
    is_kernel_portion,
)
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.ledger.lateness import Lateness
    from prospect.figures.report.view import EventView
    from prospect.profile.complete import ProfileByRoutine


class LateRoutines(Record):
    """Late shares of one event's kernel routines, f64, nan where they are not known.

    Attributes:
        routines: of the rows of `EventView.routines`; nan outside the kernel.
        kernel: of those of `EventView.kernel.whole`; none if that is None.
        kernel_parts: of those of each of `EventView.kernel.parts`.
    """

    routines: NDArray[np.float64]
    kernel: NDArray[np.float64]
    kernel_parts: tuple[NDArray[np.float64], ...]


def late_routines(
    profile: ProfileByRoutine, event: EventView, lateness: Lateness | None
) -> LateRoutines | None:
    """Return the late shares of an event's routines; None if it has no timer.

    Args:
        profile: the report's `by_routine`.
        event: one of its events.
        lateness: of the profile's samples.
    """
    if lateness is None or event.event_index not in profile.clocks.event:
        return None
    routines, kernel = event.routines, event.kernel
    is_kernel = is_kernel_portion(hit_portions(profile))
    in_kernel = np.where(is_kernel, routines.row_of_hit, np.int32(-1))
    of_routines = late_shares(lateness, in_kernel, len(routines.function))
    if kernel is None:
        return LateRoutines(of_routines, np.empty(0), ())
    behind = np.cumsum([len(table) for _, table in kernel.parts])
    of_parts = late_shares(lateness, kernel.part_row_of_hit, int(behind[-1]))
    return LateRoutines(
        of_routines,
        late_shares(lateness, kernel.row_of_hit, len(kernel.whole)),
        tuple(np.split(of_parts, behind[:-1])),
    )
