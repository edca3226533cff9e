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
from prospect.records import NamedTuple

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
    pending = np.append(is_tested, False)  # the last is no part
    left = _Rows(part, tree.caller_index, levels(tree.depth)).of(pending)
    for _ in range(_MOST_GROUPS):
        if not len(left.part):
            return
        is_left = pending.take(left.part)
        own = np.where(is_left, place.take(left.part), none)
        is_free = pending.copy()
        is_free[left.part[(own > left.least_beside(own)) & is_left]] = False
        rows = outer[is_free.take(part.take(outer))]
        yield SubtreeGroup(rows, part.take(rows))
        pending &= ~is_free
        if 2 * np.count_nonzero(pending.take(left.part)) <= len(left.part):
            left = left.of(pending)


class _Rows(NamedTuple):
    """Rows of a tree, outermost first: what part each belongs to, and its caller among them.

    `levels` are those of each depth, also among them: where few are left, these are few too.
    """

    part: NDArray[np.int64]
    caller: NDArray[np.int64]
    levels: list[NDArray[np.int64]]

    def of(self, kept: NDArray[np.bool_]) -> _Rows:
        """Return the rows of these parts, each called by the next of them above it."""
        is_kept = kept.take(self.part)
        number = np.where(is_kept, np.cumsum(is_kept) - 1, -1)
        depth = np.where(is_kept, 0, -1)
        caller = np.full(len(number), -1, np.int64)
        for rows in self.levels[1:]:
            above = self.caller.take(rows)
            near = np.where(is_kept.take(above), number.take(above), caller.take(above))
            caller[rows] = near
            depth[rows] = depth.take(above) + is_kept.take(rows)
        return _Rows(self.part[is_kept], caller[is_kept], levels(depth[is_kept]))

    def least_beside(self, own: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return i64[t]: the least value of those above and below each row, its own included."""
        above, below = own.copy(), own.copy()
        for rows in self.levels[1:]:
            above[rows] = np.minimum(own.take(rows), above.take(self.caller.take(rows)))
        for rows in reversed(self.levels[1:]):
            np.minimum.at(below, self.caller.take(rows), below.take(rows))
        return np.minimum(above, below)
