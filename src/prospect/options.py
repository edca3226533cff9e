"""Options that several commands share, each once: their names, types, defaults and meanings.

`cli.settings.Settings` has them as fields for the command line, whose tables of options add how
each is written; the Python interface has them as keywords, documented by the classes here. A class
`…Keywords` is what a type checker knows those keywords by. On the way to COMMAND's start: nothing
that is slow to import.
"""

from __future__ import annotations

from prospect.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal, TypedDict

    Syntax = Literal["att", "intel"]
    PythonFrames = Literal["auto", "always", "never"]
    Disassembler = Literal["library", "gdb"]
    Detail = Literal["2", "3", "4", "k"]

    class NamingKeywords(TypedDict, total=False):
        """`NamingOptions` as keywords."""

        system_map: str
        kernel_image: str
        use_cache: bool
        debuginfod_s: float
        native: bool
        label: str

    class DisassemblerKeywords(TypedDict, total=False):
        """`DisassemblerOptions` as keywords."""

        syntax: Syntax
        disassembler: Disassembler
        gdb_processes: int

    class RecordingKeywords(TypedDict, total=False):
        """`RecordingOptions` as keywords."""

        pids: Sequence[int]
        for_s: float | None
        frequency_hz: int
        clocks: int
        overhead_percent: float | None
        flush_centiseconds: int
        count_syscalls: bool
        count_calls: str
        count_budget_percent: float
        count_hook: str
        call_graph: str
        off_cpu: bool
        compress: bool
        python: PythonFrames
        events: Sequence[str]
        max_bytes: int | None


SYNTAXES: tuple[Syntax, ...] = ("att", "intel")
DISASSEMBLERS: tuple[Disassembler, ...] = ("library", "gdb")


class NamingOptions(Record):
    """How addresses get names.

    Attributes:
        system_map: a System.map to name the kernel with; "" for what the machine says.
        kernel_image: an uncompressed kernel image, for names and code of the kernel; likewise.
        use_cache: whether symbol and line tables, and the cost of a sample, are kept on disk
            between runs.
        debuginfod_s: how long the servers of DEBUGINFOD_URLS may delay a report; 0 asks none.
        native: whether the interpreter's own functions are shown, called by Python functions,
            instead of Python functions with the time of both.
        label: what labels samples, as "marks:FILE"; see ``--label``.
    """

    system_map: str = ""
    kernel_image: str = ""
    use_cache: bool = True
    debuginfod_s: float = 30.0
    native: bool = False
    label: str = ""


class DisassemblerOptions(Record):
    """How bytes of code are written as instructions.

    Attributes:
        syntax: of x86 instructions, "att" or "intel".
        disassembler: "library", with GDB for what that does not know, or "gdb".
        gdb_processes: how many GDB processes may be open at once.
    """

    syntax: Syntax = "att"
    disassembler: Disassembler = "library"
    gdb_processes: int = 8


class ReportOptions(Record):
    """What a report shows. Each format reads what it has; the others are for other formats.

    Attributes:
        detail: "2" the command, "3" with its descendants, "4" every process, "k" the kernel.
        user_threshold_s: leave out processes and routines with less user time.
        kernel_threshold_s: leave out kernel routines with less time.
        threshold: instead of both, in percent of the time of all, as of ``--threshold``.
        disassemble: 1 shows the instructions of routines that pass the thresholds, 2 of every
            routine; in text, JSON and HTML, of a profile that was made with `code`.
        inline: show inlined functions in call stacks, of a profile that was made with `lines`.
        lines: show hits by source line too; in text and JSON, likewise.
        calls: sections of who called whom, of a profile that was made with `stacks`.
        classic: the text in the order of Prospect 0.9, without the summary at its top.
        separate: "process" shows functions of each process apart, in the text.
        sort: one table instead, of text, JSON or CSV: time by these keys, as of ``--sort``.
        columns: one table instead, likewise: what each class of hits has, side by side, as of
            ``--columns``.
        format: "text", "json", "csv", "html", or one of call stacks, as ``--format`` names them.
    """

    detail: Detail = "3"
    user_threshold_s: float = 0.02
    kernel_threshold_s: float = 0.02
    threshold: float | None = None
    disassemble: int = 0
    inline: bool = False
    lines: bool = False
    calls: tuple[str, ...] = ()
    classic: bool = False
    separate: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    columns: str = ""
    format: str = "text"


class RecordingOptions(Record):
    """What is recorded, and of whom.

    Attributes:
        pids: profile these processes, which run already, until they end; with a command as long as
            it runs.
        for_s: record that long, without a command: the whole system, or `pids`.
        frequency_hz: samples per second on each CPU, of all clocks together.
        clocks: how many timers of different periods share that rate, 1 to 4, and 1 below 10 Hz; 0
            for a hardware counter where there is one, else 4 timers.
        overhead_percent: choose the rate so that sampling takes at most this share of each CPU.
        flush_centiseconds: how often the kernel's buffers are emptied at least, in 1/100 s.
        count_syscalls: also count every system call of every process, exactly.
        count_calls: also count the calls of functions that fit these patterns, as "parse_*" or
            "libz.so.1:deflate*"; see ``--count-calls``.
        count_budget_percent: how much of the command's CPU time that may take; 100 counts each
            until that has cost 5 s.
        count_hook: also run this entry hook, a plug-in's, where calls are counted.
        call_graph: record callers in user space: "fp", "dwarf", "auto" or "lbr", the copying ones
            with a size as in "dwarf,16384"; see ``--call-graph``.
        off_cpu: record the scheduler's switches too: how long each thread waited, and for what.
        compress: write the records packed by Zstandard, as ``perf record -z``.
        python: read the Python functions of CPython processes at each sample, by eBPF, as root:
            "auto" unless another tracer's programs would then cost samples, "always" or "never".
        events: sample these events instead of clocks, as behind ``--event``.
        max_bytes: end the recording at this size; None for a quarter of the free space.
    """

    pids: tuple[int, ...] = ()
    for_s: float | None = None
    frequency_hz: int = 200
    clocks: int = 4
    overhead_percent: float | None = None
    flush_centiseconds: int = 200
    count_syscalls: bool = False
    count_calls: str = ""
    count_budget_percent: float = 5.0
    count_hook: str = ""
    call_graph: str = ""
    off_cpu: bool = False
    compress: bool = False
    python: PythonFrames = "auto"
    events: tuple[str, ...] = ()
    max_bytes: int | None = None
