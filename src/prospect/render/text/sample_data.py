"""What samples of an event say beside where they were taken, as an event source decoded it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.render.escape import escaped
from prospect.render.text.columns import Column, table_lines
from prospect.render.text.numbers import percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.figures.report.sample_data import DataFigures
    from prospect.render.text.style import Style

_MOST_TEXTS = 20


def sample_data_lines(found: tuple[DataFigures, ...], style: Style) -> Iterator[str]:
    """Yield a section for each event; nothing where no raw data was decoded."""
    for data in found:
        yield from style.section(f"What Samples of {escaped(data.event)} Say")
        samples = counted(data.samples, "sample")
        yield f"{samples}, decoded by the event source of {escaped(data.source)}."
        yield ""
        if data.numbers:
            yield from _numbers(data)
            yield ""
        for column in data.texts:
            shown = column.rows[:_MOST_TEXTS]
            texts = [escaped(text) for text, _, _ in shown]
            yield from table_lines(
                [
                    Column("Samples", [str(count) for _, count, _ in shown]),
                    Column("Pcnt", [percent(share, 1) for _, _, share in shown]),
                    Column(escaped(column.name), texts, right=False),
                ]
            )
            yield ""


def _numbers(data: DataFigures) -> Iterator[str]:
    rows = data.numbers
    yield from table_lines(
        [
            Column("Samples", [str(one.samples) for one in rows]),
            Column("Mean", [f"{one.mean:.1f}" for one in rows]),
            Column("Median", [f"{one.median:g}" for one in rows]),
            Column("95 %", [f"{one.high:g}" for one in rows]),
            Column("Most", [f"{one.most:g}" for one in rows]),
            Column("", [escaped(one.name) for one in rows], right=False),
        ]
    )
    for one in rows:
        yield ""
        parts = one.routines
        routines = [escaped(part.routine) for part in parts]
        yield from table_lines(
            [
                Column("Samples", [str(part.samples) for part in parts]),
                Column("Mean", [f"{part.mean:.1f}" for part in parts]),
                Column("Pcnt", [percent(part.share, 1) for part in parts]),
                Column(f"{escaped(one.name)}, by routine", routines, right=False),
            ]
        )
