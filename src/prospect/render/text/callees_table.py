"""The table of the functions that spend most with all that they call: first screen and `calls`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.render.escape import escaped, shortened
from prospect.render.name_parts import short_names
from prospect.render.text.numbers import NO_TIME
from prospect.render.text.text_table import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.estimate.with_callees import CalleesRow
    from prospect.render.text.numbers import Figures

# Of names, and of where their time begins to spread, without and with programs: for 79 columns.
_NAME_WIDTHS = ((29, 24), (24, 18))
_PROGRAM_WIDTH = 9


def callees_columns(
    rows: Sequence[CalleesRow], figures: Figures, samples_title: str
) -> list[Column]:
    """Return the columns of these rows.

    Args:
        rows: of one event.
        figures: formats its times.
        samples_title: what its samples are called, escaped.
    """
    times, bars = figures.timed_columns(
        [row.seconds for row in rows], [row.half_width_s for row in rows]
    )
    has_programs = any(row.other_programs or row.program != rows[0].program for row in rows)
    width, end_width = _NAME_WIDTHS[has_programs]
    names = short_names(
        [escaped(row.name) for row in rows], width, [row.object_path for row in rows]
    )
    ends = short_names(
        [escaped(row.end) or NO_TIME for row in rows], end_width, [row.end_object for row in rows]
    )
    return [
        Column("With all it calls", names, right=False),
        Column("Total s", times, when=figures.has_time),
        Column(samples_title, [str(row.hits) for row in rows], when=not figures.has_time),
        Column("±", bars, when=any(bar != NO_TIME for bar in bars)),
        Column("Share", [f"{100.0 * row.share:.0f} %" for row in rows]),
        Column("Program", [_program_of(row) for row in rows], right=False, when=has_programs),
        Column("Down to", ends, right=False, when=any(row.end for row in rows)),
    ]


def _program_of(row: CalleesRow) -> str:
    more = f" +{row.other_programs}" if row.other_programs else ""
    return shortened(escaped(row.program), _PROGRAM_WIDTH) + more
