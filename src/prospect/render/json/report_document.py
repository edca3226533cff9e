"""The JSON report: every figure of the report, under a versioned schema.

docs/schema.md describes its fields and docs/report.schema.json checks them: `scripts/schemas.py`
makes both of the lists here and in `event_fields`. Each field of the document, each event and each
process has its own line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from prospect.estimate.accounting.lateness import USUAL_SHARE
from prospect.estimate.accounting.sample_accounting import TickCounts
from prospect.profile.model import PATH_STATES, THREADS_OF_TURNS
from prospect.records import NamedTuple
from prospect.render.json.calls_document import EVENT_CALLS, event_calls
from prospect.render.json.common_fields import (
    ANY_STACK_QUALITY,
    DETAIL,
    NOTES_AND_WARNINGS,
    RUN,
    WITH_CALLEES,
    WITH_CALLEES_ABOUT,
)
from prospect.render.json.document_fields import (
    ABSENT,
    AMOUNT,
    COUNT,
    FLAG,
    GENERATOR,
    INTEGER,
    NAME,
    NUMBER,
    ROUNDED,
    SECONDS,
    SHARE,
    TEXT,
    TEXTS,
    Mapping,
    Object,
    Part,
    Rows,
    document,
    each,
    each_row,
    itself,
    one_of,
    present,
    schema,
)
from prospect.render.json.event_fields import EVENT_REPORT
from prospect.render.renderer import FiguresRenderer
from prospect.render.text.first_screen import in_short_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prospect.columns.array_types import F64, I32, U8
    from prospect.estimate.accounting.sample_accounting import SampleAccounting
    from prospect.estimate.finished_report import Report
    from prospect.estimate.summary import Summary
    from prospect.figures.report.waiting import Waiting

_NS = 1e-9


class _Report(NamedTuple):
    """The sources of the document."""

    report: Report
    options: JsonRenderer
    short: Summary
    lines: list[str]


class _Threads(NamedTuple):
    """The threads of a report that are listed."""

    report: Report
    waiting: Waiting

    @property
    def pids(self) -> I32:
        """Their processes' numbers, -1 if unknown."""
        pids = np.append(self.report.profile.processes.pid, -1)
        return pids.take(self.waiting.threads.process_index.take(self.waiting.shown))


def _threads(document: _Report) -> Any:
    waiting = document.report.waiting
    return ABSENT if waiting is None else _Threads(document.report, waiting)


class _Clocks(NamedTuple):
    """The clocks of a CPU."""

    clock: U8
    period_ns: F64
    ticks: TickCounts


def _clocks(accounting: SampleAccounting) -> list[_Clocks]:
    found = []
    for row in range(len(accounting.cpu)):
        rows = (accounting.clock_cpu == row).nonzero()[0]
        ticks = TickCounts(*(column[rows] for column in accounting.by_clock))
        found.append(_Clocks(accounting.clock[rows], accounting.period_ns[rows], ticks))
    return found


def _thread(name: str) -> Callable[[_Threads], Any]:
    return lambda of: getattr(of.waiting.threads, name).take(of.waiting.shown)


def _thread_seconds(name: str) -> Callable[[_Threads], Any]:
    return lambda of: getattr(of.waiting.threads, name).take(of.waiting.shown) * _NS


# The first screen

