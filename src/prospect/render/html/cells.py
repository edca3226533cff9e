"""Samples as cells of (stack, context, stretch of time), which a page filters and adds up.

The heat map, the flame graph and the tables of the page are sums of these cells.
Each sample of an event is in exactly one cell of `SampleCells`, and the sum of the cells is the sum
of the samples. If there are too many cells, stretches become longer, and small stacks and threads
are merged.

`EventParts` divides a selection as finely as fits: it merges the smallest stacks first, and those
that a person looks at last. What no selection changes is computed once, so that a part of a million
samples takes a fraction of a second.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.grouping import alike, distinct_keys, group_sums, sums_with_rows, without_gaps
from prospect.columns.sorting import run_lengths, run_starts
from prospect.figures.modes import hit_modes
from prospect.figures.stacks.call_forest import (
    LEFT_OUT,
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
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import I32, I64, U8, U64, Bools
    from prospect.figures.stacks.frames import FrameTable, NamedForest
    from prospect.figures.stacks.stack_weights import SampleThreads, StackSamples


_MOST_CELLS = 300_000
# From fine to coarse: how often stretches double, and how often bounds of nodes and threads halve.
_STEPS = ((0, 0), (1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (4, 2), (4, 3), (4, 4), (4, 5), (4, 6))
STRETCHES, _MOST_DOUBLINGS = 256, 4
_SAMPLES_A_STRETCH = 8
# A block's temporaries stay in the cache.
_BLOCK = 1 << 15
_NODES = 150_000
_THREADS = 4_096
# 104 days, which scripts count exactly; only a damaged recording claims to be longer.
_LONGEST_NS = 1 << 53
_MOST_CELLS_OF_PART = 1_000_000
# From fine to coarse: how often stretches double, and how often the bound of tree rows halves.
_STEPS_OF_PART = ((0, 0), (1, 0), (2, 0), (2, 2), (3, 2), (4, 2), (4, 4), (4, 6), (4, 8))
SCOPES = ("all", "command", "descendants", "process")


class Contexts(NamedTuple):
    """Circumstances of samples, i64[k] each.

    `thread` is a row of the samples' threads; the number of threads for those that were merged.
    """

    thread: I64
    cpu: I64
    entry_reason: I64
    mode: I64

    def take(self, rows: NDArray[Any]) -> Contexts:
        """Return some rows."""
        return Contexts(*(column.take(rows) for column in self))


class StackNames(Record):
    """Names and samples that all events of a page share.

    Attributes:
        samples: of all events.
        frames: of their locations.
        labels: of each frame.
        forest: calls by function, direct recursion folded.
        mode: i64[h] of hits.
        end_ns: length of the interval.
    """

    samples: StackSamples
    frames: FrameTable
    labels: list[str]
    forest: NamedForest
    threads: SampleThreads
    mode: I64
    end_ns: int


class SampleCells(Record):
    """Sums over the samples of one event.

    Attributes:
        tree: the stacks in preorder, see `thread_forest`.
        contexts: the distinct ones.
        node, context, stretch: i64[c] rows of the tree and of the contexts, and stretches of time.
        count: i64[c] samples.
        time_ns: i64[c] their time; 0 if the event has none.
        begin_ns, end_ns: the time that is covered, since the interval's start.
        stretches: how many that time has.
        is_whole: whether no stacks and no threads were merged.
    """

    tree: NamedForest
    contexts: Contexts
    node: I64
    context: I64
    stretch: I64
    count: I64
    time_ns: I64
    begin_ns: int
    end_ns: int
    stretches: int
    is_whole: bool


class _Finest(NamedTuple):
    """One event's samples by leaf of the tree, thread, CPU, entry reason, mode and stretch.

    A pair is all of these but the stretch.

    Attributes:
        names: of the samples of all events.
        event: its row in `RunInfo.events`.
        tree: in preorder.
        end: i64[t] the first row after each subtree.
        leaf, hits: i64[p] of each pair; `hits` are its samples.
        contexts: of each pair.
        pair: i64[c] of each cell, ascending.
        stretch: i64[c].
        sums: i64[c] counts and periods.
    """

    names: StackNames
    event: int
    tree: NamedForest
    end: I64
    leaf: I64
    contexts: Contexts
    hits: I64
    pair: I64
    stretch: I64
    sums: tuple[I64, I64]


class SampleLeaves(NamedTuple):
    """Samples below the names of their threads, by leaf, entry reason and mode.

    Attributes:
        tree: in preorder, see `thread_forest`.
        leaf, entry reason, mode: i64[g] of each distinct one; `leaf` is a place in `row_of_stack`.
        of_sample: i32[n] which of these each sample has.
    """

    tree: NamedForest
    leaf: I64
    entry_reason: I64
    mode: I64
    of_sample: I32


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
        mode=hit_modes(profile),
        end_ns=min(max(last_ns, profile.run.end_ns - profile.run.begin_ns), _LONGEST_NS),
    )


def sample_cells(names: StackNames, event: int) -> SampleCells:
    """Add up the samples of one event, a row of `RunInfo.events`."""
    finest = _finest(names, event)
    pruning = -1
    for doubled, halved in _STEPS:
        if halved != pruning:
            merged, pruning = _merged(finest, halved), halved
        merged = _doubled(merged, stretch_shift(finest.contexts.cpu, finest.hits, doubled))
        if len(merged.keys[0]) <= _MOST_CELLS:
            break
    return merged.cells(names, event, (0, names.end_ns), STRETCHES)


def sample_leaves(names: StackNames, rows: NDArray[np.intp] | slice) -> SampleLeaves:
    """Make a tree of samples with the names of threads at the top."""
    samples, profile = names.samples, names.samples.profile
    hits, size = profile.hits, len(names.forest) + 1
    kinds = alike((hits.comm_index, hits.entry_reason_index, names.mode))
    comm, entry_reason, mode = (
        column.take(kinds.row).astype(np.int64)
        for column in (hits.comm_index, hits.entry_reason_index, names.mode)
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
    # Some hits may have no sample.
    there, of_sample = without_gaps(of_sample, len(found))
    kind, row = np.divmod(found.take(there), size)
    leaf, place = distinct_keys(comm.take(kind) * size + row, len(profile.comms) * size)
    tree = thread_forest(names.forest, len(names.frames), leaf // size, leaf % size)
    return SampleLeaves(
        in_preorder(tree, _ranks(names)), place, entry_reason.take(kind), mode.take(kind), of_sample
    )


def _finest(names: StackNames, event: int) -> _Finest:
    samples = names.samples
    is_event = samples.profile.hits.event == event
    # A slice, which copies nothing, if all samples are of this event.
    rows = slice(None) if is_event.all() else np.flatnonzero(is_event.take(samples.hit_index))
    leaves = sample_leaves(names, rows)
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
        contexts=Contexts(thread, cpu, leaves.entry_reason.take(number), leaves.mode.take(number)),
        hits=np.add.reduceat(count, start) if len(start) else count,
        pair=np.arange(len(start)).repeat(run_lengths(start, len(count))),
        stretch=stretch,
        sums=(count, period),
    )


def sample_stretches(names: StackNames, rows: NDArray[np.intp] | slice) -> U8:
    """Return u8[n] the shortest stretch of time that each sample is in; 0 without times."""
    samples = names.samples
    if samples.time_ns is None:
        return np.zeros(len(samples.hit_index[rows]), np.uint8)
    times, length = samples.time_ns[rows], max(names.end_ns, 1)
    found = np.empty(len(times), np.uint8)
    for first in range(0, len(times), _BLOCK):
        # In whole numbers, so that code and samples are in the same stretches.
        stretch = times[first : first + _BLOCK] * np.uint64(STRETCHES) // np.uint64(length)
        found[first : first + _BLOCK] = np.minimum(stretch, STRETCHES - 1)
    return found


class _Merged(NamedTuple):
    """Samples with small stacks and threads merged.

    Attributes:
        tree: in preorder.
        contexts: the distinct ones.
        keys: i64[c] nodes, contexts and stretches of time, ascending in this order.
        sums: i64[c] counts and periods.
        shift: how often stretches were doubled.
        is_whole: as in `SampleCells`.
    """

    tree: NamedForest
    contexts: Contexts
    keys: Sequence[I64]
    sums: Sequence[I64]
    shift: int
    is_whole: bool

    def cells(
        self, names: StackNames, event: int, span: tuple[int, int], stretches: int
    ) -> SampleCells:
        """Return them as cells of a span of time with so many stretches before doubling."""
        (node, context, stretch), (count, period) = self.keys, self.sums
        profile = names.samples.profile
        return SampleCells(
            tree=self.tree,
            contexts=self.contexts,
            node=node,
            context=context,
            stretch=stretch,
            count=count,
            time_ns=nanoseconds(profile, np.full(len(count), event), count, period),
            begin_ns=span[0],
            end_ns=span[1],
            stretches=stretches >> self.shift,
            is_whole=self.is_whole,
        )


def _merged(finest: _Finest, halved: int) -> _Merged:
    """Merge small stacks and threads, and add up the cells that become equal."""
    names, tree = finest.names, finest.tree
    hits_of_leaf = np.bincount(finest.leaf, finest.hits, len(tree.row_of_stack)).astype(np.int64)
    small = pruned(tree, finest.end, hits_of_leaf, _NODES >> halved)
    thread = _largest_threads(finest.contexts.thread, finest.hits, _THREADS >> halved, names)
    contexts = finest.contexts._replace(thread=thread)
    # Contexts are numbered first, so that the keys of the cells fit in 64 bits.
    context = alike(contexts)
    keys = (small.row_of_stack.take(finest.leaf), context.place)
    node_and_context = alike(keys)
    whole, (count, period) = group_sums(
        (node_and_context.place.take(finest.pair), finest.stretch), finest.sums
    )
    row = node_and_context.row.take(whole[0])
    return _Merged(
        tree=small,
        contexts=contexts.take(context.row),
        keys=[keys[0].take(row), keys[1].take(row).astype(np.int64), whole[1]],
        sums=(count, period),
        shift=0,
        is_whole=len(small) == len(tree) and bool((thread == finest.contexts.thread).all()),
    )


def _doubled(merged: _Merged, shift: int) -> _Merged:
    """Add up the cells of stretches that are doubled `shift` times in all."""
    if shift == merged.shift:
        return merged
    node, context, stretch = merged.keys
    stretch = stretch >> (shift - merged.shift)
    # Cells ascend by node, context and time: those that become the same are next to each other.
    start = run_starts(node, context, stretch)
    count, period = (
        np.add.reduceat(column, start) if len(start) else column for column in merged.sums
    )
    keys = [column.take(start) for column in (node, context, stretch)]
    return merged._replace(keys=keys, sums=(count, period), shift=shift)


def stretch_shift(cpu: I64, count: I64, least: int) -> int:
    """Return how often to double stretches: a busy CPU should have a few samples in each."""
    most = float(np.bincount(cpu, count).max(initial=0))
    shift = least
    while (STRETCHES >> shift) * _SAMPLES_A_STRETCH > most and shift < _MOST_DOUBLINGS:
        shift += 1
    return shift


def _ranks(names: StackNames) -> I64:
    """Return i64 the places of all frames by name: of functions, ALL, LEFT_OUT and threads."""
    rest = ["", "\U0010ffff", *names.samples.profile.comms]  # LEFT_OUT sorts last
    _, rank = np.unique(np.array([*names.labels, *rest], object), return_inverse=True)
    return rank.astype(np.int64)


def _largest_threads(thread: I64, count: I64, most: int, names: StackNames) -> I64:
    total = np.bincount(thread, count, len(names.threads))
    if np.count_nonzero(total) <= most:
        return thread
    kept = np.argsort(-total, kind="stable")[:most]
    new = np.full(len(total), len(total), np.int64)
    new[kept] = kept
    return new.take(thread)


class AddressSums(Record):
    """A function by address: u64[a] ascending, i64[a] samples and their time, 0 if none."""

    address: U64
    count: I64
    time_ns: I64


class Selection(Record):
    """A part of an event that a page shows.

    Attributes:
        begin_ns, end_ns: since the interval's start, `end_ns` excluded; None for its end.
        scope: one of SCOPES.
        process: row of the processes, if `scope` is "process".
        cpu: None for all.
        thread: row of the samples' threads, None for all.
        is_by_time: whether the time is divided into stretches.
        path: frames from a thread's name inwards; stacks that begin so are merged last.
        search: so are stacks with a function or an object whose name contains this.
    """

    begin_ns: int = 0
    end_ns: int | None = None
    scope: str = "all"
    process: int = -1
    cpu: int | None = None
    thread: int | None = None
    is_by_time: bool = False
    path: tuple[int, ...] = ()
    search: str = ""


class _Pairs(NamedTuple):
    """Distinct (leaf, context): i64[p] both, and those of each sample, i64[n]."""

    leaf: I64
    context: I64
    of_sample: I64


class _Rows(Record):
    """Samples, or sums of them, by pair and stretch of time; all i64[r]."""

    pair: I64
    stretch: I64
    count: I64
    period: I64


class EventParts(Record):
    """One event's samples, prepared for selections.

    Attributes:
        names: of the samples of all events.
        event: its row in `RunInfo.events`.
        tree: every stack below its thread's name, in preorder.
        end: i64[t] the first row after the subtree of each row.
        contexts: the distinct ones.
        pairs: of leaves of the tree and contexts.
        location: i32[n] of samples, rows of the profile's.
        time_ns: i64[n] of samples, ascending; all 0 if they have none.
        count, period: i64[n] of samples.
    """

    names: StackNames
    event: int
    tree: NamedForest
    end: I64
    contexts: Contexts
    pairs: _Pairs
    location: I32
    time_ns: I64
    count: I64
    period: I64

    def cells(self, selection: Selection) -> SampleCells:
        """Add up the samples of a selection.

        Rows and frames that do not exist select nothing.
        """
        rows, end_ns, stretches = self._selected(selection)
        used, context = distinct_keys(self.pairs.context.take(rows.pair), len(self.contexts.thread))
        leaf = self.pairs.leaf.take(rows.pair)
        hits = np.bincount(leaf, rows.count, len(self.tree.row_of_stack)).astype(np.int64)
        favoured = self._favoured(selection)
        for doubled, halved in _STEPS_OF_PART:
            shift = min(doubled, stretches.bit_length() - 1)
            tree = pruned(self.tree, self.end, hits, _NODES >> halved, favoured)
            keys, sums = group_sums(
                (tree.row_of_stack.take(leaf), context, rows.stretch >> shift),
                (rows.count, rows.period),
            )
            if len(sums[0]) <= _MOST_CELLS_OF_PART:
                break
        is_whole = not (tree.frame_index == len(self.names.frames) + LEFT_OUT).any()
        merged = _Merged(tree, self.contexts.take(used), keys, sums, shift, is_whole)
        return merged.cells(self.names, self.event, (selection.begin_ns, end_ns), stretches)

    def at_addresses(self, function: int, selection: Selection) -> AddressSums:
        """Add up the samples of a selection in one function itself, by address.

        The path and the search of the selection change nothing.
        """
        profile = self.names.samples.profile
        first, last, _ = self._interval(selection)
        location = self.location[first:last]
        is_in = (profile.locations.function_index == function).take(location)
        rows = np.flatnonzero(is_in)
        context = self.pairs.context.take(self.pairs.of_sample[first:last].take(rows))
        rows = rows[self._chosen_contexts(selection).take(context)]
        address, place = np.unique(
            profile.locations.address.take(location.take(rows)), return_inverse=True
        )
        count, period = (
            np.bincount(place, column[first:last].take(rows), len(address)).astype(np.int64)
            for column in (self.count, self.period)
        )
        event = np.full(len(address), self.event)
        return AddressSums(address, count, nanoseconds(profile, event, count, period))

    def _interval(self, selection: Selection) -> tuple[int, int, int]:
        """Return the first sample in a selection's time, the first after it, and its end."""
        end_ns = self.names.end_ns if selection.end_ns is None else selection.end_ns
        if self.names.samples.time_ns is None:
            return 0, len(self.count), end_ns
        first, last = np.searchsorted(self.time_ns, (selection.begin_ns, end_ns)).tolist()
        return first, max(first, last), end_ns

    def _selected(self, selection: Selection) -> tuple[_Rows, int, int]:
        """Return the selected samples, the end of their time, and how many stretches that has."""
        first, last, end_ns = self._interval(selection)
        is_chosen = self._chosen_contexts(selection).take(self.pairs.context)
        is_whole = (first, last) == (0, len(self.count))
        counts, periods = self._all_sums if is_whole else self._sums(slice(first, last))
        pair = np.flatnonzero(is_chosen & (counts > 0))
        count = counts.take(pair)
        if not selection.is_by_time or self.names.samples.time_ns is None:
            return _Rows(pair, np.zeros_like(pair), count, periods.take(pair)), end_ns, 1
        cpu = self.contexts.cpu.take(self.pairs.context.take(pair))
        stretches = STRETCHES >> stretch_shift(cpu, count, 0)
        pair = self.pairs.of_sample[first:last]
        chosen = np.flatnonzero(is_chosen.take(pair))
        length = max(end_ns - selection.begin_ns, 1)
        since = self.time_ns[first:last].take(chosen) - selection.begin_ns
        rows = _Rows(
            pair.take(chosen),
            since * stretches // length,
            self.count[first:last].take(chosen),
            self.period[first:last].take(chosen),
        )
        return rows, end_ns, stretches

    def _sums(self, part: slice) -> tuple[I64, I64]:
        """Return i64[p] the counts and periods of some samples, by pair."""
        pair, size = self.pairs.of_sample[part], len(self.pairs.leaf)
        count, period = (
            np.bincount(pair, column[part], size).astype(np.int64)
            for column in (self.count, self.period)
        )
        return count, period

    @cached_property
    def _all_sums(self) -> tuple[I64, I64]:
        return self._sums(slice(None))

    def _chosen_contexts(self, selection: Selection) -> Bools:
        thread, cpu = self.contexts.thread, self.contexts.cpu
        process = self.names.threads.process_index.take(thread)
        processes = self.names.samples.profile.processes
        chosen = np.ones(len(thread), np.bool_)
        if selection.scope == "process":
            chosen &= process == selection.process
        elif selection.scope != "all":
            is_command = selection.scope == "command"
            column = processes.is_command if is_command else processes.is_descendant
            chosen &= column.take(process)
        if selection.cpu is not None:
            chosen &= cpu == selection.cpu
        if selection.thread is not None:
            chosen &= thread == selection.thread
        return chosen

    def _favoured(self, selection: Selection) -> Bools:
        """Return bool[l]: which stacks are merged last."""
        is_favoured = np.zeros(len(self.tree) + 1, np.int64)
        if selection.path:
            row = self._row_at(selection.path)
            is_favoured[[row, int(self.end[row])]] += (1, -1)
        if selection.search:
            found = np.flatnonzero(self._found(selection.search).take(self.tree.frame_index))
            np.add.at(is_favoured, found, 1)
            np.add.at(is_favoured, self.end.take(found), -1)
        favoured: Bools = np.cumsum(is_favoured).take(self.tree.row_of_stack) > 0
        return favoured

    def _row_at(self, path: tuple[int, ...]) -> int:
        """Return the row that frames lead to from the root, as far as the tree has them."""
        order, keys, frames = self._calls
        row = 0
        for frame in path:
            if not 0 <= frame < frames:
                break
            at = int(np.searchsorted(keys, (row + 1) * frames + frame))
            if at == len(keys) or keys[at] != (row + 1) * frames + frame:
                break
            row = int(order[at])
        return row

    @cached_property
    def _calls(self) -> tuple[NDArray[np.intp], I64, int]:
        """Return the tree's rows by (caller, frame), these keys, and how many frames there are."""
        frames = int(self.tree.frame_index.max()) + 1
        key = (self.tree.caller_index + 1) * frames + self.tree.frame_index
        order = np.argsort(key)
        return order, key.take(order), frames

    def _found(self, text: str) -> Bools:
        """Return bool[f]: the functions whose name, or whose object's name, contains a text.

        The tree's own frames come after those of functions, and are not searched.
        """
        names, wanted = self.names, text.lower()
        in_object = [wanted in path.lower() for path in names.samples.profile.objects.path]
        found = np.zeros(
            int(self.tree.frame_index.max(initial=0)) + 1 + len(names.frames), np.bool_
        )
        found[: len(names.labels)] = [
            in_object[row] or wanted in label.lower()
            for label, row in zip(names.labels, names.frames.object_index.tolist(), strict=True)
        ]
        return found


