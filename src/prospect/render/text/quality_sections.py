"""The run and the quality of its samples: header, statistics, names, call stacks, times.

The header has the facts of the run. Statistics of Run are the counters of the recorder and of the
profile. Symbol quality and stack quality show samples without a name, call stacks that are cut, and
remedies. The sample accounting, late samples, own cost and Accounting show how samples account for
the time; Accounting compares sampled time with the kernel's own figures for the same interval.
"""

from __future__ import annotations

import math
import shlex
from datetime import UTC, datetime
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.estimate.accounting.lateness import USUAL_SHARE
from prospect.figures.report.counters import sample_traces
from prospect.profile.model import MOST_COPY_BYTES
from prospect.profile.naming import LABELS, REMEDIES
from prospect.profile.run_info import MAX_STACK
from prospect.render.escape import escaped
from prospect.render.text.style import NO_TIME, Figures, percent, percent_column, percent_digits
from prospect.render.text.text_table import Column, table_lines
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prospect.columns.array_types import F64
    from prospect.estimate.accounting.agreement import Agreement
    from prospect.estimate.accounting.lateness import Lateness
    from prospect.estimate.accounting.sample_accounting import SampleAccounting
    from prospect.estimate.finished_report import Report
    from prospect.figures.report.accounting import Cost, OwnCost
    from prospect.figures.report.report_view import ReportView
    from prospect.figures.report.symbol_quality import ObjectHits, SourceHits, SymbolQuality
    from prospect.figures.stacks.stack_quality import StackQuality
    from prospect.profile.run_info import EventInfo, RunInfo
    from prospect.render.text.style import Style

_UNKNOWN = "unknown"
# (counter, its label with the report's word for samples) by column; an indented label is part of
# the one above.
_RUN_LEFT: tuple[tuple[str, str], ...] = (
    ("buffers_read", "Buffers read"),
    ("notifications", "Notifications received"),
    ("execs", "  Num execs"),
    ("forks", "  Num forks"),
    ("maps", "  Num maps"),
    ("incomplete_maps", "  Num incomplete maps"),
    ("exits", "  Num exits"),
    ("unknowns", "  Num unknowns"),
    ("processes", "Total processes"),
)
_RUN_RIGHT: tuple[tuple[str, str], ...] = (
    ("buffer_flushes", "Buffer Flushes"),
    ("samples", "Num samples"),
    ("samples_per_buffer", "  Ave {samples}/buffer"),
    ("system_samples", "  System {samples}"),
    ("interrupt_samples", "    Interrupt {samples}"),
    ("user_samples", "  User {samples}"),
    ("unknown_samples", "  Unknown {samples}"),
    ("recorder_samples", "  {Samples} of Prospect"),
    ("lost", "Lost samples"),
    ("throttled", "Throttles"),
)
# More counters of the report of 2002: counter, label, and the counter that it precedes.
_CLASSIC = (
    ("drop_modules", "  Num drop modules", "exits"),
    ("sample_traces", "Num sample traces", "samples"),
    ("samples_per_trace", "  Ave {samples}/sample trace", "samples_per_buffer"),
    ("low_transport_samples", "  Low transport samples", "system_samples"),
    ("high_transport_samples", "  High transport samples", "system_samples"),
)
_KERNEL_LEFT = (
    ("kernel_module_samples", "Total kern-module {samples}"),
    ("kernel_samples", "Total kernel {samples}"),
    ("kernel_unique", "  Unique of those"),
    ("process_0_samples", "Total process 0 {samples}"),
    ("process_0_unique", "  Unique of those"),
)
_KERNEL_RIGHT = (
    ("kernel_threads", "Total kthreads"),
    ("kernel_thread_samples", "Total kthread {samples}"),
    ("kernel_thread_unique", "  Unique of those"),
    ("user_kernel_samples", "Total usr_kernel"),
    ("user_kernel_unique", "  Unique of those"),
)
_NAMED = {name for name, _ in (*_RUN_LEFT, *_RUN_RIGHT, *_KERNEL_LEFT, *_KERNEL_RIGHT)}
_LEAST_WIDTH = 36
# Those of `TickCounts`, in its order.
_COUNTS = ("Expected", "Recorded", "Lost", "Throttled", "Miss. idle", "Miss. busy")
_MOST_ROWS = 16
_LARGEST_ERROR = 0.01
_LEAST_TOLD_S = 0.01
_US_PER_NS = 1e-3
_ROUNDING = 1e-9
_LEAST_UNSAMPLED_S = 0.005
_VERDICTS = {True: "", False: "  beyond", None: ""}


