"""``prospect calls``: write the callers and callees of a recording with call stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.cli.analysis import Unread, get_ready, put, sinks, takes_colour
from prospect.cli.commands import CALLS
from prospect.cli.operands import RecordingPart, StorePart, divided, readable, refuse
from prospect.cli.progress import Progress
from prospect.errors import UsageError
from prospect.files.outputs import ReportFile
from prospect.records import project, replace

if TYPE_CHECKING:
    from prospect.api.call_views import CallsOptions
    from prospect.options import Settings


def run(settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Show the calls of the named recording, a file or "-" for a pipe on stdin.

    Returns 1 if it has unreadable records, else 0.

    Raises:
        ProspectError: the recording cannot be read, has no call chains, or no function of the name;
            or the answer cannot be written.
    """
    if settings.store:
        refuse(settings, inline="--inline", between="--between")
        with ReportFile(settings.output) as target:
            return _write(StorePart(settings.store, words, settings.engine), settings, target)
    maker = "prospect record --call-graph auto COMMAND"
    named, specifications = divided(CALLS, words)
    recording = readable(named, "calls", maker=maker, output=settings.output)
    with ReportFile(settings.output) as target:
        part = _part(recording, specifications, settings) if specifications else recording
        return _write(part, settings, target)


def _write(
    recording: str | StorePart | RecordingPart, settings: Settings, target: ReportFile
) -> int:
    get_ready()
    from prospect.api.call_views import examine_calls, read_stacks

    options = _options(settings, colour=takes_colour(target))
    unread = Unread()
    with Progress("reading the recording") as progress:
        read = recording.read(stacks=True) if isinstance(recording, StorePart) else recording
        if isinstance(read, RecordingPart):
            receivers = sinks(progress, unread)
            read = read.of(read_stacks(read.path, options, settings, receivers))
        write = examine_calls(read, options, settings, sinks(progress, unread))
        put(target, write, progress, settings)
    return unread.exit_status()


def _part(recording: str, words: list[str], settings: Settings) -> RecordingPart:
    """Return a part of a recording; options that need single samples are refused."""
    for given, option, instead in (
        (settings.between, "--between", "since: and until:"),
        (settings.cpus, "--cpu", "cpu:"),
    ):
        if given is not None:
            raise UsageError(f"{option} is of whole recordings: with {words[0]} give {instead}")
    return RecordingPart(recording, words)


def _options(settings: Settings, *, colour: bool) -> CallsOptions:
    from prospect.api.call_views import CallsKeywords, calls_options

    asked = project(settings, CallsKeywords)
    if asked.callers_of and asked.sections == CallsKeywords.sections:
        # --callers-of shows only its tree, unless --show names others.
        asked = replace(asked, sections=())
    return calls_options(asked, colour=colour)
