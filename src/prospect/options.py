"""Declare every option once: name, type, default, spelling, meaning, and commands.

An option is a field of one of the records here, declared by `option`. The parser, ``--help``, the
manual, completion (`prospect.cli.option_table`) and the keywords of the Python interface
(`prospect.api.keywords`) follow from it. Recording and renderers get the record itself. Letters and
meanings are those of Prospect 0.9 (Tsariounov, OLS 2002).

This module is loaded before COMMAND's start: it imports nothing slow, and computes nothing.
"""

from __future__ import annotations

from prospect.records import NamedTuple, Record, dataclass_transform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Literal, TypeVar

    _Value = TypeVar("_Value")
    Syntax = Literal["att", "intel"]
    RuntimeFrames = Literal["auto", "always", "never"]
    WallScope = Literal["system"]
    Disassembler = Literal["library", "gdb"]
    Detail = Literal["2", "3", "4", "k"]
    Way = tuple[str, str, str, Any]

DEFAULT_RECORDING = "perf.data"
SYNTAXES: tuple[Syntax, ...] = ("att", "intel")
DISASSEMBLERS: tuple[Disassembler, ...] = ("library", "gdb")


class Declared(NamedTuple):
    """An option as its record declares it; its default replaces it in the record's class."""

    ways: tuple[Way, ...]
    default: Any
    doc: str
    reads: str
    is_counted: bool
    is_repeated: bool
    is_keyword: bool

    def __set_name__(self, owner: type[Record], name: str) -> None:
        if self.default is NEEDED:
            delattr(owner, name)
        else:
            setattr(owner, name, self.default)
        _declared.append((owner, name, self))


NEEDED = object()
_declared: list[tuple[type[Record], str, Declared]] = []


def option(  # noqa: PLR0913 - the facts of an option
    *ways: Way,
    default: _Value,
    doc: str = "",
    reads: str = "",
    is_counted: bool = False,
    is_repeated: bool = False,
    kw_only: bool = True,
) -> _Value:
    """Declare an option, a field of a record.

    Args:
        ways: its spellings, with the commands that take them; see `typed`.
        default: its value if it is not given.
        doc: its meaning as a keyword of the Python interface.
        reads: the parser of its value in `prospect.cli.values`; none for flags, and for values that
            its spelling lists, as ``att|intel``.
        is_counted: whether its value is the number of times that it is given.
        is_repeated: whether the values of several uses are joined.
        kw_only: whether the Python interface takes it only as a keyword.
    """
    # NamedTuple's own constructor would delay COMMAND's start by 0.1 ms.
    found: Any = tuple.__new__(
        Declared, (ways, default, doc, reads, is_counted, is_repeated, kw_only)
    )
    return found  # type: ignore[no-any-return]  # the class has the default once it is made


def needed(*, doc: str, kw_only: bool) -> Any:
    """Declare an argument of the Python interface that has no default; arguments as of `option`."""
    return option(default=NEEDED, doc=doc, kw_only=kw_only)


def typed(spelled: str, says: str, takers: str, *, value: Any = True) -> Way:
    """Return a way to type an option.

    Args:
        spelled: its names, the short one first, then the name of its value if it takes one.
        says: its help, without the default; ``{words}`` are those of its parser.
        takers: commands and groups of `prospect.cli.option_table` that take it.
        value: the value that it sets if it takes none.
    """
    return spelled, says, takers, value


def declared_in(kind: type[Record]) -> dict[str, Declared]:
    """Return the options of a record's class by keyword: its own first, then those of its bases.

    An option that is declared again without a meaning has the meaning of the base.
    """
    found: dict[str, Declared] = {}
    for one in kind.__mro__:
        for owner, name, declared in _declared:
            if owner is one:
                known = found.setdefault(name, declared)
                found[name] = known if known.doc else known._replace(doc=declared.doc)
    return found


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option, needed))
class Options(Record):
    """A record of options."""


