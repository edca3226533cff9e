"""Every command and option, once: parsing, ``--help``, the manual and the documentation read these.

Comes in: an argument vector. Goes out: `Settings` and the words behind the options.
Letters and meanings are those of Prospect 0.9 (Tsariounov, OLS 2002); the long names are ours.
`getopt` rather than argparse: options end at the first word that is none, as profiling
``make -j2`` needs, and it costs 1 ms less before COMMAND runs.
"""

from __future__ import annotations

import getopt
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from prospect.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

FORMATS = ("text", "json", "csv")
DEFAULT_RECORDING = "perf.data"

DETAILS = ("2", "3", "4", "k")


class Settings(NamedTuple):
    """What the options amount to; a field is a keyword of the Python interface too.

    An empty `output` is stdout, an empty `save` keeps no recording.
    """

    detail: str = "2"
    frequency_hz: int = 200
    clocks: int = 4
    overhead_percent: float | None = None
    flush_centiseconds: int = 200
    output: str = ""
    user_threshold_s: float = 0.02
    kernel_threshold_s: float = 0.02
    system_map: str = ""
    kernel_image: str = ""
    save: str = ""
    count_syscalls: bool = False
    format: str = "text"
    use_cache: bool = True
    debuginfod_s: float = 30.0
    clear: bool = False
    scope: str = "3"
    per: str = ""
    fdr: float = 0.05
    run_variation: float = 0.05
    rows: int = 20
    fail_if: str = ""
    most_routines: int = 5
    syntax: str = "att"
    source: bool = True
    whole: bool = False
    help: bool = False
    version: bool = False


class Command(NamedTuple):
    """A command: what stands behind its options, and what it does in a sentence."""

    name: str
    operands: str
    summary: str


class Option(NamedTuple):
    """An option. `check` turns its value's text into the field's; a flag has none and sets `value`.

    `commands` names the commands that take it; `help` is complete but for the default, which
    `Settings` knows.
    """

    keyword: str
    short: str
    longs: tuple[str, ...]
    metavar: str
    help: str
    commands: tuple[str, ...]
    check: Callable[[str], Any] | None = None
    value: Any = True

    @property
    def spellings(self) -> tuple[str, ...]:
        """All names as they are typed, the short one first."""
        short = (f"-{self.short}",) if self.short else ()
        return (*short, *(f"--{name}" for name in self.longs))


PROFILE = Command("", "COMMAND [ARGS...]", "profile for as long as COMMAND runs, then report")
RECORD = Command(
    "record",
    "COMMAND [ARGS...]",
    "only record, to a perf.data file that perf and other tools read too",
)
REPORT = Command(
    "report", "[FILE|-]", "report on a recording by prospect or by perf; - reads a pipe"
)
ANNOTATE = Command(
    "annotate",
    "[ROUTINE|IMAGE] [FILE|-]",
    "show the instructions of the hottest or the named routines, with hits and source lines",
)
DIFF = Command(
    "diff",
    "A B | A1 A2 ... --against B1 B2 ...",
    "say what changed from recording A to B, or between two sides of several runs each, and how "
    "sure that is",
)
CACHE = Command("cache", "", "show what Prospect keeps on disk to save time, or remove it")
DOCTOR = Command("doctor", "", "say what can be profiled here, and what would change it")
HELP = Command("help", "[SUBCOMMAND]", "show how a subcommand is used")
EXAMPLES = Command("examples", "", "show command lines for common questions")
SUBCOMMANDS = (RECORD, REPORT, ANNOTATE, DIFF, CACHE, DOCTOR, HELP, EXAMPLES)
COMMANDS = (PROFILE, *SUBCOMMANDS)


def _details(text: str) -> str:
    if text not in DETAILS:
        raise UsageError("give 2 (the command), 3 (and its descendants), 4 (all) or k (kernel)")
    return text


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise UsageError("give a whole number of at least 1")
    return int(text)


def _clocks(text: str) -> int:
    if text not in ("0", "1", "2", "3", "4"):
        raise UsageError("give a number of clocks from 1 to 4, or 0 for a hardware counter")
    return int(text)


def _percent(text: str) -> float:
    digits = text.removesuffix("%")
    try:
        percent = float(digits) if set(digits) <= set("0123456789.") else 0.0
    except ValueError:
        percent = 0.0
    if not 0.0 < percent <= 100.0:
        raise UsageError("give a share of a CPU's time, such as 0.5%")
    return percent


def _seconds(text: str) -> float:
    try:
        # float() also takes what nobody means here: 1_0, spaces, digits of other scripts.
        seconds = float(text) if set(text) <= set("0123456789.+eE-") else -1.0
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < float("inf"):
        raise UsageError("give a number of seconds, 0 or more")
    return seconds


