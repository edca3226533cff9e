"""Tables of source lines as plain values, as docs/schema.md has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.render.encoding import rounded
from prospect.render.json.cut_rows import cut_fields, shown_figures

if TYPE_CHECKING:
    from prospect.estimate.annotate.event_lines import LinesOfGroup, SourceLine


def source_line_fields(group: LinesOfGroup) -> dict[str, Any]:
    """Return the lines of one group of hits that pass the threshold, and what the others had."""
    table = group.table
    figures = shown_figures(table, table.accumulated)
    rows = [{**of_row, **_line(row)} for of_row, row in zip(figures, group.rows, strict=True)]
    return cut_fields(table, rows, "lines")


def _line(row: SourceLine) -> dict[str, Any]:
    return {
        "error_s": rounded(row.half_width_s),
        "file": row.file or None,
        "line": row.line or None,
        "function": (row.functions[0] if row.functions else "") or None,
        "inlined_into": [name or None for name in row.functions[1:]],
        "other_places": row.other_places,
        "object": row.object_path,
        "no_line_because": row.reason or None,
    }
