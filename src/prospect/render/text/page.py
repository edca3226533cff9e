"""What every section of one event's part of the report is made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from prospect.estimate.late_routines import LateRoutines
    from prospect.estimate.report import EventEstimates
    from prospect.profile.disassembly import EventCode
    from prospect.profile.source_lines import EventLines
    from prospect.profile.view import EventView, ReportView
    from prospect.render.text.numbers import Figures
    from prospect.render.text.style import Style


class Page(NamedTuple):
    """The figures of one event, and how they are written.

    Attributes:
        view: of the whole report.
        event: of this event.
        estimates: its error bars and marks.
        late: the late shares of its kernel routines, None where its clock is no timer.
        code: its hits by instruction, None unless asked for.
        lines: its hits by source line, likewise.
        figures: how its times are written.
        style: how lines are coloured.
    """

    view: ReportView
    event: EventView
    estimates: EventEstimates
    late: LateRoutines | None
    code: EventCode | None
    lines: EventLines | None
    figures: Figures
    style: Style
