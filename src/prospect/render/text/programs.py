"""Tables of the time by program, function and process.

*Programs* and *Functions* are the first screen's tables, as far as `-m` goes: processes of a name
are one program, and a function is one row wherever it ran; `--separate process` gives each process
its own rows. The extrapolated summary has every process that took time, by user time, and one
total.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.announcing import pluralize
from prospect.estimate.summary import functions_by_process
from prospect.figures.modes import MODE_COUNT, MODE_USER
from prospect.figures.processes import asked_for
from prospect.records import replace
from prospect.render.escape import escaped, shortened
from prospect.render.text.style import (
    NO_TIME,
    percent,
    percent_column,
    percent_digits,
    pid_text,
    rank_column,
)
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.columns.array_types import I64
    from prospect.estimate.summary import FunctionRow, ProgramRow, Summary
    from prospect.render.text.style import Page

_MODES = ("User", "System", "Interrupt", "Other")
# So many columns are always shown; the others only if they have samples.
_USUAL = 2
_NAME_WIDTH = 24
# With fewer CPUs at once, wall time is CPU time.
_LEAST_AT_ONCE = 1.05


def program_lines(page: Page, short: Summary) -> Iterator[str]:
    """Yield the section of programs, most time first; nothing if there was no hit."""
    rows, style = short.programs, page.style
    if not rows:
        return
    yield from style.section(f"Programs of {_asked_for(page)}")
    services = [_named(row.service or NO_TIME, row.other_services) for row in rows]
    columns = [
        *_figures(page, short, rows),
        *(_mode(page, [row.by_mode[at] for row in rows], at) for at in range(MODE_COUNT)),
        Column("Processes", [str(row.processes) for row in rows]),
        Column("Service", services, right=False, when=short.has_services),
        Column("Program", [escaped(row.name) for row in rows], right=False),
    ]
    yield from style.hot_rows(table_lines(*columns), _shares(short, rows))
    yield from _closing(page, short, rows, short.more_programs, "program")


def function_lines(page: Page, short: Summary, *, by_process: bool) -> Iterator[str]:
    """Yield the section of functions, most time of their own first; nothing without a hit.

    `short` has the page's threshold. Each process that ran a function has a row if `by_process`.
    """
    rows, more, style = short.functions, short.more_functions, page.style
    if by_process:
        rows, more = functions_by_process(page.event, page.report.user_threshold_s)
    if not rows:
        return
    yield from style.section(f"Functions of {_asked_for(page)}")
    ranks = [f"{at}{'=' * row.is_like_above}" for at, row in enumerate(rows, start=1)]
    pids = [pid_text(row.pid) for row in rows]
    programs = [_named(row.program, row.other_programs) for row in rows]
    files = [_named(row.object_path.rpartition("/")[2] or row.object_path) for row in rows]
    callers = [_named(row.caller or NO_TIME) for row in rows]
    has_callers = any(row.caller for row in rows)
    columns = [
        Column("Rank", ranks),
        *_figures(page, short, rows),
        Column("Pid", pids, when=by_process),
        Column("Program", programs, right=False),
        Column("Object", files, right=False),
        Column("Called by", callers, right=False, when=has_callers),
        Column("Function", [escaped(row.name) for row in rows], right=False),
    ]
    yield from style.hot_rows(table_lines(*columns), [row.share for row in rows])
    yield from _closing(page, short, rows, more, "function" if not by_process else "row")


def _figures(
    page: Page, short: Summary, rows: Sequence[ProgramRow] | Sequence[FunctionRow]
) -> list[Column]:
    """Return the columns that both tables begin with."""
    event = short.event
    seconds, halves = [row.seconds for row in rows], [row.half_width_s for row in rows]
    times, bars = page.figures.time_columns(seconds, halves, escaped(event.time_title))
    is_parallel = short.wall is not None and short.wall.at_once >= _LEAST_AT_ONCE
    wall = [page.figures.seconds(row.wall_s) for row in rows] if is_parallel else []
    return [
        times._replace(when=short.has_time),
        bars,
        Column("Wall s", wall, when=is_parallel),
        Column(escaped(event.samples_title), [str(row.hits) for row in rows]),
        Column("Share", percent_column(_shares(short, rows), percent_digits(short.hits))),
    ]


def _mode(page: Page, amounts: list[float], mode: int) -> Column:
    """Return the column of a mode; it is hidden if the mode is unusual and has no samples."""
    figures = page.figures
    cells = [figures.seconds(one) if figures.has_time else f"{one:.0f}" for one in amounts]
    return Column(_MODES[mode], cells, when=mode < _USUAL or any(amounts))


def _shares(short: Summary, rows: Sequence[ProgramRow] | Sequence[FunctionRow]) -> list[float]:
    if short.has_time:
        return [row.seconds / max(short.seconds, 1e-12) for row in rows]
    return [row.hits / max(short.hits, 1) for row in rows]


def _named(name: str, others: int = 0) -> str:
    """Return a name that fits its column, and how many others there are."""
    more = f" +{others}" if others else ""
    return shortened(escaped(name), _NAME_WIDTH - len(more)) + more


def _closing(
    page: Page,
    short: Summary,
    rows: Sequence[ProgramRow] | Sequence[FunctionRow],
    more: int,
    what: str,
) -> Iterator[str]:
    """Yield the rows that are left out, and an empty line."""
    if more:
        hits = short.hits - sum(row.hits for row in rows)
        time = f"{page.figures.seconds(short.seconds - sum(row.seconds for row in rows))} s, "
        amount = f"{time if short.has_time else ''}{pluralize(hits, 'sample')}"
        share = percent(hits / max(short.hits, 1), 1)
        option = f"- Left out by '-m {page.report.user_threshold_s:g}'"
        yield page.style.cut(f"{option}: {pluralize(more, what)} with {amount} ({share})")
    yield ""


def _asked_for(page: Page) -> str:
    return asked_for(page.report.profile.run, page.report.detail)


def summary_lines(page: Page) -> Iterator[str]:
    """Yield the section: kept processes, the cut line, the total, and remarks."""
    view, event, style = page.report, page.event, page.style
    processes = pluralize(len(view.profile.processes), "Process")
    samples = style.words.term("Samples")
    weight = "Time" if event.has_time else "Periods" if event.event.weighs_periods else samples
    yield from style.section(
        f"Extrapolated Summary of {processes} Analyzed - Sorted by User {weight}"
    )
    *lines, skipped_line, total_line = _processes(page)
    yield from lines
    skipped = event.processes.skipped_rows
    if len(skipped):
        yield style.cut(_cut_line(page, skipped))
        yield skipped_line
    yield total_line
    yield _wall_line(page)
    yield from (escaped(style.words.sentence(one)) for one in page.event.estimates.sentences)
    yield ""


def _processes(page: Page) -> Iterator[str]:
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
        Column("Pid", [*map(pid_text, processes.pid.take(kept).tolist()), "", ""]),
    ]
    for mode, label in enumerate(_MODES):
        if mode >= _USUAL and not event.hits[mode]:
            continue
        hits, seconds = event.processes.hits[:, mode], event.processes.seconds[:, mode]
        rows = hits.take(kept).tolist()
        rows += [int(hits.take(skipped).sum()), int(hits.sum())]
        times = seconds.take(kept).tolist()
        times += [float(seconds.take(skipped).sum()), float(seconds.sum())]
        half_widths = page.event.estimates.process_half_width_s(mode).take(kept).tolist()
        half_widths += [
            float(table.half_width_s[mode])
            for table in (page.event.estimates.skipped, page.event.estimates.totals)
        ]
        columns.append(
            Column(f"{label} {page.style.words.term('Samples')}", [str(value) for value in rows])
        )
        columns += page.figures.time_columns(times, half_widths, f"{label} Time")
    yield from table_lines(*columns)


def _ranks(page: Page, kept: I64) -> list[str]:
    """Return the ranks by user time; a process is marked if any of its times is."""
    estimates = page.event.estimates.processes
    aliased = estimates.aliased.reshape(-1, MODE_COUNT).any(axis=1)
    ranked = estimates.rows(kept * MODE_COUNT + MODE_USER)
    return rank_column(replace(ranked, aliased=aliased.take(kept)))


def _cut_line(page: Page, skipped: I64) -> str:
    view, event, words = page.report, page.event, page.style.words
    processes = pluralize(len(skipped), "process")
    if not event.has_time:
        return f"- {words.left_out} {processes} without a {words.term('sample')}"
    first_s = float(event.processes.seconds[skipped[0], MODE_USER])
    if words.is_classic:
        limit = f"'-m {view.user_threshold_s:.5f}' Sec"
        return f"- {words.left_out} user time of {first_s:.6f} is <= {limit}"
    options = f"'-m {view.user_threshold_s:g}' and '-k {view.kernel_threshold_s:g}'"
    return f"- Left out by {options}: {processes}, of {first_s:.6f} s of user time and less"


def _wall_line(page: Page) -> str:
    event, figures, run = page.event, page.figures, page.report.profile.run
    sampled_s = float(event.seconds.sum())
    sampled = f"sampled {figures.seconds(sampled_s)} Sec"
    if not event.has_time:
        sampled = f"sampled {pluralize(int(event.hits.sum()), page.style.words.term('sample'))}"
    if not run.wall_seconds > 0:
        return f"Wall time unknown; {sampled}"
    wall = f"Wall time {run.wall_seconds:.3f} Sec"
    if run.cpus <= 0:
        return f"{wall}; {sampled}"
    cpu_s = run.wall_seconds * run.cpus
    share = percent(sampled_s / cpu_s, percent_digits(int(event.hits.sum())))
    of_all = f" ({share})" if event.has_time else ""
    cpus = pluralize(run.cpus, "CPU")
    return f"{wall} x {cpus} = {cpu_s:.3f} Sec; {sampled}{of_all}"
