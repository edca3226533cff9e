"""Parse an argument vector into `Settings` and operands.

The options of a command that runs another one end at the first other word, so that it can profile
``make -j2``; those of other commands may be anywhere. argparse and getopt would take 10 and 2 ms to
import before COMMAND starts. For the same reason, the table of options is imported only if there
are options.
"""

from __future__ import annotations

from prospect.cli.commands import COMMANDS, Command
from prospect.errors import UsageError
from prospect.options import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from prospect.cli.option_table import Option


def parse(command: Command, arguments: Sequence[str]) -> tuple[Settings, list[str]]:
    """Parse options up to ``--``, or up to the first other word of a command that runs another one.

    Returns:
        The settings, and the words that are no options.

    Raises:
        UsageError: an unknown option, or a missing or invalid value.
    """
    if not _is_option(arguments) and (command.runs_another or len(arguments) < 2):
        return Settings(), list(arguments)
    from prospect.cli.option_table import options_of

    words = list(arguments)
    values: dict[str, Any] = {}
    operands: list[str] = []
    for spelling, option, text in given_options(command, options_of(command), words, operands):
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
    _check_together(values)
    return Settings(**values), [*operands, *words]


def _check_together(values: dict[str, Any]) -> None:
    """Refuse options that contradict each other."""
    if {"overhead_percent", "frequency_hz"} <= values.keys():
        raise UsageError("--overhead chooses the rate: drop -H, or drop --overhead")
    if {"overhead_percent", "events"} <= values.keys():
        raise UsageError("--overhead works only with timer clocks: drop it, or drop --event")
    if "disassemble" in values and values.get("format", "text") not in ("text", "json", "html"):
        raise UsageError(f"-e: {values['format']} has no disassembled profile, use json")
    if "lines" in values and values.get("format", "text") not in ("text", "json"):
        raise UsageError(f"--lines: {values['format']} has no source lines, use json")
    if "threshold" in values and {"user_threshold_s", "kernel_threshold_s"} & values.keys():
        raise UsageError("--threshold replaces -m and -k: drop them, or drop --threshold")
    for keyword in ("columns", "sort"):
        if keyword in values:
            _check_table(values, f"--{keyword}")


def _check_table(values: dict[str, Any], table: str) -> None:
    """Refuse options that do not fit the single table of `--columns` or `--sort`."""
    from prospect.dimensions import BY_NAME
    from prospect.render.registry import SORTED_FORMATS

    for name in (values.get("columns", ""), *values.get("sort", ())):
        if name and BY_NAME[name].needs_store and not values.get("store"):
            raise UsageError(f"{table} {name} {BY_NAME[name].missing}")
    for key, option in (
        ("disassemble", "-e"),
        ("lines", "--lines"),
        ("calls", "--calls"),
        ("classic", "--classic"),
        ("separate", "--separate"),
    ):
        if key in values:
            raise UsageError(f"{table} writes one table instead of the report: drop {option}")
    if values.get("format", "text") not in SORTED_FORMATS:
        raise UsageError(f"{table}: a table is text, json or csv, not {values['format']}")


def _is_option(words: Sequence[str]) -> bool:
    return bool(words) and words[0].startswith("-") and words[0] != "-"


def given_options(
    command: Command, options: list[Option], words: list[str], operands: list[str]
) -> Iterator[tuple[str, Option, str]]:
    """Remove options from `words`, and yield the spelling, the option and the value of each.

    Operands between them move to `operands`, except for a command that runs another one.

    As getopt(3): ``-ab``, ``-oVALUE``, ``--long=VALUE``, ``--lo``, and ``--`` as the end.

    Raises:
        UsageError: an unknown option, or one with a surplus or missing value.
    """
    known = {spelling: option for option in options for spelling in option.spellings}
    while words:
        operands += _operands(command, words)
        if not _is_option(words):
            return
        word = words.pop(0)
        if word == "--":
            return
        if word.startswith("--"):
            # --wall=system as a whole is a spelling.
            typed, is_given, text = (word, "", "") if word in known else word.partition("=")
            spelling = _whole(command, typed, known)
            if is_given and not known[spelling].check:
                raise UsageError(f"{spelling} takes no value{_with_value(spelling, known)}")
            if known[spelling].check and not is_given:
                text = _value(command, spelling, words)
            yield spelling, known[spelling], text
            continue
        rest = word[1:]
        while rest:
            spelling, rest = f"-{rest[0]}", rest[1:]
            if spelling not in known:
                raise UsageError(_unknown(command, spelling, known))
            text = ""
            if known[spelling].check:
                text, rest = rest or _value(command, spelling, words), ""
            yield spelling, known[spelling], text


def _operands(command: Command, words: list[str]) -> list[str]:
    """Remove operands from the front of `words`, except for a command that runs another one."""
    found = []
    while words and not command.runs_another:
        if _is_option(words) and words[0] != command.separator:
            break
        found.append(words.pop(0))
    return found


def _value(command: Command, spelling: str, words: list[str]) -> str:
    if not words:
        raise UsageError(f"{spelling} needs a value; see prospect help {command.name}".rstrip())
    return words.pop(0)


def _with_value(spelling: str, known: Iterable[str]) -> str:
    near = [name for name in known if name.startswith(f"{spelling}=")]
    return f"; did you mean {near[0]}?" if near else ""


def _whole(command: Command, typed: str, known: Iterable[str]) -> str:
    """Return the only long option that begins with a word."""
    if typed in known:
        return typed
    matches = [name for name in known if name.startswith(typed) and "=" not in name]
    if not matches:
        raise UsageError(_unknown(command, typed, known))
    if len(matches) > 1:
        raise UsageError(f"{typed} could be {' or '.join(matches)}")
    return matches[0]


def _unknown(command: Command, given: str, known: Iterable[str]) -> str:
    from prospect.cli.option_table import options_of

    others = [other for other in COMMANDS for o in options_of(other) if given in o.spellings]
    if command.name == "record" and "report" in {other.name for other in others}:
        return f"prospect record has no option {given}: it keeps everything; prospect report has it"
    if others:
        *most, last = sorted({f"prospect {c.name}".strip() for c in others})
        takers = f"{', '.join(most)} and {last} have it" if most else f"{last} has it"
        return f"{f'prospect {command.name}'.strip()} has no option {given}; {takers}"
    from prospect.cli.instead import option_instead
    from prospect.spelling import nearest

    if known_to_perf := option_instead(given):
        return known_to_perf
    near = nearest(given, known) if given.startswith("--") else ""
    page = f"prospect help {command.name}" if command.name else "prospect --help"
    return f"{given}: no such option; " + (f"did you mean {near}?" if near else f"see {page}")
