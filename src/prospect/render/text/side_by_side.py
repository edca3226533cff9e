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
    hits = table.hits[:_MOST_ROWS].T.tolist()
    names = [escaped(functions.name[row]) or _NO_NAME for row in shown]
    files = [escaped(objects.path[functions.object_index[row]]) for row in shown]
    yield from table_lines(
        [
            *(
                Column(escaped(event.event.name), [*map(str, column), str(total)])
                for event, column, total in zip(view.events, hits, table.total, strict=True)
            ),
            Column("Routine name", [*names, "Total"], right=False),
            Column("Filename", [*files, ""], right=False),
        ]
    )
    if len(table) > len(shown):
        skipped = counted(len(table) - len(shown), "routine")
        yield style.cut(f"- Left out: {skipped} with smaller shares")
    yield ""
