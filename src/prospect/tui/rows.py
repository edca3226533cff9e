"""What a page shows: rows, each with an identity that outlives refreshes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

USER = "user"
KERNEL = "kernel"
INTERRUPT = "interrupt"
HOT = "hot"

Key = tuple[object, ...]


class Row(NamedTuple):
    """A row of a page; a tuple, as hundreds are made with each refresh.

    Attributes:
        key: who it is, from one refresh to the next.
        name: the text of its widest column; hostile, as all that follows.
        process: whose time it is, "" where the page has no such column.
        place: the object of a function, the processes of a name.
        paint: `USER`, `KERNEL`, `INTERRUPT`, `HOT`, or "" for no colour.
        lead: what a tree draws before the name.
        hits: samples.
        seconds: their time; NaN for none.
        half_width_s: half of its 95 % interval; NaN if it is not known.
        recent_s: the time of the last ten seconds, NaN if they were not seen.
        history: hits of each stretch of the last minute, -1 if it was not seen.
        ready_s: time without a CPU, although it could have gone on; NaN if it is not known.
        blocked_s: time in which it waited for anything else; the same.
        is_like_above: ties with the row above.
        target: what Enter leads to, None for nothing.
    """

    key: Key
    name: str
    process: str = ""
    place: str = ""
    paint: str = ""
    lead: str = ""
    hits: int = 0
    seconds: float = 0.0
    half_width_s: float = float("nan")
    recent_s: float = float("nan")
    history: Sequence[int] = ()
    ready_s: float = float("nan")
    blocked_s: float = float("nan")
    is_like_above: bool = False
    target: object = None


class Page(Record):
    """The rows of a page.

    Attributes:
        rows: those that are shown.
        more: how many rows there are besides these.
        more_s: their time.
        total_s: of all rows.
        is_text: rows are lines to be read, without figures.
        title: above lines of text.
        opens_at: which line of text is to be seen first, though not at the top.
        note: a note on the page, "" for nothing.
    """

    rows: tuple[Row, ...]
    more: int = 0
    more_s: float = 0.0
    total_s: float = 0.0
    is_text: bool = False
    title: str = ""
    opens_at: int = 0
    note: str = ""
