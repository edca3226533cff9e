"""Samples as cells of (stack, circumstances, stretch of time): what a page filters and adds up.

Comes in: samples with their stacks, of one event. Goes out: `SampleCells`: each sample is in
exactly one cell, and the sum of the cells is the sum of the samples. Where there would be too many
cells, stretches become longer, and small stacks and threads are put together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import distinct_keys, group_sums
from prospect.figures.portions import hit_portions
from prospect.figures.stacks.call_forest import fold_recursion, subtree_ranges
from prospect.figures.stacks.frames import frame_labels, frame_table, named_forest
from prospect.figures.stacks.pruning import pruned
from prospect.figures.stacks.stack_weights import nanoseconds, sample_threads
from prospect.figures.stacks.thread_forest import in_preorder, thread_forest
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.figures.stacks.frames import FrameTable, NamedForest
    from prospect.figures.stacks.stack_weights import SampleThreads, StackSamples

_MOST_CELLS = 300_000
# From fine to coarse: how often stretches are doubled, and how often nodes and threads are halved.
_STEPS = ((0, 0), (1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (4, 2), (4, 3), (4, 4), (4, 5), (4, 6))
STRETCHES, _MOST_DOUBLINGS = 256, 4
_SAMPLES_A_STRETCH = 8
_NODES = 150_000
_THREADS = 4_096
# 104 days, which scripts count exactly; only a damaged recording says that it took longer.
_LONGEST_NS = 1 << 53


class StackNames(Record):
    """What all events of a page share.

    Attributes:
        samples: of all events.
        frames: of their locations.
        labels: what each frame is called.
        forest: calls by routine, direct recursion folded.
        threads: of the samples.
        portion: i64[h] of hits.
        end_ns: length of the interval.
    """

    samples: StackSamples
    frames: FrameTable
    labels: list[str]
    forest: NamedForest
    threads: SampleThreads
    portion: NDArray[np.int64]
    end_ns: int


class SampleCells(Record):
    """Sums over the samples of one event.

    Attributes:
        tree: the stacks in preorder, see `thread_forest`.
        thread, cpu, cause, portion: i64[k] circumstances; `thread` is the number of threads where
            it is none of those that are kept apart.
        node, context, stretch: i64[c] rows of the tree and of the circumstances, and stretches of
            time.
        count: i64[c] samples.
        time_ns: i64[c] their time; 0 where the event has none.
        begin_ns, end_ns: of what time these are, since the interval's begin.
        stretches: how many that time has.
        is_whole: whether every stack and every thread is kept apart.
    """

    tree: NamedForest
    thread: NDArray[np.int64]
    cpu: NDArray[np.int64]
    cause: NDArray[np.int64]
    portion: NDArray[np.int64]
    node: NDArray[np.int64]
    context: NDArray[np.int64]
    stretch: NDArray[np.int64]
    count: NDArray[np.int64]
    time_ns: NDArray[np.int64]
    begin_ns: int
    end_ns: int
    stretches: int
    is_whole: bool


class _Finest(NamedTuple):
    """One event's samples by leaf of the tree, thread, CPU, cause, portion and shortest stretch.

    `tree` is in preorder, `end` the first row behind each subtree. `keys` are columns in this
    order, `sums` their counts and periods; all i64.
    """

    names: StackNames
    event: int
    tree: NamedForest
    end: NDArray[np.int64]
    keys: list[NDArray[np.int64]]
    sums: tuple[NDArray[np.int64], NDArray[np.int64]]


def stack_names(samples: StackSamples) -> StackNames:
    """Name the frames of samples."""
    profile = samples.profile
    frames = frame_table(profile)
    last_ns = 0
    if samples.time_ns is not None and len(samples):
        times = np.minimum(samples.time_ns, np.uint64(_LONGEST_NS - 1))
        samples = replace(samples, time_ns=times)
        last_ns = int(times.max()) + 1
    return StackNames(
        samples=samples,
        frames=frames,
        labels=frame_labels(profile, frames),
        forest=fold_recursion(named_forest(samples.stacks, frames)),
        threads=sample_threads(samples),
        portion=hit_portions(profile),
        end_ns=min(max(last_ns, profile.run.end_ns - profile.run.begin_ns), _LONGEST_NS),
    )


def sample_cells(names: StackNames, event: int) -> SampleCells:
    """Add up the samples of one event.

    Args:
        names: of the samples of all events.
        event: its row in `RunInfo.events`.
    """
    samples = names.samples
    rows = np.flatnonzero(samples.of_hit(samples.profile.hits.event) == event)
    unsorted, leaf = sample_leaves(names, rows)
    tree = in_preorder(unsorted, ranks(names))
    keys = [leaf, *sample_contexts(names, rows), sample_stretches(names, rows)]
    found, (count, period) = group_sums(keys, (samples.count.take(rows), samples.period.take(rows)))
    finest = _Finest(names, event, tree, subtree_ranges(tree)[1], found, (count, period))
    pruning = -1
    for doubled, halved in _STEPS:
        if halved != pruning:
            merged, pruning = _merged(finest, halved), halved
        merged = _doubled(merged, stretch_shift(found[2], count, doubled))
        if len(merged.keys[0]) <= _MOST_CELLS:
            break
    return _cells(finest, merged)


def sample_leaves(
    names: StackNames, rows: NDArray[np.intp]
) -> tuple[NamedForest, NDArray[np.int64]]:
    """Put samples below the names of their threads.

    Args:
        names: of the samples of all events.
        rows: i64[n] the samples.

    Returns:
        The tree, see `thread_forest`, and i64[n] of each sample its place in `row_of_stack`.
    """
    samples, size = names.samples, len(names.forest) + 1
    row = names.forest.row_of_stack.take(samples.stack_index.take(rows))
    comm = samples.of_hit(samples.profile.hits.comm_index).take(rows)
    bound = len(samples.profile.comms) * size
    leaf, leaf_of_sample = distinct_keys(comm * size + row, bound)
    tree = thread_forest(names.forest, len(names.frames), leaf // size, leaf % size)
    return tree, leaf_of_sample


def sample_contexts(names: StackNames, rows: NDArray[np.intp]) -> list[NDArray[np.int64]]:
    """Return the threads, CPUs, causes and portions of samples, i64[n] each."""
    samples = names.samples
    hit = samples.hit_index.take(rows)
    return [
        names.threads.thread_index.take(rows),
        samples.cpu.take(rows).astype(np.int64),
        samples.profile.hits.cause_index.take(hit).astype(np.int64),
        names.portion.take(hit).astype(np.int64),
    ]


def sample_stretches(names: StackNames, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the shortest stretches of time that samples are in, i64[n]; 0 without times."""
    times = names.samples.time_ns
    if times is None:
        return np.zeros(len(rows), np.int64)
    # Whole numbers, so that whoever counts from one stretch to another counts the same samples.
    stretch = times.take(rows).astype(np.int64) * STRETCHES // max(names.end_ns, 1)
    return np.clip(stretch, 0, STRETCHES - 1)


