"""The late share of each routine of a report's kernel tables, row by row beside these.

Comes in: a `ReportView` and what is known of its samples' lateness. Goes out: columns as long as
the view's routine tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.estimate.ledger.lateness import late_shares, sample_lateness
from prospect.figures.portions import (
    hit_portions,
    is_kernel_portion,
)
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.ledger.lateness import Lateness
    from prospect.figures.report.view import EventView, ReportView
    from prospect.profile.complete import ProfileByRoutine


class LateRoutines(Record):
    """Late shares of one event's kernel routines, f64, nan where they are not known.

    Attributes:
        routines: beside the columns of `EventView.routines`; nan outside the kernel.
        kernel: beside `EventView.kernel.whole`; none where that is None.
        kernel_parts: beside each of `EventView.kernel.parts`.
    """

    routines: NDArray[np.float64]
    kernel: NDArray[np.float64]
    kernel_parts: tuple[NDArray[np.float64], ...]


def lateness_of_view(
    view: ReportView, lateness: Lateness | None = None
) -> tuple[LateRoutines | None, ...]:
    """Return the late shares of each of the view's events, None for those that have no timer.

    Args:
        view: the figures of the report.
        lateness: of the samples of `view.by_routine`, where that is known already.
    """
    profile = view.by_routine
    lateness = lateness or sample_lateness(profile)
    timed = set(distinct(profile.clocks.event).tolist())
    return tuple(
        _late_routines(profile, event, lateness)
        if lateness and event.event_index in timed
        else None
        for event in view.events
    )


def _late_routines(profile: ProfileByRoutine, event: EventView, lateness: Lateness) -> LateRoutines:
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
