"""What every section of one event's part of the report is made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import NamedTuple

if TYPE_CHECKING:
    from prospect.estimate.report import EventReport, Report
    from prospect.render.text.numbers import Figures
    from prospect.render.text.style import Style


class Page(NamedTuple):
    """One event of a report, and how it is written.

    Attributes:
        event: its figures.
        figures: how its times are written.
        style: how lines are coloured.
    """

    event: EventReport
    figures: Figures
    style: Style

    @property
    def report(self) -> Report:
        """What the event is of."""
        return self.event.report
