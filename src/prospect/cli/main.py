"""The entry of ``prospect``: run the command, and report its errors.

Every import before COMMAND's exec delays it. So only the module of the command is imported, and the
modules of the report after COMMAND has ended.
"""

from __future__ import annotations

import os
import sys

from prospect.cli.commands import (
    CALLS,
    EXAMPLES,
    HELP,
    PERF_WORDS,
    PROFILE,
    REPORT,
    SUBCOMMANDS,
    Command,
)
from prospect.cli.option_parser import parse
from prospect.cli.terminal import occupy_closed_standard_files, say, say_all, show
from prospect.errors import ProspectError, UsageError

_INTERRUPTED = 128 + 2  # as a shell reports SIGINT
_TOO_MANY_FILES = "Too many open files"
_CLOSED_PIPE = 128 + 13  # as a shell reports SIGPIPE


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status; a `ProspectError` becomes one line.

    Raises:
        MemoryError: `prospect.__main__` reports it.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    occupy_closed_standard_files()
    try:
        return _run(arguments)
    except ProspectError as error:
        if isinstance(error.__cause__, BrokenPipeError):
            return _CLOSED_PIPE
        say(_with_remedy(str(error)))
        return error.exit_status
    except KeyboardInterrupt:
        return _INTERRUPTED


def _with_remedy(message: str) -> str:
    """Add the remedy to a message about too many open files."""
    if _TOO_MANY_FILES not in message or "ulimit" in message:
        return message
    from prospect.capture.events.cpu_events import files_needed

    return f"{message}: raise the limit with `ulimit -n {files_needed(os.cpu_count() or 1)}`"


def _run(arguments: list[str]) -> int:
    for command in SUBCOMMANDS:
        if arguments[:1] == [command.name]:
            return _run_subcommand(command, arguments[1:])
    settings, words = parse(PROFILE, arguments)
    if settings.help:
        return _help("")
    if settings.version:
        from prospect.version import __version__

        show(f"prospect {__version__}\n")
        return 0
    if not words and not settings.pids and settings.for_s is None:
        return _short_usage(given_options=bool(arguments))
    if words and words[0] in PERF_WORDS and "--" not in arguments[: -len(words)]:
        from prospect.cli.instead import instead

        raise UsageError(instead(words[0]))
    from prospect.cli.record import profile

    return profile(settings, words, ("prospect", *arguments))


def _run_subcommand(command: Command, arguments: list[str]) -> int:
    settings, words = parse(command, arguments)
    if settings.help:
        return _help(command.name)
    if settings.input:
        words = _with_input(command, words, settings.input)
    # The command separates specifications of a recording from other words.
    takes_specifications = command.has_store and (settings.store or command in (REPORT, CALLS))
    most_words = None if takes_specifications else command.most_words
    if most_words is not None and len(words) > most_words:
        raise UsageError(command.unexpected(words[most_words]))
    if command is HELP:
        return _help(words[0] if words else "")
    if command is EXAMPLES:
        from prospect.cli.help import examples

        show(examples())
        return 0
    # importlib would take 1 ms to import.
    module = __import__(f"prospect.cli.{command.name}", fromlist=["run"])
    status: int = module.run(settings, words, ("prospect", command.name, *arguments))
    return status


def _with_input(command: Command, words: list[str], recording: str) -> list[str]:
    """Return the operands with the recording of ``-i`` as the last one."""
    most = command.most_words or 0
    if len(words) >= most:
        raise UsageError(f"{command.name}: two recordings: '{words[-1]}' and -i '{recording}'")
    return [*words, *[""] * (most - 1 - len(words)), recording]


def _help(name: str) -> int:
    from prospect.cli import help as pages

    show(pages.help_page(name))
    return 0


def _short_usage(*, given_options: bool) -> int:
    if given_options:
        raise UsageError(
            "no command: prospect [OPTIONS] COMMAND [ARGS...], or -p PID, or --for SECONDS"
        )
    from prospect.cli import help as pages

    say_all(pages.short_usage())
    return UsageError.exit_status
