"""What a page has no room for, by parts: the samples of a selection, taken apart as finely as fits.

Comes in: the samples of one event, and what of them is looked at. Goes out: `SampleCells`, as of
the whole event. Sums are those of the selection; its smallest stacks are put together, and last
those that a person looks at. All that no selection changes is computed once, so that a part of a
million samples takes a fraction of a second.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import alike, distinct_keys, group_sums, sums_with_rows
from prospect.figures.stacks.call_forest import LEFT_OUT, pruned, subtree_ranges
from prospect.figures.stacks.stack_weights import nanoseconds
from prospect.records import NamedTuple, Record
from prospect.render.html.cells import (
    STRETCHES,
    SampleCells,
    sample_leaves,
    stretch_shift,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.figures.stacks.frames import NamedForest
    from prospect.render.html.cells import StackNames

_NODES = 150_000
_MOST_CELLS = 1_000_000
# From fine to coarse: how often stretches are doubled, and how often rows of the tree are halved.
_STEPS = ((0, 0), (1, 0), (2, 0), (2, 2), (3, 2), (4, 2), (4, 4), (4, 6), (4, 8))

SCOPES = ("all", "command", "descendants", "process")


class AddressSums(Record):
    """What a routine has by address: u64[a] ascending, i64[a] samples and their time, 0 if none."""

    address: NDArray[np.uint64]
    count: NDArray[np.int64]
    time_ns: NDArray[np.int64]


class Selection(Record):
    """What is looked at.

    Attributes:
        begin_ns, end_ns: since the interval's begin, `end_ns` excluded; None for its end.
        scope: one of SCOPES.
        process: row of the processes, where `scope` is "process".
        cpu: None for all.
        thread: row of the samples' threads, None for all.
        is_by_time: whether the time is divided into stretches.
        path: frames from a thread's name inwards; stacks that begin so are taken apart first.
        search: stacks with a routine or an object that has this in its name are, too.
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
    """Distinct (leaf, circumstances): i64[p] both, and those of each sample, i64[n]."""

    leaf: NDArray[np.int64]
    context: NDArray[np.int64]
    of_sample: NDArray[np.int64]


class _Rows(Record):
    """Samples, or sums of them, by pair and stretch of time; all i64[r]."""

    pair: NDArray[np.int64]
    stretch: NDArray[np.int64]
    count: NDArray[np.int64]
    period: NDArray[np.int64]


