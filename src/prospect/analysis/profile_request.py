"""The inputs of the pipeline besides options.

They are a source of records, the contents of the profile besides its hits, and callbacks. Callers
choose the last two. A user chooses `prospect.options.NamingOptions`.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal, Protocol

from prospect.announcing import pluralize
from prospect.errors import UnreadRecordsWarning
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prospect.abi.recorded_facts import RecordBlock, RecordingInfo
    from prospect.announcing import Announce
    from prospect.archived.symbolizers import Collector
    from prospect.assembly.code.code import CodeChoice
    from prospect.assembly.code.later_code import LaterCode
    from prospect.columns.array_types import Bools
    from prospect.events.record_columns import Events
    from prospect.options import Detail
    from prospect.profile.model import Profile
    from prospect.symbols.kept_names import KeptNames
    from prospect.wall.path import Schedule


# Finding the callers of this many samples for a first screen takes a few seconds.
MOST_SAMPLES_WITH_CALLEES = 250_000


class ProfileRequest(Record):
    """The contents of a profile.

    Attributes:
        stacks: whether call stacks are wanted (`Profile.stacks`), if the recording has them.
        waits: whether waits off the CPU are samples, with their stacks; `stacks` implies it. The
            waiting times of threads (`Profile.threads`) are always there.
        callees: the `-V` of a first screen that has functions with their callees, "" for none. Only
            recordings with callers in user space and at most MOST_SAMPLES_WITH_CALLEES samples get
            stacks then, without copies of other processes' stacks, and the inlined functions of the
            user's own code.
        lines: whether source lines of locations are wanted (`Profile.lines`).
        line_choice: chooses these locations, bool[l] of a profile's; None for all.
        code: chooses the functions whose instructions are wanted (`Profile.code`), None for none.
        hints: whether to add raw data and notes on Python functions that were not read, which only
            reports show.
        path: whether the critical path of a command is wanted (`Profile.wall`), if the recording
            has its switches.
        turns: whether turns of threads are wanted (`Profile.turns`); needs `waits` or `stacks`.
    """

    stacks: bool = False
    waits: bool = False
    callees: Detail | Literal[""] = ""
    lines: bool = False
    line_choice: Callable[[Profile], Bools] | None = None
    code: CodeChoice | None = None
    hints: bool = True
    path: bool = True
    turns: bool = False


def damage_words(origin: str, events: Events) -> str:
    """Return the damage of a recording, for a sentence that already names its file."""
    return "; ".join(reason.removeprefix(f"{origin}: ") for reason in events.damage)


class Callbacks(Record):
    """Receivers of messages and by-products while a profile is made.

    Attributes:
        announce: called with messages about the progress.
        on_unread: called with a sentence about unread records; None for a Python warning.
        keep_code: called with a finder of instructions for the time after the profile was made.
        keep_schedule: called with the schedule of COMMAND's run, None without its switches.
        collector: collects facts of this machine for an archive.
        kept_names: keeps names for the next part of a live session.
    """

    announce: Announce | None = None
    on_unread: Callable[[str], None] | None = None
    keep_code: Callable[[LaterCode], None] | None = None
    keep_schedule: Callable[[Schedule | None], None] | None = None
    collector: Collector | None = None
    kept_names: KeptNames | None = None

    def tell_unread(self, origin: str, events: Events) -> None:
        """Report the size of unread records, and the reason."""
        why = damage_words(origin, events)
        sentence = (
            f"{origin}: {pluralize(events.unread_bytes, 'byte')} of records were not read, the rest"
            f" in full ({why}): copy the recording again if this is a copy, record again if it is"
            " none, or use the perf that wrote it"
        )
        if self.on_unread is None:
            warnings.warn(sentence, UnreadRecordsWarning, stacklevel=3)
        else:
            self.on_unread(sentence)


class RecordSource(Protocol):
    """A source of records: a file, a stream, a live kernel."""

    @property
    def info(self) -> RecordingInfo:
        """The facts of the recording.

        Its events are known from the start, the rest after all blocks: a stream has build ids last.
        """
        ...

    @property
    def damage(self) -> list[str]:
        """Sentences about unreadable parts; grows while blocks are read."""
        ...

    @property
    def unread_bytes(self) -> int:
        """The size of records that are in no block; complete when all blocks were read."""
        ...

    @property
    def size_bytes(self) -> int:
        """The size of all blocks; 0 if unknown before they are read."""

    def blocks(self) -> Iterable[RecordBlock]:
        """Return the records, once."""
