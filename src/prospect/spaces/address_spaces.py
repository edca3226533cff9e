"""(space, epoch, address) → mapping, for whole columns at once.

Comes in: the tree of versions and which mapping was made in which. Goes out: `AddressSpaces`.

A mapping is the rectangle of its addresses and of the versions that descend from its own, which
are an interval too (`versions`). Rectangles are cut along the addresses where one of their tree
begins or ends, so that each of the resulting cells is covered wholly or not at all; within a cell
intervals of versions nest and the innermost is the answer, found by one search in a table of
where answers change. A rectangle over many cells is filed with blocks of 16, 256, … cells
instead, which bounds the table by the number of mappings times its logarithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prospect.spaces.sorting import distinct, run_starts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.spaces.versions import VersionTree

_BLOCK_BITS = 4
_LOW_BITS = np.uint64(32)
_PAGE_BITS = np.uint64(12)
_IN_PAGE = np.uint64(4095)


@dataclass(frozen=True)
class _Level:
    """Answers for cells, or for blocks of cells: u64[k] (block << 32 | version), i32[k]."""

    keys: NDArray[np.uint64]
    mapping: NDArray[np.int32]

    def find(self, block: NDArray[np.uint64], entered: NDArray[np.uint64]) -> NDArray[np.int64]:
        row = np.searchsorted(self.keys, block << _LOW_BITS | entered, side="right") - 1
        np.maximum(row, 0, out=row)
        found = self.mapping.take(row).astype(np.int64)
        key = self.keys.take(row)
        found[(key >> _LOW_BITS != block) | ((key & np.uint64(0xFFFFFFFF)) > entered)] = -1
        return found


@dataclass(frozen=True)
class AddressSpaces:
    """Every address space of a recording at every time.

    Attributes:
        first_epoch: i64[s] where each space's epochs begin in `version`.
        version: i64[v] version of each (space, epoch), by space and then by epoch.
        tree: how versions descend from each other.
        addresses: u64[a] ascending, where any mapping begins or ends.
        cells: u64[c] ascending, (root version << 32 | rank of the address where the cell begins).
        levels: answers by cell, by 16 cells, by 256 cells, …
    """

    first_epoch: NDArray[np.int64]
    version: NDArray[np.int64]
    tree: VersionTree
    addresses: NDArray[np.uint64]
    cells: NDArray[np.uint64]
    levels: tuple[_Level, ...]

    def locate(
        self,
        space: NDArray[np.integer],
        epoch: NDArray[np.integer],
        address: NDArray[np.uint64],
    ) -> NDArray[np.int64]:
        """Return the mapping at each address: a row of `World.mappings`, i64[n].

        It is the last mapping made in this space up to this epoch that covers the address, or
        failing that in the parent up to the epoch of the fork, and so on. -1 where there is none,
        and where the space is -1. A mapping that repeats what stands there already (a live record
        of what the snapshot has, an mprotect()) is none of its own: the first is returned.

        Args:
            space: [n] space of the task at the time, from `Timeline` or `Attribution`.
            epoch: [n] the space's epoch at the time.
            address: u64[n] AVMA.
        """
        if not len(address) or not len(self.cells):
            return np.full(len(address), -1, np.int64)
        # Sorted hits ask for the same page many times in a row.
        place = address if (self.addresses & _IN_PAGE).any() else address >> _PAGE_BITS
        starts = run_starts(space, epoch, place)
        length = np.diff(starts, append=len(address))
        return self._locate_each(space[starts], epoch[starts], address[starts]).repeat(length)

    def _locate_each(
        self,
        space: NDArray[np.integer],
        epoch: NDArray[np.integer],
        address: NDArray[np.uint64],
    ) -> NDArray[np.int64]:
        found = np.full(len(address), -1, np.int64)
        asked = np.flatnonzero(space >= 0)
        row = self.first_epoch.take(space[asked]) + epoch[asked]
        version = self.version.take(row)
        entered = self.tree.enter.take(version).view(np.uint64)
        root = self.tree.root.take(version).view(np.uint64)
        rank = np.searchsorted(self.addresses, address[asked], side="right").view(np.uint64)
        cell = np.searchsorted(self.cells, root << _LOW_BITS | rank, side="right") - 1
        in_tree = np.flatnonzero(self.cells.take(cell, mode="clip") >> _LOW_BITS == root)
        in_tree = in_tree[cell.take(in_tree) >= 0]
        entered = entered.take(in_tree)
        block = cell.take(in_tree).view(np.uint64)
        best = np.full(len(in_tree), -1, np.int64)
        for level in self.levels:
            if len(level.keys):
                # Along one path later mappings have higher rows, whatever level they are filed in.
                np.maximum(best, level.find(block, entered), out=best)
            block = block >> np.uint64(_BLOCK_BITS)
        found[asked.take(in_tree)] = best
        return found


@dataclass(frozen=True)
class MadeMappings:
    """Mappings as they were made.

    Attributes:
        version: i64[r] the version in which each was made.
        mapping: i64[r] rows of the table of mappings, ascending.
        start, end: u64[r] first address and the one behind the last; start < end.
    """

    version: NDArray[np.int64]
    mapping: NDArray[np.int64]
    start: NDArray[np.uint64]
    end: NDArray[np.uint64]


def build_address_spaces(
    version_space: NDArray[np.int64], tree: VersionTree, made: MadeMappings
) -> AddressSpaces:
    """File every mapping under the cells and versions that it covers.

    Args:
        version_space: i64[v] space of each version; a space's epochs are numbered ascending.
        tree: how the versions descend from each other.
        made: the mappings.
    """
    count = len(made.mapping)
    by_space = np.argsort(version_space, kind="stable")
    spaces = int(version_space.max()) + 1 if len(version_space) else 0
    first_epoch = np.searchsorted(version_space.take(by_space), np.arange(spaces))
    addresses, rank = np.unique(np.concatenate((made.start, made.end)), return_inverse=True)
    root = tree.root.take(made.version).view(np.uint64) << _LOW_BITS
    # Ranks count from 1, as a search to the right of an equal address does in locate().
    first_key = root | (rank[:count] + 1).view(np.uint64)
    end_key = root | (rank[count:] + 1).view(np.uint64)
    cells = distinct(np.concatenate((first_key, end_key)))
    first, end = np.searchsorted(cells, first_key), np.searchsorted(cells, end_key)
    levels = _file_by_level(first, end, tree, made)
    return AddressSpaces(first_epoch, by_space, tree, addresses, cells, levels)


def _file_by_level(
    first: NDArray[np.int64], end: NDArray[np.int64], tree: VersionTree, made: MadeMappings
) -> tuple[_Level, ...]:
    """Take what does not fill a block at each level; what is left moves up."""
    rows = np.arange(len(first))
    levels = []
    while len(rows):
        # The first and the last whole block of the next level; if none, all is filed here.
        inner_first = -(-first >> _BLOCK_BITS)
        inner_end = np.maximum(end >> _BLOCK_BITS, inner_first)
        head_end = np.minimum(inner_first << _BLOCK_BITS, end)
        tail_first = np.maximum(inner_end << _BLOCK_BITS, head_end)
        has_inner = inner_end > inner_first
        tail_first = np.where(has_inner, tail_first, head_end)
        block_head, row_head = _spread(first, head_end, rows)
        block_tail, row_tail = _spread(tail_first, end, rows)
        block = np.concatenate((block_head, block_tail))
        row = np.concatenate((row_head, row_tail))
        levels.append(_answers(block, row, tree, made))
        rows, first, end = rows[has_inner], inner_first[has_inner], inner_end[has_inner]
    return tuple(levels)


def _spread(
    first: NDArray[np.int64], end: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return every block of [first, end) and the row that it is of."""
    count = end - first
    offset = np.cumsum(count) - count
    row = np.repeat(rows, count)
    block = np.arange(len(row)) + np.repeat(first - offset, count)
    return block, row


