"""Call stacks under the names of their threads, in the order in which a flame graph draws them.

Comes in: a forest of calls by routine, and the stacks that were sampled. Goes out: one tree, as a
`NamedForest`: row 0 is all samples; below it threads by name, below them their stacks. The frames
of these rows stand behind those of routines: ALL, LEFT_OUT and, from THREADS on, names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.figures.stacks.call_forest import subtree_ranges
from prospect.figures.stacks.frames import NamedForest

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALL = 0
LEFT_OUT = 1
THREADS = 2


def thread_forest(
    forest: NamedForest, frames: int, comm: NDArray[np.int64], row: NDArray[np.int64]
) -> NamedForest:
    """Put sampled stacks below their threads' names.

    Args:
        forest: calls by routine.
        frames: how many frames there are.
        comm: i64[l] thread name of each stack.
        row: i64[l] of the forest.

    Returns:
        The tree; its `row_of_stack` is [l].
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


def in_preorder(tree: NamedForest, rank: NDArray[np.int64]) -> NamedForest:
    """Sort a tree so that each row stands before its subtree, and siblings by their frames' rank.

    Args:
        tree: what to sort.
        rank: i64[f] of each frame.
    """
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
