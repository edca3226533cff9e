"""Waiting: each thread's life by what it did, and what blocked it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prospect.announcing import pluralize
from prospect.render.escape import escaped
from prospect.render.name_parts import short_names
from prospect.render.text.style import NO_TIME, percent
from prospect.render.text.text_table import Column, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.columns.array_types import F64, I64, U64
    from prospect.figures.report.report_view import ReportView
    from prospect.figures.report.waiting import BlockedStack, Blocker, Waiting, Waker
    from prospect.render.text.style import Style

_NS = 1e-9
_MOST_THREADS = 40
_MOST_BLOCKERS = 15
_MOST_KERNEL, _MOST_USER = 4, 8
_CALLED_BY = " <- "
_UNKNOWN = "[unknown]"
_MOST_UNKNOWN = 0.01
_MOST_WAKERS = 10
_HOLDER_WIDTH = 40
_KIND = ("work", "idle")  # by `idle`


def waiting_lines(view: ReportView, style: Style) -> Iterator[str]:
    """Yield the section; nothing if the recording has no switches."""
    found = view.waiting
    if found is None:
        return
    yield from style.section("Waiting: What Each Thread Did All its Life")
    if not len(found.shown):
        yield "- No thread of these processes was met."
        yield ""
        return
    yield from _threads(view, found, style)
    yield from _closure(view, found)
    yield ""
    if found.blockers is None:
        yield "Note: no stacks of waits were recorded: what blocked threads is not known."
        yield ""
        return
    yield from style.section("Blocked, by What Was Waited for")
    yield from _blockers(found, style)
    yield ""
    if found.wakers:
        yield from style.section("Blocked, by Who Ended It")
        yield from _wakers(found, style)
        yield ""
    if found.holders:
        yield from style.section("Locks, by What Their Holders Did while Others Waited")
        yield from _holders(found)
        yield ""
    if found.stacks:
        yield from style.section("Blocked, by Stack, from the Inside out")
        yield from _stacks(found, style)
        yield ""


def _threads(view: ReportView, found: Waiting, style: Style) -> Iterator[str]:
    threads, processes = found.threads, view.profile.processes
    rows = found.shown[:_MOST_THREADS]
    pids = np.append(processes.pid, -1).take(threads.process_index.take(rows)).tolist()
    left = found.shown[_MOST_THREADS:]
    groups = [*([row] for row in rows.tolist()), found.shown.tolist()]
    if len(left):
        groups.insert(-1, left.tolist())
    sums = ([f"({len(left)} more)"] if len(left) else []) + ["Total"]
    names = [*(escaped(threads.name[row]) for row in rows.tolist()), *sums]
    blank = [""] * len(sums)
    yield from table_lines(
        Column("Thread", names, right=False),
        Column("Pid", [*map(str, pids), *blank]),
        Column("Tid", [*map(str, threads.tid.take(rows).tolist()), *blank]),
        *_figures(found, groups),
    )
    if len(left):
        yield style.cut(f"- Threads that ran longest first; {pluralize(len(left), 'more thread')}")


def _figures(found: Waiting, groups: list[list[int]]) -> list[Column]:
    """Return the columns of seconds and numbers, with a cell for each group of threads."""
    threads = found.threads

    def seconds(column: I64 | U64) -> list[str]:
        return [_seconds(float(column[group].sum()) * _NS) for group in groups]

    def sampled(column: F64) -> list[str]:
        return [_seconds(_known_sum(column[group])) for group in groups]

    longest = [_seconds(float(threads.longest_ns[group].max()) * _NS) for group in groups]
    is_unknown = bool(threads.unknown_ns.take(found.shown).any())
    return [
        Column("Life", seconds(threads.life_ns)),
        Column("On CPU", seconds(threads.cpu_ns)),
        Column("User", sampled(found.user_s)),
        Column("System", sampled(found.system_s)),
        Column("Runnable", seconds(threads.runnable_ns)),
        Column("Blocked", seconds(threads.blocked_ns)),
        Column("Unknown", seconds(threads.unknown_ns), when=is_unknown),
        Column("Longest", longest),
        Column("Waits", [str(int(threads.blocks[group].sum())) for group in groups]),
        Column("Preempted", [str(int(threads.preemptions[group].sum())) for group in groups]),
    ]


def _closure(view: ReportView, found: Waiting) -> Iterator[str]:
    """Yield how well the times add up, and which are unknown."""
    threads, rows = found.threads, found.shown
    life_s = float(threads.life_ns.take(rows).sum()) * _NS
    unknown_s = float(threads.unknown_ns.take(rows).sum()) * _NS
    cpu_s = float(threads.cpu_ns.take(rows).sum()) * _NS
    if life_s > 0:
        known = percent(1 - unknown_s / life_s, 2)
        yield f"On CPU, runnable and blocked add up to {known} of {_seconds(life_s)} Sec of life."
    if unknown_s > _MOST_UNKNOWN * life_s:
        yield "Records of switches were lost: --call-graph fp makes them smaller, so that more fit."
    yield (
        f"{_seconds(cpu_s)} Sec on a CPU by switches, {found.sampled_s:.3f} Sec by samples alone;"
        " User and System divide each thread's time as its samples do."
    )
    if throttled_s := sum(one.seconds for one in view.throttled):
        runnable_s = found.runnable_s
        yield (
            f"Of {_seconds(runnable_s)} Sec runnable, a CPU limit stopped the threads for about"
            f" {_seconds(min(throttled_s, runnable_s))} Sec: no other process had the CPU instead."
        )
        for one in view.throttled:
            yield (
                f"- {escaped(one.group)}: {_seconds(one.seconds)} Sec, in {one.throttled} of"
                f" {pluralize(one.periods, 'period')}"
            )
    stackless_s = float(threads.stackless_ns.take(rows).sum()) * _NS
    waited_ns = threads.runnable_ns.take(rows).sum() + threads.blocked_ns.take(rows).sum()
    if stackless_s > 0:
        share = percent(stackless_s / max(float(waited_ns) * _NS, stackless_s), 1)
        lack = "without a stack" if found.stacks else "of unknown reason"
        yield (
            f"Waits {lack}: {_seconds(stackless_s)} Sec ({share} of all), which began"
            " before the recording or before the thread's first turn, or whose sample was lost."
        )


def _blockers(found: Waiting, style: Style) -> Iterator[str]:
    blockers = (found.blockers or ())[:_MOST_BLOCKERS]
    total_s = math.fsum(blocker.seconds for blocker in found.blockers or ())
    shares = [percent(one.seconds / max(total_s, 1e-9), 1) for one in blockers]
    seconds, waits, longest = _wait_columns(blockers)
    yield from table_lines(
        seconds,
        Column("Pcnt", shares),
        waits,
        Column("Mean usec", [f"{one.seconds / one.waits * 1e6:.1f}" for one in blockers]),
        longest,
        Column("Kind", [_KIND[one.idle] for one in blockers], right=False),
        Column("What", [escaped(one.name) for one in blockers], right=False),
    )
    more = len(found.blockers or ()) - len(blockers)
    if more > 0:
        yield style.cut(f"- {more} more")
    idle_s = math.fsum(blocker.seconds for blocker in found.blockers or () if blocker.idle)
    yield (
        f"Within work {_seconds(total_s - idle_s)} Sec; idle {_seconds(idle_s)} Sec: sleeps, event"
        " loops, conditions that a thread waits for, and ends of children."
    )


def _wakers(found: Waiting, style: Style) -> Iterator[str]:
    wakers = (found.wakers or ())[:_MOST_WAKERS]
    yield from table_lines(
        *_wait_columns(wakers),
        Column("Kind", [_KIND[waker.idle] for waker in wakers], right=False),
        Column("What", [escaped(waker.name) for waker in wakers], right=False),
        Column("Ended by", [escaped(waker.who) for waker in wakers], right=False),
    )
    more = len(found.wakers or ()) - len(wakers)
    if more > 0:
        yield style.cut(f"- {more} more")


def _holders(found: Waiting) -> Iterator[str]:
    rows = found.holders
    functions = [escaped(row.function) for row in rows]
    callers = [escaped(row.caller) or "-" for row in rows]
    yield from table_lines(
        Column("Secs", [_seconds(row.seconds) for row in rows]),
        Column("What", [escaped(row.lock) for row in rows], right=False),
        Column("Called by", short_names(callers, _HOLDER_WIDTH), right=False),
        Column("Function", short_names(functions, _HOLDER_WIDTH), right=False),
    )


def _stacks(found: Waiting, style: Style) -> Iterator[str]:
    yield from table_lines(
        *_wait_columns(found.stacks),
        Column("Stack", [_stack(stack) for stack in found.stacks], right=False),
    )
    if found.more_stacks:
        more = pluralize(found.more_stacks, "more stack")
        yield style.cut(f"- {more}: see them with prospect calls")


def _wait_columns(
    rows: Sequence[Blocker] | Sequence[Waker] | Sequence[BlockedStack],
) -> tuple[Column, Column, Column]:
    return (
        Column("Secs", [_seconds(row.seconds) for row in rows]),
        Column("Waits", [str(row.waits) for row in rows]),
        Column("Longest", [_seconds(row.longest_s) for row in rows]),
    )


def _stack(stack: BlockedStack) -> str:
    kernel = [*stack.kernel[:_MOST_KERNEL], *(["..."] if len(stack.kernel) > _MOST_KERNEL else [])]
    user = [*stack.user[:_MOST_USER], *(["..."] if len(stack.user) > _MOST_USER else [])]
    parts = (_CALLED_BY.join(escaped(name or _UNKNOWN) for name in part) for part in (kernel, user))
    return " | ".join(part for part in parts if part)


def _known_sum(column: F64) -> float:
    return float(np.nansum(column)) if np.isfinite(column).any() else math.nan


def _seconds(seconds: float) -> str:
    return NO_TIME if math.isnan(seconds) else f"{seconds:.6f}"
