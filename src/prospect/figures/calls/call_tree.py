"""Trees of calls, from the outside in and from the inside out.

At each depth, a hit is in one row at most: the rows of a depth are a partition, as error bars
require.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.forests import levels
from prospect.columns.grouping import distinct_keys
from prospect.columns.sorting import distinct
from prospect.figures.calls.call_graph import ORDER_DIGITS
from prospect.figures.modes import event_seconds
from prospect.figures.stacks.call_forest import joined
from prospect.figures.stacks.frames import first_of_each
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prospect.columns.array_types import F64, I64
    from prospect.figures.calls.call_graph import CallGraph

    # (depth, i64[m] hits) → i64[m] their frames at that depth, -1 if their stack has ended.
    # It is called once for each depth, from 0 on, with hits that the depth before had.
    FrameAt = Callable[[int, I64], I64]

_DEEPEST = 128  # limits the output of recursion through several functions


class CallTree(Record):
    """A tree to print: rows in the order of printing, children by descending time.

    Attributes:
        labels: names of `frame`: the graph's labels, then names of processes.
        parent: i64[r] row, -1 for roots.
        depth: i64[r].
        frame: i64[r] rows of `labels`.
        hits: i64[r] samples.
        total_s: f64[r] their time.
        ended_s: f64[r] the part that is in no row below: a function's own time, or that of unknown
            callers, or of omitted rows.
        rows_at_depth: by depth, i64[h] row of each hit of the graph's profile, -1 for none.
    """

    labels: list[str]
    parent: I64
    depth: I64
    frame: I64
    hits: I64
    total_s: F64
    ended_s: F64
    rows_at_depth: list[I64]

    def __len__(self) -> int:
        return len(self.parent)


def callees_tree(graph: CallGraph, share: float) -> CallTree:
    """Return the calls of each process, from its outermost function on.

    Rows with less than `share` of all chosen hits are omitted.
    """
    names, name_of_process = np.unique(graph.profile.processes.name, return_inverse=True)
    process = name_of_process.take(graph.profile.hits.process_index)
    roots = np.where(graph.row_of_hit >= 0, process + len(graph.labels), -1)
    number = np.append(graph.begin, -1).take(graph.row_of_hit)
    rows_by_depth = levels(graph.forest.depth)[:_DEEPEST]

    def frame_at(depth: int, hits: I64) -> I64:
        if not depth:
            return roots.take(hits)
        if depth > len(rows_by_depth):
            return np.full(len(hits), -1, np.int64)
        return _frames_of_level(graph, rows_by_depth[depth - 1], number.take(hits))

    return _tree(graph, frame_at, share, names.tolist())


def _frames_of_level(graph: CallGraph, rows: I64, number: I64) -> I64:
    """Return the frame of the row whose subtree contains each number, i64; -1 for none.

    Args:
        rows: i64 rows of the forest, all of one depth.
        number: i64 numbers of rows, as in `subtree_ranges`.
    """
    rows = rows.take(np.argsort(graph.begin.take(rows)))
    place = np.searchsorted(graph.begin.take(rows), number, side="right") - 1
    is_in = (place >= 0) & (number < graph.end.take(rows).take(place))
    return np.where(is_in, graph.forest.frame_index.take(rows).take(place), -1)


def callers_tree(graph: CallGraph, frames: I64, share: float) -> CallTree:
    """Return the callers of functions, from the inside out; the hits include those of callees.

    Args:
        frames: i64 the functions. If one of them is called from another, the outermost counts.
        share: rows with a smaller share of the functions' hits are omitted.
    """
    return _tree(graph, _outwards(graph, _outermost_row_of(graph, frames)), share)


def callees_of_tree(graph: CallGraph, frames: I64, share: float) -> CallTree:
    """Return the callees of functions, from the outside in; the roots are the functions themselves.

    `frames` and `share` are as in `callers_tree`.
    """
    top = _outermost_row_of(graph, frames)
    first = np.append(graph.forest.depth, 0).take(top)
    number = np.where(top >= 0, np.append(graph.begin, -1).take(graph.row_of_hit), -1)
    rows_by_depth = levels(graph.forest.depth)

    def frame_at(depth: int, hits: I64) -> I64:
        found = np.full(len(hits), -1, np.int64)
        level = first.take(hits) + depth
        for one in distinct(level).tolist() if depth < _DEEPEST else ():
            if one < len(rows_by_depth):
                at = np.flatnonzero(level == one)
                numbers = number.take(hits.take(at))
                found[at] = _frames_of_level(graph, rows_by_depth[one], numbers)
        return found

    return _tree(graph, frame_at, share)


def self_callers_tree(graph: CallGraph, frames: I64, share: float) -> CallTree:
    """Return the callers of functions in hits of these functions, from the inside out."""
    frame = np.append(graph.forest.frame_index, -1).take(graph.row_of_hit)
    rows = np.where(np.isin(frame, frames), graph.row_of_hit, -1)
    return _tree(graph, _outwards(graph, rows), share)


def _outwards(graph: CallGraph, row: I64) -> FrameAt:
    """Return the frames of each hit from its row of the forest on outwards, -1 after the last."""
    frame_of_row = np.append(graph.forest.frame_index, -1)
    caller = np.append(graph.forest.caller_index, -1)
    row = row.copy()

    def frame_at(depth: int, hits: I64) -> I64:
        if depth:
            row[hits] = caller.take(row.take(hits))
        if depth == _DEEPEST:
            return np.full(len(hits), -1, np.int64)
        return frame_of_row.take(row.take(hits))

    return frame_at


def _outermost_row_of(graph: CallGraph, frames: I64) -> I64:
    """Return i64[h]: the outermost row of one of `frames` that contains each hit, -1 for none."""
    forest = graph.forest
    is_wanted = np.isin(forest.frame_index, frames)
    found = np.full(len(forest) + 1, -1, np.int64)
    for rows in levels(forest.depth):
        above = found.take(forest.caller_index.take(rows))
        found[rows] = np.where((above < 0) & is_wanted.take(rows), rows, above)
    return found.take(graph.row_of_hit)


class _Level(Record):
    """The rows of one depth; `first` is the number of its first row in the whole tree.

    `of_hit` i64[h] is the row of each hit, counted from `first`; -1 for none.
    """

    first: int
    parent: I64
    frame: I64
    of_hit: I64
    hits: I64
    total_s: F64


def _tree(
    graph: CallGraph, frame_at: FrameAt, share: float, process_names: Sequence[str] = ()
) -> CallTree:
    """Build a tree depth by depth; `process_names` are those of the frames beyond the graph's."""
    hits = graph.profile.hits
    seconds = event_seconds(graph.event, hits.count, hits.period)
    grown: list[_Level] = []
    least = 0.0
    size = 0
    member, above = np.arange(len(hits)), np.zeros(len(hits), np.int64)
    labels = [*graph.labels, *process_names]
    # A tree shows no objects: rows with the same text are one.
    alike = np.arange(len(labels))
    alike[: len(graph.labels)] = first_of_each(graph.labels)
    room = len(labels)
    for depth in itertools.count():
        frame = frame_at(depth, member)
        goes_on = frame >= 0
        member, above, frame = member[goes_on], above[goes_on], alike.take(frame[goes_on])
        if not len(member):
            break
        bound = (int(above.max()) + 1) * room
        key, row = distinct_keys(above * room + frame, bound)
        count = np.bincount(row, hits.count.take(member), len(key))
        least = share * float(count.sum()) if not depth else least
        kept = np.flatnonzero(count >= least)
        rank = np.full(len(key), -1, np.int64)
        rank[kept] = np.arange(len(kept))
        above = rank.take(row)
        of_hit = np.full(len(hits), -1, np.int64)
        of_hit[member] = above
        grown.append(
            _Level(
                first=size,
                parent=key[kept] // room + (grown[-1].first if grown else -1),
                frame=key[kept] % room,
                of_hit=of_hit,
                hits=count[kept].astype(np.int64),
                total_s=np.bincount(row, seconds.take(member), len(key))[kept].astype(np.float64),
            )
        )
        size += len(kept)
        member, above = member[above >= 0], above[above >= 0]
    return _in_order(grown, labels, seconds)


