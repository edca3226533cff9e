"""The entry of ``prospect``: which command, and what becomes of its errors.

On the way to COMMAND's exec every import is paid by whoever waits: a command's module is
imported when it is asked for, and what only a report needs after COMMAND has ended.
"""

from __future__ import annotations

import sys

from prospect.cli import options as cli
from prospect.cli.terminal import occupy_closed_standard_files, say, say_all, show
from prospect.errors import ProspectError, UsageError

_INTERRUPTED = 128 + 2  # as a shell reports SIGINT
_CLOSED_PIPE = 128 + 13  # as a shell reports SIGPIPE


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status; no error leaves here but as one line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    occupy_closed_standard_files()
    try:
        return _run(arguments)
    except ProspectError as error:
        if isinstance(error.__cause__, BrokenPipeError):
            return _CLOSED_PIPE
        say(str(error))
        return error.exit_status
    except KeyboardInterrupt:
        return _INTERRUPTED
    except MemoryError:
        say("out of memory; report on a shorter recording, or one of a lower -H")
        return 1


def _run(arguments: list[str]) -> int:
    for command in cli.SUBCOMMANDS:
        if arguments[:1] == [command.name]:
            return _run_subcommand(command, arguments[1:])
    settings, words = cli.parse(cli.PROFILE, arguments)
    if settings.help:
        return _help("")
    if settings.version:
        from prospect.version import __version__

        show(f"prospect {__version__}\n")
        return 0
    if not words:
        return _short_usage(given_options=bool(arguments))
    from prospect.cli import profile

    return profile.run(settings, words, ("prospect", *arguments))


def _run_subcommand(command: cli.Command, arguments: list[str]) -> int:
    settings, words = cli.parse(command, arguments)
    if settings.help:
        return _help(command.name)
    if command is cli.RECORD:
        from prospect.cli import record

        if not words:
            raise UsageError("record: which command? prospect record [OPTIONS] COMMAND [ARGS...]")
        return record.run(settings, words, ("prospect", "record", *arguments))
    if command is cli.REPORT:
        from prospect.cli import report

        _at_most(command, words, 1)
        return report.run(settings, words[0] if words else cli.DEFAULT_RECORDING)
    if command is cli.ANNOTATE:
        from prospect.cli import annotate

        _at_most(command, words, 2)
        return annotate.run(settings, words)
    return _answer(command, settings, words)


def _answer(command: cli.Command, settings: cli.Settings, words: list[str]) -> int:
    """Run a subcommand that has nothing to do with a recording."""
    if command is cli.CACHE:
        from prospect.cli import cache

        _at_most(command, words, 0)
        return cache.run(settings)
    if command is cli.DIFF:
        from prospect.cli import diff

        return diff.run(settings, words)
    if command is cli.DOCTOR:
        from prospect.cli import doctor

        _at_most(command, words, 0)
        return doctor.run(settings)
    if command is cli.HELP:
        _at_most(command, words, 1)
        return _help(words[0] if words else "")
    from prospect.cli import help as pages

    _at_most(command, words, 0)
    show(pages.examples())
    return 0


def _at_most(command: cli.Command, words: list[str], number: int) -> None:
    if len(words) > number:
        extra = words[number]
        hint = ": options stand before it" if extra.startswith("-") and number else ""
        raise UsageError(f"{command.name}: unexpected '{extra}'{hint}; see prospect --help")


def _help(name: str) -> int:
    from prospect.cli import help as pages

    show(pages.help_page(name))
    return 0


def _short_usage(*, given_options: bool) -> int:
    if given_options:
        raise UsageError("which command? prospect [OPTIONS] COMMAND [ARGS...]")
    from prospect.cli import help as pages

    say_all(pages.short_usage())
    return UsageError.exit_status
