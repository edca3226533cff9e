"""Widgets that are lines and nothing else: what changes is drawn, the rest is left alone.

A table widget lays out and styles each cell again; a live view of 60 rows would spend more on that
than on its figures. Here a refresh compares finished lines, and the terminal gets those that
differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from prospect.tui.lines import strip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

    from prospect.tui.lines import Span


class Lines(Widget):
    """Shows lines of spans."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - the library's name
        super().__init__(id=id)
        self._lines: Sequence[Sequence[Span]] = ()
        self._strips: list[Strip] = []

    def on_resize(self) -> None:
        """Fit the lines to the new width; there is none as long as the widget is hidden."""
        self.show(self._lines)

    def show(self, lines: Sequence[Sequence[Span]]) -> None:
        """Show these lines, from the first on; lines that are as they were are not drawn."""
        width = self.size.width
        self._lines = lines
        strips = [strip(spans, width) for spans in lines]
        before, self._strips = self._strips, strips
        changed = [
            Region(0, y, width, 1)
            for y in range(max(len(strips), len(before)))
            if y >= len(strips) or y >= len(before) or strips[y] != before[y]
        ]
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        """Return a finished line."""
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width)


class RowLines(Lines):
    """The rows of a page; says which line was clicked and how far the wheel was turned."""

    class Clicked(Message):
        """A line was clicked."""

        def __init__(self, line: int, *, is_double: bool) -> None:
            super().__init__()
            self.line = line
            self.is_double = is_double

    class Wheeled(Message):
        """The wheel was turned by so many rows."""

        def __init__(self, rows: int) -> None:
            super().__init__()
            self.rows = rows

    def on_click(self, event: events.Click) -> None:
        """Choose the row under the mouse; a second click enters it."""
        self.post_message(self.Clicked(event.y, is_double=event.chain > 1))

    def on_mouse_scroll_down(self) -> None:
        """Go on."""
        self.post_message(self.Wheeled(3))

    def on_mouse_scroll_up(self) -> None:
        """Go back."""
        self.post_message(self.Wheeled(-3))
