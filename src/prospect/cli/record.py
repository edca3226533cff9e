"""``prospect record``: keep what was recorded; nothing is analysed."""

from __future__ import annotations

from prospect.cli.terminal import say
from prospect.errors import CommandError, ProspectError
from prospect.files.outputs import RecordingFile
from prospect.options import DEFAULT_RECORDING, RecordingOptions
from prospect.recording.opened_events import RecordOptions
from prospect.records import asdict, project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.options import Settings
    from prospect.recording.interval import RecordingResult


def run(settings: Settings, command: list[str], command_line: tuple[str, ...]) -> int:
    """Record `command`, or running processes, say what was left out, and return the exit status.

    Raises:
        ProspectError: it cannot be recorded.
    """
    file = RecordingFile(settings.save or DEFAULT_RECORDING)
    try:
        result = record_into(file, settings, command, command_line)
        from prospect.capture.machine.surroundings import UNREADABLE_MAPPINGS

        for limit in result.limits:
            # The report speaks of others' mappings where it is about them.
            if not ((command or settings.pids) and limit.startswith(UNREADABLE_MAPPINGS)):
                say(limit)
        from prospect.recording.closing_words import closing_words

        say(closing_words(file.descriptor, file.path, DEFAULT_RECORDING))
    finally:
        file.close()
    return result.status


def record_into(  # noqa: PLR0913 - a keyword for each
    file: RecordingFile,
    settings: Settings,
    command: list[str],
    command_line: tuple[str, ...],
    *,
    default_callers: bool = False,
    images: str = "packed",
) -> RecordingResult:
    """Record `command`, or who runs already, into `file`.

    With `default_callers` samples have callers without ``--call-graph``, too. `images` is of
    `RecordOptions`, of which a target keeps none.

    Raises:
        ProspectError: the command was not started; an earlier recording is as it was.
    """
    wanted = asdict(project(settings, RecordingOptions))
    wanted["of_all"] = settings.of_all or settings.detail == "4"
    options = RecordOptions(
        **wanted,
        command=tuple(command),
        command_line=command_line,
        use_cache=settings.use_cache,
        default_callers=default_callers,
        images="" if settings.target else images,
    )
    try:
        if settings.target:
            from prospect.target.target_recording import record_on

            return record_on(settings.target, options, file.descriptor, say)
        from prospect.recording.run import record

        return record(options, file.descriptor, say)
    except ProspectError as error:
        file.withdraw()
        if isinstance(error, CommandError) and not settings.target:
            from prospect.cli.instead import explained

            raise explained(error, command) from None
        raise