PROGRAM = Object(
    "",
    name=TEXT(),
    processes=COUNT("how many of that name"),
    samples=COUNT(get="hits"),
    seconds=ROUNDED(),
    half_width_s=ROUNDED.or_null(),
    user_share=ROUNDED(),
    service=NAME(
        "the service, container or other control group in which most of its samples are, `null` "
        "if none is known"
    ),
    other_services=COUNT("in how many more it was hit"),
    wall_s=ROUNDED.or_null(
        "wall time: each sample is worth its time divided by the CPUs that ran what is shown then; "
        "`null` if samples do not show it",
        "wall_s",
    ),
)
FUNCTION = Object(
    "",
    name=TEXT("in brackets why there is none"),
    object=TEXT(get="object_path"),
    samples=COUNT(get="hits"),
    seconds=ROUNDED(),
    half_width_s=ROUNDED.or_null(),
    share=ROUNDED(),
    tied=FLAG("indistinguishable from the row above", "is_like_above"),
    program=TEXT("where most of it was spent"),
    other_programs=COUNT(),
    caller=NAME("of most samples, or `null`"),
    wall_s=ROUNDED.or_null("as of programs"),
)
SERVICE = Object(
    "",
    name=NAME("the service, container or other control group; `null` for none"),
    samples=COUNT(get="hits"),
    seconds=ROUNDED(),
    half_width_s=ROUNDED.or_null(),
    user_share=ROUNDED(),
    program=TEXT("which has most of its samples"),
    other_programs=COUNT(),
)
SHORT_REMEDIES = Object(
    "summary",
    samples=COUNT("of all of them together; `seconds` is 0 if the event has no time", "short.hits"),
    seconds=ROUNDED(get="short.seconds"),
    half_width_s=ROUNDED.or_null(get="short.half_width_s"),
    busy_s=ROUNDED.or_null(
        "time of all processes of the machine, `null` if not all were sampled", "short.busy_s"
    ),
    services=Rows(SERVICE)(
        "of a part of a store with more than one: the first three; else empty", "short.services"
    ),
    more_services=COUNT("how many there are besides", "short.more_services"),
    programs=Rows(PROGRAM)("the first three, processes of a name together", "short.first_programs"),
    more_programs=COUNT("how many there are besides", "short.programs_after"),
    functions=Rows(FUNCTION)("the first five, of all programs together", "short.first_functions"),
    more_functions=COUNT("how many there are besides", "short.functions_after"),
    with_callees=WITH_CALLEES(WITH_CALLEES_ABOUT, "short.with_callees"),
    kernel=ROUNDED("time in the kernel; samples if the event has no time", "short.kernel_s"),
    entry_reasons=each(name=TEXT(get=0), amount=ROUNDED("as `kernel`", 1))(
        "the first four entry reasons of that", "short.entry_reasons"
    ),
    wall=Object(
        "",
        total_s=ROUNDED("of the run"),
        busy_s=ROUNDED("in which any of it ran"),
        idle_s=ROUNDED("in which none of it ran"),
        at_once=ROUNDED("on how many CPUs it ran then, on average"),
    ).or_null(
        "the wall time of a command or of attached processes, estimated from samples; `null` of "
        "the whole system, and if samples do not show it",
        "short.wall",
    ),
    nameless_share=ROUNDED.within(0, 1)(
        "part of the samples in code without names, 0 to 1", "short.nameless"
    ),
    bracket_share=ROUNDED.within(0, 1)(
        "part of the samples in functions of which only the exported functions around them "
        "are known",
        "short.bracketed",
    ),
    lines=TEXTS("the first screen of the text report, line by line"),
)


# Waiting

