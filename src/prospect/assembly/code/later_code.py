"""Code of a profile that is requested any time after the profile was made.

No file stays open or mapped between two requests, as writers of a program would have to wait
(see `held_files`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.assembly.code.code import describe_code
from prospect.assembly.code.recorded_objects import RecordedObjects
from prospect.assembly.placing.location_names import make_symbolizer
from prospect.lines.finder import LineFinder
from prospect.profile.model import KIND_ELF
from prospect.records import Record
from prospect.symbols.naming_options import SymbolOptions
from prospect.symbols.objects import ObjectKey

if TYPE_CHECKING:
    from prospect.archived.kept_answers import Answers
    from prospect.assembly.code.code import CodeChoice
    from prospect.options import NamingOptions
    from prospect.profile.model import Profile
    from prospect.profile.optional_tables import CodeTable


class LaterCode(Record):
    """Facts to find the files of a profile's objects again.

    Attributes:
        keys, pids, options, answers: see `RecordedObjects`.
    """

    keys: dict[int, ObjectKey]
    pids: dict[int, list[int]]
    options: SymbolOptions
    answers: Answers | None

    def describe(self, profile: Profile, choice: CodeChoice) -> CodeTable:
        """Disassemble functions; see `describe_code`.

        Raises:
            UsageError: GDB is asked for, and is not installed.
        """
        symbolizer = make_symbolizer(self.options, self.answers, None)
        recorded = RecordedObjects(
            keys=self.keys,
            pids=self.pids,
            options=self.options,
            symbolizer=symbolizer,
            lines=LineFinder(symbolizer.cache),
            answers=self.answers,
        )
        return describe_code(profile, recorded, choice)


def later_code(recorded: RecordedObjects) -> LaterCode:
    """Return the facts to find recorded objects again."""
    return LaterCode(recorded.keys, recorded.pids, recorded.options, recorded.answers)


def code_by_identity(profile: Profile, naming: NamingOptions) -> LaterCode:
    """Return the facts to find the files of a profile without a recording, such as of a store.

    A file without a build id counts as the mapped one if it has not changed since.
    """
    objects = profile.objects
    keys = {
        row: ObjectKey(os.fsencode(path.replace("\0", "")), _identity(build_id))
        for row, (path, build_id) in enumerate(zip(objects.path, objects.build_id, strict=True))
        if objects.kind[row] == KIND_ELF
    }
    options = SymbolOptions(
        hostname=profile.run.hostname,
        recorded_until=profile.run.started_at + profile.run.wall_seconds,
        system_map=naming.system_map,
        kernel_image=naming.kernel_image,
        use_cache=naming.use_cache,
    )
    return LaterCode(keys, {row: [] for row in keys}, options, None)


def _identity(build_id: str) -> bytes:
    """Return the bytes of a build id; for an invalid one, bytes that no file has."""
    try:
        return bytes.fromhex(build_id)
    except ValueError:
        return b"none"