class RecordingOptions(Options):
    """The events and processes to record, and how."""

    pids: tuple[int, ...] = option(
        typed(
            "-p --pid PID[,PID...]",
            "profile these running processes and their descendants: until they end, until "
            "Ctrl-C, or for as long as COMMAND runs or --for says",
            "records",
        ),
        typed(
            "-p --pid PID[,PID...]",
            "show these running processes, with their threads and descendants; without "
            "privilege, only your own",
            "top",
        ),
        default=(),
        reads="pids",
        doc="profile these processes, which run already, until they end; with a command as long "
        "as it runs",
    )
    for_s: float | None = option(
        typed(
            "--for SECONDS",
            "record for that long, without COMMAND: the whole system, or the processes of -p",
            "records",
        ),
        default=None,
        reads="duration",
        doc="record that long, without a command: the whole system, or `pids`",
    )
    frequency_hz: int = option(
        typed(
            "-H --frequency --hertz HZ",
            "samples per second on each CPU, from 1 to the kernel's limit",
            "samplers",
        ),
        typed("-F HZ", "the same as -H", "samplers"),
        default=200,
        reads="positive",
        doc="samples per second on each CPU, of all clocks together",
    )
    clocks: int = option(
        typed(
            "--clocks K",
            "sample with K timers, 1 to 4, that share the rate (one below -H 10): no program can "
            "run in step with all of them; 0 samples with a hardware counter if there is one, "
            "which on most machines also samples code with interrupts off",
            "samplers",
        ),
        default=4,
        reads="clocks",
        doc="how many timers of different periods share that rate, 1 to 4, and 1 below 10 Hz; 0 "
        "for a hardware counter if there is one, else 4 timers",
    )
    overhead_percent: float | None = option(
        typed(
            "--overhead PERCENT",
            "choose the rate so that sampling takes at most this share of each CPU, such as "
            "0.5%; instead of -H",
            "recorders",
        ),
        default=None,
        reads="percent",
        doc="choose the rate so that sampling takes at most this share of each CPU",
    )
    flush_centiseconds: int = option(
        typed(
            "-M --flush N", "empty the kernel's buffers every N hundredths of a second", "recorders"
        ),
        default=200,
        reads="positive",
        doc="how often the kernel's buffers are emptied at least, in 1/100 s",
    )
    count_syscalls: bool = option(
        typed(
            "--count-syscalls",
            "also count every system call of every process exactly; the report shows the cost",
            "records",
        ),
        default=False,
        doc="also count every system call of every process, exactly",
    )
    count_calls: str = option(
        typed(
            "--count-calls [IMAGE:]NAME[,...]",
            "count the calls of functions whose names match these patterns, in COMMAND's program "
            "or in IMAGE, a path or the name of a library; the report shows the cost",
            "records",
        ),
        default="",
        reads="count_calls",
        doc='also count the calls of functions that fit these patterns, as "parse_*" or '
        '"libz.so.1:deflate*"; see ``--count-calls``',
    )
    count_budget_percent: float = option(
        typed(
            "--count-budget PERCENT",
            "let --count-calls take at most this share of the command's CPU time: if all calls "
            "cost more, short windows are counted; 100% counts every call until the cost reaches "
            "5 s",
            "records",
        ),
        default=5.0,
        reads="percent",
        doc="how much of the command's CPU time that may take; 100 counts each until that has "
        "cost 5 s",
    )
    count_hook: str = option(
        typed(
            "--count-hook NAME",
            "also run the entry hook NAME of an installed plug-in at calls that --count-calls "
            "counts; see docs/plugins.md",
            "records",
        ),
        default="",
        reads="name",
        doc="also run this entry hook, a plug-in's, where calls are counted",
    )
    call_graph: str = option(
        typed(
            "--call-graph MODE[,BYTES]",
            "record callers: fp by frame pointers, dwarf by copies of BYTES of each stack "
            "(default 8192), auto by both, lbr by the CPU's branch stack, none within the kernel "
            "only (default: auto if prospect COMMAND reports to a terminal or a pipe, else none)",
            "recorders",
        ),
        typed(
            "--call-graph MODE[,BYTES]",
            "find callers: fp by frame pointers, dwarf by copies of BYTES of each stack (default "
            "8192), which costs more, auto by both, lbr by the CPU's branch stack, none for no "
            "callers (default: fp)",
            "top",
        ),
        default="",
        reads="call_graph",
        doc='record callers in user space: "fp", "dwarf", "auto" or "lbr", the copying ones with '
        'a size as in "dwarf,16384", or "none"; see ``--call-graph``',
    )
    of_all: bool = option(
        typed(
            "-a --system-wide --all-cpus",
            "record stacks and Python functions of every process, not only of COMMAND or -p and "
            "their descendants; samples are of every process anyway, if permitted",
            "record",
        ),
        default=False,
        doc="record stacks and Python functions of every process, not only of the command or "
        "`pids` and their descendants",
    )
    off_cpu: bool = option(
        typed(
            "--off-cpu",
            "also record every context switch: the report shows how long each thread waited, for "
            "what, and how long for a CPU",
            "records",
        ),
        typed(
            "--off-cpu",
            "also record every context switch: the page Waiting shows how long each thread "
            "waited, and in which stacks",
            "top",
        ),
        default=False,
        doc="record the scheduler's switches too: how long each thread waited, and for what",
    )
    wall: bool | WallScope = option(
        typed(
            "--wall",
            "also record when the threads of COMMAND or of -p, and those that they wait for, left "
            "a CPU, in which system call, and who woke them: what --off-cpu records without "
            "stacks, for a third of its cost",
            "records",
        ),
        typed(
            "--wall=system",
            "the same for every thread: the wall time of COMMAND then includes the work of other "
            "processes that it waited for, such as a database",
            "records",
            value="system",
        ),
        default=False,
        doc="record the switches of the command's threads, and of those that they wait for, "
        'without stacks: how long they waited, and for whom; "system" records every thread, and '
        "follows the command's wall time into other processes",
    )
    compress: bool = option(
        typed(
            "-z --compress",
            "compress the recording with Zstandard, as perf record -z does: recordings with "
            "copies of stacks become much smaller, and the recorder takes more CPU time",
            "record",
        ),
        default=False,
        doc="write the records packed by Zstandard, as ``perf record -z``",
    )
    python: RuntimeFrames = option(
        typed(
            "--python",
            "record the Python function of each sample in CPython processes, even if another "
            "tracer's BPF programs then cost samples (default: while the cost is below 2%)",
            "records",
            value="always",
        ),
        typed(
            "--no-python",
            "do not record functions of Python, Ruby, PHP and Node",
            "records",
            value="never",
        ),
        default="auto",
        doc="read the functions of CPython, Ruby, PHP and Node at each sample, by eBPF as root; "
        'otherwise of the first three, from memory: "auto" unless another tracer\'s programs would '
        'then cost samples, "always" or "never"',
    )
    events: tuple[str, ...] = option(
        typed(
            "--event EVENTS",
            "sample these events instead of clocks, separated by commas; may be given several "
            "times; see prospect list",
            "records",
        ),
        default=(),
        reads="events",
        is_repeated=True,
        doc="sample these events instead of clocks, as of ``--event``",
    )
    max_bytes: int | None = option(
        typed(
            "--max-size SIZE",
            "end the recording at SIZE, such as 500M or 4G; COMMAND goes on (default: a quarter "
            "of the free space where it is written, at least 64M)",
            "recorders",
        ),
        default=None,
        reads="size",
        doc="end the recording at this size; None for a quarter of the free space",
    )


