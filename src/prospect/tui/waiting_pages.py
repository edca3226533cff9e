"""The pages of `prospect top` for threads without a CPU, and for the stacks of a thread's waits.

Times are those of the report's section on waiting, added up over threads of one name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.figures.report.waiting import blocked_stacks
from prospect.records import replace
from prospect.tui.groups import of_pid
from prospect.tui.rows import KERNEL, USER, Page, Row
from prospect.tui.screen_places import WAIT_STACKS, Place
from prospect.tui.table_pages import BY_BLOCKED, BY_NAME, BY_READY, BY_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from prospect.figures.report.waiting import BlockedStack
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import ThreadTimes
    from prospect.tui.figures import LiveFigures
    from prospect.tui.table_pages import View

_NS = 1e-9
_MOST_ROWS = 150
_MOST_STACKS = 20
NO_SWITCHES = "No switches were recorded: start it with --off-cpu to see what threads wait for."
_NO_WAITS = "No wait with a stack yet: this thread waits since before the start, or not at all."
_UNKNOWN = "[unknown]"

Name = tuple[str, str]


def waiting_page(figures: LiveFigures, place: Place, view: View) -> Page:
    """Return threads by what they did, those that ran longest first: they are of busy programs."""
    threads = figures.profile.threads
    if threads is None:
        return Page((), note=NO_SWITCHES)
    words = view.words.casefold()
    # A thread whose process is not known has row -1.
    chosen = np.append(of_pid(figures.profile, words), False)
    followed = _followed(figures)
    if chosen.any():
        rows = _rows(figures.profile, threads, place, chosen & followed)
    else:
        rows = _rows(figures.profile, threads, place, followed)
        rows = [one for one in rows if any(words in name.casefold() for name in _whose(one))]
    rows.sort(key=_SORT_KEYS.get(view.order, _SORT_KEYS[BY_TIME]))
    shown = tuple(rows[:_MOST_ROWS])
    return Page(
        rows=shown,
        more=len(rows) - len(shown),
        more_s=sum(row.seconds for row in rows[_MOST_ROWS:]),
        total_s=sum(row.seconds for row in rows),
    )


_SORT_KEYS: dict[str, Callable[[Row], tuple[object, ...]]] = {
    BY_TIME: lambda row: (-row.seconds, -row.ready_s, -row.blocked_s),
    BY_READY: lambda row: (-row.ready_s, -row.seconds),
    BY_BLOCKED: lambda row: (-row.blocked_s, -row.seconds),
    BY_NAME: lambda row: (row.name, row.process),
}


def _rows(
    profile: CompleteProfile, threads: ThreadTimes, place: Place, chosen: NDArray[np.bool_]
) -> list[Row]:
    """Return a row for each name of threads; `chosen`, bool[p + 1], of these processes alone."""
    members: dict[Name, list[int]] = {}
    is_chosen = chosen.take(threads.process_index).tolist()
    for row, name in enumerate(_names(profile, threads)):
        if is_chosen[row] and _is_in(name, place):
            members.setdefault(name, []).append(row)
    times = np.stack((threads.cpu_ns, threads.runnable_ns, threads.blocked_ns)) * _NS
    found = []
    for (thread, process), rows in members.items():
        ran_s, ready_s, blocked_s = times[:, rows].sum(axis=1).tolist()
        found.append(
            Row(
                key=(thread, process),
                name=thread,
                process=process,
                place=f"{len(rows)} threads" if len(rows) > 1 else "",
                paint=USER,
                seconds=ran_s,
                ready_s=ready_s,
                blocked_s=blocked_s,
                target=replace(place, page=WAIT_STACKS, process=process, thread=thread),
            )
        )
    return found


def _followed(figures: LiveFigures) -> NDArray[np.bool_]:
    """Say of processes, bool[p + 1], whether they are followed; the last is one not known."""
    return np.append(figures.is_followed, not figures.state.followed)


def _whose(row: Row) -> Name:
    return row.name, row.process


def _names(profile: CompleteProfile, threads: ThreadTimes) -> list[Name]:
    """Return the name of each thread, and of its process."""
    processes = [*profile.processes.name, "?"]
    index = threads.process_index.tolist()
    return [(name, processes[process]) for name, process in zip(threads.name, index, strict=True)]


def _is_in(name: Name, place: Place) -> bool:
    thread, process = name
    return place.process in ("", process) and place.thread in ("", thread)


def wait_stacks_page(figures: LiveFigures, place: Place) -> Page:
    """Return where the threads of a name were blocked: who waited, and below who called it."""
    profile, threads = figures.profile, figures.profile.threads
    if threads is None:
        return Page((), note=NO_SWITCHES)
    is_followed = _followed(figures).take(threads.process_index).tolist()
    rows = [
        row
        for row, name in enumerate(_names(profile, threads))
        if is_followed[row] and _is_in(name, place)
    ]
    stacks = blocked_stacks(profile, threads.tid.take(rows), _MOST_STACKS)
    if not stacks:
        return Page((), note=_NO_WAITS)
    known_s = sum(stack.seconds for stack in stacks)
    blocked_s = float(threads.blocked_ns.take(rows).sum()) * _NS
    return Page(
        rows=tuple(row for stack in stacks for row in _frames(stack)),
        total_s=blocked_s,
        note=f"These stacks are {known_s:.1f} s of {blocked_s:.1f} s that it was blocked.",
    )


def _frames(stack: BlockedStack) -> Iterator[Row]:
    """Yield the function that waited, with its time, and its callers."""
    frames = [(name, KERNEL) for name in stack.kernel] + [(name, USER) for name in stack.user]
    names = tuple(name for name, _ in frames)
    for depth, (name, paint) in enumerate(frames or [("", USER)]):
        yield Row(
            key=(names, depth),
            name=name or _UNKNOWN,
            paint=paint,
            lead="  ← " if depth else "",
            seconds=float("nan"),
            blocked_s=float("nan") if depth else stack.seconds,
        )
