"""Extrapolated Summary: every process that took time, sorted by user time, and one total."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.profile.portions import PORTION_KERNEL, PORTION_OTHER, PORTION_USER
from prospect.render.text.columns import Column, table_lines
from prospect.render.text.escape import escaped
from prospect.render.text.numbers import Figures, counted, percent, percent_digits

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from prospect.profile.view import EventView, ReportView
    from prospect.render.text.style import Style

_COLUMNS = (
    Column("Process name", right=False),
    Column("Pid"),
    Column("User Hits"),
    Column("User Time"),
    Column("System Hits"),
    Column("System Time"),
)
_OTHER_COLUMNS = (Column("Other Hits"), Column("Other Time"))
_PORTIONS = (PORTION_USER, PORTION_KERNEL, PORTION_OTHER)


def summary_lines(
    view: ReportView, event: EventView, figures: Figures, style: Style
) -> Iterator[str]:
    """Yield the section: kept processes, the cut line, the total and the wall time."""
    count = len(view.profile.processes)
    weight = "Time" if event.has_time else "Hits"
    yield from style.section(
        f"Extrapolated Summary of {count} Processes Analyzed - Sorted by User {weight}"
    )
    *lines, skipped_line, total_line = _table(view, event, figures)
    yield from lines
    skipped = event.processes.skipped_rows
    if len(skipped):
        yield style.cut(_cut_line(view, event, skipped))
        yield skipped_line
    yield total_line
    yield _wall_line(view, event, figures)
    yield ""


def _table(view: ReportView, event: EventView, figures: Figures) -> Iterator[str]:
    """Yield the table; its last two lines are the skipped processes' sum and the total."""
    processes = view.profile.processes
    kept = event.processes.kept_rows
    skipped = event.processes.skipped_rows
    names = [escaped(processes.name[row]) for row in kept.tolist()]
    names += [f"({len(skipped)} skipped)", "Total"]
    cells = [names, [*_pids(processes.pid.take(kept)), "", ""]]
    has_other = bool(event.hits[PORTION_OTHER])
    for portion in _PORTIONS if has_other else _PORTIONS[:-1]:
        hits, seconds = event.processes.hits[:, portion], event.processes.seconds[:, portion]
        rows = hits.take(kept).tolist()
        rows += [int(hits.take(skipped).sum()), int(hits.sum())]
        cells.append([str(value) for value in rows])
        times = seconds.take(kept).tolist()
        times += [float(seconds.take(skipped).sum()), float(seconds.sum())]
        cells.append(figures.seconds_column(times))
    yield from table_lines((*_COLUMNS, *(_OTHER_COLUMNS if has_other else ())), cells)


def _pids(pids: NDArray[np.int32]) -> list[str]:
    return [str(pid) if pid >= 0 else "?" for pid in pids.tolist()]


def _cut_line(view: ReportView, event: EventView, skipped: NDArray[np.int64]) -> str:
    if not event.has_time:
        return f"- Skip remainder, {counted(len(skipped), 'process')} without a hit"
    first_s = float(event.processes.seconds[skipped[0], PORTION_USER])
    return (
        f"- Skip remainder, user time of {first_s:.6f} is <= '-m {view.user_threshold_s:.5f}' Sec"
    )


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
