"""Places and rows of the screen.

A place is a page and the part of the samples that it shows. A row has an identity that outlives
refreshes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Sequence


USER = "user"
KERNEL = "kernel"
INTERRUPT = "interrupt"
HOT = "hot"

Key = tuple[object, ...]

FUNCTIONS = "functions"
PROCESSES = "processes"
ENTRY_REASONS = "entry_reasons"
THREADS = "threads"
TABLES = (FUNCTIONS, PROCESSES, ENTRY_REASONS, THREADS)
WAITING = "waiting"
TURNS = "turns"
PAGES = (*TABLES, WAITING, TURNS)
WAIT_STACKS = "wait stacks"

CALLERS = "callers"
CALLEES = "callees"
INSTRUCTIONS = "instructions"
DETAILS = (CALLERS, CALLEES, INSTRUCTIONS)


class Row(NamedTuple):
    """A row of a page; a tuple, as hundreds are made with each refresh.

    Attributes:
        key: its identity, the same after a refresh.
        name: the text of its widest column; untrusted, as the texts after it.
        process: the process of its time, "" if the page has no such column.
        place: the object of a function, the processes of a name.
        paint: `USER`, `KERNEL`, `INTERRUPT`, `HOT`, or "" for no colour.
        lead: the lines of a tree before the name.
        hits: samples.
        seconds: their time; NaN for none.
        half_width_s: half of its 95 % interval; NaN if it is not known.
        recent_s: the time of the last ten seconds, NaN if they were not seen.
        history: hits of each stretch of the last minute, -1 if it was not seen.
        ready_s: time without a CPU, although it could have gone on; NaN if it is not known.
        blocked_s: time in which it waited for anything else; the same.
        is_like_above: ties with the row above.
        target: the place that Enter leads to, None for none.
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
        more: the number of further rows.
        more_s: their time.
        is_text: rows are lines of text, without figures.
        title: above lines of text.
        opens_at: the line of text to show at first, though not at the top.
        note: a note on the page, "" for none.
    """

    rows: tuple[Row, ...]
    more: int = 0
    more_s: float = 0.0
    total_s: float = 0.0
    is_text: bool = False
    title: str = ""
    opens_at: int = 0
    note: str = ""


class EntryReason(NamedTuple):
    """Why the CPU was in the kernel: ENTRY_REASON_* and which of its kind."""

    kind: int
    name: str
    label: str


class Function(NamedTuple):
    """The identity of a function; its row changes with every refresh.

    If a function has no name, `address` is 0 and `source` is the reason.
    """

    name: str
    object_path: str
    address: int
    source: int
    label: str


class Place(Record):
    """A page and the part of the samples that it shows.

    Attributes:
        page: of `PAGES` or, with a function, of `DETAILS`; `WAIT_STACKS` of a thread's name.
        process: only processes of this name; "" for all.
        thread: only threads of this name; "" for all.
        entry_reason: only kernel time for this reason; None for all time.
        function: the function whose details are shown, None on the pages of tables.
    """

    page: str = FUNCTIONS
    process: str = ""
    thread: str = ""
    entry_reason: EntryReason | None = None
    function: Function | None = None

    @property
    def pages(self) -> tuple[str, ...]:
        """The pages that this place has, side by side."""
        if self.page == WAIT_STACKS:
            return (WAIT_STACKS,)
        return DETAILS if self.function else PAGES

    @property
    def trail(self) -> tuple[str, ...]:
        """The choices on the way here, outermost first."""
        steps = [self.process, self.thread if self.thread != self.process else ""]
        steps.append(self.entry_reason.label if self.entry_reason else "")
        steps.append(self.function.label if self.function else "")
        return tuple(step for step in steps if step)

    def turned(self, step: int) -> Place:
        """Return the page that is `step` to the right."""
        pages = self.pages
        return replace(self, page=pages[(pages.index(self.page) + step) % len(pages)])