class EventParts(Record):
    """One event's samples, ready to be asked for.

    Attributes:
        names: of the samples of all events.
        event: its row in `RunInfo.events`.
        tree: every stack below its thread's name, in preorder.
        end: i64[t] the first row behind the subtree of each row.
        contexts: i64[k] each: thread, CPU, cause and portion.
        pairs: of leaves of the tree and contexts.
        location: i32[n] of samples, rows of the profile's.
        time_ns: i64[n] of samples, ascending; all 0 where they have none.
        count, period: i64[n] of samples.
    """

    names: StackNames
    event: int
    tree: NamedForest
    end: NDArray[np.int64]
    contexts: list[NDArray[np.int64]]
    pairs: _Pairs
    location: NDArray[np.int32]
    time_ns: NDArray[np.int64]
    count: NDArray[np.int64]
    period: NDArray[np.int64]

    def cells(self, selection: Selection) -> SampleCells:
        """Add up the samples of a selection.

        Args:
            selection: what is looked at; rows and frames that there are not select nothing.
        """
        rows, end_ns, stretches = self._selected(selection)
        used, context = distinct_keys(self.pairs.context.take(rows.pair), len(self.contexts[0]))
        favoured = self._favoured(selection)
        for doubled, halved in _STEPS:
            shift = min(doubled, stretches.bit_length() - 1)
            tree, keys, (count, period) = self._separated(
                rows, (context, rows.stretch >> shift), _NODES >> halved, favoured
            )
            if len(count) <= _MOST_CELLS:
                break
        thread, cpu, cause, portion = (column.take(used) for column in self.contexts)
        profile = self.names.samples.profile
        return SampleCells(
            tree=tree,
            thread=thread,
            cpu=cpu,
            cause=cause,
            portion=portion,
            node=keys[0],
            context=keys[1],
            stretch=keys[2],
            count=count,
            time_ns=nanoseconds(profile, np.full(len(count), self.event), count, period),
            begin_ns=selection.begin_ns,
            end_ns=end_ns,
            stretches=stretches >> shift,
            is_whole=not (tree.frame_index == len(self.names.frames) + LEFT_OUT).any(),
        )

    def at_addresses(self, function: int, selection: Selection) -> AddressSums:
        """Add up the samples of a selection in one routine itself, by where they were taken.

        Args:
            function: row of the profile's functions.
            selection: what is looked at; its path and search change nothing.
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
        """Return the first sample in a selection's time, the first behind it, and its end."""
        end_ns = self.names.end_ns if selection.end_ns is None else selection.end_ns
        if self.names.samples.time_ns is None:
            return 0, len(self.count), end_ns
        first, last = np.searchsorted(self.time_ns, (selection.begin_ns, end_ns)).tolist()
        return first, max(first, last), end_ns

    def _separated(
        self,
        rows: _Rows,
        keys: tuple[NDArray[np.int64], ...],
        most: int,
        favoured: NDArray[np.bool_],
    ) -> tuple[NamedForest, list[NDArray[np.int64]], list[NDArray[np.int64]]]:
        """Return a tree of about `most` rows, and cells by its rows and other keys: keys, sums."""
        leaf = self.pairs.leaf.take(rows.pair)
        hits = np.bincount(leaf, rows.count, len(self.tree.row_of_stack)).astype(np.int64)
        tree = pruned(self.tree, self.end, hits, most, favoured)
        cells = group_sums((tree.row_of_stack.take(leaf), *keys), (rows.count, rows.period))
        return tree, *cells

    def _selected(self, selection: Selection) -> tuple[_Rows, int, int]:
        """Return what is selected, the end of its time, and how many stretches that has."""
        first, last, end_ns = self._interval(selection)
        is_chosen = self._chosen_contexts(selection).take(self.pairs.context)
        sums = self._sums(first, last)
        pair = np.flatnonzero(is_chosen & (sums.count > 0))
        count = sums.count.take(pair)
        if not selection.is_by_time or self.names.samples.time_ns is None:
            return _Rows(pair, np.zeros_like(pair), count, sums.period.take(pair)), end_ns, 1
        cpu = self.contexts[1].take(self.pairs.context.take(pair))
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

    def _sums(self, first: int, last: int) -> _Rows:
        """Add up the samples from one to another by pair, of all pairs."""
        if (first, last) == (0, len(self.count)):
            return self._all_sums
        pair, size = self.pairs.of_sample[first:last], len(self.pairs.leaf)
        count, period = (
            np.bincount(pair, column[first:last], size).astype(np.int64)
            for column in (self.count, self.period)
        )
        every = np.arange(size)
        return _Rows(every, np.zeros_like(every), count, period)

    @cached_property
    def _all_sums(self) -> _Rows:
        size = len(self.pairs.leaf)
        every = np.arange(size)
        return _Rows(
            every,
            np.zeros_like(every),
            *(
                np.bincount(self.pairs.of_sample, column, size).astype(np.int64)
                for column in (self.count, self.period)
            ),
        )

    def _chosen_contexts(self, selection: Selection) -> NDArray[np.bool_]:
        thread, cpu = self.contexts[:2]
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

    def _favoured(self, selection: Selection) -> NDArray[np.bool_]:
        """Return bool[l]: which stacks are taken apart first."""
        is_favoured = np.zeros(len(self.tree) + 1, np.int64)
        if selection.path:
            row = self._row_at(selection.path)
            is_favoured[[row, int(self.end[row])]] += (1, -1)
        if selection.search:
            found = np.flatnonzero(self._found(selection.search).take(self.tree.frame_index))
            np.add.at(is_favoured, found, 1)
            np.add.at(is_favoured, self.end.take(found), -1)
        favoured: NDArray[np.bool_] = np.cumsum(is_favoured).take(self.tree.row_of_stack) > 0
        return favoured

    def _row_at(self, path: tuple[int, ...]) -> int:
        """Follow frames from the root on, as far as they lead; return the row."""
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
    def _calls(self) -> tuple[NDArray[np.intp], NDArray[np.int64], int]:
        """Return the tree's rows by (caller, frame), these keys, and how many frames there are."""
        frames = int(self.tree.frame_index.max()) + 1
        key = (self.tree.caller_index + 1) * frames + self.tree.frame_index
        order = np.argsort(key)
        return order, key.take(order), frames

    def _found(self, text: str) -> NDArray[np.bool_]:
        """Return bool[f]: the frames of routines that have a text in their or their object's name.

        Behind those of routines stand the tree's own frames, which are not searched.
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
    """Prepare the samples of one event.

    Args:
        names: of the samples of all events.
        event: its row in `RunInfo.events`.
    """
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
    columns = thread, cpu, leaves.cause.take(number), leaves.portion.take(number)
    context = alike(columns)
    pairs = _Pairs(
        leaves.leaf.take(number), context.place.astype(np.int64), of_sample.astype(np.int64)
    )
    hits = samples.profile.hits
    return EventParts(
        names=names,
        event=event,
        tree=leaves.tree,
        end=subtree_ranges(leaves.tree)[1],
        contexts=[column.take(context.row) for column in columns],
        pairs=pairs,
        location=hits.location_index.take(samples.hit_index.take(rows)),
        time_ns=time_ns,
        count=samples.count.take(rows),
        period=samples.period.take(rows),
    )