class ReportOptions(Options):
    """The contents of a report. A format reads those options that it has."""

    detail: Detail = option(
        typed(
            "-V 2|3|4|k",
            "details of: 2 the command itself, 3 the command and all its descendants, 4 every "
            "process active on the system, k the kernel only; with neither COMMAND nor -p, 2 and "
            "3 mean 4",
            "choosers",
        ),
        typed("--child", "the same as -V 2", "choosers", value="2"),
        typed("--follow-forks", "the same as -V 3", "choosers", value="3"),
        typed("-a --system-wide --all-cpus", "the same as -V 4", "choosers", value="4"),
        typed("--kernel-only", "the same as -V k", "choosers", value="k"),
        default="3",
        reads="details",
        doc='"2" the command, "3" with its descendants, "4" every process, "k" the kernel',
    )
    user_threshold_s: float = option(
        typed(
            "-m --user-threshold SEC",
            "hide processes and functions with less user time than SEC",
            "namers",
        ),
        default=0.02,
        reads="seconds",
        doc="leave out processes and functions with less user time",
    )
    kernel_threshold_s: float = option(
        typed(
            "-k --kernel-threshold SEC", "hide kernel functions with less time than SEC", "namers"
        ),
        default=0.02,
        reads="seconds",
        doc="leave out kernel functions with less time",
    )
    threshold: float | None = option(
        typed(
            "--threshold PERCENT",
            "hide rows with less than PERCENT of the time that -V selects; replaces -m and -k",
            "reports",
        ),
        default=None,
        reads="percent",
        doc="instead of both, in percent of the time of all, as of ``--threshold``",
    )
    disassemble: int = option(
        typed(
            "-e --disassemble",
            "show after each table the instructions of its functions, with their samples; -ee also "
            "those of functions under -m and -k",
            "reports",
        ),
        default=0,
        is_counted=True,
        doc="1 shows the instructions of functions that pass the thresholds, 2 of every function; "
        "in text, JSON and HTML, of a profile that was made with `code`",
    )
    critical_path: bool = option(
        typed(
            "--critical-path",
            "write call stacks of the command's critical path only; their time is its wall time",
            "reports",
        ),
        default=False,
        doc="call stacks of the command's critical path alone, for the formats that show them",
    )
    inline: bool = option(
        typed(
            "--inline",
            "show inlined functions in call stacks, from the source lines of debug information",
            "reports view calls",
        ),
        default=False,
        doc="show inlined functions in call stacks, of a profile that was made with `lines`",
    )
    lines: bool = option(
        typed(
            "--lines",
            "also show samples by source line, with the functions that were inlined there",
            "reports",
        ),
        default=False,
        doc="show samples by source line too, in text and JSON",
    )
    calls: tuple[str, ...] = option(
        typed(
            "--calls LIST",
            "also show callers and callees: totals, callees, callers or graph, as prospect calls "
            "--show; --call-graph implies totals and callees",
            "reports",
        ),
        default=(),
        reads="sections",
        doc="sections of who called whom, of a profile that was made with `stacks`",
    )
    classic: bool = option(
        typed(
            "--classic",
            "write the text report in the order of Prospect 0.9, without the first screen",
            "reports",
        ),
        default=False,
        doc="the text in the order of Prospect 0.9, without the summary at its top",
    )
    separate: tuple[str, ...] = option(
        typed(
            "--separate process",
            "show the functions of each process separately (default: processes of the same name "
            "together)",
            "reports",
        ),
        default=(),
        reads="report_separations",
        doc='"process" shows functions of each process apart, in the text',
    )
    sort: tuple[str, ...] = option(
        typed(
            "--sort KEYS",
            "write one table instead of the report, as text, json or csv: time by these keys, "
            "separated by commas: {words}; perf's dso and sym mean object and function",
            "reports",
        ),
        default=(),
        reads="sort_keys",
        doc="one table instead, of text, JSON or CSV: time by these keys, as of ``--sort``",
    )
    columns: str = option(
        typed(
            "--columns DIMENSION",
            "write one table instead of the report, as text, json or csv: rows by function, or by "
            "the keys of --sort, with a column for each event, cpu, thread, ...: {words}",
            "reports",
        ),
        default="",
        reads="dimension",
        doc="one table instead of the report, with a column for each class of samples, as of "
        "``--columns``",
    )
    format: str = option(
        typed(
            "--format NAME",
            "write the report as text, json, csv or html (a page for a browser), as gmon for "
            "gprof, as OProfile's xml, or its call stacks for another tool: {stack_formats}",
            "reports",
        ),
        default="text",
        reads="report_format",
        doc='"text", "json", "csv", "html", or one of call stacks, as ``--format`` names them',
    )


