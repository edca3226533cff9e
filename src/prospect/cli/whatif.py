"""``prospect whatif``: estimate how long a recorded command would take with faster functions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prospect.cli.analysis import Unread, get_ready, put, sinks
from prospect.cli.operands import readable
from prospect.cli.progress import Progress
from prospect.errors import UsageError
from prospect.files.outputs import ReportFile

if TYPE_CHECKING:
    from prospect.options import Settings

_MAKER = "prospect record --wall COMMAND"
_LARGEST_FACTOR = 1000.0


def run(settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Replay the named recording with changes; a word with ``=`` is a change.

    Returns 1 if it has unreadable records, else 0.

    Raises:
        ProspectError: the recording cannot be read, has no switches of a command, or no function of
            the name; or the answer cannot be written.
    """
    changes = [_change(word) for word in words if "=" in word]
    files = [word for word in words if "=" not in word]
    if len(files) > 1:
        raise UsageError(
            f"whatif takes one recording, not {len(files)}; a change is FUNCTION=FACTOR: {files[1]}"
        )
    recording = readable(files[0] if files else "", "whatif", maker=_MAKER, output=settings.output)
    with ReportFile(settings.output) as target:
        get_ready()
        from prospect.analysis.what_if import what_if
        from prospect.estimate.what_if_times import Change
        from prospect.render.renderer import write_pieces
        from prospect.render.what_if import what_if_json, what_if_text

        unread = Unread()
        with Progress("reading the recording") as progress:
            found = what_if(
                recording,
                [Change(name, factor) for name, factor in changes],
                settings,
                sinks(progress, unread),
            )
            pieces = what_if_json(found) if settings.format == "json" else what_if_text(found)
            put(target, lambda out: write_pieces(pieces, out), progress, settings)
        return unread.exit_status()


def _change(word: str) -> tuple[str, float]:
    """Return the function of ``FUNCTION=FACTOR``, and the factor."""
    # Names of C++ may have a "=".
    name, _, text = word.rpartition("=")
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not (name and 0.0 <= factor <= _LARGEST_FACTOR):
        raise UsageError(
            f"whatif: {word}: write FUNCTION=FACTOR, as in parse=0.5 for half of its time, with a "
            f"factor from 0 to {_LARGEST_FACTOR:.0f}"
        )
    return name, factor
