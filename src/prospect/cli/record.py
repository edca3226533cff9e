"""``prospect record``: keep what was recorded; nothing is analysed."""

from __future__ import annotations

from prospect.cli.settings import DEFAULT_RECORDING
from prospect.cli.terminal import say
from prospect.errors import CommandError, ProspectError
from prospect.files.outputs import RecordingFile
from prospect.recording.events import RecordOptions
from prospect.recording.run import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.cli.settings import Settings
    from prospect.recording.interval import RecordingResult


def run(settings: Settings, command: list[str], command_line: tuple[str, ...]) -> int:
    """Record `command`, or who runs already; say what could not be; return the exit status.

    Raises:
        ProspectError: it cannot be recorded.
    """
    file = RecordingFile(settings.save or DEFAULT_RECORDING)
    try:
        result = record_into(file, settings, command, command_line)
        for limit in result.limits:
            say(limit)
        from prospect.recording.closing_words import closing_words

        say(closing_words(file.descriptor, file.path, DEFAULT_RECORDING))
    finally:
        file.close()
    return result.status


def record_into(
    file: RecordingFile, settings: Settings, command: list[str], command_line: tuple[str, ...]
) -> RecordingResult:
    """Record `command`, or who runs already, into `file`.

    Raises:
        ProspectError: the command was not started; an earlier recording is as it was.
    """
    options = RecordOptions(
        command=tuple(command),
        frequency_hz=settings.frequency_hz,
        clocks=settings.clocks,
        overhead_percent=settings.overhead_percent,
        flush_centiseconds=settings.flush_centiseconds,
        count_syscalls=settings.count_syscalls,
        call_graph=settings.call_graph,
        off_cpu=settings.off_cpu,
        count_calls=settings.count_calls,
        events=settings.events,
        count_budget_percent=settings.count_budget_percent,
        command_line=command_line,
        use_cache=settings.use_cache,
        max_bytes=settings.max_bytes,
        pids=settings.pids,
        for_s=settings.for_s,
    )
    try:
        return record(options, file.descriptor, say)
    except ProspectError as error:
        file.withdraw()
        if isinstance(error, CommandError):
            from prospect.cli.not_found import explained

            raise explained(error, command) from None
        raise
