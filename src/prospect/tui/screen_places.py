"""The place of a person on the screen: which page, of what part of the samples."""

from __future__ import annotations

from prospect.records import NamedTuple, Record, replace

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


class EntryReason(NamedTuple):
    """Why the CPU was in the kernel: ENTRY_REASON_* and which of its kind."""

    kind: int
    name: str
    label: str


class Function(NamedTuple):
    """A function by what it is, not by its row: rows change with every refresh.

    `address` is 0 and `source` is the reason where a function has no name.
    """

    name: str
    object_path: str
    address: int
    source: int
    label: str


class Place(Record):
    """A page.

    Attributes:
        page: of `PAGES` or, with a function, of `DETAILS`; `WAIT_STACKS` of a thread's name.
        process: only what processes of this name did; "" for all.
        thread: only what threads of this name did; "" for all.
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
