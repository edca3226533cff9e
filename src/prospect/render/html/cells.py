"""Samples as cells of (stack, circumstances, stretch of time): what a page filters and adds up.

Comes in: samples with their stacks, of one event. Goes out: `SampleCells`: each sample is in
exactly one cell, and the sum of the cells is the sum of the samples. Where there would be too many
cells, stretches become longer, and small stacks and threads are put together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import alike, distinct_keys, group_sums, without_gaps
from prospect.columns.sorting import run_lengths, run_starts
from prospect.figures.portions import hit_portions
from prospect.figures.stacks.call_forest import (
    fold_recursion,
    in_preorder,
    pruned,
    subtree_ranges,
    thread_forest,
)
from prospect.figures.stacks.frames import frame_labels, frame_table, named_forest
from prospect.figures.stacks.stack_weights import nanoseconds, sample_threads
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.figures.stacks.frames import FrameTable, NamedForest
    from prospect.figures.stacks.stack_weights import SampleThreads, StackSamples

_MOST_CELLS = 300_000
# From fine to coarse: how often stretches are doubled, and how often nodes and threads are halved.
_STEPS = ((0, 0), (1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (4, 2), (4, 3), (4, 4), (4, 5), (4, 6))
STRETCHES, _MOST_DOUBLINGS = 256, 4
_SAMPLES_A_STRETCH = 8
# A block's temporaries stay in the cache.
_BLOCK = 1 << 15
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

    A pair is all of these but the stretch.

    Attributes:
        names: of the samples of all events.
        event: its row in `RunInfo.events`.
        tree: in preorder.
        end: i64[t] the first row behind each subtree.
        leaf, thread, cpu, cause, portion, hits: i64[p] of each pair; `hits` are its samples.
        pair: i64[c] of each cell, ascending.
        stretch: i64[c].
        sums: i64[c] counts and periods.
    """

    names: StackNames
    event: int
    tree: NamedForest
    end: NDArray[np.int64]
    leaf: NDArray[np.int64]
    thread: NDArray[np.int64]
    cpu: NDArray[np.int64]
    cause: NDArray[np.int64]
    portion: NDArray[np.int64]
    hits: NDArray[np.int64]
    pair: NDArray[np.int64]
    stretch: NDArray[np.int64]
    sums: tuple[NDArray[np.int64], NDArray[np.int64]]


class SampleLeaves(NamedTuple):
    """Samples below the names of their threads, by what their hit and stack say of them.

    Attributes:
        tree: in preorder, see `thread_forest`.
        leaf, cause, portion: i64[g] of each distinct one; `leaf` is a place in `row_of_stack`.
        of_sample: i32[n] which of these each sample has.
    """

    tree: NamedForest
    leaf: NDArray[np.int64]
    cause: NDArray[np.int64]
    portion: NDArray[np.int64]
    of_sample: NDArray[np.int32]


def stack_names(samples: StackSamples) -> StackNames:
    """Name the frames of samples."""
    profile = samples.profile
    frames = frame_table(profile)
    last_ns = 0
    if samples.time_ns is not None and len(samples):
        last_ns = int(samples.time_ns.max()) + 1
        if last_ns > _LONGEST_NS:
            times = np.minimum(samples.time_ns, np.uint64(_LONGEST_NS - 1))
            samples, last_ns = replace(samples, time_ns=times), _LONGEST_NS
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
    finest = _finest(names, event)
    pruning = -1
    for doubled, halved in _STEPS:
        if halved != pruning:
            merged, pruning = _merged(finest, halved), halved
        merged = _doubled(merged, stretch_shift(finest.cpu, finest.hits, doubled))
        if len(merged.keys[0]) <= _MOST_CELLS:
            break
    return _cells(finest, merged)


def event_rows(names: StackNames, event: int) -> NDArray[np.intp] | slice:
    """Return the samples of an event, a slice of them if these are all."""
    samples = names.samples
    is_event = samples.profile.hits.event == event
    return slice(None) if is_event.all() else np.flatnonzero(is_event.take(samples.hit_index))


