"""Forests of calls on whole columns: levels, sums over subtrees, threads, omitted rows.

A forest of threads is one tree in preorder, as a flame graph draws it: row 0 is all samples; below
it are threads by name, and below them their stacks. The frames of these rows are numbered after
those of functions: ALL, LEFT_OUT and, from THREADS on, names. Each subtree is a range of rows, so
that no loop runs over levels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.forests import levels
from prospect.columns.grouping import distinct_keys
from prospect.columns.sorting import ascending, distinct
from prospect.figures.stacks.frames import NamedForest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.columns.array_types import I64, Bools


def subtree_sums(forest: NamedForest, values: NDArray[Any]) -> NDArray[Any]:
    """Return for each row the sum of its value and those of all that it calls, [t, ...]."""
    sums = values.copy()
    for rows in reversed(levels(forest.depth)[1:]):
        np.add.at(sums, forest.caller_index.take(rows), sums.take(rows, axis=0))
    return sums


def subtree_ranges(forest: NamedForest) -> tuple[I64, I64]:
    """Number the rows so that those of each subtree are contiguous.

    Returns:
        i64[t] the number of each row, and i64[t] the first number after its subtree.
    """
    size = subtree_sums(forest, np.ones(len(forest), np.int64))
    caller = forest.caller_index
    order = np.argsort(caller, kind="stable")
    # How many rows the earlier siblings take.
    before = np.cumsum(size.take(order)) - size.take(order)
    is_eldest = np.diff(caller.take(order), prepend=-2) != 0
    eldest = np.maximum.accumulate(np.where(is_eldest, np.arange(len(order)), 0))
    begin = np.empty(len(forest), np.int64)
    begin[order] = before - before.take(eldest)
    for rows in levels(forest.depth)[1:]:
        begin[rows] += begin.take(caller.take(rows)) + 1
    return begin, begin + size


def outermost(key: I64, begin: I64, end: I64) -> Bools:
    """Return bool[n]: the rows that are in no subtree of another row with their key.

    The total of a recursive function is that of its outermost calls.

    Args:
        key: i64[n] such as the frame of a row; -1 and more.
        begin: i64[n] their numbers, from `subtree_ranges`.
        end: i64[n] the first numbers after their subtrees.
    """
    bits = int(begin.max(initial=0)).bit_length()
    order = ascending((key + 1 << bits | begin).view(np.uint64))
    ordered = key.take(order)
    rank = np.cumsum(ordered != np.append(ordered[:1], ordered[:-1]))
    # Subtrees nest or are disjoint: those of one key reach as far as the widest before. The
    # distance between keys is more than any subtree reaches.
    far = rank * (int(end.max(initial=0)) + 1)
    reach = np.maximum.accumulate(end.take(order) + far)
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = begin.take(order)[1:] + far[1:] >= reach[:-1]
    result = np.empty(len(order), np.bool_)
    result[order] = is_new
    return result


def fold_recursion(forest: NamedForest) -> NamedForest:
    """Merge frames that call themselves directly into one."""
    caller, frame = forest.caller_index, forest.frame_index
    is_same = (caller >= 0) & (frame.take(np.maximum(caller, 0)) == frame)
    # The outermost of successive equal frames, and how many unequal ones are above it.
    first, depth = np.arange(len(forest)), np.zeros(len(forest), np.int64)
    for rows in levels(forest.depth)[1:]:
        first[rows] = np.where(is_same[rows], first.take(caller[rows]), rows)
        depth[rows] = depth.take(caller[rows]) + ~is_same[rows]
    return regrown(forest, first, depth)


def regrown(forest: NamedForest, kept_row: I64, depth: I64) -> NamedForest:
    """Return a forest in which rows are merged into others, and siblings of one frame into one.

    Args:
        kept_row: i64[t] the row that each is merged into: itself, or one of its callers.
        depth: i64[t] new depths of the rows that stay; 0 removes their callers.
    """
    new_caller, new_frame, new_depth = [], [], []
    new_row = np.full(len(forest), -1, np.int64)
    frames, size = int(forest.frame_index.max(initial=0)) + 1, 0
    kept = np.flatnonzero(kept_row == np.arange(len(forest)))
    for nth, places in enumerate(levels(depth.take(kept))):
        rows = kept.take(places)
        parent = np.full(len(rows), -1, np.int64)
        if nth:
            parent = new_row.take(kept_row.take(forest.caller_index.take(rows)))
        key = (parent + 1) * frames + forest.frame_index.take(rows)
        key, place = distinct_keys(key, (size + 1) * frames)
        new_row[rows] = size + place
        new_caller.append(key // frames - 1)
        new_frame.append(key % frames)
        new_depth.append(np.full(len(key), nth, np.int64))
        size += len(key)
    row_of_stack = forest.row_of_stack
    return NamedForest(
        caller_index=joined(new_caller),
        frame_index=joined(new_frame),
        depth=joined(new_depth),
        row_of_stack=new_row.take(kept_row).take(row_of_stack) if len(forest) else row_of_stack,
    )


def joined(parts: list[I64]) -> I64:
    """Concatenate columns; no columns are an empty one."""
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


ALL = 0
LEFT_OUT = 1
THREADS = 2


def thread_forest(forest: NamedForest, frames: int, comm: I64, row: I64) -> NamedForest:
    """Return a tree of sampled stacks below their threads' names; its `row_of_stack` is [l].

    Args:
        forest: calls by function.
        frames: how many frames there are.
        comm: i64[l] thread name of each stack.
        row: i64[l] of the forest.
    """
    size = len(forest) + 1  # of a thread: itself and the rows of the forest
    leaves = comm * size + row + 1
    caller_index = np.append(0, forest.caller_index + 1)
    found = [distinct(leaves)]
    while len(found[-1]):
        own = found[-1] % size
        callers = found[-1] - own + caller_index.take(own)
        found.append(distinct(callers[own > 0]))
    key = distinct(np.concatenate(found))
    own = key % size
    frame = np.append(0, forest.frame_index).take(own)
    caller = np.searchsorted(key, key - own + caller_index.take(own)) + 1
    depth = np.append(-1, forest.depth).take(own) + 2
    return NamedForest(
        caller_index=np.append(-1, np.where(own > 0, caller, 0)),
        frame_index=np.append(
            frames + ALL, np.where(own > 0, frame, frames + THREADS + key // size)
        ),
        depth=np.append(0, depth),
        row_of_stack=np.searchsorted(key, leaves) + 1,
    )


def in_preorder(tree: NamedForest, rank: I64) -> NamedForest:
    """Sort a tree in preorder, siblings by their frames' `rank`, i64[f]."""
    order = np.lexsort((rank.take(tree.frame_index), tree.depth))
    by_depth = _reordered(tree, order)
    begin, _ = subtree_ranges(by_depth)
    return _reordered(by_depth, np.argsort(begin))