def header_lines(view: ReportView, style: Style) -> Iterator[str]:
    """Yield the report's first lines."""
    run = view.profile.run
    yield style.title(f"Time: {_what(run)}")
    yield ""
    yield f"Prospect: {__version__}"
    yield ""
    yield f"Uname: {escaped(run.uname) or _UNKNOWN}"
    yield f"Prospect was built for: Linux {escaped(run.arch) or _UNKNOWN}"
    yield f"Current command line: '{_words(run.recorder_command_line)}'"
    yield f"CPU Speed: {_cpu_speed(run)}"
    yield f"Sampling frequency: {_frequencies([event.event for event in view.events])}"
    if run.clock:
        yield f"Sampling clock: {escaped(run.clock)}"
    yield f"Recorded: {_recorded(run)}"
    yield f"Interval: {_interval(run)}"


def _what(run: RunInfo) -> str:
    return _words(run.command) or escaped(run.origin) or _UNKNOWN


def _words(words: tuple[str, ...]) -> str:
    return escaped(shlex.join(words))


def _cpu_speed(run: RunInfo) -> str:
    speed = f"{run.cpu_mhz:.3f} MHz" if run.cpu_mhz > 0 else _UNKNOWN
    return f"{speed} ({escaped(run.cpu_description)})" if run.cpu_description else speed


def _frequencies(events: Sequence[EventInfo]) -> str:
    if len(events) == 1:
        return _hz(events[0].frequency_hz)
    return ", ".join(f"{escaped(event.name)} {_hz(event.frequency_hz)}" for event in events)


def _hz(frequency_hz: float) -> str:
    if not (math.isfinite(frequency_hz) and frequency_hz > 0):
        return _UNKNOWN
    return f"{frequency_hz:.6g} Hz"


def _recorded(run: RunInfo) -> str:
    by = escaped(run.recorder) or _UNKNOWN
    unknown = f"at an unknown time by {by}"
    if not run.started_at > 0:
        return unknown
    try:
        started = datetime.fromtimestamp(run.started_at, UTC)
    except (OverflowError, ValueError, OSError):
        return unknown
    return f"{started:%Y-%m-%d %H:%M:%S} UTC by {by}"


def _interval(run: RunInfo) -> str:
    wall = f"{run.wall_seconds:.3f} Sec" if run.wall_seconds > 0 else f"{_UNKNOWN} wall time"
    cpus = pluralize(run.cpus, "CPU") if run.cpus > 0 else "CPUs unknown"
    own = "the command's processes only" if run.command else "some processes only"
    scope = "every process" if run.system_wide else own
    return f"{wall}, {cpus}, {scope}"


def statistics_lines(view: ReportView, style: Style) -> Iterator[str]:
    """Yield the section, with the counters that this run has."""
    counters: Mapping[str, float | None] = view.counters
    left, right = _RUN_LEFT, _RUN_RIGHT
    if style.words.is_classic:
        counters = {**counters, **sample_traces(view.profile)}
        left, right = _with_classic(left), _with_classic(right)
    yield from style.section("Statistics of Run")
    others = [
        (name, escaped(name).replace("_", " ").capitalize())
        for name in view.counters
        if name not in _NAMED
    ]
    half = (len(others) + 1) // 2
    term = style.words.term
    words = {"samples": term("samples"), "Samples": term("Samples")}
    blocks = [
        (_cells(left, counters, words), _cells(right, counters, words)),
        (_cells(_KERNEL_LEFT, counters, words), _cells(_KERNEL_RIGHT, counters, words)),
        (_cells(others[:half], counters, {}), _cells(others[half:], counters, {})),
    ]
    width = max(
        len(label) + len(number) for block in blocks for side in block for label, number in side
    )
    width = max(width + 2, _LEAST_WIDTH)
    for block in blocks:
        for pair in zip_longest(*block):
            sides = [f"{cell[0]}{cell[1]:>{width - len(cell[0])}}" if cell else "" for cell in pair]
            yield f"{sides[0]:<{width}}    {sides[1]}".rstrip()
    yield ""


