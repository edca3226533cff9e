"""Tables of source lines: `Pcnt Accum% Hits Secs ± Source line Function`.

Paths that are too wide lose their first directories, functions the end of their names; JSON has
both whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import pluralize
from prospect.render.escape import display_width, escaped, shortened
from prospect.render.name_parts import short_name
from prospect.render.text.style import percent_column, percent_digits
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.estimate.annotate.event_lines import LinesOfGroup, SourceLine
    from prospect.render.text.style import Page

_PATH_WIDTH = 48
_NAME_WIDTH = 48
_CHAIN_WIDTH = 160
_INLINED_INTO = " < "
_CUT_PATH = ".../"
_NO_LINE = "[no line] "


def process_source_lines(page: Page, process: int) -> Iterator[str]:
    """Yield the lines of a process; nothing if `--lines` was not given."""
    if page.event.lines is not None:
        yield from page.style.section("Source Lines of the Process")
        yield from _table(page, page.event.lines.of_process(process))
        yield ""


def all_source_lines(page: Page) -> Iterator[str]:
    """Yield the lines of all processes together, unless there is exactly one."""
    is_one = len(page.event.detailed) == 1 and not page.event.detail_skipped
    if page.event.lines is not None and not (is_one and page.report.detail != "k"):
        all_of = page.style.words.term("Source Lines of All Samples Specified with")
        title = f"{all_of} '-V {page.report.detail}' Option"
        yield from page.style.section(title)
        yield from _table(page, page.event.lines.of_all())
        yield ""


def _table(page: Page, group: LinesOfGroup) -> Iterator[str]:
    table, shown, words = group.table, group.table.shown, page.style.words
    samples = pluralize(table.total_hits, words.term("sample"))
    if page.figures.has_time:
        seconds = page.figures.seconds(table.total_seconds)
        yield f"Extrapolated time from {samples} = {seconds} seconds."
    else:
        yield f"{samples}."
    if shown:
        yield ""
        yield from table_lines(*_columns(page, group))
    if shown < len(table):
        option, least_s = "-m", page.report.user_threshold_s
        if page.report.detail == "k":
            option, least_s = "-k", page.report.kernel_threshold_s
        rest = pluralize(len(table) - shown, "line")
        what = f"{rest}, {pluralize(table.skipped_hits, words.term('sample'))}"
        first_s = float(table.seconds[shown])
        yield page.style.cut(words.skipped(first_s, option, least_s, what))


def _columns(page: Page, group: LinesOfGroup) -> list[Column]:
    table, rows = group.table, group.rows
    first, digits = slice(0, table.shown), percent_digits(table.total_hits)
    seconds, halves = page.figures.time_columns(
        table.seconds[first].tolist(), [row.half_width_s for row in rows]
    )
    return [
        Column("Pcnt", percent_column(table.share[first].tolist(), digits)),
        Column("Accum%", percent_column(table.accumulated[first].tolist(), digits)),
        Column(
            page.style.words.term("Samples"), [str(hits) for hits in table.hits[first].tolist()]
        ),
        seconds._replace(when=page.figures.has_time),
        halves,
        Column("Source line", [_where(row) for row in rows], right=False),
        Column("Function", [_function(row) for row in rows], right=False),
    ]


def _where(row: SourceLine) -> str:
    if not row.file:
        return _NO_LINE + _short_path(escaped(row.object_path), _PATH_WIDTH - len(_NO_LINE))
    number = f":{row.line}" if row.line else ""
    return _short_path(escaped(row.file), _PATH_WIDTH - len(number)) + number


def _function(row: SourceLine) -> str:
    if not row.file:
        return escaped(row.reason)
    names = [short_name(escaped(name) or "?", _NAME_WIDTH) for name in row.functions]
    chain = shortened(_INLINED_INTO.join(names), _CHAIN_WIDTH)
    more = f"  and {pluralize(row.other_places, 'other place')}" if row.other_places else ""
    return chain + more


def _short_path(path: str, width: int) -> str:
    """Drop the first directories of a path that is too wide."""
    if display_width(path) <= width:
        return path
    parts = path.split("/")
    for first in range(1, len(parts)):
        short = _CUT_PATH + "/".join(parts[first:])
        if display_width(short) <= width:
            return short
    return shortened(parts[-1], width)
