"""Which options, and which COMMAND, the commands after `Next:` repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.cli.commands import ANNOTATE, CALLS, DIFF, RECORD, REPORT, VIEW, Command
from prospect.cli.options import given_options
from prospect.options import NamingOptions
from prospect.records import field_names
from prospect.render.next_commands import Repeated

if TYPE_CHECKING:
    from collections.abc import Sequence

# Where and under which name the recording is written: the next one has the usual name.
_NOT_RECORDED = ("save", "help", "version")
# Which samples are shown, and how they are named and read.
_READING = ("detail", "scope", "inline", "engine", "program")
_READERS = (REPORT, CALLS, ANNOTATE, VIEW, DIFF)


def repeated(command: Command, arguments: Sequence[str]) -> Repeated:
    """Return the options, and COMMAND, that other commands repeat.

    Args:
        command: the command that was given.
        arguments: the words after its name, without errors.
    """
    rest = list(arguments)
    options = rest[:1] if command.runs_another else rest
    if not any(word.startswith("-") for word in options):
        return Repeated(tuple(rest) if command.runs_another else ())
    from prospect.cli.option_table import options_of  # slow to import

    reading = {*_READING, *field_names(NamingOptions)} - {"label"}
    given = list(given_options(command, options_of(command), rest, []))

    def kept(other: Command, keywords: set[str]) -> tuple[str, ...]:
        taken = {(one.keyword, name) for one in options_of(other) for name in one.spellings}
        words: list[str] = []
        for spelling, option, text in given:
            if option.keyword in keywords and (option.keyword, spelling) in taken:
                words += (spelling, text) if option.check else (spelling,)
        return tuple(words)

    record: tuple[str, ...] = ()
    if command.runs_another:
        keywords = {option.keyword for option in options_of(RECORD)} - {*_NOT_RECORDED}
        end = ("--",) if rest and rest[0].startswith("-") else ()
        record = (*kept(RECORD, keywords), *end, *rest)
    return Repeated(record, {other.name: kept(other, reading) for other in _READERS})
