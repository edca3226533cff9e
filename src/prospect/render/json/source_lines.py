"""Tables of source lines as plain values, as docs/schema.md has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prospect.render.encoding import rounded
from prospect.render.json.cut_rows import cut_fields

if TYPE_CHECKING:
    from prospect.profile.source_lines import LinesOfGroup, SourceLine


def source_line_fields(group: LinesOfGroup) -> dict[str, Any]:
    """Return the lines of one group of hits that pass the threshold, and what the others had."""
    table = group.table
    shown = slice(0, table.shown)
    columns = (table.hits, table.seconds, table.share, table.accumulated)
    return cut_fields(
        table,
        [
            {
                "share": share,
                "accumulated": accumulated,
                "hits": hits,
                "seconds": round(seconds, 9),
                **_line(row),
            }
            for row, hits, seconds, share, accumulated in zip(
                group.rows, *(column[shown].tolist() for column in columns), strict=True
            )
        ],
        "lines",
    )


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