BLOCKER = Object("", name=TEXT(), idle=FLAG(), waits=COUNT(), seconds=AMOUNT(), longest_s=AMOUNT())
THREAD = Object(
    "thread",
    name=TEXT(
        "the thread, of the processes that `-V` selects",
        lambda threads: [
            threads.waiting.threads.name[row] for row in threads.waiting.shown.tolist()
        ],
    ),
    pid=INTEGER(get="pids"),
    tid=INTEGER(get=_thread("tid")),
    user_s=AMOUNT.or_null(
        "its time by samples, `null` if none hit it",
        lambda threads: threads.waiting.user_s[threads.waiting.shown],
    ),
    system_s=AMOUNT.or_null(get=lambda threads: threads.waiting.system_s[threads.waiting.shown]),
    life_s=AMOUNT("its life, which is the next four together", _thread_seconds("life_ns")),
    cpu_s=AMOUNT("on a CPU", _thread_seconds("cpu_ns")),
    runnable_s=AMOUNT("ready, and waiting for a CPU", _thread_seconds("runnable_ns")),
    blocked_s=AMOUNT("waiting for anything else", _thread_seconds("blocked_ns")),
    unknown_s=AMOUNT("what is not known", _thread_seconds("unknown_ns")),
    stackless_s=AMOUNT("waited by unknown stacks", _thread_seconds("stackless_ns")),
    longest_s=AMOUNT("its longest wait blocked", _thread_seconds("longest_ns")),
    waits=COUNT("how often it was blocked", _thread("blocks")),
    preemptions=COUNT("how often another thread was preferred", _thread("preemptions")),
)
WAITING = Object(
    "waiting",
    threads=Rows(THREAD, by_column=True)("what each thread did", itself),
    sampled_s=AMOUNT("time on CPUs by samples alone", "waiting.sampled_s"),
    blockers=Rows(BLOCKER).or_null(
        "what threads waited for, a system call or `a mutex`, `Python's global lock`;"
        " `null` if waits have no stacks",
        "waiting.blockers",
    ),
    wakers=each(who=TEXT(), blocker=Part(BLOCKER, itself)).or_null(
        "`who` ended the waits of a row of `blockers`; `null` if that was not recorded",
        "waiting.wakers",
    ),
    stacks=each(
        waits=COUNT(),
        seconds=AMOUNT(),
        longest_s=AMOUNT(),
        kernel=TEXTS("frames from the inside out"),
        user=TEXTS(),
    )("those with most time blocked", "waiting.stacks"),
    more_stacks=COUNT("how many there are besides", "waiting.more_stacks"),
    holders=each(
        lock=TEXT("its name in `blockers`"),
        function=TEXT("of a thread that had it"),
        caller=TEXT('its caller, "" if that is not known'),
        seconds=AMOUNT("that others waited meanwhile"),
    )("what threads did that had a lock", "waiting.holders"),
)
WALL = Object(
    "wall",
    seconds=SECONDS("from the command's start to its exit: the rows add up to it"),
    pieces=COUNT("of the path"),
    rows=each(
        state=one_of(PATH_STATES)("of the thread"),
        program=TEXT(),
        what=NAME(
            "the function that ran, or what blocked the thread; of waiting for a CPU "
            "`cgroup quota` or `the host (steal)`; `null` otherwise"
        ),
        ended_by=NAME(
            "of `blocked`: `(interrupt)`, or a program that is not the command's; `null` if "
            "that was not recorded"
        ),
        seconds=SECONDS(),
        half_width_s=ROUNDED("0 for times that no samples divide"),
        share=ROUNDED.within(0, 1)(),
        pieces=COUNT("of a function: those with a sample of it"),
        longest_s=SECONDS(),
        samples=COUNT(),
    )("the longest first"),
    takers=each(
        program=TEXT("`(nobody)` if no thread had it, `cgroup quota`, `the host (steal)`"),
        is_own=FLAG("whether it is of the command"),
        seconds=SECONDS(),
    )("who had the CPU while the path waited for one, the longest first"),
)
QUANTILE = Object(
    "",
    value=SECONDS(),
    low=ROUNDED.or_null("ends of its 95 % interval; `null` for too few turns"),
    high=ROUNDED.or_null(),
)
PART_OF_TURNS = Object(
    "part_of_turns",
    state=one_of(PATH_STATES)("state of the thread"),
    program=TEXT("program of the thread"),
    thread=one_of(THREADS_OF_TURNS)("the turn's own thread, or another"),
    during=NAME("what the turn's own thread waited for meanwhile; `null` for itself or if unknown"),
    what=NAME("as in [`wall`](#wall)"),
    ended_by=NAME(),
    seconds=SECONDS("time of all turns"),
    half_width_s=ROUNDED("half of the 95 % interval; 0 for times that no samples divide"),
    share=ROUNDED.within(0, 1)("part of all turns' time"),
    pieces=COUNT("number of pieces; for a function, of those with a sample of it"),
    longest_s=SECONDS("the longest of them"),
    samples=COUNT("samples of the function"),
)
KIND_OF_TURNS = Object(
    "kind_of_turns",
    program=TEXT("name of the processes"),
    service=NAME("their service or container, `null` for none"),
    kind=TEXT("a function, or `after` and the system call of the idle wait before"),
    is_loop=FLAG("whether a turn is one round of an event loop, for many requests at once"),
    turns=COUNT("number of turns"),
    threads=COUNT("number of threads that had such turns"),
    seconds=SECONDS("time of all turns: the rows add up to it"),
    median=QUANTILE("length of a turn"),
    tail=QUANTILE("95th percentile of the length"),
    longest_s=SECONDS("length of the longest turn"),
    rows=Rows(PART_OF_TURNS)("what turns consisted of, the longest first"),
    takers=each(
        program=TEXT("`(nobody)` if no thread had it"),
        is_own=FLAG("whether it is of the command, or of an attached process"),
        seconds=SECONDS(),
    )("who had the CPU while turns waited for one, the longest first"),
)
SLOW_TURN = Object(
    "slow_turn",
    program=TEXT("program and kind"),
    kind=TEXT(),
    tid=INTEGER("number of the thread"),
    begin_s=SECONDS("time since the start of the recording"),
    seconds=SECONDS("length"),
    pieces=each(
        begin_s=SECONDS("since the turn's start"),
        seconds=SECONDS(),
        state=one_of(PATH_STATES)("of the thread"),
        program=TEXT("of the thread"),
        thread=one_of(THREADS_OF_TURNS)("the turn's own or another"),
        what=NAME("the function that most samples hit, or what blocked it; `null` if unknown"),
    )("the longest ones, up to 200, in chronological order"),
    more_pieces=COUNT("number of further pieces"),
)
TURNS = Object(
    "turns",
    kinds=Rows(KIND_OF_TURNS)("those with most time first"),
    slowest=Rows(SLOW_TURN)("up to 20 turns"),
    cut=COUNT("turns that the start or the end of the recording cut, which are in no kind"),
    unclear=COUNT("turns with a wait whose reason is not known, which are in no kind"),
    threads_without=COUNT("threads that waited, and in no place that is known to be idle"),
)
THROTTLED = Object(
    "",
    group=TEXT(),
    periods=INTEGER(),
    throttled=INTEGER("how many of these"),
    seconds=NUMBER("summed over CPUs"),
    pids=Rows(INTEGER)("up to 64"),
)


