"""Every command and option, once: parsing, ``--help``, the manual and the documentation read these.

Letters and meanings are those of Prospect 0.9 (Tsariounov, OLS 2002); the long names are ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from prospect.cli import values

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_RECORDING = "perf.data"


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
    program: str = ""
    save: str = ""
    count_syscalls: bool = False
    call_graph: str = ""
    off_cpu: bool = False
    count_calls: str = ""
    count_budget_percent: float = 5.0
    format: str = "text"
    inline: bool = False
    lines: bool = False
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
    sections: tuple[str, ...] = ("totals", "callees")
    calls: tuple[str, ...] = ()
    callers_of: str = ""
    through: str = ""
    cause: str = ""
    process: str = ""
    thread: str = ""
    object: str = ""
    routine: str = ""
    cpus: tuple[int, ...] | None = None
    between: tuple[float, float] | None = None
    share: float = 0.01
    disassemble: int = 0
    disassembler: str = "library"
    gdb_processes: int = 8
    syntax: str = "att"
    source: bool = True
    source_files: bool = False
    output_dir: str = ""
    search_dirs: tuple[str, ...] = ()
    base_dirs: tuple[str, ...] = ()
    include_files: tuple[str, ...] = ()
    exclude_files: tuple[str, ...] = ()
    whole: bool = False
    whole_images: bool = False
    events: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    interval_s: float = 0.0
    repeat: int = 1
    fields: bool = False
    check: bool = False
    port: int = 0
    opens_browser: bool = False
    help: bool = False
    version: bool = False


class Command(NamedTuple):
    """A command: what stands behind its options, and what it does in a sentence.

    `most_words` says how many operands it takes, None for any number. ``prospect.cli`` has a module
    of its name, whose ``run(settings, words, command_line)`` returns the exit status.
    """

    name: str
    operands: str
    summary: str
    most_words: int | None = None


class Option(NamedTuple):
    """An option. `check` turns its value's text into the field's; a flag has none and sets `value`.

    `is_counted` is a flag whose field says how often it was given; `is_repeated` an option whose
    field has all its values, one behind the other.

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
    is_counted: bool = False
    is_repeated: bool = False

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
    "report",
    "[FILE|-]",
    "report on a recording by prospect or by perf, or another tool's profile; - reads a pipe",
    1,
)
VIEW = Command(
    "view",
    "[FILE|-]",
    "look at a recording in a browser on this machine: the page of --format html, of any size",
    1,
)
ANNOTATE = Command(
    "annotate",
    "[ROUTINE|IMAGE] [FILE|-]",
    "show the instructions of the hottest or the named routines, with hits and source lines",
    2,
)
CALLS = Command(
    "calls",
    "[FILE|-]",
    "show who called whom: total times, trees of callees and of callers, the call graph",
    1,
)
DIFF = Command(
    "diff",
    "A B | A1 A2 ... --against B1 B2 ...",
    "say what changed from recording A to B, or between two sides of several runs each, and how "
    "sure that is",
)
ARCHIVE = Command(
    "archive",
    "[FILE]",
    "make a recording one file that is reported on elsewhere as it is here",
    1,
)
CACHE = Command("cache", "", "show what Prospect keeps on disk to save time, or remove it", 0)
STAT = Command(
    "stat",
    "[COMMAND [ARGS...]]",
    "count events while COMMAND runs, of processes, of CPUs or of the whole system",
)
LIST = Command("list", "[PATTERN]", "show the events that this machine has, and what they count", 1)
DOCTOR = Command("doctor", "", "say what can be profiled here, and what would change it", 0)
HELP = Command("help", "[SUBCOMMAND]", "show how a subcommand is used", 1)
EXAMPLES = Command("examples", "", "show command lines for common questions", 0)
COMPLETION = Command(
    "completion", "bash|zsh|fish", "write what a shell needs to complete commands and options", 1
)
TOP = Command("top", "", "show where the time of all processors goes, live, in this terminal", 0)
SUBCOMMANDS = (
    TOP,
    RECORD,
    REPORT,
    VIEW,
    ANNOTATE,
    CALLS,
    DIFF,
    ARCHIVE,
    CACHE,
    STAT,
    LIST,
    DOCTOR,
    HELP,
    EXAMPLES,
    COMPLETION,
)
COMMANDS = (PROFILE, *SUBCOMMANDS)


