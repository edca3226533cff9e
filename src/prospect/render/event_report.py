"""The figures of an event with what is estimated of them: what every format writes down."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prospect.estimate.late_routines import lateness_of_view
from prospect.estimate.report import estimate_report

if TYPE_CHECKING:
    from prospect.estimate.late_routines import LateRoutines
    from prospect.estimate.lateness import Lateness
    from prospect.estimate.report import EventEstimates
    from prospect.profile.view import EventView, ReportView


class EventReport(NamedTuple):
    """One event of a report.

    Attributes:
        view: of the whole report.
        event: of this event.
        estimates: its error bars and marks.
        late: the late shares of its kernel routines, None where its clock is no timer.
    """

    view: ReportView
    event: EventView
    estimates: EventEstimates
    late: LateRoutines | None


def event_reports(view: ReportView, lateness: Lateness | None) -> list[EventReport]:
    """Estimate the errors of a report.

    Args:
        view: the report.
        lateness: of its profile's samples, None where it is not known.
    """
    estimates = estimate_report(view).events
    late = lateness_of_view(view, lateness)
    return [
        EventReport(view, event, of_event, routines)
        for event, of_event, routines in zip(view.events, estimates, late, strict=True)
    ]
