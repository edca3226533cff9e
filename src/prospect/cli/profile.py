"""``prospect COMMAND``: record while the command runs, then report.

On the way to COMMAND's exec: only the recorder is imported before it, the rest after its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.cli.record import record_into
from prospect.cli.terminal import refuse_binary
from prospect.errors import UsageError
from prospect.outputs import RecordingFile, ReportFile, are_same_file

if TYPE_CHECKING:
    from prospect.cli.settings import Settings


def run(settings: Settings, command: list[str], command_line: tuple[str, ...]) -> int:
    """Profile `command`, write the report, and return the command's exit status.

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
            result = record_into(file, settings, command, command_line)
            from prospect.cli import report

            report.write(f"/proc/self/fd/{file.descriptor}", settings, target, result.limits)
        finally:
            file.close()
    finally:
        target.close()
    return result.exit_status
