"""Forests of calls on whole columns: levels, sums over subtrees, order, direct recursion folded.

Comes in: a `NamedForest`. Goes out: columns of its rows, or a forest without direct recursion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.figures.stacks.frames import NamedForest

if TYPE_CHECKING:
    from numpy.typing import NDArray


def levels(depth: NDArray[Any]) -> list[NDArray[np.int64]]:
    """Return the rows of each depth, from the outermost on."""
    order = np.argsort(depth, kind="stable")
    ends = np.flatnonzero(np.diff(depth.take(order))) + 1
    return np.split(order, ends) if len(order) else []


def subtree_sums(forest: NamedForest, values: NDArray[Any]) -> NDArray[Any]:
    """Return of each row the sum of its value and those of all that it calls, [t, ...]."""
    sums = values.copy()
    for rows in reversed(levels(forest.depth)[1:]):
        np.add.at(sums, forest.caller_index.take(rows), sums.take(rows, axis=0))
    return sums


def subtree_ranges(forest: NamedForest) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the rows so that those of each subtree follow each other.

    Returns:
        i64[t] the number of each row, and i64[t] the first number behind its subtree.
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


def outermost(
    key: NDArray[np.int64], begin: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return bool[n]: the rows that no other row with their key has in its subtree.

    What a recursive routine took in all is what its outermost calls took.

    Args:
        key: i64[n] what rows are compared by, such as their frame.
        begin: i64[n] their numbers, from `subtree_ranges`.
        end: i64[n] the first numbers behind their subtrees.
    """
    order = np.lexsort((begin, key))
    _, rank = np.unique(key.take(order), return_inverse=True)
    # Subtrees nest or are apart: those of one key reach as far as the widest before. Keys are kept
    # apart by more than any subtree reaches.
    far = rank * (int(end.max(initial=0)) + 1)
    reach = np.maximum.accumulate(end.take(order) + far)
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = begin.take(order)[1:] + far[1:] >= reach[:-1]
    result = np.empty(len(order), np.bool_)
    result[order] = is_new
    return result


def fold_recursion(forest: NamedForest) -> NamedForest:
    """Merge frames that call themselves into one, as often as they do in a row."""
    caller, frame = forest.caller_index, forest.frame_index
    is_same = (caller >= 0) & (frame.take(np.maximum(caller, 0)) == frame)
    # The outermost of a row of equal frames, and how many unequal ones stand above it.
    first, depth = np.arange(len(forest)), np.zeros(len(forest), np.int64)
    for rows in levels(forest.depth)[1:]:
        first[rows] = np.where(is_same[rows], first.take(caller[rows]), rows)
        depth[rows] = depth.take(caller[rows]) + ~is_same[rows]
    new_caller, new_frame, new_depth = [], [], []
    new_row = np.full(len(forest), -1, np.int64)
    frames = int(frame.max(initial=0)) + 1
    size = 0
    kept = np.flatnonzero(~is_same)
    for nth, places in enumerate(levels(depth.take(kept))):
        rows = kept.take(places)
        above = caller.take(rows)
        parent = np.where(above >= 0, new_row.take(first.take(np.maximum(above, 0))), -1)
        key, place = np.unique((parent + 1) * frames + frame.take(rows), return_inverse=True)
        new_row[rows] = size + place
        new_caller.append(key // frames - 1)
        new_frame.append(key % frames)
        new_depth.append(np.full(len(key), nth, np.int64))
        size += len(key)
    return NamedForest(
        caller_index=joined(new_caller),
        frame_index=joined(new_frame),
        depth=joined(new_depth),
        row_of_stack=new_row.take(first).take(forest.row_of_stack)
        if len(forest)
        else forest.row_of_stack,
    )


def joined(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return columns one behind the other, of levels maybe; none of them is an empty one."""
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
