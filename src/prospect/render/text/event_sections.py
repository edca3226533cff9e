"""Sections on events: several events side by side, and the data that samples of an event carry.

An event source decodes that data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import pluralize
from prospect.render.escape import escaped
from prospect.render.text.style import NO_NAME, percent
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.figures.report.event_figures import DataFigures
    from prospect.figures.report.report_view import ReportView
    from prospect.render.text.style import Style

_MOST_ROWS = 20
_MOST_TEXTS = 20


def side_by_side_lines(view: ReportView, style: Style) -> Iterator[str]:
    """Yield the table, nothing if fewer than two events have hits."""
    if len(view.events) < 2:
        return
    table = view.side_by_side
    words = style.words
    yield from style.section(
        words.term("Events side by side: samples of each function, by mean share")
    )
    if not len(table):
        yield f"No {words.term('function')} of these processes was hit."
        yield ""
        return
    shown = table.function[:_MOST_ROWS].tolist()
    functions, objects = view.profile.functions, view.profile.objects
    hits = table.hits[:_MOST_ROWS].T.tolist()
    names = [escaped(functions.name[row]) or NO_NAME for row in shown]
    files = [escaped(objects.path[functions.object_index[row]]) for row in shown]
    yield from table_lines(
        *(
            Column(escaped(event.event.name), [*map(str, column), str(total)])
            for event, column, total in zip(view.events, hits, table.total, strict=True)
        ),
        Column(words.function_title, [*names, "Total"], right=False),
        Column("Filename", [*files, ""], right=False),
    )
    if len(table) > len(shown):
        skipped = pluralize(len(table) - len(shown), words.term("function"))
        yield style.cut(f"- Left out: {skipped} with smaller shares")
    yield ""


def sample_data_lines(found: tuple[DataFigures, ...], style: Style) -> Iterator[str]:
    """Yield a section for each event; nothing if no raw data was decoded."""
    for data in found:
        yield from style.section(f"What Samples of {escaped(data.event)} Say")
        samples = pluralize(data.samples, "sample")
        yield f"{samples}, decoded by the event source of {escaped(data.source)}."
        yield ""
        if data.numbers:
            yield from _numbers(data, style)
            yield ""
        for column in data.texts:
            shown = column.rows[:_MOST_TEXTS]
            texts = [escaped(text) for text, _, _ in shown]
            yield from table_lines(
                Column("Samples", [str(count) for _, count, _ in shown]),
                Column("Pcnt", [percent(share, 1) for _, _, share in shown]),
                Column(escaped(column.name), texts, right=False),
            )
            yield ""


def _numbers(data: DataFigures, style: Style) -> Iterator[str]:
    rows = data.numbers
    yield from table_lines(
        Column("Samples", [str(one.samples) for one in rows]),
        Column("Mean", [f"{one.mean:.1f}" for one in rows]),
        Column("Median", [f"{one.median:g}" for one in rows]),
        Column("95 %", [f"{one.high:g}" for one in rows]),
        Column("Most", [f"{one.most:g}" for one in rows]),
        Column("", [escaped(one.name) for one in rows], right=False),
    )
    for one in rows:
        yield ""
        parts = one.functions
        functions = [escaped(part.function) for part in parts]
        yield from table_lines(
            Column("Samples", [str(part.samples) for part in parts]),
            Column("Mean", [f"{part.mean:.1f}" for part in parts]),
            Column("Pcnt", [percent(part.share, 1) for part in parts]),
            Column(
                f"{escaped(one.name)}, by {style.words.term('function')}", functions, right=False
            ),
        )
