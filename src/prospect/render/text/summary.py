"""Extrapolated Summary: every process that took time, sorted by user time, and one total."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import counted
from prospect.figures.portions import (
    PORTION_COUNT,
    PORTION_INTERRUPT,
    PORTION_KERNEL,
    PORTION_OTHER,
    PORTION_USER,
)
from prospect.records import replace
from prospect.render.escape import escaped
from prospect.render.text.columns import Column, table_lines
from prospect.render.text.numbers import percent, percent_digits, rank_column

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from prospect.figures.report.view import EventView, ReportView
    from prospect.render.text.numbers import Figures
    from prospect.render.text.page import Page

_PORTIONS = (
    (PORTION_USER, "User"),
    (PORTION_KERNEL, "System"),
    (PORTION_INTERRUPT, "Interrupt"),
    (PORTION_OTHER, "Other"),
)
# Columns that are always there; the others only where there are any.
_USUAL = (PORTION_USER, PORTION_KERNEL)


def summary_lines(page: Page) -> Iterator[str]:
    """Yield the section: kept processes, the cut line, the total, and what to make of them."""
    view, event, style = page.report, page.event, page.style
    processes = counted(len(view.profile.processes), "Process")
    weight = "Time" if event.has_time else "Periods" if event.event.weighs_periods else "Hits"
    yield from style.section(
        f"Extrapolated Summary of {processes} Analyzed - Sorted by User {weight}"
    )
    *lines, skipped_line, total_line = _table(page)
    yield from lines
    skipped = event.processes.skipped_rows
    if len(skipped):
        yield style.cut(_cut_line(page, skipped))
        yield skipped_line
    yield total_line
    yield _wall_line(view, event, page.figures)
    yield from map(escaped, page.event.estimates.sentences)
    yield ""


def _table(page: Page) -> Iterator[str]:
    """Yield the table; its last two lines are the skipped processes' sum and the total."""
    event, processes = page.event, page.report.profile.processes
    kept = event.processes.kept_rows
    skipped = event.processes.skipped_rows
    names = [escaped(processes.name[row]) for row in kept.tolist()]
    names += [f"({len(skipped)} skipped)", "Total"]
    ranks = [*_ranks(page, kept), "", ""] if event.has_time else []
    columns = [
        Column("Rank", ranks, when=event.has_time),
        Column("Process name", names, right=False),
        Column("Pid", [*_pids(processes.pid.take(kept)), "", ""]),
    ]
    for portion, label in _PORTIONS:
        if portion not in _USUAL and not event.hits[portion]:
            continue
        hits, seconds = event.processes.hits[:, portion], event.processes.seconds[:, portion]
        rows = hits.take(kept).tolist()
        rows += [int(hits.take(skipped).sum()), int(hits.sum())]
        times = seconds.take(kept).tolist()
        times += [float(seconds.take(skipped).sum()), float(seconds.sum())]
        half_widths = page.event.estimates.process_half_width_s(portion).take(kept).tolist()
        half_widths += [
            float(table.half_width_s[portion])
            for table in (page.event.estimates.skipped, page.event.estimates.totals)
        ]
        columns.append(Column(f"{label} Hits", [str(value) for value in rows]))
        columns += page.figures.time_columns(times, half_widths, f"{label} Time")
    yield from table_lines(columns)


def _ranks(page: Page, kept: NDArray[np.int64]) -> list[str]:
    """Return the ranks by user time; a process is marked where any of its times is."""
    estimates = page.event.estimates.processes
    in_step = estimates.in_step.reshape(-1, PORTION_COUNT).any(axis=1)
    ranked = estimates.rows(kept * PORTION_COUNT + PORTION_USER)
    return rank_column(replace(ranked, in_step=in_step.take(kept)))


def _pids(pids: NDArray[np.int32]) -> list[str]:
    return [str(pid) if pid >= 0 else "?" for pid in pids.tolist()]


def _cut_line(page: Page, skipped: NDArray[np.int64]) -> str:
    view, event, words = page.report, page.event, page.style.words
    processes = counted(len(skipped), "process")
    if not event.has_time:
        return f"- {words.left_out} {processes} without a hit"
    first_s = float(event.processes.seconds[skipped[0], PORTION_USER])
    if words.is_classic:
        limit = f"'-m {view.user_threshold_s:.5f}' Sec"
        return f"- {words.left_out} user time of {first_s:.6f} is <= {limit}"
    options = f"'-m {view.user_threshold_s:g}' and '-k {view.kernel_threshold_s:g}'"
    return f"- Left out by {options}: {processes}, of {first_s:.6f} s of user time and less"


def _wall_line(view: ReportView, event: EventView, figures: Figures) -> str:
    run = view.profile.run
    sampled_s = float(event.seconds.sum())
    sampled = f"sampled {figures.seconds(sampled_s)} Sec"
    if not event.has_time:
        sampled = f"sampled {counted(int(event.hits.sum()), 'hit')}"
    if not run.wall_seconds > 0:
        return f"Wall time unknown; {sampled}"
    wall = f"Wall time {run.wall_seconds:.3f} Sec"
    if run.cpus <= 0:
        return f"{wall}; {sampled}"
    cpu_s = run.wall_seconds * run.cpus
    share = percent(sampled_s / cpu_s, percent_digits(int(event.hits.sum())))
    of_all = f" ({share})" if event.has_time else ""
    cpus = counted(run.cpus, "CPU")
    return f"{wall} x {cpus} = {cpu_s:.3f} Sec; {sampled}{of_all}"
