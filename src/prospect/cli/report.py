"""``prospect report``: read a recording, and write the report."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from prospect.cli.analysis import Unread, get_ready, put, repeated, sinks, takes_colour
from prospect.cli.commands import PROFILE, REPORT
from prospect.cli.operands import RecordingPart, StorePart, divided, readable, refuse, specified
from prospect.cli.progress import Progress
from prospect.cli.terminal import refuse_binary, say
from prospect.cli.values import MERGED
from prospect.dimensions import kept_for_rows, merged_by
from prospect.errors import PluginError, StoreError, UsageError
from prospect.files.outputs import ReportFile
from prospect.options import ReportOptions
from prospect.records import NamedTuple, project, replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from prospect.assembly.code.code import CodeChoice
    from prospect.columns.array_types import Bools
    from prospect.options import Detail, Settings
    from prospect.profile.model import Profile
    from prospect.render.next_commands import Repeated
    from prospect.render.renderer import Renderer


class Typed(NamedTuple):
    """The name of the recording as typed, "" if it is not kept, and the command line."""

    recording: str
    command_line: tuple[str, ...]


def run(settings: Settings, words: list[str], command_line: tuple[str, ...]) -> int:
    """Report on the named recording, a file or "-" for a pipe on stdin.

    Returns 1 if it has unreadable records, else 0.

    Raises:
        ProspectError: the recording cannot be read, or the report cannot be written.
    """
    if settings.merge:
        _refuse_apart(settings)
    if settings.store:
        return _of_store(settings, words, command_line)
    named, specifications = divided(REPORT, words)
    specifications += specified(settings)
    recording = readable(named, "report", output=settings.output)
    with ReportFile(settings.output) as target:
        refuse_binary(settings.format, target.descriptor)
        part = RecordingPart(recording, specifications) if specifications else recording
        typed = Typed(recording if recording != "-" else "", command_line)
        return write(part, typed, settings, target)


def write(
    recording: str | StorePart | RecordingPart,
    typed: Typed,
    settings: Settings,
    target: ReportFile,
    limits: tuple[str, ...] = (),
) -> int:
    """Write a report to `target`, and return the exit status.

    Args:
        recording: the file, or the part of a file or store, to report on.
        typed: see `Typed`.
        limits: those of the recorder; if a full disk kept some out of the recording, they are
            printed on stderr.

    Raises:
        ProspectError: the recording cannot be read, or the report cannot be written.
    """
    get_ready()
    from prospect.analysis.profile_request import ProfileRequest
    from prospect.api import recorded_profile as api
    from prospect.render.registry import format_of, make_renderer

    asked = _report_options(settings)
    renderer = make_renderer(
        settings.format,
        asked,
        recording=typed.recording,
        repeated=_repeated(typed.command_line),
        colour=takes_colour(target),
    )
    shows_stacks = format_of(settings.format).has_stacks
    unread = Unread()
    with Progress("reading the recording") as progress:
        wanted = ProfileRequest(
            lines=settings.lines or (settings.inline and shows_stacks),
            line_choice=None if shows_stacks else _shown_locations(settings.detail),
            stacks=bool(asked.calls) or shows_stacks or bool(settings.push),
            waits=not isinstance(recording, RecordingPart),
            turns=_shows_turns(settings) and not isinstance(recording, RecordingPart),
            callees=settings.detail if _has_first_screen(settings) else "",
            code=_code_choice(settings),
        )
        if isinstance(recording, StorePart):
            profile = _of_part(recording, settings, stacks=wanted.stacks)
        else:
            receivers = sinks(progress, unread)
            path = recording.path if isinstance(recording, RecordingPart) else recording
            profile = api.read(path, settings, wanted, receivers, settings.program)
            if isinstance(recording, RecordingPart):
                profile = recording.of(profile, settings.sort, settings.columns)
        write_to = partial(_render, renderer, profile, settings, unread)
        put(target, write_to, progress, settings)
    if settings.format != "text":  # text has the same remark
        _say_if_empty(profile, settings.detail)
    for limit in limits:
        if limit not in profile.run.limits:
            say(limit)
    if settings.push:
        _push(profile, settings)
    return unread.exit_status()


def _report_options(settings: Settings) -> ReportOptions:
    """Return the options of the report. `--call-graph` adds calls, `--label` sorts by label."""
    asked = project(settings, ReportOptions)
    if settings.call_graph not in ("", "none") and not asked.calls:
        asked = replace(asked, calls=settings.sections)
    if settings.label and not (asked.sort or asked.columns):
        asked = replace(asked, sort=("label",))
    return asked


def _has_first_screen(settings: Settings) -> bool:
    """Return whether the report begins with a summary."""
    from prospect.render.registry import format_of

    is_table = settings.sort or settings.columns or settings.label
    return format_of(settings.format).has_first_screen and not (is_table or settings.classic)


def _shows_turns(settings: Settings) -> bool:
    """Return whether the report shows turns of threads."""
    return _has_first_screen(settings) or settings.format == "html"


def _of_part(part: StorePart, settings: Settings, *, stacks: bool) -> Profile:
    """Read a part of a store; without separate threads, the rows have only names."""
    needed, others = kept_for_rows(settings.sort, settings.columns)
    if others:
        try:
            return part.read(stacks=stacks, apart=needed + others)
        except StoreError:
            pass  # without them, the error is the same or does not occur
    return part.read(stacks=stacks, apart=needed)


def _shown_locations(detail: Detail) -> Callable[[Profile], Bools]:
    """Return the choice of the locations in the rows of a report without stacks."""
    from prospect.figures.processes import chosen_locations

    return lambda profile: chosen_locations(profile, detail)


def _repeated(command_line: tuple[str, ...]) -> Repeated:
    """Return the options, and COMMAND, that the commands after `Next:` repeat."""
    if command_line[1:2] == (REPORT.name,):
        return repeated(REPORT, command_line[2:])
    return repeated(PROFILE, command_line[1:])


def _render(
    renderer: Renderer, profile: Profile, settings: Settings, unread: Unread, out: BinaryIO
) -> None:
    """Write a report; if a format of another package fails, write text instead."""
    from prospect.render.registry import make_renderer

    try:
        renderer.render(profile, out)
    except PluginError as error:
        unread.add(f"{error}; the report is text instead")
        make_renderer("text", detail=settings.detail).render(profile, out)


def _push(profile: Profile, settings: Settings) -> None:
    """Send a profile to the collector of `--push`."""
    from prospect.fleet.pushing import document_for, push

    document = document_for(settings.push, profile, settings.detail, inline=settings.inline)
    push(settings.push, document)


def _of_store(settings: Settings, words: list[str], command_line: tuple[str, ...]) -> int:
    """Report on a part of a store."""
    refuse(settings, disassemble="-e", lines="--lines", inline="--inline", label="--label")
    with ReportFile(settings.output) as target:
        refuse_binary(settings.format, target.descriptor)
        part = StorePart(settings.store, [*words, *specified(settings)], settings.engine)
        return write(part, Typed("", command_line), settings, target)


def _refuse_apart(settings: Settings) -> None:
    """Refuse options that separate what `--merge` adds up."""
    for word in MERGED:
        if word not in settings.merge and "all" not in settings.merge:
            continue
        classes = merged_by(word)
        given = (
            ("--separate", settings.separate),
            ("--sort", settings.sort),
            ("--columns", (settings.columns,)),
        )
        for option, values in given:
            for value in values:
                if value in classes:
                    raise UsageError(
                        f"--merge {word} merges rows that {option} {value} separates: leave one out"
                    )


def _say_if_empty(profile: Profile, detail: Detail) -> None:
    """Print a remark if `-V` leaves nothing in a report."""
    from prospect.figures.remarks import has_chosen, nothing_chosen
    from prospect.profile.complete import complete

    whole = complete(profile)
    if not has_chosen(whole, detail):
        say(nothing_chosen(whole, detail))


def _code_choice(settings: Settings) -> CodeChoice | None:
    """Return the functions whose instructions the report shows, None without `-e`."""
    if not settings.disassemble:
        return None
    from prospect.assembly.code.code import code_of_report
    from prospect.figures.report.disassembly_choice import DisassemblyChoice

    choice = DisassemblyChoice(
        settings.detail,
        settings.user_threshold_s,
        settings.kernel_threshold_s,
        settings.disassemble,
    )
    code = code_of_report(settings, choice)
    return replace(code, with_lines=settings.format == "html")