def _in_order(grown: list[_Level], labels: list[str], seconds: F64) -> CallTree:
    """Put the rows of all depths into the order of printing."""
    parent = joined([level.parent for level in grown])
    depth = np.repeat(np.arange(len(grown)), [len(level.parent) for level in grown])
    frame = joined([level.frame for level in grown])
    hits = joined([level.hits for level in grown])
    total_s = np.concatenate([level.total_s for level in grown]) if grown else np.empty(0)
    own_s = np.zeros(len(parent))
    for level, below in itertools.zip_longest(grown, grown[1:]):
        is_left = level.of_hit >= 0
        went_on = np.zeros(len(is_left), np.bool_) if below is None else below.of_hit >= 0
        ends = is_left & ~went_on
        place = slice(level.first, level.first + len(level.parent))
        own_s[place] = np.bincount(level.of_hit[ends], seconds[ends], len(level.parent))
    # A depth-first walk, the child with most time first, or hits if the event has no time.
    children: dict[int, list[int]] = {}
    for row in np.lexsort((frame, -hits, -total_s.round(ORDER_DIGITS))).tolist():
        children.setdefault(int(parent[row]), []).append(row)
    order, waiting = [], children.get(-1, [])[::-1]
    while waiting:
        row = waiting.pop()
        order.append(row)
        waiting += reversed(children.get(row, []))
    rank = np.full(len(order) + 1, -1, np.int64)
    rank[order] = np.arange(len(order))
    places = np.array(order, np.int64)
    return CallTree(
        labels=labels,
        parent=rank.take(parent.take(places)),
        depth=depth.take(places),
        frame=frame.take(places),
        hits=hits.take(places),
        total_s=total_s.take(places),
        ended_s=own_s.take(places),
        rows_at_depth=[
            np.where(level.of_hit >= 0, rank.take(level.of_hit + level.first), -1)
            for level in grown
        ],
    )
