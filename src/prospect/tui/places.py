"""Where a person is on the screen: which page, of what part of the samples, and how to say so."""

from __future__ import annotations

from prospect.records import NamedTuple, Record, replace

ROUTINES = "routines"
PROCESSES = "processes"
CAUSES = "causes"
THREADS = "threads"
TABLES = (ROUTINES, PROCESSES, CAUSES, THREADS)
WAITING = "waiting"
PAGES = (*TABLES, WAITING)
WAIT_STACKS = "wait stacks"

CALLERS = "callers"
CALLEES = "callees"
INSTRUCTIONS = "instructions"
DETAILS = (CALLERS, CALLEES, INSTRUCTIONS)


class Cause(NamedTuple):
    """Why the CPU was in the kernel, as a row of causes: CAUSE_* and which of its kind."""

    kind: int
    name: str
    label: str


class Routine(NamedTuple):
    """A routine by what it is, not by its row: rows change with every refresh.

    `address` is 0 and `source` is the reason where a routine has no name.
    """

    name: str
    object_path: str
    address: int
    source: int
    label: str


class Place(Record):
    """A page.

    Attributes:
        page: of `PAGES` or, with a routine, of `DETAILS`; `WAIT_STACKS` of a thread's name.
        process: only what processes of this name did; "" for all.
        thread: only what threads of this name did; "" for all.
        cause: only kernel time for this reason; None for all time.
        routine: the routine whose details are shown, None on the pages of tables.
    """

    page: str = ROUTINES
    process: str = ""
    thread: str = ""
    cause: Cause | None = None
    routine: Routine | None = None

    @property
    def pages(self) -> tuple[str, ...]:
        """The pages that this place has, side by side."""
        if self.page == WAIT_STACKS:
            return (WAIT_STACKS,)
        return DETAILS if self.routine else PAGES

    @property
    def trail(self) -> tuple[str, ...]:
        """The choices on the way here, outermost first."""
        steps = [self.process, self.thread if self.thread != self.process else ""]
        steps.append(self.cause.label if self.cause else "")
        steps.append(self.routine.label if self.routine else "")
        return tuple(step for step in steps if step)

    def turned(self, step: int) -> Place:
        """Return the page that is `step` to the right."""
        pages = self.pages
        return replace(self, page=pages[(pages.index(self.page) + step) % len(pages)])
