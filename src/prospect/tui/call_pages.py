"""The pages of a function's callers and callees, which Enter on a function leads to.

Times and error bars of the tree are those of ``prospect calls`` on the same profile.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.errors.call_estimates import tree_half_widths
from prospect.figures.calls.call_graph import call_graph
from prospect.figures.calls.call_tree import callees_of_tree, self_callers_tree
from prospect.figures.stacks.frames import is_kernel_frame
from prospect.figures.stacks.stack_weights import stack_samples
from prospect.records import replace
from prospect.tui.groups import function_of, functions_of, in_scope, place_label
from prospect.tui.rows import KERNEL, USER, Page, Row
from prospect.tui.screen_places import CALLERS, Place

if TYPE_CHECKING:
    from prospect.figures.calls.call_graph import CallGraph
    from prospect.figures.calls.call_tree import CallTree
    from prospect.tui.figures import LiveFigures
    from prospect.tui.rows import Key
    from prospect.tui.screen_places import Function

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

    Args:
        figures: of a state.
        place: whose hits count, and which tree.
        function: at the root.
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
    """Say what a tree leaves out."""
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
        keys.append(((keys[parent] if parent >= 0 else ()), frame_key(graph, frame)))
        target = None
        if functions[frame] >= 0 and parent >= 0:
            function = function_of(graph.profile, functions[frame])
            target = replace(place, function=function)
        rows.append(
            Row(
                key=keys[-1],
                name=tree.labels[frame],
                place=place_label(graph.object_path(frame)),
                paint=KERNEL if is_kernel[frame] else USER,
                lead=lead,
                hits=hits,
                seconds=seconds,
                half_width_s=half,
                target=target,
            )
        )
    return tuple(rows)


def frame_key(graph: CallGraph, frame: int) -> Key:
    """Return what a frame is, whatever row it has next time."""
    return (graph.labels[frame], graph.object_path(frame))


def _leads(tree: CallTree, arrow: str) -> list[str]:
    """Return what is drawn before each row's name: lines where ways part, else an arrow.

    Most of a tree is one way, which would leave the screen if each step were a step to the right.
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
