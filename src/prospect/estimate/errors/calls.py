"""Error bars of calls: of routines with all that they call, and of the rows of trees.

Comes in: an `EventCalls`. Goes out: half widths of the 95 % intervals, as `error_bars` has them. A
routine's hits and those of what it calls are one set of hits; the rows of one depth of a tree are
sets that have no hit in common, and are estimated at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.half_widths import half_widths
from prospect.figures.calls.call_graph import hits_within
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.errors.design import Design
    from prospect.figures.calls.call_graph import CallGraph
    from prospect.figures.calls.call_tree import CallTree
    from prospect.figures.calls.calls_view import CallsView, EventCalls


class CallEstimates(Record):
    """Half widths in seconds, f64; NaN where nothing is known.

    Attributes:
        total_s, self_s: [n] of the rows of `EventCalls.hottest`.
        callees_s, callers_s: [r] of the trees' rows.
    """

    total_s: NDArray[np.float64]
    self_s: NDArray[np.float64]
    callees_s: NDArray[np.float64]
    callers_s: NDArray[np.float64]


def estimate_calls(view: CallsView) -> tuple[CallEstimates, ...]:
    """Estimate the error of every time that is shown, by event."""
    return tuple(_event_estimates(event) for event in view.events)


def tree_half_widths(graph: CallGraph, tree: CallTree) -> NDArray[np.float64]:
    """Estimate the error of the rows of one tree, f64[r]; NaN where nothing is known."""
    if graph.event.is_waiting:
        return np.full(len(tree), np.nan)
    return _tree_half_widths(sampling_design(graph.profile, graph.event_index), tree)


def _event_estimates(event: EventCalls) -> CallEstimates:
    graph = event.graph
    if graph.event.is_waiting:
        return _unknown(event)
    design = sampling_design(graph.profile, graph.event_index)
    frames = np.append(graph.forest.frame_index, -1).take(graph.row_of_hit)
    rank = np.full(len(graph.frames) + 1, -1, np.int64)
    rank[event.hottest] = np.arange(len(event.hottest))
    totals = [
        half_widths(design, np.where(_is_within(event, frame), 0, -1), 1)[0]
        for frame in event.hottest.tolist()
    ]
    return CallEstimates(
        total_s=np.array(totals, np.float64),
        self_s=half_widths(design, rank.take(frames), len(event.hottest)),
        callees_s=_tree_half_widths(design, event.callees),
        callers_s=_tree_half_widths(design, event.callers),
    )


def _unknown(event: EventCalls) -> CallEstimates:
    """Return no error bars: waits are measured, not sampled."""
    sizes = [
        len(event.hottest),
        len(event.hottest),
        len(event.callees) if event.callees else 0,
        len(event.callers) if event.callers else 0,
    ]
    return CallEstimates(*(np.full(size, np.nan) for size in sizes))


def _is_within(event: EventCalls, frame: int) -> NDArray[np.bool_]:
    graph = event.graph
    return hits_within(graph, np.flatnonzero(graph.forest.frame_index == frame))


def _tree_half_widths(design: Design, tree: CallTree | None) -> NDArray[np.float64]:
    if tree is None:
        return np.empty(0)
    found = np.full(len(tree), np.nan)
    for depth, row_of_hit in enumerate(tree.rows_at_depth):
        rows = np.flatnonzero(tree.depth == depth)
        rank = np.full(len(tree) + 1, -1, np.int64)
        rank[rows] = np.arange(len(rows))
        found[rows] = half_widths(design, rank.take(row_of_hit), len(rows))
    return found