_RECORDS = ("", "record")
_SAMPLERS = (*_RECORDS, "top")
_REPORTS = ("", "report")
_NAMERS = (*_REPORTS, "view", "annotate")
_CHOOSERS = (*_NAMERS, "calls")
_READERS = (*_REPORTS, "annotate", "calls", "diff")
_FINDERS = (*_NAMERS, "calls", "diff", "archive")

OPTIONS = (
    Option(
        "detail",
        "V",
        (),
        "2|3|4|k",
        "details of: 2 the command itself, 3 the command and all its descendants, "
        "4 every process active on the system, k the kernel only",
        _CHOOSERS,
        values.details,
    ),
    Option("detail", "", ("child",), "", "the same as -V 2", _CHOOSERS, value="2"),
    Option("detail", "", ("follow-forks",), "", "the same as -V 3", _CHOOSERS, value="3"),
    Option("detail", "", ("system-wide",), "", "the same as -V 4", _CHOOSERS, value="4"),
    Option("detail", "", ("kernel-only",), "", "the same as -V k", _CHOOSERS, value="k"),
    Option(
        "frequency_hz",
        "H",
        ("frequency", "hertz"),
        "HZ",
        "samples a second and CPU, from 1 to the kernel's limit",
        _SAMPLERS,
        values.positive,
    ),
    Option(
        "clocks",
        "",
        ("clocks",),
        "K",
        "sample by K timers, 1 to 4, that share the rate: a program is never in step with all of "
        "them, and what they disagree on is the error; 0 samples by a hardware counter where there "
        "is one, also where interrupts are masked",
        _SAMPLERS,
        values.clocks,
    ),
    Option(
        "overhead_percent",
        "",
        ("overhead",),
        "PERCENT",
        "choose the rate so that sampling takes at most this share of each CPU, such as 0.5%; "
        "instead of -H",
        _RECORDS,
        values.percent,
    ),
    Option(
        "flush_centiseconds",
        "M",
        ("flush",),
        "N",
        "empty the kernel's buffers every N hundredths of a second",
        _RECORDS,
        values.positive,
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
        "count_calls",
        "",
        ("count-calls",),
        "[IMAGE:]NAME[,...]",
        "count the calls of functions whose names fit these patterns, of COMMAND's own image or "
        "of IMAGE, a path or the name of a library; the report says what that cost",
        _RECORDS,
        values.count_calls,
    ),
    Option(
        "count_budget_percent",
        "",
        ("count-budget",),
        "PERCENT",
        "let --count-calls take at most this share of the command's CPU time: calls are counted in "
        "short windows where all would cost more; 100% counts every call at any cost",
        _RECORDS,
        values.percent,
    ),
    Option(
        "call_graph",
        "",
        ("call-graph",),
        "MODE[,BYTES]",
        "record who called: fp by frame pointers, dwarf by copies of BYTES of each stack (8192 "
        "unless said), auto by both, lbr by the processor's branch stack (default: callers within "
        "the kernel only)",
        _RECORDS,
        values.call_graph,
    ),
    Option(
        "call_graph",
        "",
        ("call-graph",),
        "MODE[,BYTES]",
        "find out who called: fp by frame pointers, dwarf by copies of BYTES of each stack (8192 "
        "unless said), which costs more, auto by both, lbr by the processor's branch stack "
        "(default: fp)",
        ("top",),
        values.call_graph,
    ),
    Option(
        "off_cpu",
        "",
        ("off-cpu",),
        "",
        "also record every switch of the scheduler: the report says how long each thread waited, "
        "for what, and how long for a CPU",
        _RECORDS,
    ),
    Option(
        "off_cpu",
        "",
        ("off-cpu",),
        "",
        "also record every switch of the scheduler: the page Waiting says how long each thread "
        "waited, and by which stacks",
        ("top",),
    ),
    Option(
        "output",
        "f",
        ("output",),
        "FILE",
        "write the report to FILE (default: standard output)",
        _READERS,
        values.file_name,
    ),
    Option(
        "user_threshold_s",
        "m",
        ("user-threshold",),
        "SEC",
        "leave out processes and routines with less user time than SEC",
        _NAMERS,
        values.seconds,
    ),
    Option(
        "kernel_threshold_s",
        "k",
        ("kernel-threshold",),
        "SEC",
        "leave out kernel routines with less time than SEC",
        _NAMERS,
        values.seconds,
    ),
    Option(
        "system_map",
        "K",
        ("system-map",),
        "FILE",
        "kernel symbols from this System.map (default: the running kernel's own)",
        _FINDERS,
        values.file_to_read,
    ),
    Option(
        "kernel_image",
        "L",
        ("kernel-image",),
        "FILE",
        "kernel symbols from this uncompressed vmlinux (default: the running kernel's own)",
        _FINDERS,
        values.file_to_read,
    ),
    Option(
        "program",
        "",
        ("program",),
        "FILE",
        "of a gmon.out, the program that wrote it (default: a.out in the same directory)",
        ("report", "view", "calls"),
        values.file_to_read,
    ),
    Option(
        "save",
        "",
        ("save",),
        "FILE",
        "keep the recording in FILE, for prospect report or perf (default: not kept)",
        ("",),
        values.file_name,
    ),
    Option(
        "save",
        "o",
        ("output",),
        "FILE",
        f"record to FILE (default: {DEFAULT_RECORDING}; an existing one becomes FILE.old)",
        ("record",),
        values.file_name,
    ),
    Option(
        "format",
        "",
        ("format",),
        "NAME",
        "write the report as text, json, csv or html (a page for a browser), as gmon for gprof, or "
        "its call stacks for another tool: "
        f"{', '.join(values.STACK_FORMATS)}",
        _REPORTS,
        values.report_format,
    ),
    Option(
        "inline",
        "",
        ("inline",),
        "",
        "show inlined functions in call stacks, from the source lines of debug information",
        (*_REPORTS, "view", "calls"),
    ),
    Option(
        "lines",
        "",
        ("lines",),
        "",
        "show hits also by source line, with the functions that were inlined there",
        _REPORTS,
    ),
    Option(
        "format",
        "",
        ("format",),
        "text|json",
        "the answer as text or JSON",
        ("annotate", "cache", "calls", "doctor", "list"),
        values.text_or_json,
    ),
    Option(
        "format",
        "",
        ("format",),
        "text|json|html",
        "the comparison as text, JSON, or a page for a browser with a differential flame graph",
        ("diff",),
        values.comparison_format,
    ),
    Option(
        "format",
        "",
        ("format",),
        "text|json|csv",
        "the counts as text, JSON or CSV",
        ("stat",),
        values.counts_format,
    ),
    Option(
        "output",
        "f",
        ("output",),
        "FILE",
        "write the counts to FILE (default: standard output)",
        ("stat",),
        values.file_name,
    ),
    Option(
        "events",
        "",
        ("event",),
        "EVENTS",
        "count these events, separated by commas, groups in braces; may be given several times "
        "(default: task-clock, switches, migrations, page faults, and cycles, instructions and "
        "branches where there are counters)",
        ("stat",),
        values.events,
        is_repeated=True,
    ),
    Option(
        "events",
        "",
        ("event",),
        "EVENTS",
        "sample these events instead of clocks, separated by commas; may be given several times; "
        "see prospect list",
        _RECORDS,
        values.events,
        is_repeated=True,
    ),
    Option(
        "scope",
        "V",
        (),
        "2|3|4",
        "count: 2 the command itself, 3 the command and all its descendants, 4 the whole system",
        ("stat",),
        values.counted,
    ),
    Option(
        "pids",
        "p",
        ("pid",),
        "PID[,PID...]",
        "count these processes, until they or COMMAND end",
        ("stat",),
        values.pids,
    ),
    Option(
        "cpus",
        "",
        ("cpu",),
        "LIST",
        "count all that runs on these CPUs, as 0,2-3",
        ("stat",),
        values.cpus,
    ),
    Option(
        "interval_s",
        "",
        ("interval",),
        "SEC",
        "give the counts of every SEC seconds as well; 0 for none",
        ("stat",),
        values.seconds,
    ),
    Option(
        "repeat",
        "",
        ("repeat",),
        "N",
        "run COMMAND N times, and give the mean and its 95% interval",
        ("stat",),
        values.positive,
    ),
    Option(
        "fields",
        "",
        ("fields",),
        "",
        "show also the parameters of units and the fields of tracepoints",
        ("list",),
    ),
    Option(
        "check",
        "",
        ("check",),
        "",
        "open each event, and say whether it can be counted and sampled here, or why not",
        ("list",),
    ),
    Option(
        "most_routines",
        "n",
        ("routines",),
        "N",
        "annotate at most N routines, the hottest, where none is named",
        ("annotate",),
        values.positive,
    ),
    Option(
        "disassemble",
        "e",
        ("disassemble",),
        "",
        "show behind each table the instructions of its routines, with their hits; -ee also those "
        "of routines under -m and -k",
        _REPORTS,
        is_counted=True,
    ),
    Option(
        "syntax",
        "",
        ("syntax",),
        "att|intel",
        "how x86 instructions are written: as perf and objdump do, or as Intel does",
        _NAMERS,
        values.syntax,
    ),
    Option(
        "disassembler",
        "",
        ("disassembler",),
        "library|gdb",
        "disassemble by a library, and by GDB what that does not know; or everything by GDB",
        _NAMERS,
        values.disassembler,
    ),
    Option(
        "gdb_processes",
        "g",
        ("gdb-processes",),
        "N",
        "have at most N GDB processes open at once, where GDB is needed",
        _NAMERS,
        values.positive,
    ),
    Option(
        "source_files",
        "",
        ("source",),
        "",
        "show source files with their hits instead of instructions, the hottest first",
        ("annotate",),
    ),
    Option(
        "output_dir",
        "",
        ("output-dir",),
        "DIR",
        "with --source: write a tree of annotated files below DIR, and an index of them",
        ("annotate",),
        values.file_name,
    ),
    Option(
        "search_dirs",
        "",
        ("search-dirs",),
        "DIR[:DIR...]",
        "with --source: look for sources below these directories first",
        ("annotate",),
        values.listed,
    ),
    Option(
        "base_dirs",
        "",
        ("base-dirs",),
        "DIR[:DIR...]",
        "with --search-dirs: where sources were compiled; taken off their paths",
        ("annotate",),
        values.listed,
    ),
    Option(
        "include_files",
        "",
        ("include-files",),
        "PATTERN[:PATTERN...]",
        "with --source: only files whose path or name one of these patterns fits",
        ("annotate",),
        values.listed,
    ),
    Option(
        "exclude_files",
        "",
        ("exclude-files",),
        "PATTERN[:PATTERN...]",
        "with --source: no files whose path or name one of these patterns fits",
        ("annotate",),
        values.listed,
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
        "save",
        "o",
        ("output",),
        "FILE",
        "write the archive to FILE (default: the recording's name and .archive)",
        ("archive",),
        values.file_name,
    ),
    Option(
        "whole_images",
        "",
        ("whole-images",),
        "",
        "keep programs and libraries with hits whole, and not only what reports ask of them",
        ("archive",),
    ),
    Option(
        "use_cache",
        "",
        ("no-cache",),
        "",
        "neither read nor write the cache of symbol tables and of what a sample costs",
        (*_FINDERS, "top"),
        value=False,
    ),
    Option(
        "debuginfod_s",
        "",
        ("debuginfod",),
        "SEC",
        "wait at most SEC seconds in all for what debug-file servers (DEBUGINFOD_URLS) have of "
        "objects without symbols; 0 asks none",
        _FINDERS,
        values.seconds,
    ),
    Option(
        "sections",
        "",
        ("show",),
        "LIST",
        "show these, separated by commas: totals (each routine with all that it calls), callees "
        "(a tree from the outermost routine on), callers (a tree from each routine hit outwards), "
        "graph (a block a routine, as gprof has them)",
        ("calls",),
        values.sections,
    ),
    Option(
        "calls",
        "",
        ("calls",),
        "LIST",
        "show also who called whom: totals, callees, callers or graph, as prospect calls --show; "
        "with --call-graph totals and callees are shown anyway",
        _REPORTS,
        values.sections,
    ),
    Option(
        "callers_of",
        "",
        ("callers-of",),
        "ROUTINE",
        "show the tree of who called ROUTINE, what it called included",
        ("calls",),
        values.name,
    ),
    Option(
        "through",
        "",
        ("through",),
        "ROUTINE",
        "only samples on whose stack ROUTINE stands",
        ("calls",),
        values.name,
    ),
    Option(
        "cause",
        "",
        ("cause",),
        "CAUSE",
        "only samples in the kernel for this cause: 'system call', interrupt, ... or one of a "
        "kind, as read, 'page fault'",
        ("calls",),
        values.name,
    ),
    Option(
        "process",
        "",
        ("process",),
        "NAME|PID",
        "only samples of processes of this name or number",
        ("calls",),
        values.name,
    ),
    Option(
        "thread",
        "",
        ("thread",),
        "NAME|TID",
        "only samples of threads of this name or number",
        ("calls",),
        values.name,
    ),
    Option(
        "object",
        "",
        ("object",),
        "IMAGE",
        "only samples that hit this image",
        ("calls",),
        values.name,
    ),
    Option(
        "routine",
        "",
        ("routine",),
        "ROUTINE",
        "only samples that hit this routine itself",
        ("calls",),
        values.name,
    ),
    Option(
        "cpus",
        "",
        ("cpu",),
        "LIST",
        "only samples of these CPUs, as 0,2-3",
        ("calls",),
        values.cpus,
    ),
    Option(
        "between",
        "",
        ("between",),
        "BEGIN,END",
        "only samples from BEGIN up to END seconds after the recording began",
        ("calls",),
        values.interval,
    ),
    Option(
        "share",
        "",
        ("share",),
        "SHARE",
        "leave out of trees and of the graph what has less than this share of the hits",
        ("calls",),
        values.share,
    ),
    Option(
        "port",
        "",
        ("port",),
        "N",
        "serve the page on this port of 127.0.0.1; 0 for any that is free",
        ("view",),
        values.port,
    ),
    Option(
        "opens_browser",
        "",
        ("open",),
        "",
        "also open the page in the desktop's browser; not as root",
        ("view",),
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
        values.details,
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
        values.work,
    ),
    Option(
        "fdr",
        "",
        ("fdr",),
        "SHARE",
        "mark rows so that at most this share of the marked ones is expected to be wrong",
        ("diff",),
        values.rate,
    ),
    Option(
        "run_variation",
        "",
        ("run-variation",),
        "SHARE",
        "with one recording a side, take rows to differ by this share of their time from run to "
        "run (standard deviation); several a side tell it themselves",
        ("diff",),
        values.share,
    ),
    Option(
        "rows",
        "",
        ("rows",),
        "N",
        "show N rows of each table, and all that are significant",
        ("calls", "diff"),
        values.count,
    ),
    Option(
        "fail_if",
        "",
        ("fail-if",),
        "CONDITION",
        "exit with status 3 if it is sure that 'slower by 3%', 'faster by 3% at 99%', or "
        "'different by 3% at 95% in NAME'",
        ("diff",),
        values.condition,
    ),
    Option("help", "h", ("help",), "", "show this help", tuple(c.name for c in COMMANDS)),
    Option("version", "", ("version",), "", "show the version", ("",)),
)


def options_of(command: Command) -> list[Option]:
    """Return the options that a command takes, in the order of its help."""
    return [option for option in OPTIONS if command.name in option.commands]
