"""The chosen row: it stays chosen, and stays on its line, while the rows around it move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.tui.rows import Key, Row


class Cursor(Record):
    """Which row is chosen.

    Attributes:
        row: its place among the rows.
        top: the place of the first row on the screen.
        key: who it is; None until a person has moved it: it is the first, whoever that is.
    """

    row: int = 0
    top: int = 0
    key: Key | None = None

    def moved(self, rows: Sequence[Row], step: int, height: int) -> Cursor:
        """Go `step` rows down; negative is up."""
        if not rows:
            return Cursor()
        row = min(max(self.row + step, 0), len(rows) - 1)
        return replace(self, row=row, key=rows[row].key).within(len(rows), height)

    def scrolled(self, rows: Sequence[Row], step: int, height: int) -> Cursor:
        """Move lines that are read, and have no chosen row, by `step`."""
        if not rows:
            return Cursor()
        top = min(max(self.top + step, 0), max(len(rows) - height, 0))
        return Cursor(top, top, rows[top].key)

    def opened(self, rows: Sequence[Row], line: int, height: int) -> Cursor:
        """Show lines around `line` at first; later the same lines again, whatever came between."""
        if self.key is None:
            return Cursor().scrolled(rows, line - height // 3, height)
        return self.followed(rows, height)

    def followed(self, rows: Sequence[Row], height: int) -> Cursor:
        """Find the row again after a refresh, and keep it on its line of the screen."""
        if self.key is None:
            return self.within(len(rows), height)
        line = self.row - self.top
        found = next((at for at, row in enumerate(rows) if row.key == self.key), None)
        if found is None:
            # It is gone, for now: the cursor waits on its line for it to come back.
            return self.within(len(rows), height)
        return replace(self, row=found, top=max(found - line, 0)).within(len(rows), height)

    def within(self, count: int, height: int) -> Cursor:
        """Keep the row among the rows, and on the screen."""
        height = max(height, 1)
        row = min(max(self.row, 0), max(count - 1, 0))
        top = min(max(self.top, row - height + 1), row)
        return replace(self, row=row, top=max(min(top, count - height), 0))
