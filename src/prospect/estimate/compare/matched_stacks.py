"""Stacks of several recordings as one tree: processes by name, below them who called whom.

Labels (`matching`) say what is the same in the recordings. Each recording has the tree's row of
each of its hits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.estimate.compare.compared_run import sample_blocks
from prospect.estimate.errors.design import sampling_design
from prospect.figures.calls.call_graph import call_graph
from prospect.figures.stacks.call_forest import (
    fold_recursion,
    in_preorder,
    pruned,
    subtree_ranges,
    thread_forest,
)
from prospect.figures.stacks.frames import FrameTable, NamedForest, named_forest
from prospect.figures.stacks.stack_weights import stack_samples
from prospect.profile.model import StackTable
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.estimate.compare.compared_run import ComparedRun
    from prospect.estimate.compare.matching import Labels
    from prospect.figures.calls.call_graph import CallGraph

_Name = TypeVar("_Name")
_MOST_ROWS = 50_000


class StackRun(Record):
    """A recording whose hits are told apart by stack; `row_of_hit` i64[h] of the tree, or -1."""

    run: ComparedRun
    row_of_hit: NDArray[np.int64]


class _Joined(NamedTuple):
    """The stacks of all recordings by name, without their processes.

    `rows` i64[..] and `of_process` i64[p] have for each recording the rows of the forest and the
    numbers of processes; `rank` i64[f] puts frames in the order of their names.
    """

    forest: NamedForest
    rows: list[NDArray[np.int64]]
    of_process: list[NDArray[np.int64]]
    rank: NDArray[np.int64]
    frames: int


class MatchedStacks(Record):
    """The stacks of all recordings.

    Attributes:
        name, object: list[str] of the frames, "" where unknown.
        processes: list[str] of their names.
        tree: rows in preorder; frames as `thread_forest` numbers them, processes for threads.
        runs: the recordings with the tree's rows of their hits.
        has_callers: whether all recordings have call chains; without, stacks have one frame.
    """

    name: list[str]
    object: list[str]
    processes: list[str]
    tree: NamedForest
    runs: list[StackRun]
    has_callers: bool


def matched_stacks(runs: Sequence[ComparedRun], labels: Sequence[Labels]) -> MatchedStacks:
    """Join the stacks of all recordings by name."""
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
    joined = _Joined(forest, rows, of_process, _ranks(names, processes), len(names))
    tree, stacks = _tree(runs, graphs, joined)
    return MatchedStacks(
        name=[name for _, name in names],
        object=[of_object for of_object, _ in names],
        processes=list(processes),
        tree=tree,
        runs=stacks,
        has_callers=has_callers,
    )


def _graph(run: ComparedRun, *, has_callers: bool) -> CallGraph:
    # Rows are functions: what was inlined into one is its own, and has no label.
    profile = replace(run.profile, lines=None)
    if not has_callers:
        profile = replace(profile, stacks=None)
    samples = stack_samples(profile, "4")
    return call_graph(samples, run.counts.take(samples.hit_index), run.event_index)


def _numbers(numbers: dict[_Name, int], names: Sequence[_Name]) -> NDArray[np.int64]:
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)


def _ranks(names: dict[tuple[str, str], int], processes: dict[str, int]) -> NDArray[np.int64]:
    """Return i64 the places of all frames by name: of functions, ALL, LEFT_OUT and processes."""
    rest = ["", "\U0010ffff", *processes]  # what is left out comes last
    _, rank = np.unique(
        np.array([*(name for _, name in names), *rest], object), return_inverse=True
    )
    return rank.astype(np.int64)


def _joined(
    forests: Sequence[NamedForest], frame_of_row: Sequence[NDArray[np.int64]], frames: int
) -> tuple[NamedForest, list[NDArray[np.int64]]]:
    """Make one forest of several, and return the row in it of each row of each."""
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


def _tree(
    runs: Sequence[ComparedRun],
    graphs: Sequence[CallGraph],
    joined: _Joined,
) -> tuple[NamedForest, list[StackRun]]:
    """Put the stacks with a hit below their processes, and give each hit its row."""
    size = len(joined.forest) + 1
    keys = []
    for graph, row, numbers in zip(graphs, joined.rows, joined.of_process, strict=True):
        process = numbers.take(graph.profile.hits.process_index)
        found = np.append(row, -1).take(graph.row_of_hit)
        keys.append(np.where(found >= 0, process * size + found, -1))
    every = np.concatenate(keys)
    distinct, leaf = np.unique(every[every >= 0], return_inverse=True)
    tree = thread_forest(joined.forest, joined.frames, distinct // size, distinct % size)
    count = np.concatenate([graph.profile.hits.count for graph in graphs])[every >= 0]
    hits = np.bincount(leaf, count, len(distinct)).astype(np.int64)
    tree = in_preorder(tree, joined.rank)
    tree = pruned(tree, subtree_ranges(tree)[1], hits, _MOST_ROWS)
    row_of_leaf = np.append(tree.row_of_stack, -1)
    stacks = []
    for run, graph, key in zip(runs, graphs, keys, strict=True):
        place = np.where(key >= 0, np.searchsorted(distinct, key), len(distinct))
        stacks.append(StackRun(_run_of(run, graph), row_of_leaf.take(place)))
    return tree, stacks


def _run_of(run: ComparedRun, graph: CallGraph) -> ComparedRun:
    """Return the recording with its hits told apart by stack."""
    design, counts = sampling_design(graph.profile, run.event_index), graph.row_of_hit >= 0
    return replace(
        run,
        profile=graph.profile,
        design=design,
        counts=counts,
        blocks=sample_blocks(graph.profile, design, counts),
        mode=np.zeros(len(graph.profile.hits), np.int64),  # no row is of one mode
    )
