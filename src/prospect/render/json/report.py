"""The JSON report: every figure of the report, under a versioned schema.

docs/schema.md describes its fields and docs/report.schema.json checks them: `scripts/schemas.py`
makes both of the lists here and in `event_fields`. Each field of the document, each event and each
process has a line of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from prospect.estimate.ledger.lateness import USUAL_SHARE
from prospect.estimate.ledger.tick_ledger import TickCounts
from prospect.figures.stacks.stack_quality import stack_quality
from prospect.records import NamedTuple
from prospect.render.figures_renderer import FiguresRenderer
from prospect.render.json.calls import EVENT_CALLS, event_calls
from prospect.render.json.common_fields import (
    ANY_STACK_QUALITY,
    DETAIL,
    NOTES_AND_WARNINGS,
    RUN,
    TEXTS,
)
from prospect.render.json.document_fields import (
    ABSENT,
    AMOUNT,
    COUNT,
    FLAG,
    INTEGER,
    NAME,
    NUMBER,
    ROUNDED,
    SHARE,
    TEXT,
    Field,
    Mapping,
    Object,
    Part,
    Rows,
    document,
    head,
)
from prospect.render.json.event_fields import EVENT_REPORT
from prospect.render.text.in_short import in_short_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from prospect.estimate.in_short import InShort
    from prospect.estimate.ledger.tick_ledger import TickLedger
    from prospect.estimate.report import Report
    from prospect.figures.report.waiting import Waiting

_NS = 1e-9


class _Report(NamedTuple):
    """What the document is made of."""

    report: Report
    options: JsonRenderer
    short: InShort
    lines: list[str]


class _Threads(NamedTuple):
    """The threads of a report that are listed."""

    report: Report
    waiting: Waiting

    def column(self, name: str) -> NDArray[Any]:
        """Return a column of them."""
        found: NDArray[Any] = getattr(self.waiting.threads, name)
        return found.take(self.waiting.shown)

    @property
    def pids(self) -> NDArray[np.int32]:
        """Their processes' numbers, -1 where unknown."""
        pids = np.append(self.report.profile.processes.pid, -1)
        return pids.take(self.column("process_index"))


def _threads(document: _Report) -> Any:
    waiting = document.report.waiting
    return ABSENT if waiting is None else _Threads(document.report, waiting)


class _Clocks(NamedTuple):
    """The clocks of a CPU."""

    clock: NDArray[np.uint8]
    period_ns: NDArray[np.float64]
    ticks: TickCounts


def _clocks(ledger: TickLedger) -> list[_Clocks]:
    found = []
    for row in range(len(ledger.cpu)):
        rows = (ledger.clock_cpu == row).nonzero()[0]
        ticks = TickCounts(*(column[rows] for column in ledger.by_clock))
        found.append(_Clocks(ledger.clock[rows], ledger.period_ns[rows], ticks))
    return found


def _thread(name: str) -> Callable[[_Threads], Any]:
    return lambda threads: threads.column(name)


def _thread_seconds(name: str) -> Callable[[_Threads], Any]:
    return lambda threads: threads.column(name) * _NS


# The first screen