def _answers(
    block: NDArray[np.int64], row: NDArray[np.int64], tree: VersionTree, made: MadeMappings
) -> _Level:
    """Turn the nested intervals of each block into a table of where the innermost one changes."""
    version, mapping = made.version.take(row), made.mapping.take(row)
    enter, leave = tree.enter.take(version), tree.leave.take(version)
    order = np.lexsort((mapping, enter, block))
    block, enter, leave = block.take(order), enter.take(order), leave.take(order)
    mapping = mapping.take(order)
    # Nobody asks for versions behind the root's interval, so a root's mapping need not end.
    is_nested = leave < tree.leave.take(tree.root.take(version.take(order)))
    is_shared = block[1:] == block[:-1]
    is_nested[1:] |= is_shared
    is_nested[:-1] |= is_shared
    nested, alone = np.flatnonzero(is_nested), np.flatnonzero(~is_nested)
    # Plain numbers: the sweep is the one part that has to look at rectangles one by one.
    changes = _innermost(
        block.take(nested).tolist(),
        enter.take(nested).tolist(),
        leave.take(nested).tolist(),
        mapping.take(nested).tolist(),
    )
    keys = np.concatenate((block.take(alone), changes[0])).view(np.uint64) << _LOW_BITS
    keys |= np.concatenate((enter.take(alone), changes[1])).view(np.uint64)
    found = np.concatenate((mapping.take(alone), changes[2])).astype(np.int32)
    by_key = np.argsort(keys, kind="stable")
    return _Level(keys.take(by_key), found.take(by_key))


def _innermost(
    block: list[int], enter: list[int], leave: list[int], mapping: list[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Sweep each block's nested intervals, keeping those that are open on a stack.

    Returns:
        Block, version entered and innermost mapping from there on (-1 none), i64[k] each.
    """
    changes: list[tuple[int, int, int]] = []
    open_intervals: list[tuple[int, int]] = []
    current = -1

    def close_until(bound: int) -> None:
        while open_intervals and open_intervals[-1][0] <= bound:
            left, _ = open_intervals.pop()
            changes.append((current, left, open_intervals[-1][1] if open_intervals else -1))

    for cell, first, end, row in zip(block, enter, leave, mapping, strict=True):
        if cell != current:
            close_until(1 << 62)
            current = cell
        close_until(first)
        changes.append((cell, first, row))
        open_intervals.append((end, row))
    close_until(1 << 62)
    table = np.array(changes, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]
