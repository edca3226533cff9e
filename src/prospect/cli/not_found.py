"""A COMMAND that does not exist → what may have been meant instead, in a few words.

Imported once COMMAND was not found: nothing here delays one that is.
"""

from __future__ import annotations

import io
import os
import re
import shutil
from itertools import islice
from typing import TYPE_CHECKING

from prospect.cli.commands import SUBCOMMANDS
from prospect.cli.recordings import looks_like_recording
from prospect.errors import CommandError
from prospect.spelling import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOT_FOUND = 127  # the shell's, and CommandError's
_NOT_RUNNABLE = 126
_MOST_SCRIPT_LINE = 256  # BINPRM_BUF_SIZE, include/uapi/linux/binfmts.h
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_MOST_PROGRAMS = 20_000
# Of shorter names half are like any other: only swapped letters count.
_LEAST_LETTERS = 4


def explained(error: CommandError, command: list[str]) -> CommandError:
    """Return the error with what to type instead, where it is that there is no such program."""
    if looks_like_recording(command[0]) and os.path.isfile(command[0]):
        hint = f"to look at a recording: prospect report {command[0]}"
        return CommandError(f"{error}; {hint}", error.exit_status)
    if error.exit_status != _NOT_FOUND:
        return error
    missing = _missing_interpreter(command[0])
    if missing:
        return CommandError(f"{command[0]}: cannot run it: {missing}", _NOT_RUNNABLE)
    return CommandError(f"{error}; {_hint(command[0])}", error.exit_status)


def _missing_interpreter(name: str) -> str:
    """Say what the kernel did not find of a program that is there; "" where it is not."""
    path = name if "/" in name else shutil.which(name) or ""
    try:
        with open(path, "rb") if path and os.path.isfile(path) else io.BytesIO() as file:
            head = file.read(_MOST_SCRIPT_LINE)
    except OSError:
        return ""
    if head.startswith(b"\x7fELF"):
        return "the loader that it names does not exist (readelf -l shows which)"
    # A \r belongs to the name, as for the kernel: that is what is wrong with a file from Windows.
    first = re.match(rb"#![ \t]*([^ \t\n\0]+)", head)
    interpreter = os.fsdecode(first.group(1)) if first else ""
    if not interpreter or os.path.exists(interpreter):
        return ""
    return f"its first line asks for {interpreter}, which does not exist"


def _hint(name: str) -> str:
    names = [subcommand.name for subcommand in SUBCOMMANDS]
    if name in names:
        return f"a subcommand comes first: prospect {name} [OPTIONS]"
    if _ASSIGNMENT.match(name):
        return "variables are set by env: prospect env NAME=VALUE COMMAND"
    first, space, _ = name.partition(" ")
    if space and first and shutil.which(first):
        return "give its words one by one, without quotes around them all"
    if "/" not in name and os.path.isfile(name):
        return f"did you mean ./{name}?"
    subcommand = nearest(name, names)
    if subcommand:
        return f"did you mean prospect {subcommand}?"
    program = _program_like(name)
    return f"did you mean {program}?" if program else "see prospect --help"


def _program_like(name: str) -> str:
    if "/" in name:
        directory, last = os.path.split(name)
        near = nearest(last, _programs(directory))
        return os.path.join(directory, near) if near else ""
    known = (one for directory in os.get_exec_path() for one in _programs(directory))
    if len(name) < _LEAST_LETTERS:
        known = (one for one in known if sorted(one) == sorted(name))
    return nearest(name, islice(known, _MOST_PROGRAMS))


def _programs(directory: str) -> Iterator[str]:
    """Give the names of files in a directory that can be run, none of one that is not readable."""
    try:
        with os.scandir(directory or ".") as entries:
            for entry in islice(entries, _MOST_PROGRAMS):
                if os.access(entry.path, os.X_OK) and entry.is_file():
                    yield entry.name
    except OSError:
        return
