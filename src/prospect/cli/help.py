"""Write ``--help`` and related pages from the table in `option_table`.

Lines have 80 columns at most. scripts/man.py makes the manual of the same paragraphs.
"""

from __future__ import annotations

import textwrap

from prospect.cli.commands import COMMANDS, PROFILE, SUBCOMMANDS, Command
from prospect.cli.option_table import options_of
from prospect.errors import UsageError
from prospect.spelling import nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.cli.option_table import Option

WIDTH = 79

DESCRIPTION = (
    "Prospect shows what a machine was doing while a command ran: it interrupts every CPU many "
    "times a second, records the process and the instruction, and reports time by process, "
    "function and kernel function. The command needs no rebuilding and keeps its input, output, "
    "signals and exit status. Without privilege it profiles your own processes as far as "
    "kernel.perf_event_paranoid allows (by default not at all on Debian and Ubuntu); "
    "`prospect doctor` reports what this machine allows."
)
# Pairs of a question and a command line.
EXAMPLES = (
    ("where the time of a program goes", "prospect ./program --its-option"),
    ("a build with everything that it starts", "prospect -V3 -f report.txt make -j2"),
    (
        "a page for a browser: flame graph, time line, instructions",
        "prospect --format html --call-graph auto -e -f report.html ./program",
    ),
    ("what the machine is doing right now", "sudo prospect top"),
    ("a running process, for ten seconds", "prospect -p 4711 --for 10"),
    ("the whole system for a minute", "sudo prospect -V4 --for 60 -f report.txt"),
    ("the whole system while it builds", "sudo prospect -V4 -H1000 -f report.txt make -j2"),
    (
        "only the kernel, by entry reason",
        "sudo prospect -Vk dd if=/dev/zero of=file bs=1M count=900",
    ),
    ("what each thread waits for", "sudo prospect --off-cpu ./program"),
    ("how much faster it would be if a function were", "prospect whatif run.data parse=0.5"),
    ("record now, report later or elsewhere", "prospect record --call-graph auto -o run.data make"),
    ("the same recording, every process", "prospect report -V4 run.data"),
    ("look at it in a browser", "prospect view run.data"),
    ("the callers of the functions with most time", "prospect calls run.data"),
    ("the callers of one function", "prospect calls --callers-of qsort_r run.data"),
    ("the instructions and source lines of a function", "prospect annotate qsort_r run.data"),
    ("a flame graph", "prospect report --format svg -f flames.svg run.data"),
    ("one file to report on elsewhere", "prospect archive run.data"),
    ("a recording by perf", "perf record -a -o - sleep 9 | prospect report -V4 -"),
    ("what changed between two runs", "prospect diff before.data after.data"),
    (
        "the same as a page, with a flame graph of the differences",
        "prospect diff --format html -f diff.html before.data after.data",
    ),
    (
        "fail a build if it got slower",
        "prospect diff --fail-if 'slower by 3% at 95%' a1 a2 a3 --against b1 b2 b3",
    ),
    (
        "whether a change helps: run both in turn, ten times each",
        "prospect compare -n 10 --a './old data' --b './new data'",
    ),
    ("figures for another program", "prospect --format json -f report.json ./program"),
    ("how often something happens", "prospect stat --event page-faults,sched:sched_switch ls"),
    ("how much runs vary", "prospect stat --repeat 10 ./program"),
    ("which code misses the cache", "prospect --event cycles,cache-misses ./program"),
    ("which events there are", "prospect list --check cache"),
    ("a program that is called report", "prospect -- report"),
    ("what can be profiled here", "prospect doctor"),
)
EXIT_STATUS = (
    ("COMMAND's", "COMMAND ran; 128 + N if signal N ended it"),
    ("0", "without COMMAND: recorded until Ctrl-C, for --for, or until the processes of -p ended"),
    ("1", "the profile failed: no privilege, an unreadable recording, a full disk or --max-size"),
    ("1", "some records could not be read; the report covers the rest"),
    ("2", "the command line is wrong; nothing was started"),
    ("1", "compare: a run ended with a status other than 0, without --ignore-failure"),
    ("126, 127", "COMMAND cannot be run, or is not found"),
    ("0", "diff, compare: --fail-if is not met, or undecided"),
    ("3", "diff, compare: --fail-if is met"),
    ("0, 1, 2", "doctor: everything, not everything, or nothing can be profiled"),
)


def short_usage() -> str:
    """Return the output of `prospect` without arguments."""
    return (
        f"{usage(PROFILE)}\n"
        + "".join(f"       {_synopsis(command)}\n" for command in SUBCOMMANDS)
        + "\nTry:   prospect -V3 make\nMore:  prospect --help, prospect examples\n"
    )


def usage(command: Command) -> str:
    """Return the usage line of a command."""
    return f"usage: {_synopsis(command)}"


def help_page(name: str) -> str:
    """Return the page of a subcommand, or the main page for "".

    Raises:
        UsageError: there is no such subcommand.
    """
    command = next((c for c in COMMANDS if c.name == name), None)
    if command is None:
        near = nearest(name, [c.name for c in SUBCOMMANDS])
        hint = f"did you mean {near}?" if near else "see prospect --help"
        raise UsageError(f"help: no subcommand '{name}'; {hint}")
    summary = DESCRIPTION if command is PROFILE else sentence(command)
    parts = [
        usage(command),
        textwrap.fill(summary, WIDTH, break_on_hyphens=False),
        "Options:\n" + _options(command),
    ]
    if command is PROFILE:
        commands = [(c.name, c.summary) for c in SUBCOMMANDS]
        parts.append("Subcommands (see prospect help SUBCOMMAND):\n" + _columns(commands, 12))
        parts.append("Exit status:\n" + _columns(EXIT_STATUS, 12))
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def examples() -> str:
    """Return command lines for common questions."""
    return "".join(f"# {question}\n{line}\n\n" for question, line in EXAMPLES).rstrip("\n") + "\n"


def sentence(command: Command) -> str:
    """Return the summary of a command as a sentence."""
    return f"{command.summary[:1].upper()}{command.summary[1:]}."


def option_label(option: Option) -> str:
    """Return an option's spellings with its value, as in ``-H HZ, --frequency HZ``."""
    value = f" {option.metavar}" if option.metavar else ""
    return ", ".join(spelling + value for spelling in option.spellings)


def option_help(option: Option) -> str:
    """Return an option's help, its default included."""
    default = option.default
    if option.check and default not in ("", None, ()):
        text = ",".join(default) if isinstance(default, tuple) else default
        return f"{option.help} (default: {text})"
    return option.help


def _synopsis(command: Command) -> str:
    options = "[OPTIONS]" if options_of(command)[:-1] else ""
    return " ".join(filter(None, ("prospect", command.name, options, command.operands)))


def _options(command: Command) -> str:
    rows = [(option_label(o), option_help(o)) for o in options_of(command)]
    return _columns(rows, 26)


def _columns(rows: list[tuple[str, str]] | tuple[tuple[str, str], ...], width: int) -> str:
    """Lay out (label, text) rows; a label too wide for its column gets its own line."""
    lines = []
    for label, text in rows:
        indent = " " * (width + 2)
        # Do not break options at their hyphens.
        wrapped = textwrap.wrap(text, WIDTH - len(indent), break_on_hyphens=False)
        if len(label) <= width - 2:
            lines.append(f"  {label:<{width}}{wrapped.pop(0)}")
        else:
            lines.append(f"  {label}")
        lines += [indent + line for line in wrapped]
    return "\n".join(lines) + "\n"
