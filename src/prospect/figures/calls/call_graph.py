"""Time of functions, their own and with all that they call, and their callers, for one event.

A `CallGraph` is the forest of calls by function with the time of each row, and sums of it by
function and by arc.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.buffers import gather
from prospect.columns.grouping import distinct_keys
from prospect.figures.modes import event_seconds
from prospect.figures.stacks.call_forest import (
    fold_recursion,
    outermost,
    subtree_ranges,
    subtree_sums,
)
from prospect.figures.stacks.frames import (
    frame_labels,
    frame_table,
    named_forest,
    with_alike_as_one,
)
from prospect.records import Record, replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.columns.array_types import F64, I64, Bools
    from prospect.figures.stacks.frames import FrameTable, NamedForest
    from prospect.figures.stacks.stack_weights import StackSamples
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.run_info import EventInfo

_NS_PER_US = 1000
# Sums added up in another order differ by less.
ORDER_DIGITS = 9


class CallGraph(Record):
    """The calls of one event.

    Attributes:
        profile: completed; its hits are separated by stack, and by whether they were chosen, so
            that any set of rows of the forest is a set of hits.
        event_index: row of `RunInfo.events`.
        labels: of each frame.
        forest: calls by function, direct recursion folded.
        row_of_hit: i64[h] row of the forest of each hit of `profile`; -1 if not chosen.
        begin, end: i64[t] as from `subtree_ranges`.
        self_hits, total_hits: i64[t] of each row, without and with its callees.
        self_s, total_s: f64[t] the same in seconds; 0 if the event has no time.
    """

    profile: CompleteProfile
    event_index: int
    frames: FrameTable
    labels: list[str]
    forest: NamedForest
    row_of_hit: I64
    begin: I64
    end: I64
    self_hits: I64
    total_hits: I64
    self_s: F64
    total_s: F64

    @property
    def event(self) -> EventInfo:
        """The event."""
        return self.profile.run.events[self.event_index]

    @property
    def hits(self) -> int:
        """All chosen hits."""
        return int(self.self_hits.sum())

    @property
    def seconds(self) -> float:
        """Their time."""
        return float(self.self_s.sum())

    @cached_property
    def outermost_rows(self) -> Bools:
        """The rows that are not within a call of the same frame, bool[t]."""
        return outermost(self.forest.frame_index, self.begin, self.end)

    def object_path(self, frame: int) -> str:
        """Return the object that a frame's code is from."""
        return self.profile.objects.path[int(self.frames.object_index[frame])]


class FrameTotals(Record):
    """The time of each frame; columns [f] of `FrameTable`'s rows.

    A function that calls itself, directly or through others, counts once for each sample.
    """

    self_hits: I64
    total_hits: I64
    self_s: F64
    total_s: F64

    def hottest(self, most: int, *, by_self: bool = False) -> I64:
        """Return the frames with most total or own time, most first.

        If the event has no time, hits are used.
        """
        hits = self.self_hits if by_self else self.total_hits
        seconds = self.self_s if by_self else self.total_s
        order = np.lexsort(
            (np.arange(len(hits)), -self.self_hits, -hits, -seconds.round(ORDER_DIGITS))
        )
        return order[hits.take(order) > 0][:most]


class Arcs(Record):
    """Callers and callees in samples; a row for each pair of frames, columns [a].

    Attributes:
        caller, callee: i64 rows of `FrameTable`.
        hits: i64 samples with the call on their stack, each once.
        self_s: f64 time in the callee itself.
        total_s: f64 with all that it called.
    """

    caller: I64
    callee: I64
    hits: I64
    self_s: F64
    total_s: F64

    def __len__(self) -> int:
        return len(self.caller)

    def by_time(self, rows: I64) -> I64:
        """Return the order of some rows by descending time, or hits if the event has no time."""
        seconds = self.total_s.take(rows).round(ORDER_DIGITS)
        return np.lexsort((np.arange(len(rows)), -self.hits.take(rows), -seconds))


def call_graph(samples: StackSamples, chosen: Bools, event_index: int) -> CallGraph:
    """Build the graph of one event.

    `samples` are those of all processes; `chosen`, bool[n], are the ones that count.
    """
    frames = frame_table(samples.profile)
    if samples.profile.call_counts is None:  # these are by function
        frames = with_alike_as_one(samples.profile, frames)
    named = fold_recursion(named_forest(samples.stacks, frames))
    row = named.row_of_stack.take(samples.stack_index)
    chosen = chosen & (samples.of_hit(samples.profile.hits.event) == event_index)
    row = np.where(chosen, row, -1)
    profile, row_of_hit = _hits_by_row(samples, row)
    begin, end = subtree_ranges(named)
    event = profile.run.events[event_index]
    hits = profile.hits
    of_row = row_of_hit >= 0
    at = row_of_hit[of_row]
    seconds = event_seconds(event, hits.count[of_row], hits.period[of_row])
    self_hits = np.bincount(at, hits.count[of_row], len(named)).astype(np.int64)
    self_s = np.bincount(at, seconds, len(named)).astype(np.float64)
    return CallGraph(
        profile=profile,
        event_index=event_index,
        frames=frames,
        labels=frame_labels(profile, frames),
        forest=named,
        row_of_hit=row_of_hit,
        begin=begin,
        end=end,
        self_hits=self_hits,
        total_hits=subtree_sums(named, self_hits),
        self_s=self_s,
        total_s=subtree_sums(named, self_s),
    )


