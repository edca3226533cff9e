"""What every section of one event's part of the report is made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.render.event_report import EventReport

if TYPE_CHECKING:
    from prospect.render.text.numbers import Figures
    from prospect.render.text.style import Style


class Page(EventReport):
    """The figures of one event, and how they are written.

    Attributes:
        figures: how its times are written.
        style: how lines are coloured.
    """

    figures: Figures
    style: Style
