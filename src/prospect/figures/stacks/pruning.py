"""The largest rows of a tree, in the order in which a flame graph draws them.

Comes in: a tree in preorder, as `thread_forest` makes it, and what its stacks have. Goes out: a
tree in preorder, in which smaller rows are put together below their callers. Whatever is asked of a
subtree is asked of neighbouring rows, so that nothing loops over levels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.figures.stacks.frames import NamedForest
from prospect.figures.stacks.thread_forest import ALL, LEFT_OUT
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A stack that is looked at is left out as late as another one with so many times its samples.
_FAVOUR = 1 << 10


class _Rest(NamedTuple):
    """What is left out: bool[l] of stacks, i64[l] where each ends, i64[r] below which rows."""

    stacks: NDArray[np.bool_]
    ends_in: NDArray[np.int64]
    rows: NDArray[np.int64]


def pruned(
    tree: NamedForest,
    end: NDArray[np.int64],
    hits: NDArray[np.int64],
    most: int,
    favoured: NDArray[np.bool_] | None = None,
) -> NamedForest:
    """Return the largest rows of a tree; others are put together below their callers.

    Args:
        tree: as from `in_preorder`; its `row_of_stack` is [l].
        end: i64[t] the first row behind the subtree of each row.
        hits: i64[l] of each stack; rows without any are none of the result's.
        most: about how many rows are kept.
        favoured: bool[l] stacks that count for more than they have; None for none.
    """
    weight = hits if favoured is None else hits * np.where(favoured, _FAVOUR, 1)
    own = np.bincount(tree.row_of_stack, weight, len(tree)).astype(np.int64)
    until = np.append(0, np.cumsum(own))
    sums = until.take(end) - until[:-1]
    least = 0
    if np.count_nonzero(sums) > most:
        least = int(np.partition(sums, len(sums) - most)[len(sums) - most])
    # No row has more than its caller: what is kept is kept with all its callers.
    is_kept = sums > least
    is_kept[0] = True
    return _with_rest(tree, end, np.flatnonzero(is_kept), _left_out(tree, hits, is_kept))


def _left_out(tree: NamedForest, hits: NDArray[np.int64], is_kept: NDArray[np.bool_]) -> _Rest:
    # What is left out is whole subtrees; the one that a row is in is the last to begin before it.
    every = np.arange(len(tree))
    is_first = ~is_kept & is_kept.take(np.maximum(tree.caller_index, 0))
    first = np.maximum.accumulate(np.where(is_first, every, 0))
    home = np.where(is_kept, every, tree.caller_index.take(first))
    ends_in = home.take(tree.row_of_stack)
    stacks = (hits > 0) & ~is_kept.take(tree.row_of_stack)
    rows = np.flatnonzero(np.bincount(ends_in[stacks], minlength=len(tree)))
    return _Rest(stacks, ends_in, rows)


def _with_rest(
    tree: NamedForest, end: NDArray[np.int64], kept: NDArray[np.intp], rest: _Rest
) -> NamedForest:
    """Return the kept rows, with rows of LEFT_OUT last below those that have a rest."""
    levels = int(tree.depth.max(initial=0)) + 2
    # At the end of several subtrees the rest of the innermost comes first.
    place = np.append(
        kept * levels + levels - 1,
        end.take(rest.rows) * levels + levels - 2 - tree.depth.take(rest.rows),
    )
    order = np.argsort(place)
    new_row = np.empty(len(order), np.int64)
    new_row[order] = np.arange(len(order))
    row_of_kept, row_of_rest = np.zeros((2, len(tree)), np.int64)
    row_of_kept[kept], row_of_rest[rest.rows] = np.split(new_row, [len(kept)])
    above = np.append(np.maximum(tree.caller_index.take(kept), 0), rest.rows)
    caller = row_of_kept.take(above)
    caller[0] = -1
    left_out = np.full(len(rest.rows), tree.frame_index[0] - ALL + LEFT_OUT)
    frame = np.append(tree.frame_index.take(kept), left_out)
    depth = np.append(tree.depth.take(kept), tree.depth.take(rest.rows) + 1)
    return NamedForest(
        caller_index=caller.take(order),
        frame_index=frame.take(order),
        depth=depth.take(order),
        row_of_stack=np.where(
            rest.stacks, row_of_rest.take(rest.ends_in), row_of_kept.take(rest.ends_in)
        ),
    )
