"""Suggest what to type instead of a COMMAND that does not exist, or of perf's words.

Imported once one is given: nothing here delays a COMMAND that is run.
"""

from __future__ import annotations

import io
import os
import re
import shutil
from itertools import islice
from typing import TYPE_CHECKING

from prospect.cli.commands import SUBCOMMANDS
from prospect.cli.operands import looks_like_recording
from prospect.errors import CommandError
from prospect.spelling import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOT_FOUND = 127  # the shell's, and CommandError's
_NOT_RUNNABLE = 126
_MOST_SCRIPT_LINE = 256  # BINPRM_BUF_SIZE, include/uapi/linux/binfmts.h
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_MOST_PROGRAMS = 20_000
# Half of the shorter names resemble any other: only swapped letters count.
_LEAST_LETTERS = 4

_COMMANDS_OF_PERF = {
    "buildid-cache": "prospect archive keeps the files with a recording's names",
    "buildid-list": "prospect report --format json has the build ids of a recording",
    "c2c": "nothing does that here; perf c2c needs a CPU that samples memory accesses",
    "evlist": "prospect report names a recording's events, prospect list this machine's",
    "ftrace": "prospect --count-calls NAME COMMAND counts the calls of functions",
    "inject": "prospect report reads recordings with jitdump files as they are",
    "kmem": "prospect --event kmem:kmalloc --call-graph auto COMMAND samples allocations",
    "kvm": "prospect --event kvm:kvm_exit COMMAND samples a host's events",
    "kwork": "prospect -V k COMMAND shows what interrupts and kernel threads took",
    "lock": "prospect --off-cpu COMMAND shows which threads wait, how long and for what",
    "mem": "prospect --event page-faults COMMAND samples faults; loads and stores, perf mem",
    "probe": "prospect --count-calls NAME COMMAND counts the calls of a function",
    "sched": "prospect --off-cpu COMMAND shows waits, and how long threads waited for a CPU",
    "script": "prospect report FILE --format folded (or firefox, ...) has the stacks, and "
    "perf script reads the same file",
    "timechart": "prospect report FILE --format chrome or firefox shows samples by time",
    "trace": "prospect --count-syscalls COMMAND counts system calls, by process and kind",
}

_OPTIONS_OF_PERF = {
    "--stdio": "the report is text anyway",
    "--tui": "prospect view shows a recording in a browser",
    "--children": "prospect calls has functions with all that they call",
    "--no-children": "the report has functions by themselves, prospect calls with all they call",
    "--dsos": "prospect report --sort object, or prospect calls --object IMAGE",
    "--comms": "prospect report --sort thread, or prospect calls --thread NAME",
    "--symbols": "prospect report --sort function, or prospect calls --function NAME",
}


def option_instead(given: str) -> str:
    """Return the replacement of an option of perf's, "" if it is unknown."""
    return f"{given} is perf's: here {_OPTIONS_OF_PERF[given]}" if given in _OPTIONS_OF_PERF else ""


def instead(word: str) -> str:
    """Return the replacement of a command of perf's, and how to run a program of that name."""
    here = _COMMANDS_OF_PERF[word]
    return f"{word} is perf's: here {here}; to profile a program: prospect -- {word}"


def explained(error: CommandError, command: list[str]) -> CommandError:
    """Return the error with a hint on what to type instead, if there is no such program."""
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
    """Return what the kernel did not find of an existing program; "" if it does not exist."""
    path = name if "/" in name else shutil.which(name) or ""
    try:
        with open(path, "rb") if path and os.path.isfile(path) else io.BytesIO() as file:
            head = file.read(_MOST_SCRIPT_LINE)
    except OSError:
        return ""
    if head.startswith(b"\x7fELF"):
        return "the loader that it names does not exist (readelf -l shows which)"
    # A \r is part of the name, as for the kernel: it is the fault of files from Windows.
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
    """Yield the executable files in a directory, none if it is not readable."""
    try:
        with os.scandir(directory or ".") as entries:
            for entry in islice(entries, _MOST_PROGRAMS):
                if os.access(entry.path, os.X_OK) and entry.is_file():
                    yield entry.name
    except OSError:
        return
