"""The way that a person took over the screen: each stand leads back to the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import Record, field, replace
from prospect.tui.cursor import Cursor
from prospect.tui.pictures import Stand
from prospect.tui.places import Place

if TYPE_CHECKING:
    from prospect.tui.rows import Row


class Trail(Record):
    """Where a person is, and where Esc leads.

    Attributes:
        here: what is looked at.
        before: what was looked at before, the latest last.
    """

    here: Stand = field(default_factory=Stand)
    before: tuple[Stand, ...] = ()

    def entered(self, row: Row) -> Trail:
        """Go where a row leads; stay where it leads nowhere."""
        if not isinstance(row.target, Place):
            return self
        return Trail(self.here.at(row.target), (*self.before, self.here))

    def back(self) -> Trail:
        """Take the filter away, or else go back."""
        if self.here.words:
            return self.filtered("")
        return Trail(self.before[-1], self.before[:-1]) if self.before else self

    def turned(self, step: int) -> Trail:
        """Go to a page beside this one."""
        return self._on(self.here.place.turned(step))

    def numbered(self, number: int) -> Trail:
        """Go to one of the pages beside this one by its number, from 1."""
        pages = self.here.place.pages
        if number > len(pages):
            return self
        return self._on(replace(self.here.place, page=pages[number - 1]))

    def _on(self, place: Place) -> Trail:
        if place == self.here.place:
            return self
        return replace(self, here=self.here.at(place))

    def filtered(self, words: str) -> Trail:
        """Show only rows with `words` in a name."""
        return replace(self, here=replace(self.here, words=words, cursor=Cursor()))

    def reordered(self) -> Trail:
        """Order rows by something else."""
        return replace(self, here=self.here.reordered())

    def with_cursor(self, cursor: Cursor) -> Trail:
        """Choose another row."""
        return replace(self, here=replace(self.here, cursor=cursor))