def _hits_by_row(samples: StackSamples, row: I64) -> tuple[CompleteProfile, I64]:
    """Separate hits by their row of the forest.

    Returns:
        The profile with these hits, and i64[h] the row of each, -1 for none. Hits of waits are
        microseconds.
    """
    profile = samples.profile
    rows = int(row.max(initial=-1)) + 2
    packed = samples.hit_index.astype(np.int64) * rows + row + 1
    distinct, hit_of_sample = distinct_keys(packed, len(profile.hits) * rows)
    old, row_of_hit = distinct // rows, distinct % rows - 1
    hits = profile.hits
    is_waiting = np.array([event.is_waiting for event in profile.run.events], np.bool_)
    weight = samples.count
    if is_waiting.any():
        # The weight of a wait is its length, in microseconds.
        waits = is_waiting.take(samples.of_hit(hits.event))
        weight = np.where(waits, samples.period // _NS_PER_US, weight)
    count = np.bincount(hit_of_sample, weight, len(distinct)).astype(np.int64)
    period = np.zeros(len(distinct), np.int64)
    np.add.at(period, hit_of_sample, samples.period)
    return replace(
        profile,
        hits=replace(gather(hits, old), count=count, period=period, stack_index=None),
        samples=replace(profile.samples, hit_index=hit_of_sample.astype(np.int32))
        if len(profile.samples)
        else profile.samples,
        part_of=profile.part_of and profile.part_of.renumbered(hit_of_sample),
    ), row_of_hit


def frame_totals(graph: CallGraph) -> FrameTotals:
    """Add up the rows of each frame."""
    count, frame = len(graph.frames), graph.forest.frame_index
    is_outermost = graph.outermost_rows
    outer = frame[is_outermost]
    return FrameTotals(
        self_hits=np.bincount(frame, graph.self_hits, count).astype(np.int64),
        total_hits=np.bincount(outer, graph.total_hits[is_outermost], count).astype(np.int64),
        self_s=np.bincount(frame, graph.self_s, count).astype(np.float64),
        total_s=np.bincount(outer, graph.total_s[is_outermost], count).astype(np.float64),
    )


def call_arcs(graph: CallGraph, among: Bools | None = None) -> Arcs:
    """Add up the rows of each pair of caller and callee, both of them `among` frames, bool[f]."""
    forest = graph.forest
    is_call = (forest.caller_index >= 0) & (graph.total_hits > 0)
    if among is not None:
        is_among = among.take(forest.frame_index)
        is_call &= is_among & is_among.take(forest.caller_index)
    rows = np.flatnonzero(is_call)
    frames = max(len(graph.frames), 1)
    callee = forest.frame_index.take(rows)
    caller = forest.frame_index.take(forest.caller_index.take(rows))
    key, arc = np.unique(caller * frames + callee, return_inverse=True)
    is_outermost = outermost(arc.astype(np.int64), graph.begin.take(rows), graph.end.take(rows))
    outer_arc, outer_rows = arc[is_outermost], rows[is_outermost]
    return Arcs(
        caller=key // frames,
        callee=key % frames,
        hits=np.bincount(outer_arc, graph.total_hits.take(outer_rows), len(key)).astype(np.int64),
        self_s=np.bincount(arc, graph.self_s.take(rows), len(key)).astype(np.float64),
        total_s=np.bincount(outer_arc, graph.total_s.take(outer_rows), len(key)).astype(np.float64),
    )


def numbers_within(graph: CallGraph, rows: I64) -> Bools:
    """Return bool[t + 1]: the numbers, as in `CallGraph.begin`, in the subtrees of `rows`."""
    # How many of the subtrees contain each number.
    depth = np.zeros(len(graph.forest) + 1, np.int64)
    np.add.at(depth, graph.begin.take(rows), 1)
    np.subtract.at(depth, graph.end.take(rows), 1)
    return np.cumsum(depth) > 0


def of_each_hit(graph: CallGraph, of_number: NDArray[Any]) -> NDArray[Any]:
    """Look up the number of each hit, [h]; 0 for hits in no row.

    `of_number` is [t + 1] by number, 0 or False for the last one, which no row has.
    """
    of_row = of_number.take(np.append(graph.begin, len(graph.forest)))
    return of_row.take(graph.row_of_hit)
