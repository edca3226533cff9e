"""``prospect diff``: compare the recordings of two sides, and set the exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.cli.analysis import Unread, get_ready, put, sinks, takes_colour
from prospect.cli.commands import DIFF
from prospect.cli.operands import StorePart, refuse_missing
from prospect.cli.progress import Progress
from prospect.cli.terminal import say
from prospect.errors import UsageError
from prospect.files.outputs import ReportFile, are_same_file
from prospect.options import ComparingOptions
from prospect.records import asdict, project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.api.recorded_profile import Profile
    from prospect.options import Settings

CONDITION_MET = 3
_AGAINST = DIFF.separator


def run(settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Compare the recordings that `words` name, and return the exit status.

    It is 1 if a recording has unreadable records, else 3 if `--fail-if` is met, else 0.

    Raises:
        ProspectError: a recording cannot be read, they cannot be compared, or the report cannot be
            written.
    """
    if settings.store:
        return _of_store(settings, words)
    before, after = sides(words)
    for recording in (*before, *after):
        if are_same_file(settings.output, recording):
            raise UsageError(f"-f {settings.output}: the report would replace a recording")
        refuse_missing(recording)
    with ReportFile(settings.output) as target:
        return write(before, after, settings, target, Unread())


def _of_store(settings: Settings, words: list[str]) -> int:
    """Compare two parts of a store."""
    if words.count(_AGAINST) != 1:
        raise UsageError(
            f"diff: give two parts: prospect diff --store {settings.store}"
            f" since:FROM until:TO {_AGAINST} since:FROM until:TO"
        )
    middle = words.index(_AGAINST)
    parts = (
        StorePart(settings.store, words[:middle], settings.engine),
        StorePart(settings.store, words[middle + 1 :], settings.engine),
    )
    with ReportFile(settings.output) as target:
        get_ready()
        before, after = ([part.read(stacks=True)] for part in parts)
        return write(before, after, settings, target, Unread())


def sides(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the recordings of A and of B.

    Raises:
        UsageError: there are none on a side, or the sides cannot be separated.
    """
    how = "prospect diff A B, or prospect diff A1 A2 ... --against B1 B2 ..."
    if words.count(_AGAINST) > 1:
        raise UsageError(f"diff: give {_AGAINST} once: {how}")
    if _AGAINST in words:
        middle = words.index(_AGAINST)
        before, after = words[:middle], words[middle + 1 :]
    else:
        before, after = words[:1], words[1:]
        if len(words) > 2:
            raise UsageError(f"diff: which of the {len(words)} recordings are B's? {how}")
    for word in (*before, *after):
        if word == "-":
            raise UsageError("diff: a recording is a file here, not a pipe")
    if not (before and after):
        raise UsageError(f"diff: give two recordings: {how}")
    return before, after


def write(
    before: Sequence[str | Profile],
    after: Sequence[str | Profile],
    settings: Settings,
    target: ReportFile,
    unread: Unread,
) -> int:
    """Write the comparison to `target`, and return the exit status.

    Args:
        before: the recordings of A.
        after: the recordings of B.
        unread: collects sentences about unread records.

    Raises:
        ProspectError: as `run` does.
    """
    get_ready()
    from prospect.api.differences import diff_by
    from prospect.estimate.compare.comparison import CompareOptions
    from prospect.render.comparison_words import verdict_line
    from prospect.render.diff_registry import diff_writer

    write = diff_writer(settings.format, settings.rows, colour=takes_colour(target))
    options = CompareOptions(
        **asdict(project(settings, ComparingOptions)),
        stacks=settings.format == "html",
        inclusive=True,
    )
    with Progress("reading the recordings") as progress:
        difference = diff_by(before, after, options, settings, sinks(progress, unread))
        put(target, lambda out: write(difference, out), progress, settings)
    verdict = difference.verdict
    is_met = verdict is not None and verdict.outcome == "met"
    if verdict is not None and (is_met or not target.is_stdout):
        say(verdict_line(verdict))
    return unread.exit_status() or (CONDITION_MET if is_met else 0)
