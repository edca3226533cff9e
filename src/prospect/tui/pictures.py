"""The pages of the screen, the state of a page, and the chosen row.

That row stays chosen, and stays on its line, while the rows around it move.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.errors.call_estimates import tree_half_widths
from prospect.figures.calls.call_graph import call_graph
from prospect.figures.calls.call_tree import callees_of_tree, self_callers_tree
from prospect.figures.report.waiting import blocked_stacks
from prospect.figures.stacks.frames import is_kernel_frame
from prospect.figures.stacks.stack_weights import stack_samples
from prospect.records import Record, field, replace
from prospect.render.text.turns_section import turns_table_lines, turns_words
from prospect.tui.groups import function_of, functions_of, in_scope, of_pid, place_label
from prospect.tui.rows import (
    CALLERS,
    INSTRUCTIONS,
    KERNEL,
    TURNS,
    USER,
    WAIT_STACKS,
    WAITING,
    Page,
    Place,
    Row,
)
from prospect.tui.table_pages import (
    BY_BLOCKED,
    BY_NAME,
    BY_READY,
    BY_TIME,
    View,
    orders_of,
    table_page,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prospect.columns.array_types import Bools
    from prospect.figures.calls.call_graph import CallGraph
    from prospect.figures.calls.call_tree import CallTree
    from prospect.figures.report.waiting import BlockedStack
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import ThreadTimes
    from prospect.tui.figures import LiveFigures
    from prospect.tui.rows import Function, Key
    from prospect.tui.table_pages import CodeMemory

_SHARE = 0.01
_MOST_ROWS = 400
NO_STACKS = "No callers were recorded: start it with --call-graph auto."
_NO_CALLERS = "Most of its callers are unknown: start it with --call-graph auto to see them."
_MOST = 0.5
_ENDS_EARLY = "If it ends too early, use --call-graph auto: these stacks are from frame pointers."
_CALLS_NOTHING = "No sample was taken in anything that it calls."
_NO_HITS = "This function has no samples here yet."


def calls_page(figures: LiveFigures, place: Place, function: Function) -> Page:
    """Return the tree of a function's callers or callees.

    Its times and error bars are those of ``prospect calls`` on the same profile.
    """
    if figures.profile.stacks is None:
        return Page((), note=NO_STACKS)
    samples = stack_samples(figures.profile, "4")
    chosen = (figures.is_shown & in_scope(figures, place)).take(samples.hit_index)
    graph = call_graph(samples, chosen, figures.event_index)
    functions = functions_of(samples.profile, function)
    frames = np.flatnonzero(np.isin(graph.frames.function_index, functions))
    grow = self_callers_tree if place.page == CALLERS else callees_of_tree
    tree = grow(graph, frames, _SHARE)
    if not len(tree):
        return Page((), note=_NO_HITS)
    rows = _rows(graph, tree, place)
    return Page(
        note=_note(tree, place, by_pointers=figures.profile.stack_copies is None),
        rows=rows[:_MOST_ROWS],
        more=max(len(rows) - _MOST_ROWS, 0),
        total_s=float(tree.total_s[tree.depth == 0].sum()),
    )


def _note(tree: CallTree, place: Place, *, by_pointers: bool) -> str:
    """Return a note on the limits of a tree, "" for none."""
    if place.page != CALLERS:
        return "" if len(tree) > 1 else _CALLS_NOTHING
    if not by_pointers:
        return ""
    return _NO_CALLERS if float(tree.ended_s[0]) > _MOST * float(tree.total_s[0]) else _ENDS_EARLY


def _rows(graph: CallGraph, tree: CallTree, place: Place) -> tuple[Row, ...]:
    halves = tree_half_widths(graph, tree).tolist()
    is_kernel = is_kernel_frame(graph.profile, graph.frames).tolist()
    functions: list[int] = graph.frames.function_index.tolist()
    keys: list[Key] = []
    rows = []
    columns = zip(
        tree.parent.tolist(),
        tree.frame.tolist(),
        tree.hits.tolist(),
        tree.total_s.tolist(),
        strict=True,
    )
    leads = _leads(tree, "←" if place.page == CALLERS else "→")
    for (parent, frame, hits, seconds), half, lead in zip(columns, halves, leads, strict=True):
        path = graph.object_path(frame)
        keys.append((keys[parent] if parent >= 0 else (), (graph.labels[frame], path)))
        target = None
        if functions[frame] >= 0 and parent >= 0:
            function = function_of(graph.profile, functions[frame])
            target = replace(place, function=function)
        rows.append(
            Row(
                key=keys[-1],
                name=tree.labels[frame],
                place=place_label(path),
                paint=KERNEL if is_kernel[frame] else USER,
                lead=lead,
                hits=hits,
                seconds=seconds,
                half_width_s=half,
                target=target,
            )
        )
    return tuple(rows)


def _leads(tree: CallTree, arrow: str) -> list[str]:
    """Return the characters before each row's name: lines if its caller has siblings, and an arrow.

    An only child is not indented: most of a tree is one path, which would leave the screen.
    """
    parents: list[int] = tree.parent.tolist()
    last = {parent: row for row, parent in enumerate(parents)}
    only = {row for row, number in Counter(parents).items() if number == 1}
    leads: list[str] = []
    below: list[str] = []
    for row, parent in enumerate(parents):
        before = below[parent] if parent >= 0 else ""
        if parent < 0:
            leads.append("")
            below.append("")
        elif parent in only:
            leads.append(f"{before}{arrow} ")
            below.append(before)
        else:
            is_last = last[parent] == row
            leads.append(f"{before}{'└' if is_last else '├'}{arrow} ")
            below.append(before + ("  " if is_last else "│ "))
    return leads


_WIDTH = 1000  # the screen cuts lines
_MOST_KINDS = 30
_NO_SWITCHES = "No switches were recorded: start it with --off-cpu to see turns."
_NO_TURNS = (
    "No turn yet: no thread has ended two waits for work since the last look, with stacks by"
    " which these are known."
)


def turns_page(figures: LiveFigures, words: str) -> Page:
    """Return the turns of the last interval whose program or kind contains `words`."""
    account = figures.turns
    if account is None or not account.kinds:
        note = _NO_SWITCHES if figures.profile.threads is None else _NO_TURNS
        return Page((), is_text=True, note=note)
    found = words.casefold()
    kinds = [one for one in account.kinds if found in one.program.casefold() + one.kind.casefold()][
        :_MOST_KINDS
    ]
    title, *lines = turns_table_lines(kinds)
    rows = []
    for kind, line in zip(kinds, lines, strict=True):
        key = (kind.program, kind.service, kind.kind)
        rows.append(Row((*key, 0), line, paint=USER))
        rows.append(Row((*key, 1), f"        {turns_words(kind, _WIDTH)[0]}", paint=USER))
    return Page(tuple(rows), is_text=True, title=f"{title}   (since the last look)")


class Cursor(Record):
    """The chosen row.

    Attributes:
        row: its place among the rows.
        top: the place of the first row on the screen.
        key: its identity; None until a person has moved it: it is then the first row.
    """

    row: int = 0
    top: int = 0
    key: Key | None = None

    def moved(self, rows: Sequence[Row], step: int, height: int) -> Cursor:
        """Go `step` rows down; negative is up."""
        if not rows:
            return Cursor()
        row = min(max(self.row + step, 0), len(rows) - 1)
        return replace(self, row=row, key=rows[row].key).within(len(rows), height)

    def scrolled(self, rows: Sequence[Row], step: int, height: int) -> Cursor:
        """Scroll lines of text, which have no chosen row, by `step`."""
        if not rows:
            return Cursor()
        top = min(max(self.top + step, 0), max(len(rows) - height, 0))
        return Cursor(top, top, rows[top].key)

    def opened(self, rows: Sequence[Row], line: int, height: int) -> Cursor:
        """Show lines around `line` at first, and later the same lines again."""
        if self.key is None:
            return Cursor().scrolled(rows, line - height // 3, height)
        return self.followed(rows, height)

    def followed(self, rows: Sequence[Row], height: int) -> Cursor:
        """Find the row again after a refresh, and keep it on its line of the screen."""
        if self.key is None:
            return self.within(len(rows), height)
        line = self.row - self.top
        found = next((at for at, row in enumerate(rows) if row.key == self.key), None)
        if found is None:
            # The row is gone for now: the cursor waits on its line for it to come back.
            return self.within(len(rows), height)
        return replace(self, row=found, top=max(found - line, 0)).within(len(rows), height)

    def within(self, count: int, height: int) -> Cursor:
        """Keep the row among the rows, and on the screen."""
        height = max(height, 1)
        row = min(max(self.row, 0), max(count - 1, 0))
        top = min(max(self.top, row - height + 1), row)
        return replace(self, row=row, top=max(min(top, count - height), 0))


class PageState(Record):
    """A page with its filter, its order of rows and its chosen row.

    Attributes:
        words: the filter of a table.
        order: of `table_pages.orders_of` its page.
    """

    place: Place = field(default_factory=Place)
    words: str = ""
    order: str = BY_TIME
    cursor: Cursor = field(default_factory=Cursor)

    @property
    def view(self) -> tuple[Place, str, str]:
        """The parts that decide the rows; the cursor does not."""
        return self.place, self.words, self.order

    def reordered(self) -> PageState:
        """Return the next order of rows, from the first row on."""
        orders = orders_of(self.place.page)
        order = orders[(orders.index(self.order) + 1) % len(orders)]
        return replace(self, order=order, cursor=Cursor())

    def at(self, place: Place) -> PageState:
        """Return another place, in the same order if its rows have it."""
        orders = orders_of(place.page)
        return PageState(place, order=self.order if self.order in orders else orders[0])


class Picture(Record):
    """Figures and the page that was made of them, for one view."""

    view: tuple[Place, str, str]
    figures: LiveFigures
    page: Page


def take_picture(figures: LiveFigures, page_state: PageState, code: CodeMemory) -> Picture:
    """Compute a page."""
    place = page_state.place
    if place.page == WAITING:
        page = waiting_page(figures, place, View(page_state.words, page_state.order))
    elif place.page == TURNS:
        page = turns_page(figures, page_state.words)
    elif place.page == WAIT_STACKS:
        page = wait_stacks_page(figures, place)
    elif place.function is None:
        page = table_page(figures, place, View(page_state.words, page_state.order))
    elif place.page == INSTRUCTIONS:
        page = code.page(figures, place.function)
    else:
        page = calls_page(figures, place, place.function)
    return Picture(page_state.view, figures, page)


# The pages of waiting threads, and of the stacks of their waits.
#
# Times are those of the report's section on waiting, added up over threads of one name.

_NS = 1e-9
_MOST_THREADS = 150
_MOST_STACKS = 20
NO_SWITCHES = "No switches were recorded: start it with --off-cpu to see what threads wait for."
_NO_WAITS = "No wait with a stack yet: this thread waits since before the start, or not at all."
_UNKNOWN = "[unknown]"

Name = tuple[str, str]


def waiting_page(figures: LiveFigures, place: Place, view: View) -> Page:
    """Return the times of threads by name; threads that ran longest are first by default."""
    threads = figures.profile.threads
    if threads is None:
        return Page((), note=NO_SWITCHES)
    words = view.words.casefold()
    # A thread whose process is not known has row -1.
    chosen = np.append(of_pid(figures.profile, words), False)
    followed = _followed(figures)
    if chosen.any():
        rows = _waiting_rows(figures.profile, threads, place, chosen & followed)
    else:
        rows = _waiting_rows(figures.profile, threads, place, followed)
        rows = [
            row for row in rows if any(words in name.casefold() for name in (row.name, row.process))
        ]
    rows.sort(key=_SORT_KEYS.get(view.order, _SORT_KEYS[BY_TIME]))
    shown = tuple(rows[:_MOST_THREADS])
    return Page(
        rows=shown,
        more=len(rows) - len(shown),
        more_s=sum(row.seconds for row in rows[_MOST_THREADS:]),
        total_s=sum(row.seconds for row in rows),
    )


_SORT_KEYS: dict[str, Callable[[Row], tuple[object, ...]]] = {
    BY_TIME: lambda row: (-row.seconds, -row.ready_s, -row.blocked_s),
    BY_READY: lambda row: (-row.ready_s, -row.seconds),
    BY_BLOCKED: lambda row: (-row.blocked_s, -row.seconds),
    BY_NAME: lambda row: (row.name, row.process),
}


def _waiting_rows(
    profile: CompleteProfile, threads: ThreadTimes, place: Place, chosen: Bools
) -> list[Row]:
    """Return a row for each name of threads of the `chosen` processes, bool[p + 1]."""
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


def _followed(figures: LiveFigures) -> Bools:
    """Return whether processes are followed, bool[p + 1]; the last one is an unknown process."""
    return np.append(figures.is_followed, not figures.state.followed)


def _names(profile: CompleteProfile, threads: ThreadTimes) -> list[Name]:
    """Return the name of each thread, and of its process."""
    processes = [*profile.processes.name, "?"]
    index = threads.process_index.tolist()
    return [(name, processes[process]) for name, process in zip(threads.name, index, strict=True)]


def _is_in(name: Name, place: Place) -> bool:
    thread, process = name
    return place.process in ("", process) and place.thread in ("", thread)


def wait_stacks_page(figures: LiveFigures, place: Place) -> Page:
    """Return the stacks in which threads of a name were blocked, innermost functions first."""
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
