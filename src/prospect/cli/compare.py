"""``prospect compare``: run two commands in turn, record each run, and compare the recordings.

The comparison and the exit status are those of ``prospect diff``. Until the last run has ended,
only the recorder is imported.
"""

from __future__ import annotations

import os

from prospect.cli.record import record_into
from prospect.cli.terminal import say
from prospect.errors import CommandError, ProspectError, RecordingError, UsageError
from prospect.files.outputs import RecordingFile, ReportFile
from prospect.records import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from prospect.api.recorded_profile import Profile
    from prospect.cli.analysis import Unread
    from prospect.options import Settings

_SIDES = ("a", "b")
_SIGNALLED = 128


class RunFailedError(ProspectError):
    """A run failed; the exit status of the error is 1, after Ctrl-C that of the signal."""

    def __init__(self, message: str, exit_status: int = 1) -> None:
        super().__init__(message)
        self.exit_status = exit_status


def run(settings: Settings, _words: list[str], command_line: tuple[str, ...]) -> int:
    """Run and record both commands, write the comparison, and return the exit status.

    It is 1 if a recording has unreadable records, else 3 if `--fail-if` is met, else 0.

    Raises:
        CommandError: a command does not exist, or cannot be run.
        RunFailedError: a run failed, and `--ignore-failure` is not given.
        ProspectError: a run cannot be recorded, or the report cannot be written.
    """
    if not (settings.side_a and settings.side_b):
        raise UsageError("compare: give two commands: prospect compare --a './old x' --b './new x'")
    if settings.stdin and not os.access(settings.stdin, os.R_OK):
        raise UsageError(f"compare: --stdin {settings.stdin}: no such file, or not readable")
    if settings.save:
        _make_directory(settings.save)
    target = ReportFile(settings.output)
    files: dict[str, RecordingFile] = {}
    try:
        for at, (side, number) in enumerate(order(settings.runs)):
            if at % len(_SIDES) == 0:
                say(f"compare: run {number} of {settings.runs} of A and B")
            _record(files, side, number, settings, command_line)
        from prospect.cli.analysis import Unread
        from prospect.cli.diff import write

        unread = Unread()
        before, after = _profiles(files, settings, unread)
        return write(before, after, settings, target, unread)
    finally:
        for file in files.values():
            file.close()
        target.close()


def order(runs: int) -> Iterator[tuple[str, int]]:
    """Yield side and number of each run: A B, B A, A B, ..., so that no side is always first."""
    for number in range(1, runs + 1):
        for side in _SIDES if number % 2 else reversed(_SIDES):
            yield side, number


class _StandardFiles:
    """The standard input and output of a command, while the block runs."""

    def __init__(self, stdin: str, *, shows_output: bool) -> None:
        self._new = (
            os.open(stdin or os.devnull, os.O_RDONLY | os.O_CLOEXEC),
            os.dup(2) if shows_output else os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC),
        )
        self._own = os.dup(0), os.dup(1)

    def __enter__(self) -> None:
        for number, descriptor in enumerate(self._new):
            os.dup2(descriptor, number)

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        for number, descriptor in enumerate(self._own):
            os.dup2(descriptor, number)
        for descriptor in (*self._own, *self._new):
            os.close(descriptor)


def _make_directory(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise RecordingError(f"cannot keep recordings in '{path}': {error.strerror}") from None


def _record(
    files: dict[str, RecordingFile],
    side: str,
    number: int,
    settings: Settings,
    command_line: tuple[str, ...],
) -> None:
    """Record one run of a side into its own file."""
    command = [*getattr(settings, f"side_{side}")]
    name = f"{side}{number}"
    file = files[name] = RecordingFile(
        os.path.join(settings.save, f"{name}.data") if settings.save else ""
    )
    which = f"compare: {side.upper()}, run {number} of {settings.runs}"
    try:
        with _StandardFiles(settings.stdin, shows_output=settings.shows_output):
            result = record_into(file, settings, command, command_line)
    except CommandError as error:
        raise CommandError(f"{which}: {error}", error.exit_status) from None
    except OSError as error:
        raise RecordingError(f"{which}: '{settings.stdin}': {error.strerror}") from None
    if result.cut:
        say(f"{which}: {result.cut}")
    if result.interrupted_by:
        raise RunFailedError(
            f"{which} was interrupted: nothing is compared", _SIGNALLED + result.interrupted_by
        )
    if result.exit_status and not settings.ignores_failure:
        raise RunFailedError(
            f"{which} ended with status {result.exit_status}: '{command[0]}'; see --show-output, "
            "or go on with --ignore-failure"
        )


def _profiles(
    files: dict[str, RecordingFile], settings: Settings, unread: Unread
) -> tuple[list[Profile], list[Profile]]:
    """Read the recordings of A and of B."""
    from prospect.cli.analysis import get_ready, sinks
    from prospect.cli.progress import Progress

    get_ready()
    from prospect.analysis.profile_request import ProfileRequest
    from prospect.api.recorded_profile import read

    wanted = ProfileRequest(stacks=True)
    found: dict[str, list[Profile]] = {side: [] for side in _SIDES}
    with Progress("reading the recordings") as progress:
        # Sort by number: A and B take turns in running first.
        for name in sorted(files, key=lambda name: int(name[1:])):
            file = files[name]
            profile = read(
                f"/proc/self/fd/{file.descriptor}", settings, wanted, sinks(progress, unread)
            )
            run = replace(profile.run, origin=file.path or f"run {name[1:]}")
            found[name[0]].append(replace(profile, run=run))
    return found["a"], found["b"]
