"""Several events side by side: a row a routine, a column an event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.render.escape import escaped
from prospect.render.text.columns import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.figures.report.view import ReportView
    from prospect.render.text.style import Style

_MOST_ROWS = 20
_NO_NAME = "[no name]"


def side_by_side_lines(view: ReportView, style: Style) -> Iterator[str]:
    """Yield the table, nothing where fewer than two events have hits."""
    if len(view.events) < 2:
        return
    from prospect.figures.report.side_by_side import side_by_side  # noqa: PLC0415 - only for several events

    profile = view.profile
    table = side_by_side(profile, [event.event_index for event in view.events], view.detail)
    yield from style.section("Events side by side: hits of each routine, by mean share")
    if not len(table):
        yield "No routine of these processes was hit."
        yield ""
        return
    shown = table.function[:_MOST_ROWS].tolist()
    functions, objects = profile.functions, profile.objects
    columns = [Column(escaped(event.event.name)) for event in view.events]
    cells = [
        [*map(str, table.hits[:_MOST_ROWS, column].tolist()), str(table.total[column])]
        for column in range(len(view.events))
    ]
    columns += [Column("Routine name", right=False), Column("Filename", right=False)]
    cells.append([*(escaped(functions.name[row]) or _NO_NAME for row in shown), "Total"])
    files = (objects.path[functions.object_index[row]] for row in shown)
    cells.append([*map(escaped, files), ""])
    yield from table_lines(columns, cells)
    if len(table) > len(shown):
        skipped = counted(len(table) - len(shown), "routine")
        yield style.cut(f"- Left out: {skipped} with smaller shares")
    yield ""