# Sample accounting

TICKS = Object(
    "",
    expected=COUNT("ticks of its clocks, see below the table"),
    recorded=COUNT(),
    lost=COUNT(),
    throttled=COUNT(),
    idle=COUNT(),
    busy=COUNT(),
    closure=INTEGER(),
    closure_share=NUMBER(),
)
CLOCK_TICKS = Object("", clock=COUNT(), period_ns=AMOUNT.or_null(), ticks=Part(TICKS, "ticks"))
CPU_TICKS = Object(
    "cpu_ticks",
    cpu=INTEGER("number of the CPU"),
    ticks=Part(TICKS, "by_cpu"),
    idle_s=AMOUNT(
        "time without samples: missing ticks while idle and those throttled between samples in "
        "process zero"
    ),
    busy_s=AMOUNT("missing ticks while busy"),
    accounted_idle_s=NUMBER.or_null(
        "`/proc/stat`'s idle (with waiting for input and output) and stolen time, `null` if unknown"
    ),
    accounted_steal_s=NUMBER.or_null(),
    clocks=Rows(CLOCK_TICKS, by_column=True)("the same for each of its clocks", _clocks),
)
SAMPLE_ACCOUNTING = Object(
    "sample_accounting",
    cpus=Rows(CPU_TICKS, by_column=True)("a row for each CPU", itself),
    unsampled_s=AMOUNT("time of all ticks that were lost, throttled or missing while busy"),
    unwatched_s=AMOUNT("for how long CPUs were offline, or back and not yet watched"),
    unclocked=COUNT("samples that belong to no described clock"),
    other_losses=COUNT("lost records that were no samples"),
).or_null
LATENESS = Object(
    "lateness",
    usual_share=SHARE(
        "the part of samples in user mode that counts as late", lambda _: USUAL_SHARE
    ),
    cpus=each_row(
        cpu=INTEGER(),
        limit_ns=NUMBER.or_null("later than that is late"),
        usual_ns=NUMBER.or_null("the median"),
    )("limits of each CPU, of samples in user mode", itself),
).or_null
COST = Object("cost", seconds=AMOUNT(), share=AMOUNT.or_null()).or_null
OWN_COST = Object(
    "own_cost",
    recorder_samples=COUNT.or_null(
        "samples that hit Prospect itself, `null` if unknown", "recorder_hits"
    ),
    recorder=COST("their cost"),
    recorder_accounted_s=AMOUNT.or_null("its CPU time by getrusage, or `null`"),
    sampling=COST("what taking the samples cost"),
    sampling_spread_s=AMOUNT("half of the 95 % interval's width"),
    sample_cost_ns=AMOUNT("of one sample"),
    counted_calls=COST("what counting system calls cost"),
)
LOSSES = Object(
    "",
    lost=COUNT("samples in all", lambda losses: losses.lost.sum()),
    throttled=COUNT("events in all", lambda losses: losses.throttled.sum()),
    by_cpu=each_row(cpu=INTEGER(), lost=COUNT(), throttled=COUNT())(get=itself),
)


# What event sources decoded