PROGRAM = Object(
    "",
    Field("name", TEXT),
    Field("processes", COUNT, "how many of that name"),
    Field("hits", COUNT),
    Field("seconds", ROUNDED),
    Field("error_s", ROUNDED.or_null, get="half_s"),
    Field("user_share", ROUNDED),
    Field(
        "service",
        NAME,
        "the service, container or other control group in which most of its hits are, `null` where "
        "none is known",
    ),
    Field("other_services", COUNT, "in how many more it was hit"),
)
FUNCTION = Object(
    "",
    Field("name", TEXT, "in brackets why there is none"),
    Field("object", TEXT, get="object_path"),
    Field("hits", COUNT),
    Field("seconds", ROUNDED),
    Field("error_s", ROUNDED.or_null, get="half_s"),
    Field("share", ROUNDED),
    Field("like_above", FLAG, "cannot be told from the row above", "is_like_above"),
    Field("program", TEXT, "where most of it was spent"),
    Field("other_programs", COUNT),
    Field("caller", NAME, "of most samples, or `null`"),
)
IN_SHORT = Object(
    "in_short",
    Field(
        "hits",
        COUNT,
        "of all of them together; `seconds` is 0 where the event has no time",
        "short.hits",
    ),
    Field("seconds", ROUNDED, get="short.seconds"),
    Field("error_s", ROUNDED.or_null, get="short.half_s"),
    Field(
        "busy_s",
        ROUNDED.or_null,
        "time of all processes of the machine, `null` where not all were sampled",
        "short.busy_s",
    ),
    Field(
        "programs",
        Rows(PROGRAM),
        "the first three, processes of a name together",
        "short.first_programs",
    ),
    Field("more_programs", COUNT, "how many there are besides", "short.programs_behind"),
    Field(
        "functions",
        Rows(FUNCTION),
        "the first five, of all programs together",
        "short.first_functions",
    ),
    Field("more_functions", COUNT, "how many there are besides", "short.functions_behind"),
    Field(
        "kernel", ROUNDED, "time in the kernel; hits where the event has no time", "short.kernel_s"
    ),
    Field(
        "causes",
        Rows(
            Object(
                "",
                Field("name", TEXT, get=lambda cause: cause[0]),
                Field("amount", ROUNDED, "as `kernel`", lambda cause: cause[1]),
            )
        ),
        "the first four causes of that",
        "short.causes",
    ),
    Field(
        "nameless_share",
        ROUNDED.within(0, 1),
        "part of the hits in code without names, 0 to 1",
        "short.nameless",
    ),
    Field(
        "bracket_share",
        ROUNDED.within(0, 1),
        "part of the hits in functions of which only the exported functions before and after them "
        "are known",
        "short.bracketed",
    ),
    Field("lines", TEXTS, "the first screen of the text report, line by line"),
)


# Waiting

BLOCKER = Object(
    "",
    Field("name", TEXT),
    Field("idle", FLAG),
    Field("waits", COUNT),
    Field("seconds", AMOUNT),
    Field("longest_s", AMOUNT),
)
THREAD = Object(
    "thread",
    Field(
        "name",
        TEXT,
        "the thread, of the processes that `-V` selects",
        lambda threads: [
            threads.waiting.threads.name[row] for row in threads.waiting.shown.tolist()
        ],
    ),
    Field("pid", INTEGER, get="pids"),
    Field("tid", INTEGER, get=_thread("tid")),
    Field(
        "user_s",
        AMOUNT.or_null,
        "its time by samples, `null` where none hit it",
        lambda threads: threads.waiting.user_s[threads.waiting.shown],
    ),
    Field(
        "system_s",
        AMOUNT.or_null,
        get=lambda threads: threads.waiting.system_s[threads.waiting.shown],
    ),
    Field(
        "life_s", AMOUNT, "its life, which is the next four together", _thread_seconds("life_ns")
    ),
    Field("cpu_s", AMOUNT, "on a CPU", _thread_seconds("cpu_ns")),
    Field("runnable_s", AMOUNT, "ready, and waiting for a CPU", _thread_seconds("runnable_ns")),
    Field("blocked_s", AMOUNT, "waiting for anything else", _thread_seconds("blocked_ns")),
    Field("unknown_s", AMOUNT, "what is not known", _thread_seconds("unknown_ns")),
    Field("stackless_s", AMOUNT, "waited by unknown stacks", _thread_seconds("stackless_ns")),
    Field("longest_s", AMOUNT, "its longest wait blocked", _thread_seconds("longest_ns")),
    Field("waits", COUNT, "how often it was blocked", _thread("blocks")),
    Field("preemptions", COUNT, "how often another thread was preferred", _thread("preemptions")),
)
WAITING = Object(
    "waiting",
    Field(
        "threads",
        Rows(THREAD, by_column=True),
        "what each thread did",
        lambda threads: threads,
    ),
    Field("sampled_s", AMOUNT, "time on CPUs by samples alone", "waiting.sampled_s"),
    Field(
        "blockers",
        Rows(BLOCKER).or_null,
        "what threads waited for; `null` where waits have no stacks",
        "waiting.blockers",
    ),
    Field(
        "wakers",
        Rows(Object("", Field("who", TEXT), Part(BLOCKER, lambda waker: waker))).or_null,
        "`who` ended the waits of a row of `blockers`; `null` where that was not recorded",
        "waiting.wakers",
    ),
    Field(
        "stacks",
        Rows(
            Object(
                "",
                Field("waits", COUNT),
                Field("seconds", AMOUNT),
                Field("longest_s", AMOUNT),
                Field("kernel", TEXTS, "frames from the inside out"),
                Field("user", TEXTS),
            )
        ),
        "those with most time blocked",
        "waiting.stacks",
    ),
    Field("more_stacks", COUNT, "how many there are besides", "waiting.more_stacks"),
)
THROTTLED = Object(
    "",
    Field("group", TEXT),
    Field("periods", INTEGER),
    Field("throttled", INTEGER, "how many of these"),
    Field("seconds", NUMBER, "summed over CPUs"),
    Field("pids", Rows(INTEGER), "up to 64"),
)