def _format(text: str) -> str:
    if text not in FORMATS:
        raise UsageError(f"give one of {', '.join(FORMATS)}")
    return text


def _text_or_json(text: str) -> str:
    if text not in ("text", "json"):
        raise UsageError("give text or json")
    return text


def _syntax(text: str) -> str:
    if text not in ("att", "intel"):
        raise UsageError("give att or intel")
    return text


def _share(text: str) -> float:
    digits = text.removesuffix("%")
    try:
        number = float(digits) if set(digits) <= set("0123456789.") else -1.0
    except ValueError:
        number = -1.0
    share = number / 100.0 if digits != text else number
    if not 0.0 <= share < 1.0:
        raise UsageError("give a share such as 5% or 0.05")
    return share


def _rate(text: str) -> float:
    rate = _share(text)
    if not rate:
        raise UsageError("give a share over 0, such as 5%")
    return rate


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError("give a whole number")
    return int(text)


def _work(text: str) -> str:
    from prospect.estimate.work import parse_work

    parse_work(text)
    return text


def _condition(text: str) -> str:
    from prospect.estimate.condition import parse_condition

    if parse_condition(text) is None:
        raise UsageError("give a condition such as 'slower by 3% at 95%'")
    return text


def _file(text: str) -> str:
    if not text or "\0" in text:
        raise UsageError("give the name of a file")
    return text


def _file_to_read(text: str) -> str:
    if os.path.isdir(_file(text)) or not os.access(text, os.R_OK):
        raise UsageError("no such file, or not readable")
    return text


_RECORDS = ("", "record")
_REPORTS = ("", "report")
_NAMERS = (*_REPORTS, "annotate")
_READERS = (*_NAMERS, "diff")