def _with_classic(names: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return a column with the further counters of the report of 2002."""
    column: list[tuple[str, str]] = []
    for name, label in names:
        column += [(own, words) for own, words, before in _CLASSIC if before == name]
        column.append((name, label))
    return tuple(column)


def _cells(
    names: tuple[tuple[str, str], ...] | list[tuple[str, str]],
    counters: Mapping[str, float | None],
    words: Mapping[str, str],
) -> list[tuple[str, str]]:
    return [
        (f"{label.format(**words) if words else label}:", _number(counters[name]))
        for name, label in names
        if name in counters
    ]


def _number(value: float | None) -> str:
    if value is None:
        return NO_TIME
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def quality_lines(
    view: ReportView, quality: SymbolQuality, figures: Figures, style: Style
) -> Iterator[str]:
    """Yield the section; without samples it has one line."""
    yield from style.section("Symbol quality")
    digits = percent_digits(quality.hits)
    nameless = quality.hits - quality.named_hits
    share = f" ({_part(quality.named_hits, quality.hits)})" if quality.hits else ""
    named = f"{quality.named_hits}{share} with a name"
    yield f"Of {pluralize(quality.hits, style.words.term('sample'))}, {named}, {nameless} without."
    if not quality.sources:
        return
    yield ""
    sources = quality.sources
    yield from table_lines(
        Column("Pcnt", percent_column([entry.share for entry in sources], digits)),
        Column(style.words.term("Samples"), [str(entry.hits) for entry in sources]),
        Column("Secs", figures.seconds_column([entry.seconds for entry in sources])),
        Column("Name from", [_label(entry) for entry in sources], right=False),
    )
    for entry in sources:
        if entry.objects:
            yield ""
            yield from _mending_lines(view, entry, style)


def _part(part: int, whole: int) -> str:
    """Return a share as a percentage, which is 100 only if nothing is missing."""
    digits = percent_digits(whole)
    text = percent(part / whole, digits)
    if part < whole and text == percent(1.0, digits):
        return f"over {percent(1.0 - 10.0 ** -(digits + 2), digits)}"
    return text


def _label(entry: SourceHits) -> str:
    label = LABELS[entry.source]
    return label if entry.source.named else f"none: {label}"


def _mending_lines(view: ReportView, entry: SourceHits, style: Style) -> Iterator[str]:
    objects = view.profile.objects
    yield f"{_label(entry)}; remedy: {REMEDIES[entry.source]}"
    counts = [pluralize(found.hits, style.words.term("sample")) for found in entry.objects]
    width = max(map(len, counts))
    for found, count in zip(entry.objects, counts, strict=True):
        note = objects.note[found.object_index]
        path = escaped(objects.path[found.object_index])
        whose = _whose(view, found)
        yield f"  {count:>{width}} in {path}{whose}" + (f" ({escaped(note)})" if note else "")
    if entry.objects_left_out:
        yield f"  and in {pluralize(entry.objects_left_out, 'more object')}"


def _whose(view: ReportView, found: ObjectHits) -> str:
    """Return the process of anonymous memory, "" for other objects."""
    if found.process_index < 0:
        return ""
    processes = view.profile.processes
    row = found.process_index
    return f" of {escaped(processes.name[row])} ({processes.pid[row]})"


def stack_quality_lines(quality: StackQuality | None, style: Style) -> Iterator[str]:
    """Yield the section; nothing if no stack was copied or cut."""
    if quality is None:
        return
    yield from style.section("Stack quality")
    if quality.cut_stacks:
        yield from _cut_lines(quality)
    if quality.copy_bytes:
        yield from _copies_lines(quality)
    yield ""


def _cut_lines(quality: StackQuality) -> Iterator[str]:
    digits = percent_digits(quality.stacks)
    share = percent(quality.cut_share, digits)
    yield (
        f"Of {pluralize(quality.stacks, 'call stack')}, {quality.cut_stacks} ({share}) were cut:"
        " the outer callers were not recorded, [cut] is in their place."
    )
    if quality.most_frames:
        yield (
            f"The kernel recorded at most {quality.most_frames} frames of a stack; record again"
            f" with a larger {MAX_STACK} (sysctl, as root, while nothing samples)."
        )


def _copies_lines(quality: StackQuality) -> Iterator[str]:
    copies = quality.samples - quality.without_copy
    digits = percent_digits(copies)
    share = f" ({percent(quality.whole / copies, digits)})" if copies else ""
    named = "copy of a user stack" if copies == 1 else "copies of user stacks"
    yield f"Of {copies} {named}, {quality.whole}{share} were unwound whole."
    if quality.cut:
        half, most = quality.cut_frames
        yield (
            f"{quality.cut} were cut, longer than the {quality.copy_bytes} bytes that were copied:"
            f" half of these have {pluralize(half, 'frame')} or less, the deepest {most}."
        )
    if quality.size_for_99:
        yield _remedy(quality)
    others = copies - quality.whole - quality.cut
    if others:
        yield f"{others} end early for other reasons (below)."
    if quality.continued:
        yield f"{quality.continued} of those that end early go on by frame pointers."
    if quality.without_copy:
        yield f"The kernel could not copy the stack of {pluralize(quality.without_copy, 'sample')}."
    if quality.places:
        yield ""
        width = len(str(quality.places[0].samples))
        for place in quality.places:
            path = escaped(place.object_path)
            yield f"  {place.samples:>{width}} end in {path} ({place.reason})"


def _remedy(quality: StackQuality) -> str:
    if not quality.size_to_ask_for:
        return (
            "No copy is large enough for 99% of them: the kernel copies at most"
            f" {MOST_COPY_BYTES} bytes; of frame pointers (--call-graph fp) it records"
            f" {MAX_STACK} frames."
        )
    size = f"--call-graph dwarf,{quality.size_to_ask_for}"
    if quality.is_size_least:
        return (
            f"It takes more than {quality.size_for_99} bytes to hold 99% of them whole: try {size}."
        )
    return f"It takes {size} to hold 99% of them whole."


def sample_accounting_lines(report: Report, style: Style) -> Iterator[str]:
    """Yield the accounting of ticks, the limit of lateness and the own cost, as far as known."""
    title = "Sample accounting: what became of every tick of the sampling clocks"
    yield style.title(style.words.term(title))
    if report.sample_accounting:
        yield from _table(report.sample_accounting, style)
    else:
        yield from _without_grid(report)
    if report.lateness:
        yield from _lateness_lines(report.lateness)
    yield ""
    yield from _cost_lines(report.cost, report, style)
    yield ""


def _table(accounting: SampleAccounting, style: Style) -> Iterator[str]:
    counts = accounting.by_cpu
    # All CPUs, or those with the largest errors, in the order of their numbers.
    errors = np.abs(counts.closure) + counts.lost + counts.throttled + counts.busy
    rows: list[int] = np.sort(np.argsort(-errors, kind="stable")[:_MOST_ROWS]).tolist()
    left_out = len(accounting.cpu) - len(rows)
    sums = [int(column.sum()) for column in counts]
    closure = int(counts.closure.sum())
    shares = [*counts.closure_share[rows].tolist(), closure / max(sums[0], 1)]
    yield from table_lines(
        Column("CPU", [*map(str, accounting.cpu[rows].tolist()), "all"]),
        *(
            Column(title, [*map(str, column[rows].tolist()), str(total)])
            for title, column, total in zip(_COUNTS, counts, sums, strict=True)
        ),
        Column("Left over", [*map(str, counts.closure[rows].tolist()), str(closure)]),
        Column("Error", [f"{share:.2%}" for share in shares]),
        Column("Busy Secs", _seconds(accounting.busy_s, rows)),
        Column("Steal Secs", _seconds(accounting.accounted_steal_s, rows)),
    )
    if left_out:
        yield style.cut(
            f"- {pluralize(left_out, 'CPU')} with smaller errors: only in the row 'all'"
        )
    worst = float(np.abs(counts.closure_share).max(initial=0.0))
    if worst > _LARGEST_ERROR:
        yield style.warning(f"{worst:.2%} of the ticks of a CPU are unaccounted for.")
    if accounting.unwatched_s >= _LEAST_TOLD_S:
        yield (
            f"{accounting.unwatched_s:.2f} Sec without expected ticks: CPUs were offline, or came"
            " back and were not watched yet."
        )
    if accounting.other_losses:
        yield f"Lost besides samples: {pluralize(accounting.other_losses, 'other record')}."
    if accounting.unclocked:
        yield f"Samples of an unknown clock: {accounting.unclocked}."


def _seconds(column: F64, rows: list[int]) -> list[str]:
    cells = [NO_TIME if math.isnan(value) else f"{value:.2f}" for value in column[rows].tolist()]
    total = float(np.nansum(column))
    return [*cells, NO_TIME if np.isnan(column).all() else f"{total:.2f}"]


def _without_grid(view: ReportView) -> Iterator[str]:
    counters = view.counters
    counts = ", ".join(
        f"{int(counters[name])} {label}"
        for name, label in (("samples", "recorded"), ("lost", "lost"), ("throttled", "throttles"))
        if name in counters
    )
    yield f"{counts}; missing ticks are unknown: no timer of this recording ticks on a fixed grid."


def _lateness_lines(lateness: Lateness) -> Iterator[str]:
    known = lateness.limit_ns[np.isfinite(lateness.limit_ns)] * _US_PER_NS
    if not len(known):
        return
    least, most = f"{known.min():.1f}", f"{known.max():.1f}"
    limits = f"{least} us" if least == most else f"{least} us to {most} us, by CPU,"
    yield (
        f"Late samples: over {limits} after their tick, which {USUAL_SHARE:.0%} of those in"
        " user mode exceed."
    )


def _cost_lines(cost: OwnCost, view: ReportView, style: Style) -> Iterator[str]:
    if cost.recorder and cost.recorder_hits is not None:
        accounted = (
            f" ({cost.recorder_accounted_s:.2f} Sec by getrusage, with start and end)"
            if cost.recorder_accounted_s is not None
            else ""
        )
        hits = pluralize(cost.recorder_hits, style.words.term("sample"))
        yield f"Prospect itself: {hits}, {_cost_words(cost.recorder)}{accounted}"
    if cost.sampling:
        samples, each = int(view.counters["samples"]), f"{cost.sample_cost_ns / 1e3:.2f} us"
        if samples * cost.sample_cost_ns * 1e-9 > cost.sampling.seconds * (1 + _ROUNDING):
            yield (
                f"Sampling: {pluralize(samples, 'sample')} of less than {each}, the cost of one"
                f" alone: at most {_cost_words(cost.sampling)}"
            )
        else:
            yield (
                f"Sampling: {pluralize(samples, 'sample')} of {each}, {_cost_words(cost.sampling)},"
                f" ± {cost.sampling_spread_s:.4f} Sec"
            )
    if cost.counted_calls:
        yield f"Counting system calls: at least {_cost_words(cost.counted_calls)}"


def _cost_words(cost: Cost) -> str:
    share = "" if cost.share is None else f" = {cost.share:.2%} of the CPUs' time"
    return f"{cost.seconds:.3f} Sec{share}"


def accounting_lines(rows: Sequence[Agreement], figures: Figures, style: Style) -> Iterator[str]:
    """Yield the section; nothing if the recording holds no accounting."""
    if not rows:
        return
    yield from style.section("Accounting: Sampled Time and the Kernel's Own")
    sampled = [NO_TIME if row.sampled_s is None else figures.seconds(row.sampled_s) for row in rows]
    explained = [
        NO_TIME if row.half_width_s is None else f"±{row.half_width_s:.2f}" for row in rows
    ]
    yield from table_lines(
        Column("Time", [row.name for row in rows], right=False),
        Column("Sampled Secs", sampled),
        Column("Accounted Secs", [f"{row.accounted_s:.2f}" for row in rows]),
        Column("Difference", [_difference(row.difference_s) for row in rows]),
        Column("Explained", explained),
        Column(
            "Accounted by", [f"{row.source}{_verdict(row, style)}" for row in rows], right=False
        ),
    )
    unsampled_s = max(row.unsampled_s for row in rows)
    if unsampled_s >= _LEAST_UNSAMPLED_S:
        yield (
            f"Samples are missing for {unsampled_s:.2f} CPU seconds (lost, throttled, missing while"
            " busy, not watched): sampled times may be too short by as much."
        )
    by_accounting = [row.unbooked_s for row in rows if row.is_of_accounting]
    if by_accounting:
        than = "less" if by_accounting[0] > 0 else "more"
        yield (
            f"{style.words.term('accounting').capitalize()}: /proc/stat has"
            f" {abs(by_accounting[0]):.2f} Sec {than} than the CPUs had,"
            " which explains these differences; sampling may be right."
        )
    if any(row.agrees is False for row in rows):
        beyond = (
            "Beyond: neither sampling errors nor the kernel's accounting explain this difference."
        )
        yield style.warning(style.words.term(beyond))
    yield ""


def _verdict(row: Agreement, style: Style) -> str:
    accounting = f"  {style.words.term('accounting')}"
    return accounting if row.is_of_accounting else _VERDICTS[row.agrees]


def _difference(seconds: float | None) -> str:
    # Rounded first, so that zero has no sign.
    return NO_TIME if seconds is None else f"{round(seconds, 2) + 0.0:+.2f}"
