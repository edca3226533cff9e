"""What the screen shows at one moment: where a person stands, and the page seen from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import Record, field, replace
from prospect.tui.calls import calls_page
from prospect.tui.cursor import Cursor
from prospect.tui.places import INSTRUCTIONS, WAIT_STACKS, WAITING, Place
from prospect.tui.tables import BY_TIME, View, orders_of, table_page
from prospect.tui.waiting import wait_stacks_page, waiting_page

if TYPE_CHECKING:
    from prospect.tui.figures import LiveFigures
    from prospect.tui.instructions import CodeMemory
    from prospect.tui.rows import Page


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
        """What decides which rows there are; not the cursor."""
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
    elif place.page == WAIT_STACKS:
        page = wait_stacks_page(figures, place)
    elif place.routine is None:
        page = table_page(figures, place, View(stand.words, stand.order))
    elif place.page == INSTRUCTIONS:
        page = code.page(figures, place.routine)
    else:
        page = calls_page(figures, place, place.routine)
    return Picture(stand.view, figures, page)
