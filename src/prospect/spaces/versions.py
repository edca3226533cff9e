"""Versions of address spaces, as a tree: what fork and remapping make of exec's empty space.

A space's epochs are versions of it: epoch n + 1 descends from epoch n, the first epoch of a
forked space from the epoch of its parent that fork saw. What is mapped in a version is mapped in
all that descend from it until mapped over, so nothing is ever copied: along the one path from an
exec to a version, the last mapping that covers an address is the one that stands there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray


class VersionTree(Record):
    """The versions, numbered in the order in which they were made.

    Attributes:
        parent: i64[v] the version that it descends from, -1 for exec's; always the smaller number.
        root: i64[v] the exec's version at the top.
        enter, leave: i64[v] `enter[w]` lies in [enter[v], leave[v]) exactly for v and all that
            descend from it (Euler tour of the forest).
    """

    parent: NDArray[np.int64]
    root: NDArray[np.int64]
    enter: NDArray[np.int64]
    leave: NDArray[np.int64]


def number_versions(parents: list[int]) -> VersionTree:
    """Lay the forest out so that descent is an interval test.

    Args:
        parents: each version's parent, -1 for none; parents come before their descendants.
    """
    size = [1] * len(parents)
    descendants = [version for version, parent in enumerate(parents) if parent >= 0]
    for version in reversed(descendants):
        size[parents[version]] += size[version]
    parent = np.array(parents, np.int64)
    sizes = np.array(size, np.int64)
    own_root = np.flatnonzero(parent < 0)
    enter_column = np.zeros(len(parents), np.int64)
    enter_column[own_root] = np.cumsum(sizes[own_root]) - sizes[own_root]
    enter = enter_column.tolist()
    root = list(range(len(parents)))
    next_free = [first + 1 for first in enter]
    for version in descendants:
        above = parents[version]
        enter[version] = first = next_free[above]
        next_free[above] += size[version]
        next_free[version] = first + 1
        root[version] = root[above]
    entered = np.array(enter, np.int64)
    return VersionTree(parent, np.array(root, np.int64), entered, entered + sizes)