OPTIONS = (
    Option(
        "detail",
        "V",
        (),
        "2|3|4|k",
        "details of: 2 the command itself, 3 the command and all its descendants, "
        "4 every process active on the system, k the kernel only",
        _NAMERS,
        _details,
    ),
    Option("detail", "", ("child",), "", "the same as -V 2", _NAMERS, value="2"),
    Option("detail", "", ("follow-forks",), "", "the same as -V 3", _NAMERS, value="3"),
    Option("detail", "", ("system-wide",), "", "the same as -V 4", _NAMERS, value="4"),
    Option("detail", "", ("kernel-only",), "", "the same as -V k", _NAMERS, value="k"),
    Option(
        "frequency_hz",
        "H",
        ("frequency", "hertz"),
        "HZ",
        "samples a second and CPU, from 1 to the kernel's limit",
        _RECORDS,
        _positive,
    ),
    Option(
        "clocks",
        "",
        ("clocks",),
        "K",
        "sample by K timers, 1 to 4, that share the rate: a program is never in step with all of "
        "them, and what they disagree on is the error; 0 samples by a hardware counter where there "
        "is one, also where interrupts are masked",
        _RECORDS,
        _clocks,
    ),
    Option(
        "overhead_percent",
        "",
        ("overhead",),
        "PERCENT",
        "choose the rate so that sampling takes at most this share of each CPU, such as 0.5%; "
        "instead of -H",
        _RECORDS,
        _percent,
    ),
    Option(
        "flush_centiseconds",
        "M",
        ("flush",),
        "N",
        "empty the kernel's buffers every N hundredths of a second",
        _RECORDS,
        _positive,
    ),
    Option(
        "count_syscalls",
        "",
        ("count-syscalls",),
        "",
        "also count every system call of every process, exactly; the report says what that cost",
        _RECORDS,
    ),
    Option(
        "output",
        "f",
        ("output",),
        "FILE",
        "write the report to FILE (default: standard output)",
        _READERS,
        _file,
    ),
    Option(
        "user_threshold_s",
        "m",
        ("user-threshold",),
        "SEC",
        "leave out processes and routines with less user time than SEC",
        _NAMERS,
        _seconds,
    ),
    Option(
        "kernel_threshold_s",
        "k",
        ("kernel-threshold",),
        "SEC",
        "leave out kernel routines with less time than SEC",
        _NAMERS,
        _seconds,
    ),
    Option(
        "system_map",
        "K",
        ("system-map",),
        "FILE",
        "kernel symbols from this System.map (default: the running kernel's own)",
        _READERS,
        _file_to_read,
    ),
    Option(
        "kernel_image",
        "L",
        ("kernel-image",),
        "FILE",
        "kernel symbols from this uncompressed vmlinux (default: the running kernel's own)",
        _READERS,
        _file_to_read,
    ),
    Option(
        "save",
        "",
        ("save",),
        "FILE",
        "keep the recording in FILE, for prospect report or perf (default: not kept)",
        ("",),
        _file,
    ),
    Option(
        "save",
        "o",
        ("output",),
        "FILE",
        f"record to FILE (default: {DEFAULT_RECORDING}; an existing one becomes FILE.old)",
        ("record",),
        _file,
    ),
    Option(
        "format",
        "",
        ("format",),
        "|".join(FORMATS),
        "the report as text, JSON or CSV",
        _REPORTS,
        _format,
    ),
    Option(
        "format",
        "",
        ("format",),
        "text|json",
        "the answer as text or JSON",
        ("annotate", "cache", "diff", "doctor"),
        _text_or_json,
    ),
    Option(
        "most_routines",
        "n",
        ("routines",),
        "N",
        "annotate at most N routines, the hottest, where none is named",
        ("annotate",),
        _positive,
    ),
    Option(
        "syntax",
        "",
        ("syntax",),
        "att|intel",
        "how x86 instructions are written: as perf and objdump do, or as Intel does",
        ("annotate",),
        _syntax,
    ),
    Option(
        "source",
        "",
        ("no-source",),
        "",
        "leave out source lines and the names of inlined functions",
        ("annotate",),
        value=False,
    ),
    Option(
        "whole",
        "",
        ("whole",),
        "",
        "show also the instructions that are far from any hit",
        ("annotate",),
    ),
    Option(
        "use_cache",
        "",
        ("no-cache",),
        "",
        "neither read nor write the cache of symbol tables and of what a sample costs",
        _READERS,
        value=False,
    ),
    Option(
        "debuginfod_s",
        "",
        ("debuginfod",),
        "SEC",
        "wait at most SEC seconds in all for what debug-file servers (DEBUGINFOD_URLS) have of "
        "objects without symbols; 0 asks none",
        (*_NAMERS, "diff"),
        _seconds,
    ),
    Option("clear", "", ("clear",), "", "remove all of it", ("cache",)),
    Option(
        "scope",
        "V",
        (),
        "2|3|4|k",
        "compare: 2 the command itself, 3 the command and all its descendants, 4 every process, "
        "k the kernel",
        ("diff",),
        _details,
    ),
    Option(
        "per",
        "",
        ("per",),
        "WORK",
        "compare times per run, per second, or per unit of work that was done, as in "
        "'1000 requests' or 'A=1000,B=1200 requests' (default: per run of a command, else per "
        "second)",
        ("diff",),
        _work,
    ),
    Option(
        "fdr",
        "",
        ("fdr",),
        "SHARE",
        "mark rows so that at most this share of the marked ones is expected to be wrong",
        ("diff",),
        _rate,
    ),
    Option(
        "run_variation",
        "",
        ("run-variation",),
        "SHARE",
        "with one recording a side, take rows to differ by this share of their time from run to "
        "run (standard deviation); several a side tell it themselves",
        ("diff",),
        _share,
    ),
    Option(
        "rows",
        "",
        ("rows",),
        "N",
        "show N rows of each table, and all that are significant",
        ("diff",),
        _count,
    ),
    Option(
        "fail_if",
        "",
        ("fail-if",),
        "CONDITION",
        "exit with status 3 if it is sure that 'slower by 3%', 'faster by 3% at 99%', or "
        "'different by 3% at 95% in NAME'",
        ("diff",),
        _condition,
    ),
    Option("help", "h", ("help",), "", "show this help", tuple(c.name for c in COMMANDS)),
    Option("version", "", ("version",), "", "show the version", ("",)),
)

# Letters of Prospect's that this version does not offer: refused in words, and never reused.
_RESERVED = {
    "-e": "disassembled profiles",
    "--disassemble": "disassembled profiles",
    "-g": "disassembler processes",
}


def options_of(command: Command) -> list[Option]:
    """Return the options that a command takes, in the order of its help."""
    return [option for option in OPTIONS if command.name in option.commands]


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
        try:
            values[option.keyword] = option.check(text) if option.check else option.value
        except UsageError as error:
            given = text or "''"
            raise UsageError(f"{spelling} {given}: {error}") from None
    if {"overhead_percent", "frequency_hz"} <= values.keys():
        raise UsageError("--overhead chooses the rate: leave out -H, or --overhead")
    return Settings(**values), rest


def _explain(command: Command, error: getopt.GetoptError, options: Iterable[Option]) -> str:
    given = f"--{error.opt}" if f"--{error.opt}" in error.msg else f"-{error.opt}"
    known = [spelling for option in options for spelling in option.spellings]
    if given in _RESERVED:
        return f"{given}: {_RESERVED[given]} are not available in this version"
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
    near = nearest(given, known)
    hint = f"did you mean {near}?" if near else "see prospect --help"
    return f"{given}: no such option; {hint}"


def nearest(given: str, known: Iterable[str]) -> str:
    """Return the known word that is most like `given`, "" if none is like it."""
    import difflib

    return next(iter(difflib.get_close_matches(given, list(known), n=1)), "")
