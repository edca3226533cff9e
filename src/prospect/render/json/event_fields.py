"""Fields of one event of the JSON report: processes, functions, entry reasons, calls and names."""

from __future__ import annotations

from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from prospect.figures.entry_reasons import ENTRY_REASON_KIND_NAMES
from prospect.figures.modes import MODE_COUNT, MODE_NAMES, MODE_USER
from prospect.figures.processes import BIRTH_NAMES, STILL_RUNNING_NS
from prospect.figures.report.function_profiles import PART_NAMES
from prospect.profile.group_names import service_names
from prospect.profile.model import KIND_NAMES
from prospect.profile.naming import LABELS, REMEDIES
from prospect.records import NamedTuple
from prospect.render.json.common_fields import (
    DISASSEMBLED_FUNCTION,
    ERROR_BAR,
    EVENT,
    SOURCE,
    CodeFunction,
    disassembled,
)
from prospect.render.json.document_fields import (
    ABSENT,
    AMOUNT,
    COUNT,
    FLAG,
    INDEX,
    INTEGER,
    NAME,
    NUMBER,
    ROUNDED,
    SECONDS,
    SHARE,
    SUMMED_SHARE,
    TEXT,
    TEXTS,
    Named,
    Object,
    Part,
    Rows,
    cut,
    each,
    gather,
    itself,
    numbered,
    one_of,
    present,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prospect.columns.array_types import F64, I64
    from prospect.estimate.annotate.event_lines import LinesOfGroup
    from prospect.estimate.call_figures import CallFigures
    from prospect.estimate.errors.event_estimates import RowEstimates
    from prospect.estimate.finished_report import EventReport, Report
    from prospect.figures.entry_reasons import EntryReasonRows
    from prospect.figures.report.function_profiles import FunctionProfile
    from prospect.figures.report.symbol_quality import SourceHits
    from prospect.figures.report.syscalls import SyscallRows
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.optional_tables import MemoryMap


class Totals(NamedTuple):
    """Hits, seconds and their errors, a row for each mode."""

    hits: I64
    seconds: F64
    estimates: RowEstimates


MODE = Object(
    "mode",
    samples=COUNT("samples", "hits"),
    seconds=SECONDS("their time, with an error bar"),
    error_bar=Part(ERROR_BAR, "estimates"),
)
MODES = Named(MODE_NAMES, MODE, "by mode")


# Tables of functions


class Functions:
    """A table of functions with its error bars, lateness and code."""

    def __init__(
        self,
        report: Report,
        table: FunctionProfile,
        estimates: RowEstimates,
        late: F64 | None,
        code: list[CodeFunction] | None = None,
    ) -> None:
        shown = table.shown
        self.table, self.code = table, code
        self.bars = estimates if shown == len(table) else estimates.rows(slice(0, shown))
        self.late_shares = [None] * shown if late is None else late[:shown]
        self.functions, self.objects = report.profile.functions, report.profile.objects
        self.function = table.function[:shown]
        self.object = self.functions.object_index.take(self.function)


def _of_function(name: str) -> Callable[[Functions], Any]:
    return lambda rows: gather(getattr(rows.functions, name), rows.function)


def _of_object(name: str) -> Callable[[Functions], Any]:
    return lambda rows: gather(getattr(rows.objects, name), rows.object)


FUNCTION = Object(
    "function",
    share=SUMMED_SHARE("part of the table, and the running sum of parts", shown("share")),
    accumulated=SUMMED_SHARE(get=shown("accumulated")),
    samples=COUNT("its samples and time, with an error bar", shown("hits")),
    seconds=SECONDS(get=shown("seconds")),
    error_bar=Part(ERROR_BAR, "bars"),
    tied=FLAG("indistinguishable from the function above at 95 %", "bars.tied"),
    aliased=FLAG("runs in step with one of the clocks", "bars.aliased"),
    late_share=SHARE.or_null(
        "in the kernel: part of its samples that were taken late, 0 to 1, so that time before it "
        "shows here; `null` if unknown",
        "late_shares",
    ),
    address=COUNT("where it begins", _of_function("address")),
    size_bytes=COUNT("its size, 0 if unknown", _of_function("size_bytes")),
    name=NAME("readable name, `null` if there is none", _of_function("name")),
    linkage_name=TEXT("as in the symbol table", _of_function("linkage_name")),
    aliases=TEXTS("other symbols at the address", _of_function("aliases")),
    is_global=FLAG("`false` for static ones", _of_function("is_global")),
    source=SOURCE(
        "where the name is from, or why there is none: a name of the list below",
        _of_function("source"),
    ),
    object=TEXT("path of what it is mapped from", _of_object("path")),
    object_kind=numbered(KIND_NAMES)("its kind", _of_object("kind")),
    build_id=NAME("its build id or `null`", _of_object("build_id")),
)
TABLE = Object(
    "table",
    **cut("functions", FUNCTION),
    disassembly=Rows(DISASSEMBLED_FUNCTION)(
        "with `-e`, in the tables of `details` and the one of the whole kernel: the functions that "
        "`-e` or `-ee` asks for, in the order of the table",
        lambda rows: present(rows.code),
        optional=True,
    ),
)


TABLES = Object("", **{name: TABLE(get=itemgetter(mode)) for mode, name in enumerate(MODE_NAMES)})


KERNEL_PROFILE = Object(  # of a name and its functions
    "kernel_profile", part=one_of(("all", *PART_NAMES))("what it is of", 0), table=Part(TABLE, 1)
)


def _kernel_profiles(event: EventReport) -> Iterator[tuple[str, Functions]]:
    """Yield the kernel's profile, and with `-V k` its parts."""
    kernel, estimates, late = event.kernel, event.estimates, event.late
    if kernel is None or estimates.kernel is None:
        return
    code = None
    if event.code:
        functions = event.code.of_kernel(kernel.whole, estimates.kernel.half_width_s)
        code = disassembled(event.report.profile, event.code.code, functions)
    shares = late.kernel if late else None
    yield "all", Functions(event.report, kernel.whole, estimates.kernel, shares, code)
    if event.report.detail == "k":
        of_parts = late.kernel_parts if late else (None,) * len(kernel.parts)
        for (name, table), bars, late_share in zip(
            kernel.parts, estimates.kernel_parts, of_parts, strict=True
        ):
            yield name, Functions(event.report, table, bars, late_share)


# Kernel time by entry reason, and system calls


class _EntryReasons(NamedTuple):
    table: EntryReasonRows
    estimates: RowEstimates


ENTRY_REASON = Object(
    "entry_reason",
    kind=numbered(ENTRY_REASON_KIND_NAMES)("its kind", shown("kind")),
    name=NAME("or `null`", shown("name")),
    samples=COUNT("its samples and time, with an error bar", shown("hits")),
    seconds=SECONDS(get=shown("seconds")),
    error_bar=Part(ERROR_BAR, lambda rows: rows.estimates.rows(slice(0, rows.table.shown))),
    share=SUMMED_SHARE("part of the table", shown("share")),
)
ENTRY_REASONS = Object("entry_reasons", **cut("entry_reasons", ENTRY_REASON)).or_null


def _entry_reasons(event: EventReport, process: int | None = None) -> _EntryReasons | None:
    entry_reasons = event.entry_reasons
    if not entry_reasons.is_known:
        return None
    rows = entry_reasons.of_system() if process is None else entry_reasons.of_process(process)
    return _EntryReasons(rows, event.estimates.entry_reasons.rows(rows.place))


class _Calls(NamedTuple):
    rows: SyscallRows
    half_width_s: F64
    is_counted: bool


def _counted(name: str) -> Callable[[_Calls], Any]:
    return lambda calls: (
        getattr(calls.rows, name).tolist() if calls.is_counted else [None] * len(calls.rows)
    )


SYSTEM_CALL = Object(
    "system_call",
    name=TEXT(
        "as user space knows it; in brackets what is time of calls, but of none by name",
        "rows.name",
    ),
    samples=COUNT("samples in it", "rows.hits"),
    seconds=SECONDS("their time, and the longer side of its error bar", "rows.sampled_s"),
    half_width_s=SECONDS.or_null(),
    share=SUMMED_SHARE("its part of the kernel time without interrupts", "rows.share"),
    calls=COUNT.or_null(
        "how often it was called; `null` if calls were not counted", _counted("calls")
    ),
    compat_calls=COUNT.or_null(
        "how many of these through the 32-bit interface; `null` if calls were not counted",
        _counted("compat_calls"),
    ),
    unfinished=COUNT.or_null("how many had not ended", _counted("unfinished")),
    inside_s=SECONDS.or_null(
        "time from beginning to end of those that ended, waiting included", _counted("time_s")
    ),
    mean_s=AMOUNT.or_null("its mean", "rows.mean_s"),
)
SYSTEM_CALLS = Rows(SYSTEM_CALL, by_column=True).or_null


def _system_calls(event: EventReport, process: int | None = None) -> _Calls | None:
    is_counted = event.calls.is_counted
    if not (is_counted or event.entry_reasons.is_known):
        return None
    rows = event.calls.system if process is None else event.calls.of_process(process)
    half_width_s = event.estimates.calls_half_width_s(
        event, rows.name, -1 if process is None else process
    )
    return _Calls(rows, half_width_s, is_counted)


SYSTEM_CALLS_COUNTED = Object(
    "",
    dropped=COUNT("calls that are in no row"),
    recorder_calls=COUNT("how many the recorder made"),
    cost_ns=AMOUNT("by how much counting made a call longer"),
    cost_share=AMOUNT("that of all calls as part of the CPUs' time"),
).or_null


# Hits by source line


def _of_line(name: str) -> Callable[[LinesOfGroup], list[Any]]:
    return lambda lines: [getattr(row, name) for row in lines.rows]


SOURCE_LINE = Object(
    "source_line",
    share=SUMMED_SHARE("as of a function", shown("share")),
    accumulated=SUMMED_SHARE(get=shown("accumulated")),
    samples=COUNT(get=shown("hits")),
    seconds=SECONDS(get=shown("seconds")),
    half_width_s=ROUNDED.or_null(get=_of_line("half_width_s")),
    file=NAME("as the compiler had them, `null` if unknown", _of_line("file")),
    line=INTEGER.within(1).or_null(get=lambda lines: [row.line or None for row in lines.rows]),
    function=NAME(
        "that the line is written in, `null` if unknown",
        lambda lines: [row.functions[0] if row.functions else "" for row in lines.rows],
    ),
    inlined_into=Rows(NAME)(
        "what that is inlined into, innermost first, at the place with the most samples",
        lambda lines: [row.functions[1:] for row in lines.rows],
    ),
    other_places=COUNT(
        "how many other ways through inlined functions lead there", _of_line("other_places")
    ),
    object=TEXT("path of an object with samples there", _of_line("object_path")),
    no_line_because=NAME("why the line is unknown, or `null`", _of_line("reason")),
)
SOURCE_LINES = Object("source_lines", **cut("lines", SOURCE_LINE))


def _source_lines(event: EventReport, process: int | None = None) -> Any:
    if not event.lines:
        return ABSENT
    return event.lines.of_all() if process is None else event.lines.of_process(process)


# Processes


class _Process:
    """A process of a report."""

    def __init__(self, event: EventReport, row: int) -> None:
        self.event, self.row = event, row
        self.report = event.report
        self.table = event.report.profile.processes
        modes = slice(row * MODE_COUNT, (row + 1) * MODE_COUNT)
        self.estimates = event.estimates.processes.rows(modes)
        self.control_group = self._text(self.table.control_group)
        self.service = service_names(self.table)[row]
        self.container_image = self._text(self.table.image)

    def _text(self, column: list[str] | None) -> str:
        return column[self.row] if column else ""

    @cached_property
    def mapped(self) -> MemoryMap:
        return self.report.memory_map(self.row)

    @property
    def parent_name(self) -> str | None:
        parent = int(self.report.parents[self.row])
        return self.table.name[parent] if parent >= 0 else None

    @property
    def end(self) -> str:
        if self.report.ended_by_exec[self.row]:
            return "exec"
        return "exit" if self.end_ns is not None else "running"

    @property
    def end_ns(self) -> int | None:
        end_ns = int(self.table.end_ns[self.row])
        return None if end_ns == STILL_RUNNING_NS else end_ns

    @property
    def totals(self) -> Totals:
        of_all = self.event.processes
        return Totals(of_all.hits[self.row], of_all.seconds[self.row], self.estimates)

    @property
    def functions(self) -> list[Functions]:
        return [self._functions(mode) for mode in range(MODE_COUNT)]

    def _functions(self, mode: int) -> Functions:
        event, row = self.event, self.row
        table = event.function_table(row, mode)
        late = event.late.functions[event.function_rows(row, mode)] if event.late else None
        estimates = event.estimates.function_rows(event, row, mode)
        code = None
        if event.code:
            functions = event.code.of_process(row, mode, table, estimates.half_width_s)
            code = disassembled(self.report.profile, event.code.code, functions)
        return Functions(self.report, table, estimates, late, code)


def _of_process(name: str) -> Callable[[_Process], Any]:
    return lambda process: getattr(process.table, name)[process.row]


PROCESS = Object(
    "process",
    process_index=COUNT("identifies the row; a process id can occur twice", "row"),
    name=TEXT("its last name", _of_process("name")),
    pid=INDEX("ids, `null` if unknown", _of_process("pid")),
    parent_pid=INDEX(get=_of_process("parent_pid")),
    group_pid=INDEX(get=_of_process("group_pid")),
    session_pid=INDEX(get=_of_process("session_pid")),
    parent_name=TEXT.or_null("name of the process that forked it"),
    birth=one_of((*BIRTH_NAMES.values(), "unknown"))(
        "how it began",
        lambda process: BIRTH_NAMES.get(int(process.table.birth[process.row]), "unknown"),
    ),
    end=one_of(("running", "exit", "exec"))("how it ended"),
    start_ns=COUNT("on the recording's clock, 0 before the interval", _of_process("start_ns")),
    end_ns=COUNT.or_null("on the same clock, `null` while running"),
    control_group=NAME(
        "path of the control group in which it was sampled last, `null` if that is not known"
    ),
    service=NAME(
        "what that is called: the service, the pod and its container, the container, or the last "
        "name of the path"
    ),
    container_image=NAME("the image of that container, `null` if that is not known"),
    is_kernel_thread=FLAG("what it is", _of_process("is_kernel_thread")),
    is_recorder=FLAG(get=_of_process("is_recorder")),
    is_command=FLAG(
        "the command itself; the command and all its descendants", _of_process("is_command")
    ),
    is_descendant=FLAG(get=_of_process("is_descendant")),
    tied=FLAG(
        "its user time indistinguishable from that of the process before it at 95 %",
        lambda process: process.estimates.tied[MODE_USER],
    ),
    aliased=FLAG(
        "it runs in step with one of the clocks: see [accuracy](accuracy.md)",
        lambda process: process.estimates.aliased.any(),
    ),
    modes=Part(MODES, "totals"),
)

MAPPING = Object(
    "",
    samples=COUNT(get="hits"),
    start=COUNT(),
    end=COUNT(),
    size_bytes=COUNT(),
    permissions=NAME("such as `r-x`, `null` if unknown"),
    pgoff=COUNT(),
    object=TEXT(get="path"),
)


DETAILS = Object(
    "details",
    process=Part(PROCESS, itself),
    functions=TABLES("a table for each mode"),
    kernel_entry_reasons=ENTRY_REASONS(
        "those of the process", lambda detail: _entry_reasons(detail.event, detail.row)
    ),
    system_calls=SYSTEM_CALLS(
        "those of the process", lambda detail: _system_calls(detail.event, detail.row)
    ),
    source_lines=SOURCE_LINES(
        "with `--lines`, its samples by source line",
        lambda detail: _source_lines(detail.event, detail.row),
        optional=True,
    ),
    data_mappings_read_ns=COUNT.or_null(
        "when mappings that are not executable were as they are listed, on the recording's clock; "
        "`null` if only executable ones are known",
        "mapped.read_ns",
    ),
    mappings=Rows(MAPPING, by_column=True)(
        "its memory map, mappings without a sample included", "mapped"
    ),
)


# Counted calls


class _CountedCalls(NamedTuple):
    figures: CallFigures
    profile: CompleteProfile

    @property
    def callers(self) -> list[list[tuple[str, str, int]]]:
        functions, objects = self.profile.functions, self.profile.objects
        return [
            [
                (functions.name[row], objects.path[int(functions.object_index[row])], count)
                for row, count in zip(callers.tolist(), calls.tolist(), strict=True)
            ]
            for callers, calls in self.figures.callers
        ]


def _of_counted(name: str) -> Callable[[_CountedCalls], Any]:
    def column(calls: _CountedCalls) -> list[Any]:
        found = getattr(calls.figures.counts.functions, name)
        return [found[row] for row in calls.figures.counted_index.tolist()]

    return column


def _left_out(calls: _CountedCalls) -> list[tuple[str, str, str]]:
    functions = calls.figures.counts.functions
    rows = zip(functions.name, functions.object_path, functions.left_out, strict=True)
    return [row for row in rows if row[2]]


COUNTED_FUNCTION = Object(
    "",
    name=TEXT(get=_of_counted("name")),
    object=TEXT(get=_of_counted("object_path")),
    probe_ns=AMOUNT("what a call took longer", _of_counted("probe_ns")),
    counted=COUNT(get="figures.counted"),
    calls=AMOUNT.or_null("`null` if not known", "figures.calls"),
    half_width=AMOUNT.or_null("of `calls`", "figures.half_width"),
    self_s=AMOUNT.or_null("sampled, `null` if not known", "figures.self_s"),
    total_s=AMOUNT.or_null("with callees, `null` if not known", "figures.total_s"),
    callers=each(name=TEXT(get=0), object=TEXT(get=1), counted=COUNT(get=2))(),
)
CALL_COUNTS = Object(
    "call_counts",
    is_exact=FLAG(
        "as in [call counts](call-counts.md)", lambda calls: calls.figures.counts.windows is None
    ),
    budget=AMOUNT(get="figures.counts.budget"),
    cost_s=AMOUNT(get="figures.counts.cost_s"),
    cost_share=AMOUNT(get="figures.counts.cost_share"),
    dropped=COUNT(get="figures.counts.dropped"),
    hook=Object("", name=TEXT(get=0), lines=TEXTS(get=lambda hook: hook[1:])).or_null(
        "what an entry hook found, or `null`", lambda calls: calls.figures.counts.hook or None
    ),
    windows=Object(
        "",
        count=COUNT(get=len),
        own_s=AMOUNT("CPU time in them", lambda windows: windows.own_s.sum()),
        gap_s=AMOUNT("outside of them", lambda windows: windows.gap_s.sum()),
    ).or_null("when calls were counted, `null` if every call was", "figures.counts.windows"),
    uncalled=COUNT("how many functions were never called", "figures.uncalled"),
    left_out=each(name=TEXT(get=0), object=TEXT(get=1), reason=TEXT(get=2))(
        "functions that were not counted, or not to the end", _left_out
    ),
    functions=Rows(COUNTED_FUNCTION, by_column=True)("functions with calls", itself),
).or_null


# Quality of names


class _Source(NamedTuple):
    profile: CompleteProfile
    found: SourceHits

    @property
    def objects(self) -> list[tuple[str, int, str, int]]:
        path, note = self.profile.objects.path, self.profile.objects.note
        return [
            (path[one.object_index], one.hits, note[one.object_index], one.process_index)
            for one in self.found.objects
        ]


SYMBOL_QUALITY = Object(
    "symbol_quality",
    samples=COUNT("samples", "quality.hits"),
    named_samples=COUNT("those whose function has a name", "quality.named_hits"),
    sources=Rows(
        Object(
            "name_source",
            source=SOURCE("name and words", "found.source"),
            label=TEXT(get=lambda source: LABELS[source.found.source]),
            named=FLAG("whether samples of it have a name", "found.source.named"),
            samples=COUNT("how many samples", "found.hits"),
            seconds=SECONDS(get="found.seconds"),
            share=SUMMED_SHARE(get="found.share"),
            remedy=TEXT.or_null(
                "what would help, or `null`", lambda source: REMEDIES.get(source.found.source)
            ),
            objects=each(
                object=TEXT(get=0),
                samples=COUNT(get=1),
                note=NAME("or `null`", 2),
                process_index=INDEX("the owner of anonymous memory, else `null`", 3),
            )("the objects with the most samples of it, empty if nothing needs improving"),
            objects_left_out=COUNT("how many further objects there are", "found.objects_left_out"),
        )
    )(
        "where names came from",
        lambda event: [_Source(event.report.profile, found) for found in event.quality.sources],
    ),
)


# The event


def _skipped(event: EventReport) -> Totals:
    hits, seconds = (
        column.take(event.processes.skipped_rows, axis=0).sum(axis=0)
        for column in (event.processes.hits, event.processes.seconds)
    )
    return Totals(hits, seconds, event.estimates.skipped)


ACCOUNTED = Object(
    "",
    name=TEXT(),
    sampled_s=ROUNDED.or_null("`null` if samples do not show it"),
    accounted_s=NUMBER(),
    source=one_of(("/proc/stat", "getrusage"))("of `accounted_s`"),
    difference_s=ROUNDED.or_null(),
    half_width_s=AMOUNT.or_null("what is explained"),
    unsampled_s=AMOUNT("by how much more `sampled_s` may be too small"),
    unbooked_s=NUMBER("by how much `/proc/stat`'s times together fall short of the CPUs' time"),
    agrees=FLAG.or_null("`null` without a verdict"),
)
EVENT_REPORT = Object(
    "event_report",
    b"\n",
    event=Part(EVENT),
    has_time=FLAG("whether its samples are worth time; if not, all its seconds are 0"),
    total=MODES(
        "samples by mode", lambda event: Totals(event.hits, event.seconds, event.estimates.totals)
    ),
    accounting=Rows(ACCOUNTED)("its time next to the kernel's own accounting"),
    kernel_entry_reasons=ENTRY_REASONS(
        "kernel time of all processes by entry reason; `null` if no call chains were recorded",
        _entry_reasons,
    ),
    system_calls=SYSTEM_CALLS(
        "those of all processes; `null` if neither samples nor counts have any", _system_calls
    ),
    system_calls_counted=SYSTEM_CALLS_COUNTED(
        "how system calls were counted, `null` without `--count-syscalls`",
        lambda event: event.calls if event.calls.is_counted else None,
    ),
    call_counts=CALL_COUNTS(
        "with `--count-calls`, otherwise `null`",
        lambda event: (
            None
            if event.call_counts is None
            else _CountedCalls(event.call_counts, event.report.profile)
        ),
    ),
    symbol_quality=SYMBOL_QUALITY("where names came from", itself),
    processes_skipped=Object(
        "",
        processes=COUNT(get=lambda event: len(event.processes.skipped_rows)),
        modes=Part(MODES, _skipped),
    )("the processes that pass no threshold", itself),
    details_skipped=COUNT(
        "how many more than `details` `-V` asks for that pass no threshold", "detail_skipped"
    ),
    source_lines=SOURCE_LINES(
        "with `--lines`, all samples that `-V` asks for by source line",
        _source_lines,
        optional=True,
    ),
    remarks_on_errors=TEXTS(
        "sentences: what the error bars assume, what runs in step with a clock, how much longer a "
        "run must be to tell the first rows apart",
        "estimates.sentences",
    ),
    processes=Rows(PROCESS, in_pieces=True)(
        "the summary's rows: those that pass a threshold, by falling user time",
        lambda event: (_Process(event, row) for row in event.processes.kept_rows.tolist()),
    ),
    details=Rows(DETAILS, in_pieces=True)(
        "processes whose functions `-V` asks for; empty with `-V k`",
        lambda event: (
            _Process(event, row)
            for row in ([] if event.report.detail == "k" else event.detailed.tolist())
        ),
    ),
    kernel_profiles=Rows(KERNEL_PROFILE, in_pieces=True)(
        "with `-V 4` the whole kernel's profile, with `-V k` followed by its parts",
        _kernel_profiles,
    ),
)
