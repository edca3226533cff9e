"""Accounting: sampled time beside the kernel's own figures for the same interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.render.text.columns import Column, table_lines
from prospect.render.text.numbers import NO_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.profile.view import EventView
    from prospect.render.text.numbers import Figures
    from prospect.render.text.style import Style

_COLUMNS = (
    Column("Time", right=False),
    Column("Sampled Secs"),
    Column("Accounted Secs"),
    Column("Accounted by", right=False),
)


def accounting_lines(event: EventView, figures: Figures, style: Style) -> Iterator[str]:
    """Yield the section; nothing where the recording holds no accounting."""
    rows = event.accounted
    if not rows:
        return
    yield from style.section("Accounting: Sampled Time beside the Kernel's Own")
    yield from table_lines(
        _COLUMNS,
        [
            [row.name for row in rows],
            [NO_TIME if row.sampled_s is None else figures.seconds(row.sampled_s) for row in rows],
            [f"{row.accounted_s:.2f}" for row in rows],
            [row.source for row in rows],
        ],
    )
    yield ""