SAMPLE_DATA = Object(
    "sample_data",
    event=TEXT("name of the event"),
    source=TEXT("package of the event source"),
    samples=INTEGER("samples with raw data"),
    numbers=each(
        name=TEXT(),
        samples=INTEGER(),
        mean=NUMBER(),
        median=NUMBER(),
        high=NUMBER("95 % are at most that"),
        most=NUMBER(),
        functions=each(function=TEXT(), samples=INTEGER(), mean=NUMBER(), share=NUMBER())(
            "with most of the sum"
        ),
    )("how each number is distributed"),
    texts=each(
        name=TEXT(),
        samples=INTEGER(),
        rows=each(text=TEXT(get=0), samples=INTEGER(get=1), share=NUMBER(get=2))(),
    )("how often each text occurs"),
)


# The document


def _calls(document: _Report) -> Any:
    sections = document.options.calls
    if not sections:
        return ABSENT
    found = document.report.calls(sections)
    return None if found is None else event_calls(*found)


OPTIONS = Object(
    "",
    detail=DETAIL("the `-V` that is shown", "report.detail"),
    user_threshold_s=AMOUNT("`-m`", "report.user_threshold_s"),
    kernel_threshold_s=AMOUNT("`-k`", "report.kernel_threshold_s"),
    disassemble=INTEGER.within(1)(
        "1 with `-e`, 2 with `-ee`, else absent",
        lambda of: of.report.disassemble or ABSENT,
        optional=True,
    ),
)
REPORT = Object(
    "report",
    b"\n",
    schema=schema("prospect-report/2"),
    generator=GENERATOR,
    options=OPTIONS("options of the report", itself),
    summary=SHORT_REMEDIES("the first screen", itself),
    run=RUN("facts of the run", "report.profile.run"),
    notes_and_warnings=Part(NOTES_AND_WARNINGS, "report"),
    statistics=Mapping(
        NUMBER,
        (
            "samples",
            "user_samples",
            "system_samples",
            "unknown_samples",
            "processes",
            "kernel_threads",
        ),
    )(
        "counters by name, listed in [report.md](report.md#statistics-of-run); one that does not "
        "exist is absent",
        "report.counters",
    ),
    losses=LOSSES("what the kernel dropped", "report.profile.losses"),
    sample_accounting=SAMPLE_ACCOUNTING(
        "what became of the clocks' ticks; `null` if no clock keeps a grid",
        "report.sample_accounting",
    ),
    lateness=LATENESS(
        "the lateness from which a sample counts as late; `null` if no clock keeps a grid",
        "report.lateness",
    ),
    own_cost=OWN_COST("what profiling cost", "report.cost"),
    any_stack_quality=Part(ANY_STACK_QUALITY, lambda of: of.report.stack_quality),
    wall=WALL(
        "where the command's wall time went, see [waiting](waiting.md); absent without `--off-cpu`",
        lambda of: present(of.report.wall),
        optional=True,
    ),
    turns=TURNS(
        "turns of threads that wait for work, see [waiting](waiting.md); absent without any",
        lambda of: present(of.report.turns),
        optional=True,
    ),
    waiting=WAITING(
        "what threads did, see [waiting](waiting.md); absent without `--off-cpu`",
        _threads,
        optional=True,
    ),
    throttled=Rows(THROTTLED)(
        "control groups of the processes that `-V` selects that a CPU limit stopped, the longest "
        "first; absent if there are none",
        lambda of: of.report.throttled or ABSENT,
        optional=True,
    ),
    sample_data=Rows(SAMPLE_DATA)(
        "what [event sources](plugins.md#an-event-source) made of samples' raw data; absent if "
        "none was decoded",
        lambda of: of.report.data or ABSENT,
        optional=True,
    ),
    calls=Rows(EVENT_CALLS).or_null(
        "in Python with `calls=`: calls of each event, `null` without stacks", _calls, optional=True
    ),
    events=Rows(EVENT_REPORT, in_pieces=True, after=b"\n")(
        "a report for each event with samples (for the first event if none has any)",
        "report.events",
    ),
)


class JsonRenderer(FiguresRenderer):
    """Every figure of the report, for programs."""

    shows_code: ClassVar[bool] = True
    shows_lines: ClassVar[bool] = True

    def pieces(self, report: Report) -> Iterator[bytes]:
        """Return the document; long arrays come in pieces, so that no large string is built."""
        short, lines = in_short_plain(report, self.recording, self.repeated)
        return document(REPORT, _Report(report, self, short, lines))