class NamingOptions(Options):
    """How addresses get names."""

    system_map: str = option(
        typed(
            "-K --system-map FILE",
            "kernel symbols from this System.map (default: the running kernel's own)",
            "finders",
        ),
        default="",
        reads="file_to_read",
        doc='a System.map to name the kernel with; "" for what the machine says',
    )
    kernel_image: str = option(
        typed(
            "-L --kernel-image FILE",
            "kernel symbols from this uncompressed vmlinux (default: the running kernel's own)",
            "finders",
        ),
        default="",
        reads="file_to_read",
        doc='an uncompressed kernel image, for names and code of the kernel ("" for none)',
    )
    sysroot: str = option(
        typed(
            "--sysroot --symfs DIR",
            "look for recorded files below DIR first, the root of a chroot, a container image or "
            "another machine; a file with another build id is not used",
            "finders",
        ),
        default="",
        reads="directory",
        doc="the root of a chroot, of a container image or of another machine: where recorded "
        'files are looked for first; "" for none',
    )
    debug_dir: str = option(
        typed(
            "--debug-dir DIR",
            "look for separate debug files below DIR before /usr/lib/debug: by build id, in "
            "DIR/.build-id, else by the name and checksum in the program",
            "finders",
        ),
        default="",
        reads="directory",
        doc='a directory of separate debug files that comes before /usr/lib/debug; "" for none',
    )
    use_cache: bool = option(
        typed(
            "--no-cache",
            "neither read nor write the cache of symbol tables and of what a sample costs, and "
            "ask no debug-file server",
            "finders top",
            value=False,
        ),
        default=True,
        doc="whether symbol and line tables, and the cost of a sample, are kept on disk between "
        "runs",
    )
    debuginfod_s: float = option(
        typed(
            "--debuginfod SEC",
            "wait at most SEC seconds in total for debug-file servers (DEBUGINFOD_URLS) to send "
            "missing symbols; 0 asks no server",
            "finders",
        ),
        default=30.0,
        reads="seconds",
        doc="how long the servers of DEBUGINFOD_URLS may delay a report; 0 asks none",
    )
    native: bool = option(
        typed(
            "--native",
            "show the Python interpreter's own functions as rows, with the Python functions as "
            "their callers (default: a Python function's time includes what the interpreter does "
            "for it)",
            "finders",
        ),
        default=False,
        doc="whether the interpreter's own functions are shown, called by Python functions, "
        "instead of Python functions with the time of both",
    )
    label: str = option(
        typed(
            "--label SOURCE",
            "label samples by marks:FILE, the list of what each thread began and ended, or by a "
            "plug-in's NAME:ARGUMENT; sorts by label unless --sort is given",
            "reports",
        ),
        default="",
        reads="name",
        doc='what labels samples, as "marks:FILE"; see ``--label``',
    )


class DisassemblerOptions(Options):
    """How to write code as instructions."""

    syntax: Syntax = option(
        typed(
            "--syntax att|intel",
            "how x86 instructions are written: as perf and objdump do, or as Intel does",
            "namers",
        ),
        default="att",
        doc='of x86 instructions, "att" or "intel"',
    )
    disassembler: Disassembler = option(
        typed(
            "--disassembler library|gdb",
            "disassemble with a library, and with GDB only instructions that the library does "
            "not know; or everything with GDB",
            "namers",
        ),
        default="library",
        reads="disassembler",
        doc='"library", with GDB for what that does not know, or "gdb"',
    )
    gdb_processes: int = option(
        typed("-g --gdb-processes N", "run at most N GDB processes at once", "namers"),
        default=8,
        reads="positive",
        doc="how many GDB processes may be open at once",
    )