# Sample accounting

TICKS = Object(
    "",
    Field("expected", COUNT, "ticks of its clocks, see below the table"),
    Field("recorded", COUNT),
    Field("lost", COUNT),
    Field("throttled", COUNT),
    Field("idle", COUNT),
    Field("busy", COUNT),
    Field("closure", INTEGER),
    Field("closure_share", NUMBER),
)
CLOCK_TICKS = Object(
    "",
    Field("clock", COUNT),
    Field("period_ns", AMOUNT.or_null),
    Part(TICKS, "ticks"),
)
CPU_TICKS = Object(
    "cpu_ticks",
    Field("cpu", INTEGER, "number of the CPU"),
    Part(TICKS, "by_cpu"),
    Field(
        "idle_s",
        AMOUNT,
        "time without samples: missing ticks while idle and those throttled between hits in "
        "process zero",
    ),
    Field("busy_s", AMOUNT, "missing ticks while busy"),
    Field(
        "accounted_idle_s",
        NUMBER.or_null,
        "`/proc/stat`'s idle (with waiting for input and output) and stolen time, `null` if "
        "unknown",
    ),
    Field("accounted_steal_s", NUMBER.or_null),
    Field("clocks", Rows(CLOCK_TICKS, by_column=True), "the same for each of its clocks", _clocks),
)
LEDGER = Object(
    "ledger",
    Field("cpus", Rows(CPU_TICKS, by_column=True), "a row for each CPU", lambda ledger: ledger),
    Field(
        "unsampled_s", AMOUNT, "time of all ticks that were lost, throttled or missing while busy"
    ),
    Field("unwatched_s", AMOUNT, "for how long CPUs were offline, or back and not yet watched"),
    Field("unclocked", COUNT, "samples that belong to no described clock"),
    Field("other_losses", COUNT, "lost records that were no samples"),
).or_null
LATENESS = Object(
    "lateness",
    Field(
        "usual_share",
        SHARE,
        "the part of samples in user mode that counts as late",
        lambda _: USUAL_SHARE,
    ),
    Field(
        "cpus",
        Rows(
            Object(
                "",
                Field("cpu", INTEGER),
                Field("limit_ns", NUMBER.or_null, "later than that is late"),
                Field("usual_ns", NUMBER.or_null, "the median"),
            ),
            by_column=True,
        ),
        "limits of each CPU, of samples in user mode",
        lambda lateness: lateness,
    ),
).or_null
COST = Object("cost", Field("seconds", AMOUNT), Field("share", AMOUNT.or_null)).or_null
OWN_COST = Object(
    "own_cost",
    Field("recorder_hits", COUNT.or_null, "samples that hit Prospect itself, `null` if unknown"),
    Field("recorder", COST, "their cost"),
    Field("recorder_accounted_s", AMOUNT.or_null, "its CPU time by getrusage, or `null`"),
    Field("sampling", COST, "what taking the samples cost"),
    Field("sampling_spread_s", AMOUNT, "half of the 95 % interval's width"),
    Field("sample_cost_ns", AMOUNT, "of one sample"),
    Field("counted_calls", COST, "what counting system calls cost"),
)
LOSSES = Object(
    "",
    Field("lost", COUNT, "samples in all", lambda losses: losses.lost.sum()),
    Field("throttled", COUNT, "events in all", lambda losses: losses.throttled.sum()),
    Field(
        "by_cpu",
        Rows(
            Object("", Field("cpu", INTEGER), Field("lost", COUNT), Field("throttled", COUNT)),
            by_column=True,
        ),
        get=lambda losses: losses,
    ),
)


# What event sources decoded

