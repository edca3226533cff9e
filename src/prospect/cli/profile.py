"""``prospect COMMAND``: record while the command runs, or those who run already, then report.

On the way to COMMAND's exec: only the recorder is imported before it, the rest after its end.
"""

from __future__ import annotations

import os
import stat

from prospect.cli.record import record_into
from prospect.cli.terminal import refuse_binary, say
from prospect.errors import PushError, UsageError
from prospect.files.outputs import RecordingFile, ReportFile, are_same_file

# Forty minutes of two busy CPUs take as much with copies of their stacks.
_LEAST_FREE_BYTES = 8 << 30

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.options import Settings


def run(settings: Settings, command: list[str], command_line: tuple[str, ...]) -> int:
    """Profile `command`, write the report, and return the exit status.

    Raises:
        ProspectError: before the command starts, where that can be known; else for the report.
    """
    if are_same_file(settings.output, settings.save):
        raise UsageError(f"-f and --save both name '{settings.output}'")
    target = ReportFile(settings.output)
    try:
        refuse_binary(settings.format, target.descriptor)
        file = RecordingFile(settings.save)
        try:
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
                # A limit is not repeated if the recording has no room for it.
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
        finally:
            file.close()
    finally:
        target.close()
    return result.status or status


def _has_callers(
    settings: Settings, command: list[str], target: ReportFile, descriptor: int
) -> bool:
    """Return whether callers are recorded though nobody asks: for the report's first screen.

    A report that goes to a file is often of a long run, whose copies of stacks would fill a disk.

    Args:
        settings: of the command line.
        command: COMMAND.
        target: takes the report.
        descriptor: of the recording, which has to have room for copies of stacks.
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
    """Keep what cannot be made again, as there is no report on it, and say where."""
    path = file.keep()
    if path:
        from prospect.shell import shell_operand

        say(f"the recording is kept: prospect report {shell_operand(path)}")
    else:
        say("the recording could not be kept: set TMPDIR to a directory with room for it")