class AnnotatingOptions(Options):
    """The instructions or source files to show, and how."""

    most_functions: int = option(
        typed(
            "-n --functions --routines N",
            "annotate the N hottest functions if no function is named",
            "annotate",
        ),
        default=5,
        reads="positive",
        doc="how many functions, unless they are named",
    )
    source_files: bool = option(
        typed(
            "--source",
            "show source files with their samples instead of instructions, the hottest first",
            "annotate",
        ),
        default=False,
        doc="whether source files with their samples are returned instead",
    )
    output_dir: str = option(
        typed(
            "--output-dir DIR",
            "with --source: write a tree of annotated files below DIR, and an index of them",
            "annotate",
        ),
        default="",
        reads="file_name",
        doc="of source files: a directory to write a tree of annotated ones to; what is returned "
        'is then a sentence on how many there are. "" for none',
    )
    search_dirs: Sequence[str] = option(
        typed(
            "--search-dirs DIR[:DIR...]",
            "with --source: look for sources below these directories first",
            "annotate",
        ),
        default=(),
        reads="listed",
        doc="directories to look for sources below, first",
    )
    base_dirs: Sequence[str] = option(
        typed(
            "--base-dirs DIR[:DIR...]",
            "with --search-dirs: directories that sources were compiled in, removed from their "
            "paths",
            "annotate",
        ),
        default=(),
        reads="listed",
        doc="where sources were compiled; taken off their paths for `search_dirs`",
    )
    include_files: Sequence[str] = option(
        typed(
            "--include-files PATTERN[:PATTERN...]",
            "with --source: only files whose path or name matches one of these patterns",
            "annotate",
        ),
        default=(),
        reads="listed",
        doc="patterns of source files to show, all if there are none",
    )
    exclude_files: Sequence[str] = option(
        typed(
            "--exclude-files PATTERN[:PATTERN...]",
            "with --source: no files whose path or name matches one of these patterns",
            "annotate",
        ),
        default=(),
        reads="listed",
        doc="patterns of source files not to show",
    )
    source: bool = option(
        typed(
            "--no-source",
            "hide source lines and the names of inlined functions",
            "annotate",
            value=False,
        ),
        default=True,
        doc="whether source lines and inlined functions are shown",
    )
    whole: bool = option(
        typed("--whole", "also show the instructions that are far from any sample", "annotate"),
        default=False,
        doc="whether instructions or lines far from all samples are shown too",
    )


class CallingOptions(Options):
    """The samples whose calls to show, and how."""

    sections: tuple[str, ...] = option(
        typed(
            "--show LIST",
            "show these, separated by commas: totals (each function with all that it calls), "
            "callees (a tree from the outermost function inwards), callers (a tree from each "
            "sampled function outwards), graph (a block for each function, as in gprof)",
            "calls",
        ),
        default=("totals", "callees"),
        reads="sections",
        doc='of "totals", "callees", "callers" and "graph"',
    )
    callers_of: str = option(
        typed(
            "--callers-of FUNCTION",
            "show the tree of the callers of FUNCTION, with the time of its callees; other "
            "sections only if --show names them",
            "calls",
        ),
        default="",
        reads="name",
        doc="a function whose callers are shown, what it called included",
    )
    through: str = option(
        typed("--through FUNCTION", "only samples with FUNCTION on their stack", "calls"),
        default="",
        reads="name",
        doc="only samples with this function on their stack",
    )
    entry_reason: str = option(
        typed(
            "--reason --cause REASON",
            "only samples in the kernel for this reason: a kind ('system call', interrupt, ...) "
            "or one of its members (read, 'page fault')",
            "calls",
        ),
        default="",
        reads="name",
        doc="only samples in the kernel for this reason, a kind or one of a kind",
    )
    process: str = option(
        typed("--process NAME|PID", "only samples of processes of this name or number", "calls"),
        default="",
        reads="name",
        doc="only samples of processes of this name or number",
    )
    thread: str = option(
        typed("--thread NAME|TID", "only samples of threads of this name or number", "calls"),
        default="",
        reads="name",
        doc="only samples of threads of this name or number",
    )
    object: str = option(
        typed("--object NAME", "only samples in this program, library or module", "calls"),
        default="",
        reads="name",
        doc="only samples in this image",
    )
    function: str = option(
        typed(
            "--function --routine FUNCTION",
            "only samples in this function itself: a name, a pattern, or a part of a name",
            "calls",
        ),
        default="",
        reads="name",
        doc="only samples in this function itself",
    )
    cpus: tuple[int, ...] | None = option(
        typed("--cpu LIST", "only samples of these CPUs, such as 0,2-3", "calls"),
        default=None,
        reads="cpus",
        doc="only samples of these CPUs",
    )
    between: tuple[float, float] | None = option(
        typed(
            "--between BEGIN,END",
            "only samples from BEGIN up to END seconds after the recording began",
            "calls",
        ),
        default=None,
        reads="interval",
        doc="only samples between these seconds since the recording began",
    )
    share: float = option(
        typed(
            "--share SHARE",
            "hide entries of trees and the graph with less than this share of the samples",
            "calls",
        ),
        default=0.01,
        reads="share",
        doc="leave out of trees and of the graph what has less than this share of the samples",
    )
    rows: int = option(
        typed("--rows N", "show N rows of each table, and all significant ones", "comparers calls"),
        default=20,
        reads="count",
        doc="how many functions the table of totals has",
    )


