"""An argument vector → `Settings` and the words behind the options.

`getopt` rather than argparse: options end at the first word that is none, as profiling
``make -j2`` needs, and it costs 1 ms less before COMMAND runs.
"""

from __future__ import annotations

import getopt
from typing import TYPE_CHECKING, Any

from prospect.cli.commands import COMMANDS, Command
from prospect.cli.option_table import options_of
from prospect.cli.settings import Settings
from prospect.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prospect.cli.option import Option


def parse(command: Command, arguments: Sequence[str]) -> tuple[Settings, list[str]]:
    """Read options up to the first word that is none, or behind ``--``.

    Returns:
        the settings, and the words from the first non-option on, untouched.

    Raises:
        UsageError: an unknown option, a missing or an impossible value.
    """
    options = options_of(command)
    short = "".join(o.short + (":" if o.check else "") for o in options if o.short)
    longs = [name + ("=" if o.check else "") for o in options for name in o.longs]
    try:
        found, rest = getopt.getopt(list(arguments), short, longs)
    except getopt.GetoptError as error:
        raise UsageError(_explain(command, error, options)) from None
    by_spelling = {spelling: option for option in options for spelling in option.spellings}
    values: dict[str, Any] = {}
    for spelling, text in found:
        option = by_spelling[spelling]
        if option.is_counted:
            values[option.keyword] = values.get(option.keyword, 0) + 1
            continue
        try:
            value = option.check(text) if option.check else option.value
            if option.is_repeated:
                value = (*values.get(option.keyword, ()), *value)
            values[option.keyword] = value
        except UsageError as error:
            given = text or "''"
            raise UsageError(f"{spelling} {given}: {error}") from None
    if {"overhead_percent", "frequency_hz"} <= values.keys():
        raise UsageError("--overhead chooses the rate: leave out -H, or --overhead")
    if {"overhead_percent", "events"} <= values.keys():
        raise UsageError("--overhead is known of clocks only: leave it out, or --event")
    if "disassemble" in values and values.get("format", "text") not in (
        "text",
        "json",
        "html",
    ):
        raise UsageError(f"-e: there is no disassembled profile in {values['format']}, give json")
    if "lines" in values and values.get("format", "text") not in ("text", "json"):
        raise UsageError(f"--lines: there are no source lines in {values['format']}, give json")
    return Settings(**values), rest


def unexpected(command: Command, word: str) -> str:
    """Say what is wrong with a word behind the operands of a command."""
    hint = ""
    if word.startswith("-") and command.most_words:
        from prospect.spelling import suggestion

        name = word.partition("=")[0]
        known = [spelling for option in options_of(command) for spelling in option.spellings]
        is_known = name in known or not name.startswith("--")
        hint = ": options stand before it" + ("" if is_known else suggestion(name, known))
    return f"{command.name}: unexpected '{word}'{hint}; see prospect help {command.name}"


def _explain(command: Command, error: getopt.GetoptError, options: Iterable[Option]) -> str:
    given = f"--{error.opt}" if f"--{error.opt}" in error.msg else f"-{error.opt}"
    known = [spelling for option in options for spelling in option.spellings]
    if given in known:
        if "must not" in error.msg:
            return f"{given} takes no value"
        return f"{given} needs a value; see prospect help {command.name}".rstrip()
    if "not a unique prefix" in error.msg:
        matches = [name for name in known if name.startswith(given)]
        return f"{given} could be {' or '.join(matches)}"
    others = [other for other in COMMANDS for o in options_of(other) if given in o.spellings]
    if others:
        takers = " and ".join(sorted({f"prospect {c.name}".strip() for c in others}))
        here = f"prospect {command.name}".strip()
        return f"{given} is no option of {here}, but of {takers}"
    from prospect.spelling import nearest

    near = nearest(given, known) if given.startswith("--") else ""
    page = f"prospect help {command.name}" if command.name else "prospect --help"
    return f"{given}: no such option; " + (f"did you mean {near}?" if near else f"see {page}")
