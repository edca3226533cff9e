"""``prospect record``: run the command and keep what was recorded; nothing is analysed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.cli.options import DEFAULT_RECORDING, SUBCOMMANDS, did_you_mean
from prospect.errors import CaptureError, CommandError, ProspectError, UsageError
from prospect.outputs import RecordingFile
from prospect.recording import RecordOptions, record

if TYPE_CHECKING:
    from prospect.cli.options import Settings


def run(settings: Settings, command: list[str], command_line: tuple[str, ...]) -> int:
    """Record `command` and return its exit status."""
    file = RecordingFile(settings.save or DEFAULT_RECORDING)
    try:
        return record_into(file, settings, command, command_line)
    finally:
        file.close()


def record_into(
    file: RecordingFile, settings: Settings, command: list[str], command_line: tuple[str, ...]
) -> int:
    """Record `command` into `file` and return the command's exit status.

    Raises:
        CommandError: the command cannot be started; like other errors before its start this
            leaves an earlier recording of that name as it was.
    """
    options = RecordOptions(
        command=tuple(command),
        frequency_hz=settings.frequency_hz,
        flush_centiseconds=settings.flush_centiseconds,
        command_line=command_line,
    )
    try:
        return record(options, file.descriptor).exit_status
    except (CaptureError, UsageError) as error:
        file.withdraw()
        raise _with_hint(error, command[0]) from None


def _with_hint(error: ProspectError, name: str) -> ProspectError:
    """Say so where a command that does not exist looks like a subcommand."""
    if not isinstance(error, CommandError) or error.exit_status != 127:
        return error
    names = [subcommand.name for subcommand in SUBCOMMANDS]
    if name in names:
        hint = f"; a subcommand stands first: prospect {name} [OPTIONS]"
    else:
        hint = did_you_mean(name, names).replace("mean ", "mean prospect ")
    return CommandError(f"{error}{hint or '; see prospect --help'}", error.exit_status)