class ComparingOptions(Options):
    """How to compare two sides."""

    scope: str = option(
        typed(
            "-V 2|3|4|k",
            "compare: 2 the command itself, 3 the command and all its descendants, 4 every "
            "process, k the kernel",
            "comparers",
        ),
        default="3",
        reads="details",
        doc='"2" the command, "3" with its descendants, "4" every process, "k" the kernel',
    )
    per: str = option(
        typed(
            "--per WORK",
            "compare times per run, per second, or per unit of work that was done, as in '1000 "
            "requests' or 'A=1000,B=1200 requests' (default: per run of a command, else per "
            "second)",
            "comparers",
        ),
        default="",
        reads="work",
        doc='"run", "second", or a count of work such as "A=1000,B=1200 requests"',
    )
    fdr: float = option(
        typed(
            "--fdr SHARE",
            "accept at most this share of wrong rows among those that are marked",
            "comparers fleet",
        ),
        default=0.05,
        reads="rate",
        doc="how many of the rows marked significant may be wrong, 0 to 1",
    )
    run_variation: float = option(
        typed(
            "--run-variation SHARE",
            "with one recording per side, assume that rows vary by this share of their time from "
            "run to run (standard deviation); several recordings per side measure it",
            "comparers",
        ),
        default=0.05,
        reads="share",
        doc="how much a row differs from run to run, as a part of its time; used if no side "
        "has several recordings",
    )
    fail_if: str = option(
        typed(
            "--fail-if CONDITION",
            "exit with status 3 if CONDITION is met with confidence (95% by default): 'slower by "
            "3%', 'faster by 3% at 99%', or 'different by 3% at 95% in NAME'",
            "comparers",
        ),
        default="",
        reads="condition",
        doc='a condition such as "slower by 3% at 95%"; its answer is `verdict`',
    )


class DifferenceOptions(Options):
    """How to write a comparison."""

    format: str = option(
        typed(
            "--format text|json|html",
            "the comparison as text, JSON, or a page for a browser with a differential flame graph",
            "comparers",
        ),
        default="text",
        doc='"text", "json" or "html"',
    )
    rows: int = option(default=20, doc="how many rows a table shows; significant ones always")


class RunsOptions(Options):
    """Commands to run in turn and compare."""

    side_a: tuple[str, ...] = option(
        typed(
            "--a COMMAND",
            "side A: a command as one argument, split as a shell would split it but run without "
            "one; use 'sh -c \"...\"' for a shell",
            "compare",
        ),
        default=(),
        reads="command",
    )
    side_b: tuple[str, ...] = option(
        typed("--b COMMAND", "side B, in the same form as --a", "compare"),
        default=(),
        reads="command",
    )
    runs: int = option(
        typed(
            "-n --runs N",
            "run each side N times, in the order A B, B A, A B, ..., so drift affects both equally",
            "compare",
        ),
        default=5,
        reads="positive",
    )
    stdin: str = option(
        typed(
            "--stdin FILE",
            "let each run read FILE as its standard input (default: nothing)",
            "compare",
        ),
        default="",
        reads="file_name",
    )
    shows_output: bool = option(
        typed(
            "--show-output",
            "show on standard error what the commands write to standard output",
            "compare",
        ),
        default=False,
    )
    ignores_failure: bool = option(
        typed(
            "--ignore-failure",
            "continue if a run ends with a status other than 0, and compare it too",
            "compare",
        ),
        default=False,
    )


class CountingOptions(Options):
    """The events to count, and the processes or CPUs."""

    events: tuple[str, ...] = option(
        typed(
            "--event EVENTS",
            "count these events, separated by commas, groups in braces; may be given several "
            "times (default: task-clock, switches, migrations, page faults, and cycles, "
            "instructions, branches and branch misses if there are counters)",
            "stat",
        ),
        default=(),
        reads="events",
        is_repeated=True,
        doc="as of ``--event``, each one or several; none for the usual ones",
    )
    scope: str = option(
        typed(
            "-V 2|3|4",
            "count: 2 the command itself, 3 the command and all its descendants, 4 the whole "
            "system",
            "stat",
        ),
        typed("-a", "the same as -V 4", "stat", value="4"),
        default="3",
        reads="counted",
        doc='"2" the command itself, "3" with its descendants, "4" the whole system',
    )
    pids: tuple[int, ...] = option(
        typed("-p --pid PID[,PID...]", "count these processes, until they or COMMAND end", "stat"),
        default=(),
        reads="pids",
        doc="processes to count instead of the command",
    )
    cpus: tuple[int, ...] | None = option(
        typed("--cpu LIST", "count everything that runs on these CPUs, such as 0,2-3", "stat"),
        default=None,
        reads="cpus",
        doc="CPUs to count, of the whole system",
    )
    interval_s: float = option(
        typed("--interval SEC", "also print counts every SEC seconds; 0 for never", "stat"),
        default=0.0,
        reads="seconds",
        doc="the length of the parts that counts are also given for, 0 for none",
    )
    repeat: int = option(
        typed("--repeat N", "run COMMAND N times, and print the mean and its 95% interval", "stat"),
        default=1,
        reads="positive",
        doc="how often the command is run",
    )


