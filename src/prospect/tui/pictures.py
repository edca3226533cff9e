"""What the screen shows at one moment: where a person is, the page there, and the chosen row.

That row stays chosen, and stays on its line, while the rows around it move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import Record, field, replace
from prospect.tui.call_pages import calls_page
from prospect.tui.screen_places import INSTRUCTIONS, TURNS, WAIT_STACKS, WAITING, Place
from prospect.tui.table_pages import BY_TIME, View, orders_of, table_page
from prospect.tui.turns_view import turns_page
from prospect.tui.waiting_pages import wait_stacks_page, waiting_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.tui.figures import LiveFigures
    from prospect.tui.instruction_page import CodeMemory
    from prospect.tui.rows import Key, Page, Row


class Cursor(Record):
    """Which row is chosen.

    Attributes:
        row: its place among the rows.
        top: the place of the first row on the screen.
        key: who it is; None until a person has moved it: it is then the first row.
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


class Stand(Record):
    """A place, and how it is looked at.

    Attributes:
        place: the page.
        words: the filter of a table.
        order: of `tables.orders_of` its page.
        cursor: the chosen row.
    """

    place: Place = field(default_factory=Place)
    words: str = ""
    order: str = BY_TIME
    cursor: Cursor = field(default_factory=Cursor)

    @property
    def view(self) -> tuple[Place, str, str]:
        """The parts that decide which rows there are; the cursor does not."""
        return self.place, self.words, self.order

    def reordered(self) -> Stand:
        """Return the next order of rows, from the first row on."""
        orders = orders_of(self.place.page)
        order = orders[(orders.index(self.order) + 1) % len(orders)]
        return replace(self, order=order, cursor=Cursor())

    def at(self, place: Place) -> Stand:
        """Return another place, in the same order as far as its rows have it."""
        orders = orders_of(place.page)
        return Stand(place, order=self.order if self.order in orders else orders[0])


class Picture(Record):
    """Figures and the page that was made of them, for one view.

    Attributes:
        view: of the stand that it was made for.
        figures: of the state that it shows.
        page: its rows.
    """

    view: tuple[Place, str, str]
    figures: LiveFigures
    page: Page


def take_picture(figures: LiveFigures, stand: Stand, code: CodeMemory) -> Picture:
    """Compute a page.

    Args:
        figures: of a state.
        stand: what is looked at.
        code: the instructions that were read so far.
    """
    place = stand.place
    if place.page == WAITING:
        page = waiting_page(figures, place, View(stand.words, stand.order))
    elif place.page == TURNS:
        page = turns_page(figures, stand.words)
    elif place.page == WAIT_STACKS:
        page = wait_stacks_page(figures, place)
    elif place.function is None:
        page = table_page(figures, place, View(stand.words, stand.order))
    elif place.page == INSTRUCTIONS:
        page = code.page(figures, place.function)
    else:
        page = calls_page(figures, place, place.function)
    return Picture(stand.view, figures, page)