SAMPLE_DATA = Object(
    "",
    Field("event", TEXT),
    Field("source", TEXT, "the package"),
    Field("samples", INTEGER),
    Field(
        "numbers",
        Rows(
            Object(
                "",
                Field("name", TEXT),
                Field("samples", INTEGER),
                Field("mean", NUMBER),
                Field("median", NUMBER),
                Field("high", NUMBER, "95 % are at most that"),
                Field("most", NUMBER),
                Field(
                    "routines",
                    Rows(
                        Object(
                            "",
                            Field("routine", TEXT),
                            Field("samples", INTEGER),
                            Field("mean", NUMBER),
                            Field("share", NUMBER),
                        )
                    ),
                    "with most of the sum",
                ),
            )
        ),
    ),
    Field(
        "texts",
        Rows(
            Object(
                "",
                Field("name", TEXT),
                Field("samples", INTEGER),
                Field(
                    "rows",
                    Rows(
                        Object(
                            "",
                            Field("text", TEXT, get=lambda row: row[0]),
                            Field("samples", INTEGER, get=lambda row: row[1]),
                            Field("share", NUMBER, get=lambda row: row[2]),
                        )
                    ),
                ),
            )
        ),
    ),
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
    Field("detail", DETAIL, "the `-V` that is shown: `2`, `3`, `4` or `k`", "report.detail"),
    Field("user_threshold_s", AMOUNT, "`-m`", "report.user_threshold_s"),
    Field("kernel_threshold_s", AMOUNT, "`-k`", "report.kernel_threshold_s"),
    Field(
        "disassemble",
        INTEGER.within(1),
        "1 with `-e`, 2 with `-ee`, else absent",
        lambda of: of.report.disassemble or ABSENT,
        optional=True,
    ),
)
REPORT = Object(
    "report",
    *head("prospect-report/1"),
    Field("options", OPTIONS, "options of the report", lambda of: of),
    Field("in_short", IN_SHORT, "the first screen", lambda of: of),
    Field("run", RUN, "facts of the run", "report.profile.run"),
    Part(NOTES_AND_WARNINGS, "report"),
    Field(
        "statistics",
        Mapping(
            NUMBER,
            (
                "samples",
                "user_hits",
                "system_hits",
                "unknown_hits",
                "processes",
                "kernel_threads",
            ),
        ),
        "counters by name, listed in [report.md](report.md#statistics-of-run); one that does not "
        "exist is absent",
        "report.counters",
    ),
    Field("losses", LOSSES, "what the kernel dropped", "report.profile.losses"),
    Field(
        "ledger",
        LEDGER,
        "what became of the clocks' ticks; `null` where no clock keeps a grid",
        "report.ledger",
    ),
    Field(
        "lateness",
        LATENESS,
        "from when on a sample counts as late; `null` where no clock keeps a grid",
        "report.lateness",
    ),
    Field("own_cost", OWN_COST, "what profiling cost", "report.cost"),
    Part(ANY_STACK_QUALITY, lambda of: stack_quality(of.report.profile, of.report.detail)),
    Field(
        "waiting",
        WAITING,
        "what threads did, see [waiting](waiting.md); absent without `--off-cpu`",
        _threads,
        optional=True,
    ),
    Field(
        "throttled",
        Rows(THROTTLED),
        "control groups of the processes that `-V` selects that a CPU limit stopped, the longest "
        "first; absent if there are none",
        lambda of: of.report.throttled or ABSENT,
        optional=True,
    ),
    Field(
        "sample_data",
        Rows(SAMPLE_DATA),
        "what [event sources](plugins.md#an-event-source) made of samples' raw data; absent where "
        "none was decoded",
        lambda of: of.report.data or ABSENT,
        optional=True,
    ),
    Field(
        "calls",
        Rows(EVENT_CALLS).or_null,
        "in Python with `calls=`: calls of each event, `null` without stacks",
        _calls,
        optional=True,
    ),
    Field(
        "events",
        Rows(EVENT_REPORT, in_pieces=True, after=b"\n"),
        "a report for each event with hits (for the first event where none has any)",
        "report.events",
    ),
    between=b"\n",
)


class JsonRenderer(FiguresRenderer):
    """Every figure of the report, for programs."""

    suffix: ClassVar[str] = ".json"
    shows_code: ClassVar[bool] = True
    shows_lines: ClassVar[bool] = True

    def pieces(self, report: Report) -> Iterator[bytes]:
        """Yield the document; its big lists piece by piece, so that no big string is built."""
        short, lines = in_short_plain(report, self.recording, self.repeated)
        return document(REPORT, _Report(report, self, short, lines))