class PartOptions(Options):
    """The part of a recording or a store to read, and the engine that reads it."""

    event_names: tuple[str, ...] = option(
        typed(
            "--event LIST",
            "only samples of these events: names and shell patterns, as event: in a specification",
            "report",
        ),
        default=(),
        reads="symbols",
        is_repeated=True,
    )
    include_symbols: tuple[str, ...] = option(
        typed(
            "--include-symbols LIST",
            "only samples of these functions: names and shell patterns, as symbol: in a "
            "specification",
            "report",
        ),
        default=(),
        reads="symbols",
        is_repeated=True,
    )
    exclude_symbols: tuple[str, ...] = option(
        typed(
            "--exclude-symbols LIST",
            "no samples of these functions, a list as of --include-symbols",
            "report",
        ),
        default=(),
        reads="symbols",
        is_repeated=True,
    )
    exclude_dependent: bool = option(
        typed(
            "--exclude-dependent",
            "only samples in programs themselves: none of the kernel, its modules and shared "
            "libraries",
            "report",
        ),
        default=False,
    )
    merge: tuple[str, ...] = option(
        typed(
            "--merge CLASSES",
            "accepted for scripts written for opreport: a report adds up {words} anyway; an "
            "error together with --separate, --sort or --columns that separate the same class",
            "report",
        ),
        default=(),
        reads="merged",
    )
    store: str = option(
        typed(
            "--store DIR",
            "the directory of the store; for daemon and control by default /var/lib/prospect, or "
            "for ordinary users ~/.local/state/prospect; the other commands also take a "
            "directory of many hosts' stores, each in host=NAME, or its URL, file:///DIR or "
            "s3://BUCKET/PREFIX",
            "stores",
        ),
        default="",
        reads="place",
    )
    engine: str = option(
        typed(
            "--engine local|URL",
            "the engine for queries of a store: DuckDB in this process, or the Spark cluster "
            "whose master is at spark://HOST:PORT, with the store at the same path on each of "
            "its workers",
            "asking",
        ),
        default="local",
        reads="engine",
    )


class StoringOptions(Options):
    """Options of the daemon: sampling, storing and sending."""

    daemon_hz: int = option(
        typed("-H --frequency --hertz HZ", "samples per second on each CPU", "daemon"),
        typed("-F HZ", "the same as -H", "daemon"),
        default=19,
        reads="positive",
    )
    daemon_call_graph: str = option(
        typed(
            "--call-graph MODE",
            "record callers: fp by frame pointers, auto also by copies of stacks, none only "
            "within the kernel",
            "daemon",
        ),
        default="fp",
        reads="daemon_call_graph",
    )
    window_s: float = option(
        typed(
            "--window SECONDS",
            "length of a window, the store's resolution in time, from 1 to 3600",
            "daemon",
        ),
        default=60.0,
        reads="window",
    )
    cpu_limit_percent: float = option(
        typed(
            "--cpu-limit PERCENT",
            "how much of the machine's CPU time the daemon may take; above that it gives up "
            "copies of stacks, names of many new files, short windows, Python functions and "
            "callers, in this order, and reports it",
            "daemon",
        ),
        default=0.5,
        reads="percent",
    )
    memory_limit_bytes: int | None = option(
        typed(
            "--memory-limit SIZE",
            "how much memory the daemon and its processes may take "
            "(default: 200M, with --call-graph auto 400M)",
            "daemon",
        ),
        default=None,
        reads="size",
    )
    separate: tuple[str, ...] = option(
        typed(
            "--separate WHAT[,...]",
            "store processes, threads or CPUs separately (process, thread, cpu), which takes "
            "more space; library is accepted, samples in libraries are always stored by program",
            "daemon",
        ),
        default=(),
        reads="separations",
    )
    keep: str = option(
        typed(
            "--keep AGE[,DAYS][,SIZE]",
            "remove windows older than AGE, such as 12h, 7d or 4w, and the oldest data if the "
            "store exceeds SIZE, such as 500M; keep summaries of days for DAYS, such as 90d "
            "(400d by default)",
            "daemon",
        ),
        default="7d,2G",
        reads="keep",
    )
    metrics: str = option(
        typed(
            "--metrics FILE|URL",
            "after each window write the output of control status to FILE, for node_exporter's "
            "textfile collector (*.prom); or answer Prometheus at URL, such as "
            "http://127.0.0.1:9464",
            "daemon",
        ),
        default="",
        reads="metrics",
    )
    kubelet: str = option(
        typed(
            "--kubelet URL",
            "also ask this machine's kubelet, such as http://127.0.0.1:10255/pods, for the names "
            "of containers that neither files nor the container runtime's socket give",
            "daemon",
        ),
        default="",
        reads="kubelet",
    )
    ship: str = option(
        typed(
            "--ship URL",
            "send finished hours to the directory or bucket that holds the stores of many hosts: "
            "file:///DIR or s3://BUCKET/PREFIX; credentials come from the environment or files",
            "daemon store",
        ),
        default="",
        reads="place",
    )
    host_share: float = option(
        typed(
            "--host-share SHARE",
            "send hours only from a share of the hosts, such as 0.01; those of each hour are "
            "chosen by name, and represent all hosts",
            "daemon store",
        ),
        default=1.0,
        reads="host_share",
    )
    unit: bool = option(
        typed(
            "--unit",
            "print the systemd unit that runs this daemon with these options, and exit",
            "daemon",
        ),
        default=False,
    )


