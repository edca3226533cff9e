"""``prospect compare``: record two commands in turn, several times each, and compare them.

In turn, because a machine gets warmer, busier or emptier meanwhile: what drifts is shared by both
sides. Every second round begins with B, so that neither always runs behind the other.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import tempfile
from typing import TYPE_CHECKING

from prospect.cli.diff import compare_recordings
from prospect.cli.record import record_into
from prospect.cli.terminal import say
from prospect.errors import ProspectError, UsageError
from prospect.files.outputs import RecordingFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.cli.settings import Settings

_STDOUT = 1


def run(settings: Settings, _words: list[str], command_line: tuple[str, ...]) -> int:
    """Run both commands, compare their recordings, which are not kept, and return as `diff` does.

    Raises:
        ProspectError: a command is missing, cannot be run or fails; or as `prospect diff`.
    """
    sides = {"A": settings.side_a, "B": settings.side_b}
    for name, command in sides.items():
        if not command:
            raise UsageError(
                f"compare: which command is {name}? prospect compare --a 'CMD' --b 'CMD'"
            )
    with tempfile.TemporaryDirectory(prefix="prospect-") as directory:
        paths: dict[str, list[str]] = {"A": [], "B": []}
        for number in range(1, settings.runs + 1):
            for name in ("A", "B") if number % 2 else ("B", "A"):
                path = os.path.join(directory, f"{name}{number}.data")
                _record(f"{name}, run {number}", path, sides[name], settings, command_line)
                paths[name].append(path)
        return compare_recordings(paths["A"], paths["B"], settings)


def _record(
    which: str,
    path: str,
    command: tuple[str, ...],
    settings: Settings,
    command_line: tuple[str, ...],
) -> None:
    """Record one run; what it writes to standard output is not the comparison's, and goes nowhere.

    Raises:
        ProspectError: it cannot be recorded, or ends with another status than 0.
    """
    file = RecordingFile(path)
    try:
        with _quiet():
            result = record_into(file, settings, list(command), command_line)
    finally:
        file.close()
    if result.interrupted_by:
        raise KeyboardInterrupt
    if result.cut:
        say(result.cut)
    if result.exit_status:
        raise ProspectError(
            f"{which}: {shlex.join(command)} ended with status {result.exit_status}: "
            "only runs that succeed are compared"
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Point standard output to nothing."""
    sys.stdout.flush()
    before = os.dup(_STDOUT)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, _STDOUT)
    os.close(nothing)
    try:
        yield
    finally:
        os.dup2(before, _STDOUT)
        os.close(before)
