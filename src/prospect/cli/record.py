"""``prospect record`` keeps a recording; ``prospect COMMAND`` reports on it at once.

Before COMMAND's exec only the recorder is imported; the report is imported after COMMAND's end.
"""

from __future__ import annotations

import os
import stat

from prospect.cli.terminal import refuse_binary, say
from prospect.errors import CommandError, ProspectError, PushError, UsageError
from prospect.files.outputs import RecordingFile, ReportFile, are_same_file
from prospect.options import DEFAULT_RECORDING, RecordingOptions
from prospect.recording.opened_events import RecordOptions
from prospect.records import asdict, project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.options import Settings
    from prospect.recording.interval import RecordingResult

# Forty minutes of two busy CPUs with copies of their stacks take this space.
_LEAST_FREE_BYTES = 8 << 30


def run(settings: Settings, command: list[str], command_line: tuple[str, ...]) -> int:
    """Record `command`, or running processes, report limits, and return the exit status.

    Raises:
        ProspectError: it cannot be recorded.
    """
    with RecordingFile(settings.save or DEFAULT_RECORDING) as file:
        result = record_into(file, settings, command, command_line)
        from prospect.capture.machine.surroundings import UNREADABLE_MAPPINGS

        for limit in result.limits:
            # Other users' mappings matter only to a report on them.
            if not ((command or settings.pids) and limit.startswith(UNREADABLE_MAPPINGS)):
                say(limit)
        from prospect.recording.closing_words import closing_words

        say(closing_words(file.descriptor, file.path, DEFAULT_RECORDING))
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
    """Record `command`, or running processes, into `file`.

    With `default_callers`, samples have callers even without ``--call-graph``. `images` is that of
    `RecordOptions`; a target ignores it.

    Raises:
        ProspectError: the command was not started; an earlier recording stays.
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


def profile(settings: Settings, command: list[str], command_line: tuple[str, ...]) -> int:
    """Profile `command`, write the report, and return the exit status.

    Raises:
        ProspectError: before the command starts, if possible; else for the report.
    """
    if are_same_file(settings.output, settings.save):
        raise UsageError(f"-f and --save both name '{settings.output}'")
    with ReportFile(settings.output) as target:
        refuse_binary(settings.format, target.descriptor)
        with RecordingFile(settings.save) as file:
            result = record_into(
                file,
                settings,
                command,
                command_line,
                default_callers=_has_callers(settings, command, target, file.descriptor),
                images="packed" if settings.save else "raw",
            )
            if result.cut:
                say(result.cut)
            from prospect.cli import report

            try:
                # `result.cut` was already reported.
                limits = tuple(limit for limit in result.limits if limit != result.cut)
                path = f"/proc/self/fd/{file.descriptor}"
                typed = report.Typed(settings.save, command_line)
                status = report.write(path, typed, settings, target, limits)
            except PushError as error:
                _keep(file)
                say(str(error))
                status = error.exit_status
            except Exception as error:
                if not isinstance(error.__cause__, BrokenPipeError):
                    _keep(file)
                raise
    return result.status or status


def _has_callers(
    settings: Settings, command: list[str], target: ReportFile, descriptor: int
) -> bool:
    """Return whether to record callers by default, for the report's first screen.

    A report to a file is often of a long run, whose copies of stacks would fill the disk.

    Args:
        command: COMMAND.
        descriptor: that of the recording, whose file system needs space for copies of stacks.
    """
    if settings.output or stat.S_ISREG(os.fstat(target.descriptor).st_mode):
        return False
    is_usual = not (settings.events or settings.target or settings.overhead_percent is not None)
    is_table = settings.sort or settings.columns or settings.label or settings.classic
    has_first_screen = settings.format == "text" and not is_table
    if not (command and is_usual and has_first_screen):
        return False
    there = os.fstatvfs(descriptor)
    return there.f_bavail * there.f_frsize >= _LEAST_FREE_BYTES


def _keep(file: RecordingFile) -> None:
    """Keep a recording without a report, and print its path."""
    path = file.keep()
    if path:
        from prospect.shell import shell_operand

        say(f"the recording is kept: prospect report {shell_operand(path)}")
    else:
        say("the recording could not be kept: set TMPDIR to a directory with room for it")
