"""The inputs of the pipeline besides options.

They are a source of records, the contents of the profile besides its hits, and callbacks for
progress. Callers choose the last two: a report knows what it shows, and whether progress is shown.
A person chooses `prospect.options.NamingOptions`.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal, Protocol

from prospect.announcing import pluralize
from prospect.errors import UnreadRecordsWarning
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from prospect.abi.recorded_facts import RecordBlock, RecordingInfo
    from prospect.announcing import Announce
    from prospect.archived.symbolizers import Collector
    from prospect.assembly.code.code import CodeChoice
    from prospect.assembly.code.later_code import LaterCode
    from prospect.events.record_columns import Events
    from prospect.options import Detail
    from prospect.profile.model import Profile
    from prospect.symbols.kept_names import KeptNames
    from prospect.wall.path import Schedule


# A first screen finds the callers of so many samples in some seconds.
MOST_SAMPLES_WITH_CALLEES = 250_000


class ProfileRequest(Record):
    """The contents of a profile.

    Attributes:
        stacks: whether call stacks are wanted (`Profile.stacks`), where the recording has them.
        waits: whether waits off the CPU are samples, with their stacks; where stacks are wanted,
            they are too. How long threads waited (`Profile.threads`) is always said.
        callees: the `-V` whose first screen has functions with all that they call, "" for none:
            stacks of recordings with callers in user space that are short enough
            (MOST_SAMPLES_WITH_CALLEES), without copies of other processes' stacks, and the inlined
            functions of the user's own code.
        lines: whether source lines of locations are wanted (`Profile.lines`).
        line_choice: chooses these locations, bool[l] of a profile's; None for all.
        code: whose instructions are wanted (`Profile.code`), None for nobody's.
        hints: whether it has what only reports show: raw data, and notes on Python functions that
            were not read.
        path: whether the critical path of a command is wanted (`Profile.wall`), where the recording
            has its switches.
        turns: whether turns of threads are wanted (`Profile.turns`); takes `waits`, or stacks.
    """

    stacks: bool = False
    waits: bool = False
    callees: Detail | Literal[""] = ""
    lines: bool = False
    line_choice: Callable[[Profile], NDArray[np.bool_]] | None = None
    code: CodeChoice | None = None
    hints: bool = True
    path: bool = True
    turns: bool = False


def damage_words(origin: str, events: Events) -> str:
    """Return what is damaged in a recording, for a sentence that names its file already."""
    return "; ".join(reason.removeprefix(f"{origin}: ") for reason in events.damage)


class Callbacks(Record):
    """Receivers of what comes up while a profile is made; None for nobody.

    Attributes:
        announce: called with what is being done, and how far it is.
        on_unread: called with what could not be read; None for a warning of Python's.
        keep_code: given what finds instructions after the profile was made.
        keep_schedule: given the schedule of COMMAND's run, None if its switches are not recorded.
        collector: keeps what this machine says, for an archive.
        kept_names: takes the names, for the next part of a live session.
    """

    announce: Announce | None = None
    on_unread: Callable[[str], None] | None = None
    keep_code: Callable[[LaterCode], None] | None = None
    keep_schedule: Callable[[Schedule | None], None] | None = None
    collector: Collector | None = None
    kept_names: KeptNames | None = None

    def tell_unread(self, origin: str, events: Events) -> None:
        """Say how much of a recording was not understood, and why."""
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

        Its events are known from the start, the rest at the latest when all blocks were read: a
        stream brings build ids last.
        """
        ...

    @property
    def damage(self) -> list[str]:
        """Sentences about unreadable parts; grows while blocks are read."""
        ...

    @property
    def unread_bytes(self) -> int:
        """Records that are there and in no block; complete when all blocks were read."""
        ...

    @property
    def size_bytes(self) -> int:
        """The sum over all blocks; 0 if that is known only once they are read."""

    def blocks(self) -> Iterable[RecordBlock]:
        """Return the records, once."""