def event_parts(names: StackNames, event: int) -> EventParts:
    """Prepare the samples of one event, a row of `RunInfo.events`."""
    samples = names.samples
    rows = np.flatnonzero(samples.of_hit(samples.profile.hits.event) == event)
    time_ns = np.zeros(len(rows), np.int64)
    if samples.time_ns is not None:
        found = samples.time_ns.take(rows).astype(np.int64)
        order = np.argsort(found, kind="stable")
        rows, time_ns = rows.take(order), found.take(order)
    leaves = sample_leaves(names, rows)
    keys = leaves.of_sample, names.threads.thread_index.take(rows), samples.cpu.take(rows)
    (number, thread, cpu), _, of_sample = sums_with_rows(keys, ())
    contexts = Contexts(thread, cpu, leaves.entry_reason.take(number), leaves.mode.take(number))
    context = alike(contexts)
    pairs = _Pairs(
        leaves.leaf.take(number), context.place.astype(np.int64), of_sample.astype(np.int64)
    )
    hits = samples.profile.hits
    return EventParts(
        names=names,
        event=event,
        tree=leaves.tree,
        end=subtree_ranges(leaves.tree)[1],
        contexts=contexts.take(context.row),
        pairs=pairs,
        location=hits.location_index.take(samples.hit_index.take(rows)),
        time_ns=time_ns,
        count=samples.count.take(rows),
        period=samples.period.take(rows),
    )
