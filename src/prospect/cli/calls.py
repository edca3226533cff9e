"""``prospect calls``: read a recording with call stacks, write who called whom.

Nothing here is on the way to a command's exec: numpy and all stages may be imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.cli.analysis import Unread, get_ready, put, sinks, takes_colour
from prospect.cli.operands import StorePart, readable, refuse
from prospect.cli.progress import Progress
from prospect.files.outputs import ReportFile
from prospect.records import project, replace

if TYPE_CHECKING:
    from prospect.api.call_views import CallsOptions
    from prospect.options import Settings


def run(settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Show the calls of the recording that is named, a file or "-" for a pipe on stdin.

    Raises:
        ProspectError: the recording cannot be read, has no call chains, or nothing in it is called
            what was asked for; or the answer cannot be written.

    Returns 1 if records in it were not understood, else 0.
    """
    if settings.store:
        refuse(settings, inline="--inline", between="--between")
        target = ReportFile(settings.output)
        try:
            return _write(StorePart(settings.store, words, settings.engine), settings, target)
        finally:
            target.close()
    maker = "prospect record --call-graph auto COMMAND"
    recording = readable(words[0] if words else "", "calls", maker=maker, output=settings.output)
    target = ReportFile(settings.output)
    try:
        return _write(recording, settings, target)
    finally:
        target.close()


def _write(recording: str | StorePart, settings: Settings, target: ReportFile) -> int:
    get_ready()
    from prospect.api.call_views import examine_calls

    options = _options(settings, colour=takes_colour(target))
    unread = Unread()
    with Progress("reading the recording") as progress:
        read = recording.read(stacks=True) if isinstance(recording, StorePart) else recording
        write = examine_calls(read, options, settings, sinks(progress, unread))
        put(target, write, progress, settings)
    return unread.exit_status()


def _options(settings: Settings, *, colour: bool) -> CallsOptions:
    from prospect.api.call_views import CallsKeywords, calls_options

    asked = project(settings, CallsKeywords)
    if asked.callers_of and asked.sections == CallsKeywords.sections:
        # A request for one tree shows no other unless that is requested too.
        asked = replace(asked, sections=())
    return calls_options(asked, colour=colour)