def sample_leaves(names: StackNames, rows: NDArray[np.intp] | slice) -> SampleLeaves:
    """Put samples below the names of their threads.

    Args:
        names: of the samples of all events.
        rows: the samples.
    """
    samples, profile = names.samples, names.samples.profile
    hits, size = profile.hits, len(names.forest) + 1
    kinds = alike((hits.comm_index, hits.cause_index, names.portion))
    comm, cause, portion = (
        column.take(kinds.row).astype(np.int64)
        for column in (hits.comm_index, hits.cause_index, names.portion)
    )
    key = kinds.place.astype(np.int64) * size
    hit = samples.hit_index[rows]
    if samples.stack_of_hit is not None:
        key += names.forest.row_of_stack.take(samples.stack_of_hit)
        found, place = distinct_keys(key, len(kinds.row) * size)
        of_sample = place.astype(np.int32).take(hit)
    else:
        key_of_sample = key.take(hit)
        key_of_sample += names.forest.row_of_stack.take(samples.stack_index[rows])
        found, place = distinct_keys(key_of_sample, len(kinds.row) * size)
        of_sample = place.astype(np.int32)
    # Of some of the hits there may be no sample.
    there, of_sample = without_gaps(of_sample, len(found))
    kind, row = np.divmod(found.take(there), size)
    leaf, place = distinct_keys(comm.take(kind) * size + row, len(profile.comms) * size)
    tree = thread_forest(names.forest, len(names.frames), leaf // size, leaf % size)
    return SampleLeaves(
        in_preorder(tree, _ranks(names)), place, cause.take(kind), portion.take(kind), of_sample
    )


def _finest(names: StackNames, event: int) -> _Finest:
    rows = event_rows(names, event)
    samples, leaves = names.samples, sample_leaves(names, rows)
    keys = (
        leaves.of_sample,
        names.threads.thread_index[rows],
        samples.cpu[rows],
        sample_stretches(names, rows),
    )
    found, (count, period) = group_sums(keys, (samples.count[rows], samples.period[rows]))
    *of_pair, stretch = found
    start = run_starts(*of_pair)
    number, thread, cpu = (column.take(start) for column in of_pair)
    return _Finest(
        names=names,
        event=event,
        tree=leaves.tree,
        end=subtree_ranges(leaves.tree)[1],
        leaf=leaves.leaf.take(number),
        thread=thread,
        cpu=cpu,
        cause=leaves.cause.take(number),
        portion=leaves.portion.take(number),
        hits=np.add.reduceat(count, start) if len(start) else count,
        pair=np.arange(len(start)).repeat(run_lengths(start, len(count))),
        stretch=stretch,
        sums=(count, period),
    )


def sample_stretches(names: StackNames, rows: NDArray[np.intp] | slice) -> NDArray[np.uint8]:
    """Return the shortest stretches of time that samples are in, u8[n]; 0 without times."""
    samples = names.samples
    if samples.time_ns is None:
        return np.zeros(len(samples.hit_index[rows]), np.uint8)
    times, length = samples.time_ns[rows], max(names.end_ns, 1)
    found = np.empty(len(times), np.uint8)
    for first in range(0, len(times), _BLOCK):
        # Whole numbers, so that whoever counts from one stretch to another counts the same samples.
        stretch = times[first : first + _BLOCK] * np.uint64(STRETCHES) // np.uint64(length)
        found[first : first + _BLOCK] = np.minimum(stretch, STRETCHES - 1)
    return found


class _Merged(NamedTuple):
    """The same samples with small stacks and threads put together.

    Attributes:
        tree: in preorder.
        contexts: i64[k] threads, CPUs, causes and portions.
        keys: i64[c] nodes, circumstances and stretches of time, ascending in this order.
        sums: i64[c] counts and periods.
        shift: how often stretches are doubled.
        is_whole: as in `SampleCells`.
    """

    tree: NamedForest
    contexts: list[NDArray[np.int64]]
    keys: list[NDArray[np.int64]]
    sums: tuple[NDArray[np.int64], NDArray[np.int64]]
    shift: int
    is_whole: bool


def _merged(finest: _Finest, halved: int) -> _Merged:
    """Put small stacks and threads together, and add up what that makes the same."""
    names, tree = finest.names, finest.tree
    hits_of_leaf = np.bincount(finest.leaf, finest.hits, len(tree.row_of_stack)).astype(np.int64)
    small = pruned(tree, finest.end, hits_of_leaf, _NODES >> halved)
    thread = _largest_threads(finest.thread, finest.hits, _THREADS >> halved, names)
    # Circumstances are numbered first, so that the keys of the cells fit in 64 bits.
    columns = (thread, finest.cpu, finest.cause, finest.portion)
    context = alike(columns)
    keys = (small.row_of_stack.take(finest.leaf), context.place)
    node_and_context = alike(keys)
    whole, (count, period) = group_sums(
        (node_and_context.place.take(finest.pair), finest.stretch), finest.sums
    )
    row = node_and_context.row.take(whole[0])
    return _Merged(
        tree=small,
        contexts=[column.take(context.row) for column in columns],
        keys=[keys[0].take(row), keys[1].take(row).astype(np.int64), whole[1]],
        sums=(count, period),
        shift=0,
        is_whole=len(small) == len(tree) and bool((thread == finest.thread).all()),
    )


def _doubled(merged: _Merged, shift: int) -> _Merged:
    """Add up what is in the same stretches of time once they are doubled `shift` times in all."""
    if shift == merged.shift:
        return merged
    node, context, stretch = merged.keys
    stretch = stretch >> (shift - merged.shift)
    # Cells ascend by node, circumstances and time: what becomes the same stands side by side.
    start = run_starts(node, context, stretch)
    count, period = (
        np.add.reduceat(column, start) if len(start) else column for column in merged.sums
    )
    keys = [column.take(start) for column in (node, context, stretch)]
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


def _ranks(names: StackNames) -> NDArray[np.int64]:
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
