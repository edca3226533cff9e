"""Error bars of calls: of functions with all that they call, and of the rows of trees.

They are half widths of the 95 % intervals, as in `error_bars`. A function's hits and those of its
callees are one set of hits. The rows of one depth of a tree are sets that have no hit in common,
and are estimated at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import half_widths, parts_of
from prospect.estimate.with_callees import callees_rows, half_widths_of_sets, hits_of_frames
from prospect.figures.calls.spenders import spenders
from prospect.records import Record, replace

if TYPE_CHECKING:
    from prospect.columns.array_types import F64, I32
    from prospect.estimate.errors.design import Design
    from prospect.estimate.errors.error_bars import Parts
    from prospect.estimate.with_callees import CalleesRow
    from prospect.figures.calls.call_graph import CallGraph
    from prospect.figures.calls.call_tree import CallTree
    from prospect.figures.calls.calls_view import CallsView, EventCalls


class CallEstimates(Record):
    """Half widths in seconds, f64; NaN if unknown.

    Attributes:
        total_s, self_s: [n] of the rows of `EventCalls.hottest`.
        callees_s, callers_s: [r] of the trees' rows.
        with_callees: the functions that spend most with all that they call.
    """

    total_s: F64
    self_s: F64
    callees_s: F64
    callers_s: F64
    with_callees: tuple[CalleesRow, ...] = ()


def estimate_calls(view: CallsView) -> tuple[CallEstimates, ...]:
    """Estimate the error of every time that is shown, by event."""
    return tuple(
        replace(
            _event_estimates(event),
            with_callees=callees_rows(
                event.graph, event.totals, spenders(event.graph, event.totals)
            ),
        )
        for event in view.events
    )


def tree_half_widths(graph: CallGraph, tree: CallTree) -> F64:
    """Estimate the error of the rows of one tree, f64[r]; NaN if unknown."""
    if graph.event.is_waiting or not len(tree):
        return np.full(len(tree), np.nan)
    design = sampling_design(graph.profile, graph.event_index)
    return _tree_half_widths(design, tree, parts_of(design, (_deepest_rows(tree),)))


def _event_estimates(event: EventCalls) -> CallEstimates:
    graph = event.graph
    if graph.event.is_waiting:
        return _unknown(event)
    design = sampling_design(graph.profile, graph.event_index)
    if not design.has_bars:
        return _unknown(event)
    frames = np.append(graph.forest.frame_index, -1).take(graph.row_of_hit)
    rank = np.full(len(graph.frames) + 1, -1, np.int32)
    rank[event.hottest] = np.arange(len(event.hottest))
    own = rank.take(frames)
    sets = hits_of_frames(graph, event.hottest)
    trees = [tree for tree in (event.callees, event.callers) if tree]
    # These tables separate far fewer sets of hits than there are hits.
    tables = (own, *(one - np.int32(1) for one in sets), *map(_deepest_rows, trees))
    parts = parts_of(design, tables)
    return CallEstimates(
        total_s=half_widths_of_sets(design, sets, len(event.hottest), parts),
        self_s=half_widths(design, own, len(event.hottest), parts),
        callees_s=_tree_half_widths(design, event.callees, parts),
        callers_s=_tree_half_widths(design, event.callers, parts),
    )


def _unknown(event: EventCalls) -> CallEstimates:
    """Return no error bars: waits are measured, not sampled."""
    rows = np.full(len(event.hottest), np.nan)
    callees = np.full(len(event.callees) if event.callees else 0, np.nan)
    callers = np.full(len(event.callers) if event.callers else 0, np.nan)
    return CallEstimates(rows, rows, callees, callers)


def _deepest_rows(tree: CallTree) -> I32:
    """Return the deepest row of each hit, which determines all above; i32[h], -1 for none."""
    deepest = tree.rows_at_depth[0].astype(np.int32)
    for row_of_hit in tree.rows_at_depth[1:]:
        np.copyto(deepest, row_of_hit, where=row_of_hit >= 0, casting="same_kind")
    return deepest


def _tree_half_widths(design: Design, tree: CallTree | None, parts: Parts) -> F64:
    if tree is None:
        return np.empty(0)
    found = np.full(len(tree), np.nan)
    for depth, row_of_hit in enumerate(tree.rows_at_depth):
        rows = np.flatnonzero(tree.depth == depth)
        rank = np.full(len(tree) + 1, -1, np.int32)
        rank[rows] = np.arange(len(rows))
        found[rows] = half_widths(design, rank.take(row_of_hit), len(rows), parts)
    return found