class _Merged(NamedTuple):
    """The same samples with small stacks and threads put together.

    `keys` are columns of nodes, circumstances and stretches of time, `sums` their counts and
    periods, all i64; `shift` is how often stretches are doubled. `is_whole` as in `SampleCells`.
    """

    tree: NamedForest
    contexts: list[NDArray[np.int64]]
    keys: list[NDArray[np.int64]]
    sums: tuple[NDArray[np.int64], NDArray[np.int64]]
    shift: int
    is_whole: bool


def _merged(finest: _Finest, halved: int) -> _Merged:
    """Put small stacks and threads together; nothing is added up yet."""
    names, tree = finest.names, finest.tree
    leaf, thread, cpu, cause, portion, stretch = finest.keys
    count, _ = finest.sums
    hits_of_leaf = np.bincount(leaf, count, len(tree.row_of_stack)).astype(np.int64)
    small = pruned(tree, finest.end, hits_of_leaf, _NODES >> halved)
    merged = _largest_threads(thread, count, _THREADS >> halved, names)
    # Circumstances are numbered first, so that the keys of the cells fit in 64 bits.
    contexts, _ = group_sums((merged, cpu, cause, portion), ())
    context = rows_of((merged, cpu, cause, portion), contexts)
    is_whole = len(small) == len(tree) and bool((merged == thread).all())
    keys = [small.row_of_stack.take(leaf), context, stretch]
    return _Merged(small, contexts, keys, finest.sums, 0, is_whole)


def _doubled(merged: _Merged, shift: int) -> _Merged:
    """Add up what is in the same stretches of time once they are doubled `shift` times in all."""
    node, context, stretch = merged.keys
    keys, (count, period) = group_sums(
        (node, context, stretch >> (shift - merged.shift)), merged.sums
    )
    return merged._replace(keys=keys, sums=(count, period), shift=shift)


def _cells(finest: _Finest, merged: _Merged) -> SampleCells:
    names, contexts, shift = finest.names, merged.contexts, merged.shift
    node, of_cell, time = merged.keys
    count, period = merged.sums
    profile = names.samples.profile
    return SampleCells(
        tree=merged.tree,
        thread=contexts[0],
        cpu=contexts[1],
        cause=contexts[2],
        portion=contexts[3],
        node=node,
        context=of_cell,
        stretch=time,
        count=count,
        time_ns=nanoseconds(profile, np.full(len(count), finest.event), count, period),
        begin_ns=0,
        end_ns=names.end_ns,
        stretches=STRETCHES >> shift,
        is_whole=merged.is_whole,
    )


def stretch_shift(cpu: NDArray[np.int64], count: NDArray[np.int64], least: int) -> int:
    """Return how often stretches are doubled: a busy CPU should have a few samples in each."""
    most = float(np.bincount(cpu, count).max(initial=0))
    shift = least
    while (STRETCHES >> shift) * _SAMPLES_A_STRETCH > most and shift < _MOST_DOUBLINGS:
        shift += 1
    return shift


def ranks(names: StackNames) -> NDArray[np.int64]:
    """Return i64 the places of all frames by name: of routines, ALL, LEFT_OUT and threads."""
    rest = ["", "\U0010ffff", *names.samples.profile.comms]  # what is left out stands last
    _, rank = np.unique(np.array([*names.labels, *rest], object), return_inverse=True)
    return rank.astype(np.int64)


def _largest_threads(
    thread: NDArray[np.int64], count: NDArray[np.int64], most: int, names: StackNames
) -> NDArray[np.int64]:
    total = np.bincount(thread, count, len(names.threads))
    if np.count_nonzero(total) <= most:
        return thread
    kept = np.argsort(-total, kind="stable")[:most]
    new = np.full(len(total), len(total), np.int64)
    new[kept] = kept
    return new.take(thread)


def rows_of(
    columns: Sequence[NDArray[np.int64]], distinct: list[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Return i64[n]: which of the distinct rows, in ascending order, each row of columns is."""
    sizes = [int(column.max(initial=0)) + 1 for column in distinct]

    def packed(rows: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        key = rows[0]
        for column, size in zip(rows[1:], sizes[1:], strict=True):
            key = key * size + column
        return key

    return np.searchsorted(packed(distinct), packed(columns))
