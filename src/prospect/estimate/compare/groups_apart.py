"""Parts of a tree of stacks → groups of parts that have no hit in common.

Comes in: the tree, and what part each of its rows belongs to: a routine, or a pair of caller and
callee. A sample has as many of them on its stack as that has frames, so they are compared group by
group, each of which no stack has two of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.compare.stack_tests import SubtreeGroup
from prospect.figures.stacks.call_forest import levels, outermost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.figures.stacks.frames import NamedForest

# A pass over all hits for each group: as many as there are parts on a stack, or some more where
# routines call each other in any order. What comes after these is not tested.
_MOST_GROUPS = 512


def outermost_rows(
    part: NDArray[np.int64], begin: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the rows of parts that are in no other row's subtree of the same part.

    Args:
        part: i64[t] what each row belongs to, -1 for none.
        begin: i64[t] the rows' numbers, from `subtree_ranges`.
        end: i64[t] the first numbers behind their subtrees.
    """
    return np.flatnonzero(outermost(part, begin, end) & (part >= 0))


def groups_apart(
    tree: NamedForest,
    part: NDArray[np.int64],
    outer: NDArray[np.int64],
    is_tested: NDArray[np.bool_],
) -> Iterator[SubtreeGroup]:
    """Yield groups of parts that no stack has two of, until each tested one was in one of them.

    Parts have an order: those near the outermost frame come first. A part is taken when none that
    comes before it, and was not taken yet, stands on a stack with it. So the first of all is
    taken each time, and two that are taken together never meet.
    Source: Jones and Plassmann, SIAM J. Sci. Comput. 14 (1993), for a fixed order.

    Args:
        tree: in preorder.
        part: i64[t] what each row belongs to, -1 for none.
        outer: i64[k] the rows that `outermost_rows` returns.
        is_tested: bool[p] of the parts.
    """
    order = np.full(len(is_tested), np.iinfo(np.int64).max)
    has_part = np.flatnonzero(part >= 0)
    np.minimum.at(order, part.take(has_part), tree.depth.take(has_part))
    place = np.empty(len(order), np.int64)
    place[np.argsort(order, kind="stable")] = np.arange(len(order))
    none = len(order)
    rows_of_level = levels(tree.depth)
    pending = is_tested.copy()
    for _ in range(_MOST_GROUPS):
        if not pending.any():
            return
        own = np.append(np.where(pending, place, none), none).take(part)
        is_free = pending.copy()
        is_free[part[(own > _least_beside(tree, own, rows_of_level)) & (own < none)]] = False
        rows = outer[is_free.take(part.take(outer))]
        yield SubtreeGroup(rows, part.take(rows))
        pending &= ~is_free


def _least_beside(
    tree: NamedForest, own: NDArray[np.int64], rows_of_level: list[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Return i64[t]: the least value of those above and below each row, its own included."""
    above, below = own.copy(), own.copy()
    for rows in rows_of_level[1:]:
        above[rows] = np.minimum(own.take(rows), above.take(tree.caller_index.take(rows)))
    for rows in reversed(rows_of_level[1:]):
        np.minimum.at(below, tree.caller_index.take(rows), below.take(rows))
    return np.minimum(above, below)
