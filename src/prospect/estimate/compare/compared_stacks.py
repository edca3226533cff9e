"""Call stacks of two sides as one tree, and the changes in its parts: a differential flame graph.

There are three families of tests, each by the test of the comparison's tables: the rows of the tree
(`compared_stacks`: below all samples the processes, below them callers and callees, by name), pairs
of caller and callee (`compared_calls`), and functions with all that they call
(`compared_inclusive`: a sample is in the row of each function on its stack, once, so that rows do
not add up). A row or part is a set of hits like the rows of the other tables, and is compared as
they are.

Parts of one group have no hit in common, so that one pass over all hits sums a whole group. The
rows of one depth are such a group. A sample has as many functions and calls as its stack has
frames, so those are put into groups of which no stack has two (`groups_apart`).

The tree has processes by name, and below them callers and callees. Labels (`matching`) identify
equal names in the recordings. Each recording has the tree's row of each of its hits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.columns.forests import levels
from prospect.estimate.compare.changes import CONFIDENCE, Changes, ChangeTable, changes, in_order
from prospect.estimate.compare.compared_run import rows_of, sample_blocks
from prospect.estimate.compare.variation import Rows, side_means, spread_of
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.statistics.row_limits import adjusted
from prospect.figures.calls.call_graph import call_graph
from prospect.figures.stacks.call_forest import (
    fold_recursion,
    in_preorder,
    outermost,
    pruned,
    subtree_ranges,
    subtree_sums,
    thread_forest,
)
from prospect.figures.stacks.frames import FrameTable, NamedForest, named_forest
from prospect.figures.stacks.stack_weights import stack_samples
from prospect.profile.model import StackTable
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prospect.columns.array_types import F64, I64, Bools
    from prospect.estimate.compare.compared_run import ComparedRun
    from prospect.estimate.compare.matching import Labels
    from prospect.estimate.compare.variation import Variation
    from prospect.figures.calls.call_graph import CallGraph


# Each depth takes a pass over all hits: deeper rows are shown, and not tested.
DEEPEST_TESTED = 512

# Each group takes a pass over all hits. There are as many as parts on a stack, or some more if
# functions call each other in any order. Parts of further groups are not tested.
_MOST_GROUPS = 512

_Name = TypeVar("_Name")
_MOST_ROWS = 50_000


class StackTest(Record):
    """How parts of the tree are compared: as the rows of the tables.

    Attributes:
        before: how many of the recordings are A's.
        divisor: f64[n] divides the times of each recording.
        exposure: hits that a side would have of a row that took one unit of time.
        least_hits: parts with fewer hits on both sides together are not tested.
        fdr: how many of those that are called significant may be wrong.
        total: the row of all samples, as it was compared; none without a hit.
    """

    before: int
    divisor: F64
    exposure: tuple[float, float]
    variation: Variation
    least_hits: int
    fdr: float
    total: ChangeTable

    def sides(self, hits: I64) -> I64:
        """Return i64[r, 2]: the hits of each side, from those of each recording."""
        return np.add.reduceat(hits, [0, self.before], axis=1)


class SubtreeGroup(NamedTuple):
    """Disjoint subtrees: their first rows, and the part of each; i64[k]."""

    row: I64
    part: I64


class TestedParts(NamedTuple):
    """The change of each part; 0 hits, and NaN for the rest, if it was in no group.

    `hits` i64[p, 2] and `mean` f64[p, 2] are those of the sides.
    """

    hits: I64
    mean: F64
    changes: Changes


def tested_parts(
    groups: Iterable[SubtreeGroup],
    parts: int,
    end: I64,
    stacks: Sequence[StackRun],
    test: StackTest,
) -> TestedParts:
    """Compare parts of the tree.

    Args:
        groups: each part is in one of them, with all its subtrees, or in none.
        parts: how many there are.
        end: i64[t] the first row after each row's subtree; rows are in preorder.
        stacks: A's recordings before B's.
    """
    every = TestedParts(
        hits=np.zeros((parts, 2), np.int64),
        mean=np.full((parts, 2), np.nan),
        changes=Changes(*(np.full(parts, np.nan) for _ in Changes._fields)),
    )
    found = [_times(group, end, stacks, test) for group in groups]
    if not found:
        return every
    part = np.concatenate([members for members, _ in found])
    times = Rows(*map(np.concatenate, zip(*(rows for _, rows in found), strict=True)))
    hits, mean = test.sides(times.hits), side_means(times.values, test.before)
    spread = spread_of(times, test.before, test.variation)
    every.hits[part], every.mean[part] = hits, mean
    changed = changes(mean, spread, hits, test.exposure)
    for column, values in zip(every.changes, changed, strict=True):
        column[part] = values
    return every


def _times(
    group: SubtreeGroup, end: I64, stacks: Sequence[StackRun], test: StackTest
) -> tuple[I64, Rows]:
    """Return the parts of a group, ascending, and their times."""
    part, rank = np.unique(group.part, return_inverse=True)
    step = np.zeros(len(end) + 1, np.int64)
    np.add.at(step, group.row, rank + 1)
    np.subtract.at(step, end.take(group.row), rank + 1)
    # The last place is that of hits in no row.
    rank_of_row = np.append(np.cumsum(step)[:-1] - 1, -1)
    runs = ((stack.run, rank_of_row.take(stack.row_of_hit), None) for stack in stacks)
    return part, rows_of(runs, len(part), test.divisor)


def outermost_rows(part: I64, begin: I64, end: I64) -> I64:
    """Return the rows of parts that are in no other row's subtree of the same part.

    `part` i64[t] is that of each row, -1 for none; `begin` and `end` are from `subtree_ranges`.
    """
    return np.flatnonzero(outermost(part, begin, end) & (part >= 0))


def groups_apart(
    tree: NamedForest, part: I64, outer: I64, is_tested: Bools
) -> Iterator[SubtreeGroup]:
    """Yield groups of parts that no stack has two of, until each tested one was in one of them.

    Parts have an order: those near the outermost frame come first. A group takes the parts that
    share no stack with an earlier part that is still left. So it takes the first of all, and no
    stack has two of it. Source: Jones and Plassmann, SIAM J. Sci. Comput. 14 (1993), for a fixed
    order.

    Args:
        tree: in preorder.
        part: i64[t] that of each row, -1 for none.
        outer: i64[k] the rows that `outermost_rows` returns.
        is_tested: bool[p] of the parts.
    """
    order = np.full(len(is_tested), np.iinfo(np.int64).max)
    has_part = np.flatnonzero(part >= 0)
    np.minimum.at(order, part.take(has_part), tree.depth.take(has_part))
    place = np.empty(len(order), np.int64)
    place[np.argsort(order, kind="stable")] = np.arange(len(order))
    none = len(order)
    pending = np.append(is_tested, False)  # the last is no part
    left = _Rows(part, tree.caller_index, levels(tree.depth)).of(pending)
    for _ in range(_MOST_GROUPS):
        if not len(left.part):
            return
        is_left = pending.take(left.part)
        own = np.where(is_left, place.take(left.part), none)
        is_free = pending.copy()
        is_free[left.part[(own > left.least_on_stacks(own)) & is_left]] = False
        rows = outer[is_free.take(part.take(outer))]
        yield SubtreeGroup(rows, part.take(rows))
        pending &= ~is_free
        if 2 * np.count_nonzero(pending.take(left.part)) <= len(left.part):
            left = left.of(pending)


class _Rows(NamedTuple):
    """Rows of a tree, outermost first: the part of each, and its caller among them.

    `levels` are those of each depth, also among them.
    """

    part: I64
    caller: I64
    levels: list[I64]

    def of(self, kept: Bools) -> _Rows:
        """Return the rows of these parts, each called by the next of them above it."""
        is_kept = kept.take(self.part)
        number = np.where(is_kept, np.cumsum(is_kept) - 1, -1)
        depth = np.where(is_kept, 0, -1)
        caller = np.full(len(number), -1, np.int64)
        for rows in self.levels[1:]:
            above = self.caller.take(rows)
            near = np.where(is_kept.take(above), number.take(above), caller.take(above))
            caller[rows] = near
            depth[rows] = depth.take(above) + is_kept.take(rows)
        return _Rows(self.part[is_kept], caller[is_kept], levels(depth[is_kept]))

    def least_on_stacks(self, own: I64) -> I64:
        """Return i64[t]: the least value of each row and of those above and below it."""
        above, below = own.copy(), own.copy()
        for rows in self.levels[1:]:
            above[rows] = np.minimum(own.take(rows), above.take(self.caller.take(rows)))
        for rows in reversed(self.levels[1:]):
            np.minimum.at(below, self.caller.take(rows), below.take(rows))
        return np.minimum(above, below)


class ComparedCalls(Record):
    """The calls that are tested, ascending by caller and callee.

    Attributes:
        caller, callee: i64[c] frames of the tree; processes are above functions.
        hits: i64[c, 2] of each side, each sample once.
        half_width: f64[c] of the 95 % interval of the change, with the callee's callees.
        q_value: f64[c].
        significant: bool[c] whether q_value is within the rate of false discoveries.
    """

    caller: I64
    callee: I64
    hits: I64
    half_width: F64
    q_value: F64
    significant: Bools

    def __len__(self) -> int:
        return len(self.caller)


def compared_calls(
    tree: NamedForest, total_hits: I64, stacks: Sequence[StackRun], test: StackTest
) -> ComparedCalls:
    """Compare each pair of caller and callee; all of them are one family of tests.

    `total_hits` i64[t, 2] are of each row of the tree and side, with its callees; A's recordings
    come before B's.
    """
    begin, end = subtree_ranges(tree)
    frames = int(tree.frame_index.max(initial=0)) + 1
    caller = tree.frame_index.take(tree.caller_index[1:])
    key, call = np.unique(caller * frames + tree.frame_index[1:], return_inverse=True)
    call = np.append(-1, call)  # all samples have no caller
    # The callees of a recursive function are in the outermost of its calls.
    outer = outermost_rows(call, begin, end)
    hits = np.zeros((len(key), 2), np.int64)
    np.add.at(hits, call.take(outer), total_hits.take(outer, axis=0))
    depth = np.zeros(len(key), np.int64)
    np.maximum.at(depth, call[1:], tree.depth[1:])
    is_tested = (hits.sum(axis=1) >= test.least_hits) & (depth < DEEPEST_TESTED)
    groups = groups_apart(tree, call, outer, is_tested)
    tested = tested_parts(groups, len(key), end, stacks, test).changes
    kept = np.flatnonzero(~np.isnan(tested.p_value))
    q_value = adjusted(tested.p_value.take(kept))
    return ComparedCalls(
        caller=key.take(kept) // frames,
        callee=key.take(kept) % frames,
        hits=hits.take(kept, axis=0),
        half_width=tested.half_width.take(kept),
        q_value=q_value,
        significant=q_value <= test.fdr,
    )


def compared_inclusive(matched: MatchedStacks, test: StackTest) -> ChangeTable:
    """Compare each function with all that it calls; those with too few hits have no row."""
    tree, count = matched.tree, len(matched.name)
    begin, end = subtree_ranges(tree)
    part = np.where(tree.frame_index < count, tree.frame_index, -1)
    outer = outermost_rows(part, begin, end)
    hits = np.zeros(count, np.int64)
    own = np.zeros(len(tree), np.int64)
    for stack in matched.runs:
        is_in = stack.row_of_hit >= 0
        np.add.at(own, stack.row_of_hit[is_in], stack.run.profile.hits.count[is_in])
    np.add.at(hits, part.take(outer), subtree_sums(tree, own).take(outer))
    is_tested = hits >= test.least_hits
    groups = groups_apart(tree, part, outer, is_tested)
    found = tested_parts(groups, count, end, matched.runs, test)
    kept = np.flatnonzero(~np.isnan(found.changes.p_value))
    columns = {name: column.take(kept) for name, column in found.changes._asdict().items()}
    q_value = adjusted(columns["p_value"])
    return in_order(
        ChangeTable(
            kind="inclusive",
            name=[matched.name[row] for row in kept.tolist()],
            object=[matched.object[row] for row in kept.tolist()],
            mode=np.zeros(len(kept), np.int64),
            hits=found.hits.take(kept, axis=0),
            mean=found.mean.take(kept, axis=0),
            **columns,
            q_value=q_value,
            significant=q_value <= test.fdr,
        )
    )


class ComparedStacks(Record):
    """The tree; times are seconds per unit of work, NaN for missing values.

    Attributes:
        name, object: of the frames, "" if unknown.
        processes: their names.
        tree: rows in preorder; frames as `thread_forest` numbers them, processes for threads.
        own_hits: i64[t, 2] hits of all recordings of a side, without callees.
        own: f64[t, 2] their mean time.
        half_width: f64[t] of the 95 % interval of the change, with callees.
        q_value: f64[t] NaN for rows with too few hits to be tested.
        significant: bool[t] whether q_value is within the rate of false discoveries; for row 0, all
            samples, which is tested by itself, whether its interval excludes no change.
        calls: pairs of caller and callee, their own family of tests.
        has_callers: whether all recordings have call chains; without, stacks have one frame.
    """

    name: list[str]
    object: list[str]
    processes: list[str]
    tree: NamedForest
    own_hits: I64
    own: F64
    half_width: F64
    q_value: F64
    significant: Bools
    calls: ComparedCalls
    has_callers: bool

    def __len__(self) -> int:
        return len(self.tree)


def compared_stacks(matched: MatchedStacks, test: StackTest) -> ComparedStacks:
    """Compare each row of the tree of all recordings."""
    tree, stacks = matched.tree, matched.runs
    own_hits, own = _own(stacks, test, len(tree))
    total_hits = subtree_sums(tree, own_hits)
    is_tested = total_hits.sum(axis=1) >= test.least_hits
    # The rows of one depth have no hit in common.
    tested = [rows[is_tested.take(rows)] for rows in levels(tree.depth)[1:DEEPEST_TESTED]]
    groups = (SubtreeGroup(rows, rows) for rows in tested if len(rows))
    found = tested_parts(groups, len(tree), subtree_ranges(tree)[1], stacks, test).changes
    half_width, q_value = found.half_width, adjusted(found.p_value)
    significant = q_value <= test.fdr
    if len(test.total):
        half_width[0], q_value[0] = test.total.half_width[0], test.total.p_value[0]
        significant[0] = q_value[0] <= 1.0 - CONFIDENCE
    return ComparedStacks(
        name=matched.name,
        object=matched.object,
        processes=matched.processes,
        tree=tree,
        own_hits=own_hits,
        own=own,
        half_width=half_width,
        q_value=q_value,
        significant=significant,
        calls=compared_calls(tree, total_hits, stacks, test),
        has_callers=matched.has_callers,
    )


def _own(stacks: Sequence[StackRun], test: StackTest, rows: int) -> tuple[I64, F64]:
    """Return hits of the sides and their mean time, without callees."""
    hits, values = np.zeros((rows, len(stacks)), np.int64), np.zeros((rows, len(stacks)))
    for nth, stack in enumerate(stacks):
        is_in = stack.row_of_hit >= 0
        row = stack.row_of_hit[is_in]
        count = stack.run.profile.hits.count[is_in]
        hits[:, nth] = np.bincount(row, count, rows)
        values[:, nth] = np.bincount(row, stack.run.seconds[is_in], rows) / test.divisor[nth]
    return test.sides(hits), side_means(values, test.before)


class StackRun(Record):
    """A recording with hits separated by stack; `row_of_hit` i64[h] of the tree, or -1."""

    run: ComparedRun
    row_of_hit: I64


class MatchedStacks(Record):
    """The stacks of all recordings; attributes as in `ComparedStacks`.

    Attributes:
        runs: the recordings with the tree's rows of their hits.
    """

    name: list[str]
    object: list[str]
    processes: list[str]
    tree: NamedForest
    runs: list[StackRun]
    has_callers: bool


def matched_stacks(runs: Sequence[ComparedRun], labels: Sequence[Labels]) -> MatchedStacks:
    """Join the stacks of all recordings by name, below their processes."""
    has_callers = all(run.profile.stacks is not None for run in runs)
    graphs = [_graph(run, has_callers=has_callers) for run in runs]
    names: dict[tuple[str, str], int] = {}
    processes: dict[str, int] = {}
    frames = [_numbers(names, label.function) for label in labels]
    of_process = [_numbers(processes, label.process) for label in labels]
    frame_of_row = [
        numbers.take(graph.frames.function_index.take(graph.forest.frame_index))
        for graph, numbers in zip(graphs, frames, strict=True)
    ]
    forest, rows = _joined([graph.forest for graph in graphs], frame_of_row, len(names))
    # Each hit has a key of its process and row, -1 for none.
    size, keys = len(forest) + 1, []
    for graph, row, numbers in zip(graphs, rows, of_process, strict=True):
        process = numbers.take(graph.profile.hits.process_index)
        found = np.append(row, -1).take(graph.row_of_hit)
        keys.append(np.where(found >= 0, process * size + found, -1))
    every = np.concatenate(keys)
    distinct, leaf = np.unique(every[every >= 0], return_inverse=True)
    tree = thread_forest(forest, len(names), distinct // size, distinct % size)
    count = np.concatenate([graph.profile.hits.count for graph in graphs])[every >= 0]
    hits = np.bincount(leaf, count, len(distinct)).astype(np.int64)
    tree = in_preorder(tree, _ranks(names, processes))
    tree = pruned(tree, subtree_ranges(tree)[1], hits, _MOST_ROWS)
    row_of_leaf = np.append(tree.row_of_stack, -1)
    stacks = []
    for run, graph, key in zip(runs, graphs, keys, strict=True):
        place = np.where(key >= 0, np.searchsorted(distinct, key), len(distinct))
        stacks.append(StackRun(_run_of(run, graph), row_of_leaf.take(place)))
    return MatchedStacks(
        name=[name for _, name in names],
        object=[of_object for of_object, _ in names],
        processes=list(processes),
        tree=tree,
        runs=stacks,
        has_callers=has_callers,
    )


def _graph(run: ComparedRun, *, has_callers: bool) -> CallGraph:
    # Rows are functions: inlined ones have no label, and count as the containing one.
    profile = replace(run.profile, lines=None)
    if not has_callers:
        profile = replace(profile, stacks=None)
    samples = stack_samples(profile, "4")
    return call_graph(samples, run.counts.take(samples.hit_index), run.event_index)


def _numbers(numbers: dict[_Name, int], names: Sequence[_Name]) -> I64:
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)


def _ranks(names: dict[tuple[str, str], int], processes: dict[str, int]) -> I64:
    """Return i64 the places of all frames by name: of functions, ALL, LEFT_OUT and processes."""
    rest = ["", "\U0010ffff", *processes]  # omitted rows come last
    _, rank = np.unique(
        np.array([*(name for _, name in names), *rest], object), return_inverse=True
    )
    return rank.astype(np.int64)


def _joined(
    forests: Sequence[NamedForest], frame_of_row: Sequence[I64], frames: int
) -> tuple[NamedForest, list[I64]]:
    """Merge forests into one, and return the row in it of each row of each."""
    sizes = [len(forest) for forest in forests]
    starts = np.append(0, np.cumsum(sizes))
    caller = [
        np.where(forest.caller_index >= 0, forest.caller_index + start, -1)
        for forest, start in zip(forests, starts.tolist(), strict=False)
    ]
    stacks = StackTable(
        caller_index=np.concatenate(caller).astype(np.int32),
        location_index=np.concatenate(frame_of_row).astype(np.int32),
        mode=np.zeros(int(starts[-1]), np.uint8),
        depth=np.concatenate([forest.depth for forest in forests]).astype(np.int32),
    )
    every = np.arange(frames + 1)
    none = np.full(frames, -1, np.int64)
    by_name = FrameTable([""] * frames, [""] * frames, none, none, none, every, every[:-1], none)
    found = fold_recursion(named_forest(stacks, by_name))
    return found, np.split(found.row_of_stack, starts[1:-1])


def _run_of(run: ComparedRun, graph: CallGraph) -> ComparedRun:
    """Return the recording with its hits separated by stack."""
    design, counts = sampling_design(graph.profile, run.event_index), graph.row_of_hit >= 0
    return replace(
        run,
        profile=graph.profile,
        design=design,
        counts=counts,
        blocks=sample_blocks(graph.profile, design, counts),
        mode=np.zeros(len(graph.profile.hits), np.int64),  # no row is of one mode
    )
