"""How good the samples are: names, call stacks, times.

Symbol quality and stack quality show hits without a name, call stacks that are cut, and remedies.
The sample accounting, late samples, own cost and Accounting show how samples account for the time;
Accounting compares sampled time with the kernel's own figures for the same interval.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.estimate.accounting.lateness import USUAL_SHARE
from prospect.profile.model import MOST_COPY_BYTES
from prospect.profile.naming import LABELS, REMEDIES
from prospect.profile.run_info import MAX_STACK
from prospect.render.escape import escaped
from prospect.render.text.numbers import NO_TIME, Figures, percent, percent_column, percent_digits
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from prospect.estimate.accounting.agreement import Agreement
    from prospect.estimate.accounting.lateness import Lateness
    from prospect.estimate.accounting.sample_accounting import SampleAccounting, TickCounts
    from prospect.estimate.finished_report import Report
    from prospect.figures.report.accounting import Cost, OwnCost
    from prospect.figures.report.report_view import ReportView
    from prospect.figures.report.symbol_quality import ObjectHits, SourceHits, SymbolQuality
    from prospect.figures.stacks.stack_quality import StackQuality
    from prospect.render.text.style import Style


# Those of `TickCounts`, in its order.
_COUNTS = ("Expected", "Recorded", "Lost", "Throttled", "Miss. idle", "Miss. busy")
_MOST_ROWS = 16
_LARGEST_ERROR = 0.01
_LEAST_TOLD_S = 0.01
_US_PER_NS = 1e-3
_ROUNDING = 1e-9
_LEAST_UNSAMPLED_S = 0.005
_VERDICTS = {True: "", False: "  beyond", None: ""}


def quality_lines(
    view: ReportView, quality: SymbolQuality, figures: Figures, style: Style
) -> Iterator[str]:
    """Yield the section; it is empty but for its first line if there are no hits."""
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
        [
            Column("Pcnt", percent_column([entry.share for entry in sources], digits)),
            Column(style.words.term("Samples"), [str(entry.hits) for entry in sources]),
            Column("Secs", figures.seconds_column([entry.seconds for entry in sources])),
            Column("Name from", [_label(entry) for entry in sources], right=False),
        ]
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
    """Return the process of anonymous memory; "" if the object's name says enough."""
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
    """Yield the accounting of ticks, the base of lateness and the own cost, as far as known."""
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
    rows = _shown_rows(accounting)
    left_out = len(accounting.cpu) - len(rows)
    counts = accounting.by_cpu
    sums = [int(column.sum()) for column in counts]
    closure = int(counts.closure.sum())
    errors = [*counts.closure_share[rows].tolist(), closure / max(sums[0], 1)]
    yield from table_lines(
        [
            Column("CPU", [*map(str, accounting.cpu[rows].tolist()), "all"]),
            *(
                Column(title, [*map(str, column[rows].tolist()), str(total)])
                for title, column, total in zip(_COUNTS, counts, sums, strict=True)
            ),
            Column("Left over", [*map(str, counts.closure[rows].tolist()), str(closure)]),
            Column("Error", [f"{share:.2%}" for share in errors]),
            Column("Busy Secs", _seconds(accounting.busy_s, rows)),
            Column("Steal Secs", _seconds(accounting.accounted_steal_s, rows)),
        ]
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


def _shown_rows(accounting: SampleAccounting) -> list[int]:
    """Return all CPUs, or those whose ticks add up worst, in the order of their numbers."""
    counts: TickCounts = accounting.by_cpu
    unsampled = np.abs(counts.closure) + counts.lost + counts.throttled + counts.busy
    worst = np.argsort(-unsampled, kind="stable")[:_MOST_ROWS]
    rows: list[int] = np.sort(worst).tolist()
    return rows


def _seconds(column: NDArray[np.float64], rows: list[int]) -> list[str]:
    cells = [NO_TIME if math.isnan(value) else f"{value:.2f}" for value in column[rows].tolist()]
    total = float(np.nansum(column))
    return [*cells, NO_TIME if np.isnan(column).all() else f"{total:.2f}"]


def _without_grid(view: ReportView) -> Iterator[str]:
    counters = view.counters
    counts = ", ".join(
        f"{int(counters[name])} {label}"
        for name, label in (
            ("samples", "recorded"),
            ("lost", "lost"),
            ("throttled", "throttles"),
        )
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
        [
            Column("Time", [row.name for row in rows], right=False),
            Column("Sampled Secs", sampled),
            Column("Accounted Secs", [f"{row.accounted_s:.2f}" for row in rows]),
            Column("Difference", [_difference(row.difference_s) for row in rows]),
            Column("Explained", explained),
            Column(
                "Accounted by", [f"{row.source}{_verdict(row, style)}" for row in rows], right=False
            ),
        ]
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
    # Rounded first: what rounds to nothing has no sign.
    return NO_TIME if seconds is None else f"{round(seconds, 2) + 0.0:+.2f}"
