"""Trees of calls, from the outside in and from the inside out.

Comes in: a `CallGraph`. Goes out: `CallTree`. At each depth, a hit is in one row of it at most: the
rows of a depth are a partition, as estimates of error want them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.call_forest import levels
from prospect.profile.portions import event_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from prospect.profile.call_graph import CallGraph

_DEEPEST = 128  # of recursion through several routines more would be printed than is read


@dataclass(frozen=True)
class CallTree:
    """A tree to be printed: rows in the order of printing, children by falling time.

    Attributes:
        labels: what `frame` stands for: the graph's labels, then names of processes.
        parent: i64[r] row, -1 for roots.
        depth: i64[r].
        frame: i64[r] rows of `labels`.
        hits: i64[r] samples.
        total_s: f64[r] their time.
        ended_s: f64[r] the part that is in no row below: a routine's own time, or who called it is
            not known, or what is below is left out.
        rows_at_depth: by depth, i64[h] row of each hit of the graph's profile, -1 for none.
    """

    labels: list[str]
    parent: NDArray[np.int64]
    depth: NDArray[np.int64]
    frame: NDArray[np.int64]
    hits: NDArray[np.int64]
    total_s: NDArray[np.float64]
    ended_s: NDArray[np.float64]
    rows_at_depth: list[NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.parent)


def callees_tree(graph: CallGraph, share: float) -> CallTree:
    """Return what each process called, from its outermost routine on.

    Args:
        graph: the calls.
        share: rows with a smaller part of all chosen hits are left out.
    """
    names, name_of_process = np.unique(graph.profile.processes.name, return_inverse=True)
    process = name_of_process.take(graph.profile.hits.process_index)
    roots = np.where(graph.row_of_hit >= 0, process + len(graph.labels), -1)
    forest = graph.forest
    frame_of_row = np.append(forest.frame_index, -1)
    caller, depth_of_row = np.append(forest.caller_index, -1), np.append(forest.depth, -1)
    row, inside_out = graph.row_of_hit, []
    while (depth_of_row.take(row) >= _DEEPEST).any():
        row = np.where(depth_of_row.take(row) >= _DEEPEST, caller.take(row), row)
    for depth in range(int(depth_of_row.take(row).max(initial=-1)), -1, -1):
        is_there = depth_of_row.take(row) == depth
        inside_out.append(np.where(is_there, frame_of_row.take(row), -1))
        row = np.where(is_there, caller.take(row), row)
    return _tree(graph, itertools.chain([roots], reversed(inside_out)), share, names.tolist())


def callers_tree(graph: CallGraph, frames: NDArray[np.int64], share: float) -> CallTree:
    """Return who called routines, from the inside out; their callees' hits count as theirs.

    Args:
        graph: the calls.
        frames: i64 the routines. Where one of them is called from another, the outermost counts.
        share: rows with a smaller part of the routines' hits are left out.
    """
    return _tree(graph, _outwards(graph, _outermost_row_of(graph, frames)), share)


def self_callers_tree(graph: CallGraph, frames: NDArray[np.int64], share: float) -> CallTree:
    """Return who called routines when they themselves were hit, from the inside out."""
    frame = np.append(graph.forest.frame_index, -1).take(graph.row_of_hit)
    rows = np.where(np.isin(frame, frames), graph.row_of_hit, -1)
    return _tree(graph, _outwards(graph, rows), share)


def _outwards(graph: CallGraph, row: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield the frames of each hit from its row of the forest on outwards, -1 behind the last."""
    frame_of_row = np.append(graph.forest.frame_index, -1)
    caller = np.append(graph.forest.caller_index, -1)
    for _ in range(_DEEPEST):
        yield frame_of_row.take(row)
        row = caller.take(row)


def _outermost_row_of(graph: CallGraph, frames: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return i64[h]: the outermost row of one of `frames` that each hit is in, -1 for none."""
    forest = graph.forest
    is_wanted = np.isin(forest.frame_index, frames)
    found = np.full(len(forest) + 1, -1, np.int64)
    for rows in levels(forest.depth):
        above = found.take(forest.caller_index.take(rows))
        found[rows] = np.where((above < 0) & is_wanted.take(rows), rows, above)
    return found.take(graph.row_of_hit)


@dataclass(frozen=True)
class _Level:
    """The rows of one depth; `first` is the number of its first row in the whole tree.

    `of_hit` i64[h] is the row, counted from `first`, that each hit is in; -1 for none.
    """

    first: int
    parent: NDArray[np.int64]
    frame: NDArray[np.int64]
    of_hit: NDArray[np.int64]
    hits: NDArray[np.int64]
    total_s: NDArray[np.float64]


def _tree(
    graph: CallGraph,
    columns: Iterable[NDArray[np.int64]],
    share: float,
    process_names: Sequence[str] = (),
) -> CallTree:
    """Grow a tree a depth at a time.

    Args:
        graph: the calls.
        columns: for each depth i64[h] the frame of each hit, -1 where its stack has ended.
        share: see above.
        process_names: what frames beyond the graph's stand for.
    """
    hits = graph.profile.hits
    event = graph.event
    seconds = event_seconds(event, hits.count, hits.period)
    grown: list[_Level] = []
    least = 0.0
    size = 0
    above = np.zeros(len(hits), np.int64)
    for depth, frame in enumerate(columns):
        member = np.flatnonzero((above >= 0) & (frame >= 0))
        if not len(member):
            break
        room = len(graph.labels) + len(process_names)
        key, row = np.unique(above.take(member) * room + frame.take(member), return_inverse=True)
        count = np.bincount(row, hits.count.take(member), len(key))
        least = share * float(count.sum()) if not depth else least
        kept = np.flatnonzero(count >= least)
        rank = np.full(len(key), -1, np.int64)
        rank[kept] = np.arange(len(kept))
        of_hit = np.full(len(hits), -1, np.int64)
        of_hit[member] = rank.take(row)
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
        above = of_hit
    return _in_order(grown, [*graph.labels, *process_names], seconds)


def _in_order(grown: list[_Level], labels: list[str], seconds: NDArray[np.float64]) -> CallTree:
    """Put the rows of all depths into the order of printing."""
    parent = _joined([level.parent for level in grown])
    depth = np.repeat(np.arange(len(grown)), [len(level.parent) for level in grown])
    frame = _joined([level.frame for level in grown])
    hits = _joined([level.hits for level in grown])
    total_s = np.concatenate([level.total_s for level in grown]) if grown else np.empty(0)
    own_s = np.zeros(len(parent))
    for level, below in itertools.zip_longest(grown, grown[1:]):
        is_left = level.of_hit >= 0
        went_on = np.zeros(len(is_left), np.bool_) if below is None else below.of_hit >= 0
        ends = is_left & ~went_on
        place = slice(level.first, level.first + len(level.parent))
        own_s[place] = np.bincount(level.of_hit[ends], seconds[ends], len(level.parent))
    # A depth-first walk, the child with most hits first.
    children: dict[int, list[int]] = {}
    for row in np.lexsort((frame, -hits)).tolist():
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


def _joined(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