def _reordered(tree: NamedForest, order: NDArray[np.intp]) -> NamedForest:
    new_row = np.empty(len(tree), np.int64)
    new_row[order] = np.arange(len(tree))
    caller = tree.caller_index.take(order)
    return NamedForest(
        caller_index=np.where(caller < 0, -1, new_row.take(caller)),
        frame_index=tree.frame_index.take(order),
        depth=tree.depth.take(order),
        row_of_stack=new_row.take(tree.row_of_stack),
    )


# A favoured stack counts as another one with so many times its samples.
_FAVOUR = 1 << 10


def pruned(
    tree: NamedForest, end: I64, hits: I64, most: int, favoured: Bools | None = None
) -> NamedForest:
    """Return the largest rows of a tree; others are merged below their callers.

    Args:
        tree: as from `in_preorder`; its `row_of_stack` is [l].
        end: i64[t] the first row after the subtree of each row.
        hits: i64[l] of each stack; rows without any are omitted.
        most: about how many rows are kept.
        favoured: bool[l] stacks that count for more than their hits; None for none.
    """
    weight = hits if favoured is None else hits * np.where(favoured, _FAVOUR, 1)
    own = np.bincount(tree.row_of_stack, weight, len(tree)).astype(np.int64)
    until = np.append(0, np.cumsum(own))
    sums = until.take(end) - until[:-1]
    least = 0
    if np.count_nonzero(sums) > most:
        least = int(np.partition(sums, len(sums) - most)[len(sums) - most])
    # No row has more than its caller, so a kept row has all its callers.
    is_kept = sums > least
    is_kept[0] = True
    return _with_rest(tree, end, hits, is_kept)


def _with_rest(tree: NamedForest, end: I64, hits: I64, is_kept: Bools) -> NamedForest:
    """Return the kept rows, and rows of LEFT_OUT as last callees of those with omitted rows."""
    # Whole subtrees are omitted; a row is in the last one that begins before it.
    every = np.arange(len(tree))
    is_first = ~is_kept & is_kept.take(np.maximum(tree.caller_index, 0))
    first = np.maximum.accumulate(np.where(is_first, every, 0))
    home = np.where(is_kept, every, tree.caller_index.take(first)).take(tree.row_of_stack)
    is_omitted = (hits > 0) & ~is_kept.take(tree.row_of_stack)
    kept = np.flatnonzero(is_kept)
    partial = np.flatnonzero(np.bincount(home[is_omitted], minlength=len(tree)))
    levels = int(tree.depth.max(initial=0)) + 2
    # At the end of several subtrees the rest of the innermost comes first.
    place = np.append(
        kept * levels + levels - 1,
        end.take(partial) * levels + levels - 2 - tree.depth.take(partial),
    )
    order = np.argsort(place)
    new_row = np.empty(len(order), np.int64)
    new_row[order] = np.arange(len(order))
    row_of_kept, row_of_rest = np.zeros((2, len(tree)), np.int64)
    row_of_kept[kept], row_of_rest[partial] = np.split(new_row, [len(kept)])
    above = np.append(np.maximum(tree.caller_index.take(kept), 0), partial)
    caller = row_of_kept.take(above)
    caller[0] = -1
    left_out = np.full(len(partial), tree.frame_index[0] - ALL + LEFT_OUT)
    frame = np.append(tree.frame_index.take(kept), left_out)
    depth = np.append(tree.depth.take(kept), tree.depth.take(partial) + 1)
    return NamedForest(
        caller_index=caller.take(order),
        frame_index=frame.take(order),
        depth=depth.take(order),
        row_of_stack=np.where(is_omitted, row_of_rest.take(home), row_of_kept.take(home)),
    )
