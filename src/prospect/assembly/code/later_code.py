"""Code of a profile that is asked for after the profile was made, and long after.

Comes in: the recorded objects behind a profile. Goes out: `CodeTable`s of chosen routines. No file
stays open or mapped between two requests: whoever wants to write to a program would have to wait
(see `held_files`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.assembly.code.code import describe_code
from prospect.assembly.code.recorded_objects import RecordedObjects
from prospect.assembly.placing.naming import make_symbolizer
from prospect.lines.finder import LineFinder
from prospect.records import Record
from prospect.symbols.cache import SymbolCache

if TYPE_CHECKING:
    from prospect.archived.answers import Answers
    from prospect.assembly.code.code import CodeChoice
    from prospect.profile.model import Profile
    from prospect.profile.source import CodeTable
    from prospect.symbols.objects import ObjectKey
    from prospect.symbols.options import SymbolOptions


class LaterCode(Record):
    """What is needed to find the objects behind a profile again.

    Attributes:
        keys, pids, options, answers: see `RecordedObjects`.
    """

    keys: dict[int, ObjectKey]
    pids: dict[int, list[int]]
    options: SymbolOptions
    answers: Answers | None

    def describe(self, profile: Profile, choice: CodeChoice) -> CodeTable:
        """Disassemble routines; see `describe_code`.

        Raises:
            UsageError: GDB is asked for, and is not installed.
        """
        cache = SymbolCache.of_user() if self.options.use_cache else None
        recorded = RecordedObjects(
            keys=self.keys,
            pids=self.pids,
            options=self.options,
            symbolizer=make_symbolizer(self.options, self.answers, None),
            lines=LineFinder(cache),
            answers=self.answers,
        )
        return describe_code(profile, recorded, choice)


def later_code(recorded: RecordedObjects) -> LaterCode:
    """Keep of recorded objects what finds them again."""
    return LaterCode(recorded.keys, recorded.pids, recorded.options, recorded.answers)