class TableOptions(Options):
    """How to write counts and tables."""

    format: str = option(
        typed("--format text|json|csv", "the answer as text, JSON or CSV", "stat sql fleet"),
        default="text",
    )
    output: str = option(
        typed(
            "-f --output FILE",
            "write the answer to FILE (default: standard output)",
            "stat sql fleet",
        ),
        default="",
        reads="file_name",
    )


class OutputOptions(Options):
    """The destination of answers and recordings, and their look."""

    output: str = option(
        typed("-f --output FILE", "write the report to FILE (default: standard output)", "readers"),
        default="",
        reads="file_name",
    )
    format: str = option(
        typed(
            "--format text|json",
            "the answer as text or JSON",
            "annotate cache calls control doctor list store whatif",
        ),
        default="text",
    )
    pager: bool = option(
        typed(
            "--no-pager",
            "on a terminal, print long output directly instead of through PAGER (default: less)",
            "readers",
            value=False,
        ),
        default=True,
    )
    input: str = option(
        typed("-i --input FILE", "read FILE; the same as FILE without -i", "recording_readers"),
        default="",
        reads="file_name",
    )
    save: str = option(
        typed(
            "--save FILE",
            "keep the recording in FILE, for prospect report or perf (default: not kept)",
            "profile",
        ),
        typed(
            "-o --output FILE",
            f"record to FILE (default: {DEFAULT_RECORDING}; an existing one becomes FILE.old)",
            "record",
        ),
        typed(
            "-o --save DIR",
            "keep the recordings in DIR, as a1.data, b1.data, a2.data ... (default: not kept)",
            "compare",
        ),
        typed(
            "-o --output FILE",
            "write the archive to FILE (default: the recording's name and .archive)",
            "archive",
        ),
        default="",
        reads="file_name",
    )
    push: str = option(
        typed(
            "--push --otlp URL",
            "also send the profile to an OpenTelemetry collector (https://HOST:4318), Pyroscope "
            "(pyroscope+https://HOST:4040) or Parca (parca+https://HOST:7070); credentials come "
            "from OTEL_EXPORTER_OTLP_HEADERS or PROSPECT_PUSH_HEADERS",
            "reports daemon",
        ),
        default="",
        reads="collector",
    )


class CommandOptions(Options):
    """Options of single commands."""

    target: str = option(
        typed(
            "--target USER@HOST",
            "run and record COMMAND on another machine, over ssh; it needs only Python 3.9 or "
            "later; this machine makes the report",
            "records",
        ),
        typed(
            "--target USER@HOST",
            "ask another machine, over ssh; it needs only Python 3.9 or later",
            "stat list doctor",
        ),
        typed(
            "--target USER@HOST",
            "sample another machine, over ssh; it needs only Python 3.9 or later; this machine "
            "keeps reports, recordings and the daemon's store",
            "top daemon",
        ),
        typed("--target USER@HOST", "control the daemon here that samples this target", "control"),
        default="",
        reads="name",
    )
    tids: tuple[int, ...] = option(
        typed(
            "-t --tid TID[,TID...]",
            "show only these threads, and the threads that they start",
            "top",
        ),
        default=(),
        reads="tids",
    )
    program: str = option(
        typed(
            "--program FILE",
            "the program that wrote a gmon.out (default: a.out in the same directory)",
            "report view calls",
        ),
        default="",
        reads="file_to_read",
        doc='of a gmon.out, the program that wrote it; "" for ``a.out`` in the same directory',
    )
    whole_images: bool = option(
        typed(
            "--whole-images",
            "keep whole programs and libraries, not only the parts that reports need",
            "archive",
        ),
        default=False,
        doc="keep programs and libraries with samples whole",
    )
    clear: bool = option(typed("--clear", "remove all of it", "cache"), default=False)
    port: int = option(
        typed("--port N", "serve the page on this port of 127.0.0.1; 0 picks a free one", "view"),
        default=0,
        reads="port",
    )
    opens_browser: bool = option(
        typed("--open", "also open the page in the desktop's browser; not as root", "view"),
        default=False,
    )
    fields: bool = option(
        typed(
            "--fields", "also show the parameters of units and the fields of tracepoints", "list"
        ),
        default=False,
    )
    check: bool = option(
        typed(
            "--check",
            "open each event, and report whether this machine can count and sample it, or why not",
            "list",
        ),
        default=False,
    )
    by: str = option(
        typed(
            "--by host|build",
            "outliers: show which hosts differ, or which builds of a program's files",
            "fleet",
        ),
        default="host",
    )
    fleet_rows: int = option(
        typed("--rows N", "show N rows", "fleet"), default=15, reads="positive"
    )
    help: bool = option(typed("-h --help", "show this help", "every"), default=False)
    version: bool = option(typed("--version", "show the version", "profile"), default=False)


class Settings(
    RecordingOptions,
    ReportOptions,
    NamingOptions,
    DisassemblerOptions,
    AnnotatingOptions,
    CallingOptions,
    ComparingOptions,
    DifferenceOptions,
    RunsOptions,
    CountingOptions,
    PartOptions,
    StoringOptions,
    TableOptions,
    OutputOptions,
    CommandOptions,
):
    """All options of a command line; options of other commands have their defaults."""
