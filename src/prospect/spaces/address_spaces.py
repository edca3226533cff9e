"""(space, epoch, address) → mapping, for whole columns at once.

The epochs of a space are its *versions*: epoch n + 1 descends from epoch n, and the first epoch of
a forked space from the epoch of its parent at the fork. A mapping of a version is in all versions
that descend from it until another mapping covers it, so a fork copies nothing. The mapping of an
address is the last one that covers it on the path from the exec to the version.

In most trees of versions no mapping covers another, and one search finds the mapping of each
address (`ApartMappings`): tree and first address become one number, and the mapping of an address
is right before it or nowhere. In the other trees a mapping is the rectangle of its addresses and of
the versions that descend from its own, which are an interval too (`VersionTree`). A look-up uses
only rectangles that hold one of its addresses. It cuts them at the addresses where one of their
tree begins or ends, so each resulting cell is covered wholly or not at all. Within a cell,
intervals of versions nest; the innermost is the answer, and one search in a table of changes finds
it. A rectangle over many cells is filed with blocks of 2, 4, 8, … cells instead, at most two of a
size. Each size of blocks is searched and dropped before the next, so memory is in proportion to the
mappings.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.columns.buffers import gather
from prospect.columns.sorting import distinct, run_lengths, run_starts
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.columns.array_types import I8, I32, I64, U8, U32, U64, Bools, Ints
    from prospect.events.record_columns import Mmaps

_LAST_ADDRESS = np.uint64((1 << 64) - 1)
_KEY_BITS = 64
_LOW_BITS = np.uint64(32)
_PAGE_BITS = np.uint64(12)
_IN_PAGE = np.uint64(4095)


class Mappings(Record):
    """Mappings in chronological order; a mapping that covers another is a row of its own.

    Attributes:
        start, end: u64[m] first address (AVMA) and the one after the last; start < end.
        pgoff: u64[m] file offset of `start`, in bytes.
        name: i32[m] row of `ProcessHistory.names`.
        build_id: i32[m] row of `ProcessHistory.build_ids`, -1 if the record has none.
        major, minor: u32[m] device, 0 if the record carries a build id instead.
        inode: u64[m], 0 the same.
        prot: u32[m] PROT_*, 0 if the record does not say.
        mode: u8[m] PERF_RECORD_MISC_CPUMODE.
        process_row: i32[m] row of `ProcessHistory.processes` that made it; -1 for mappings of the
            kernel, and before the replay.
        time_ns: u64[m], 0 if a snapshot found it.
    """

    start: U64
    end: U64
    pgoff: U64
    name: I32
    build_id: I32
    major: U32
    minor: U32
    inode: U64
    prot: U32
    mode: U8
    process_row: I32
    time_ns: U64

    def __len__(self) -> int:
        return len(self.start)


def recorded_prot(mappings: Mappings, rows: I64) -> I8:
    """Return the PROT_READ, PROT_WRITE and PROT_EXEC bits of some rows, -1 if unknown, i8."""
    prot = mappings.prot.take(rows)
    known = prot & (abi.PROT_READ | abi.PROT_WRITE | abi.PROT_EXEC)
    found: I8 = np.where(prot == 0, -1, known.astype(np.int8)).astype(np.int8)
    return found


def is_of_kernel(mmaps: Mmaps) -> Bools:
    """Return which records describe the kernel's own text and modules.

    They carry pid -1 and a kernel's CPU mode. Source: ``kernel/events/core.c``
    perf_event_mmap_event(), ``tools/perf/util/synthetic-events.c``
    perf_event__synthesize_kernel_mmap().
    """
    modes = (abi.PERF_RECORD_MISC_KERNEL, abi.PERF_RECORD_MISC_GUEST_KERNEL)
    return np.isin(mmaps.mode, modes) | (mmaps.pid < 0)


def mappings_of(mmaps: Mmaps) -> Mappings:
    """Return records, none of length 0, as mappings; which process rows made them is unknown."""
    end = mmaps.start + mmaps.length
    # Only a damaged record reaches beyond the end of the address space.
    end[end < mmaps.start] = _LAST_ADDRESS
    return Mappings(
        start=mmaps.start,
        end=end,
        pgoff=mmaps.pgoff,
        name=mmaps.name,
        build_id=mmaps.build_id,
        major=mmaps.major,
        minor=mmaps.minor,
        inode=mmaps.inode,
        prot=mmaps.prot,
        mode=mmaps.mode,
        process_row=np.full(len(end), -1, np.int32),
        time_ns=mmaps.time_ns,
    )


class VersionTree(Record):
    """The versions, numbered in the order in which they were made.

    Attributes:
        parent: i64[v] the version that each descends from, a smaller number; -1 after an exec.
        root: i64[v] the version after the exec from which each descends.
        enter, leave: i64[v] `enter[w]` is in [enter[v], leave[v]) exactly for v and all that
            descend from it (Euler tour of the forest).
    """

    parent: I64
    root: I64
    enter: I64
    leave: I64


def number_versions(parents: list[int]) -> VersionTree:
    """Number the versions so that descent is an interval test.

    `parents` has the parent of each version, -1 for none; parents precede their descendants.
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


class Filing(Record):
    """The way to make one number of tree and address.

    Attributes:
        starts: u64[k] all first addresses, ascending: the place among them replaces an address.
            None if addresses themselves, shifted, leave room for the tree.
        shift: lower bits of an address that are 0 in every first address.
        bits: those of a shifted address or a place.
    """

    starts: U64 | None
    shift: int
    bits: int

    def keys(self, tree: I64, address: U64) -> U64:
        """Return tree and address as one number each, u64[n]."""
        if self.starts is None:
            # An address beyond all mappings may get the last place, but is beyond its mapping.
            place = address >> np.uint64(self.shift)
            np.minimum(place, np.uint64((1 << self.bits) - 1), out=place)
        else:
            place = np.searchsorted(self.starts, address, "right").view(np.uint64)
        return tree.view(np.uint64) << np.uint64(self.bits) | place


def _filing_of(start: U64, end: U64, trees: int) -> Filing:
    """Choose the filing of the mappings of so many trees; the kernel maps whole pages."""
    below_page = np.bitwise_or.reduce(start, initial=0) & _IN_PAGE
    shift = 0 if below_page else int(_PAGE_BITS)
    filing = Filing(None, shift, (int(end.max(initial=0)) >> shift).bit_length())
    if trees.bit_length() + filing.bits <= _KEY_BITS:
        return filing
    starts = distinct(start)
    return Filing(starts, 0, len(starts).bit_length())


class ApartMappings(Record):
    """The mappings of trees in which no mapping covers another, by tree and first address.

    Attributes:
        number: i64[v] the number of each version's tree; -1 for trees without a mapping.
        overlaps: bool[t] which trees have mappings that cover others, and are not here.
        key: u64[r] tree and first address, ascending.
        end: u64[r] the address after the last.
        version: i64[r] in which each was made.
        mapping: i64[r] as in `MadeMappings`.
    """

    number: I64
    overlaps: Bools
    key: U64
    end: U64
    version: I64
    mapping: I64
    _filing: Filing

    def is_in_other(self, version: I64) -> Bools:
        """Return which versions are of trees with mappings that cover others, bool[n]."""
        # The last entry is for trees without a mapping.
        return np.append(self.overlaps, False).take(self.number.take(version))

    def locate(self, version: I64, address: U64, tree: VersionTree) -> I64:
        """Return the mapping at each address in a version, i64[n], -1 for none."""
        number = self.number.take(version)
        row = np.searchsorted(self.key, self._filing.keys(number, address), side="right") - 1
        found = np.flatnonzero((row >= 0) & (number >= 0))
        row = row.take(found)
        made_in, entered = self.version.take(row), tree.enter.take(version.take(found))
        is_in = self.number.take(made_in) == number.take(found)
        is_in &= address.take(found) < self.end.take(row)
        # Made in this version or in one that it descends from.
        is_in &= (tree.enter.take(made_in) <= entered) & (entered < tree.leave.take(made_in))
        mapping = np.full(len(version), -1, np.int64)
        mapping[found[is_in]] = self.mapping.take(row[is_in])
        return mapping


def file_by_tree(tree: I64, start: U64, end: U64, trees: int) -> tuple[Filing, U64, I64, Bools]:
    """Sort mappings by tree, a number below `trees`, and first address; `end` is after the last.

    Returns:
        The filing; keys u64[r], ascending; the mapping i64[r] of each key; and bool[t] which trees
        have mappings that cover others.
    """
    filing = _filing_of(start, end, trees)
    key = filing.keys(tree, start)
    order = np.argsort(key)
    in_tree = tree.take(order)
    overlaps = np.zeros(trees, np.bool_)
    reaches_on = end.take(order[:-1]) > start.take(order[1:])
    overlaps[in_tree[:-1][reaches_on & (in_tree[:-1] == in_tree[1:])]] = True
    return filing, key.take(order), order, overlaps


def apart_mappings(tree: VersionTree, made: MadeMappings) -> ApartMappings:
    """File the mappings by tree and address."""
    roots = distinct(tree.root.take(made.version))
    number = np.full(len(tree.root), -1, np.int64)
    number[roots] = np.arange(len(roots))
    number = number.take(tree.root)
    of_made = number.take(made.version)
    filing, key, order, overlaps = file_by_tree(of_made, made.start, made.end, len(roots))
    kept = np.flatnonzero(~overlaps.take(of_made.take(order)))
    order = order.take(kept)
    return ApartMappings(
        number=number,
        overlaps=overlaps,
        key=key.take(kept),
        end=made.end.take(order),
        version=made.version.take(order),
        mapping=made.mapping.take(order),
        _filing=filing,
    )


class MadeMappings(Record):
    """The making of mappings.

    Attributes:
        version: i64[r] the version in which each was made.
        mapping: i64[r] rows of the table of mappings, ascending.
        start, end: u64[r] first address and the one after the last; start < end.
    """

    version: I64
    mapping: I64
    start: U64
    end: U64


class LocatedRuns(Record):
    """Neighbouring addresses that are in one mapping.

    Attributes:
        start, length: i64[r] rows of the addresses; the runs have all of them, in order.
        mapping: i64[r] as `AddressSpaces.locate` returns it.
    """

    start: I64
    length: I64
    mapping: I64


class AddressSpaces(Record):
    """Every address space of a recording at every time.

    Attributes:
        first_epoch: i64[s] where each space's epochs begin in `version`.
        version: i64[v] version of each (space, epoch), by space and then by epoch.
        space: i64[v] space of each version.
        tree: how versions descend from each other.
    """

    first_epoch: I64
    version: I64
    space: I64
    tree: VersionTree
    made: MadeMappings

    def locate(self, space: Ints, epoch: Ints, address: U64) -> I64:
        """Return the mapping at each address: a row of `ProcessHistory.mappings`, i64[n].

        It is the last mapping made in this space up to this epoch that covers the address, or
        failing that in the parent up to the epoch of the fork, and so on. It is -1 if there is
        none, or if the space is -1. If a record repeats a mapping (a live record of what the
        snapshot has, an mprotect()), the first one is returned.

        If mappings of a process and of its descendants cover each other, each call takes a pass
        over these: pass all addresses (AVMA) at once. Spaces and epochs are those of `Timeline` or
        `Attribution`.
        """
        runs = self.locate_runs(space, epoch, address)
        return runs.mapping.repeat(runs.length)

    def locate_runs(self, space: Ints, epoch: Ints, address: U64) -> LocatedRuns:
        """Return what `locate` does, for runs of neighbours of one page."""
        # Sorted hits ask for the same page many times in a row.
        start = run_starts(space, epoch, address >> _PAGE_BITS if self._is_paged else address)
        length = run_lengths(start, len(address))
        mapping = np.full(len(start), -1, np.int64)
        space, epoch, address = space.take(start), epoch.take(start), address.take(start)
        asked = np.flatnonzero(space >= 0)
        if len(asked) and len(self.made.mapping):
            version = self.version.take(self.first_epoch.take(space[asked]) + epoch[asked])
            mapping[asked] = self._locate_each(version, address[asked])
        return LocatedRuns(start, length, mapping)

    def _locate_each(self, version: I64, address: U64) -> I64:
        mapping = self._apart.locate(version, address, self.tree)
        if len(others := np.flatnonzero(self._apart.is_in_other(version))):
            mapping[others] = self._locate_over(
                self._made_in_others, version.take(others), address.take(others)
            )
        return mapping

    # Unwinding locates a few addresses for each frame, so these are kept.
    @functools.cached_property
    def _apart(self) -> ApartMappings:
        return apart_mappings(self.tree, self.made)

    @functools.cached_property
    def _made_in_others(self) -> MadeMappings:
        return gather(self.made, np.flatnonzero(self._apart.is_in_other(self.made.version)))

    def mappings_in(self, space: int, epoch: int) -> tuple[U64, U64, I64]:
        """Return the mappings of a space in an epoch, by address; space -1 has none.

        Takes a pass over the mappings of the space and of those that it descends from.

        Returns:
            First address, the one after the last, and mapping of each piece: u64[k],
            u64[k], i64[k]. A mapping that another covers in the middle is two pieces.
        """
        if space < 0:
            return np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64)
        made = self.made
        rows = self._made_until(int(self.version[self.first_epoch[space] + epoch]))
        by_start = rows.take(np.argsort(made.start.take(rows)))
        start, end = made.start.take(by_start), made.end.take(by_start)
        # In most processes no mapping covers another.
        if (end[:-1] <= start[1:]).all():
            return start, end, made.mapping.take(by_start)
        bounds = np.concatenate((made.start.take(rows), made.end.take(rows)))
        address, cell = np.unique(bounds, return_inverse=True)
        last = _last_over(cell[: len(rows)], cell[len(rows) :], len(address))
        piece = run_starts(last)
        after = np.append(piece, len(last))[1:]
        is_mapped = last[piece] >= 0
        piece, after = piece[is_mapped], after[is_mapped]
        return address[piece], address[after], made.mapping.take(rows.take(last[piece]))

    def _locate_over(self, made: MadeMappings, version: I64, address: U64) -> I64:
        """Return the last mapping at each address, of mappings that may cover each other."""
        tree = self.tree
        root = tree.root.view(np.uint64) << _LOW_BITS
        addresses = distinct(address)
        asked = root.take(version) | np.searchsorted(addresses, address).view(np.uint64)
        points = distinct(asked)
        above = root.take(made.version)
        first, end = (
            np.searchsorted(points, above | np.searchsorted(addresses, bound).view(np.uint64))
            for bound in (made.start, made.end)
        )
        rows = np.flatnonzero(first < end)
        first, end = first.take(rows), end.take(rows)
        bounds = distinct(np.concatenate((first, end)))
        # Cells count from 1: before the first bound there is a cell as well.
        first, end = np.searchsorted(bounds, first) + 1, np.searchsorted(bounds, end) + 1
        cell = np.searchsorted(bounds, np.searchsorted(points, asked), side="right")
        entered = tree.enter.take(version)
        best = np.full(len(version), -1, np.int64)
        for bits, (block, row) in enumerate(_blocks(first, end)):
            keys, mapping = _changes(block, rows.take(row), tree, made)
            if not len(keys):
                continue
            key = _key(cell >> bits, entered)
            change = np.maximum(np.searchsorted(keys, key, side="right") - 1, 0)
            found = keys.take(change)
            is_of_block = (found >> _LOW_BITS == key >> _LOW_BITS) & (found <= key)
            # Along one path later mappings have higher rows, whatever block they are filed in.
            np.maximum(best, np.where(is_of_block, mapping.take(change), -1), out=best)
        return best

    @functools.cached_property
    def _is_paged(self) -> bool:
        """Whether all mappings begin and end at pages."""
        return not any((bound & _IN_PAGE).any() for bound in (self.made.start, self.made.end))

    def _made_until(self, version: int) -> I64:
        """Return the rows of `made` that a version has or inherits, in their order."""
        by_space, space, made_in = self._by_space
        parts = []
        while version >= 0:
            own = int(self.space[version])
            first, end = np.searchsorted(space, (own, own + 1))
            after = first + np.searchsorted(made_in[first:end], version, side="right")
            parts.append(by_space[first:after])
            version = int(self.tree.parent[self.version[self.first_epoch[own]]])
        return np.concatenate(parts[::-1])

    @functools.cached_property
    def _by_space(self) -> tuple[I64, I64, I64]:
        """Rows of `made` by space and then in their order, with space and version, i64[r] each."""
        space = self.space.take(self.made.version)
        order = np.argsort(space, kind="stable")
        return order, space.take(order), self.made.version.take(order)


def build_address_spaces(
    version_space: I64, tree: VersionTree, made: MadeMappings
) -> AddressSpaces:
    """Sort the versions by space.

    `version_space` is the space of each version; a space's epochs are numbered ascending.
    """
    by_space = np.argsort(version_space, kind="stable")
    spaces = int(version_space.max()) + 1 if len(version_space) else 0
    first_epoch = np.searchsorted(version_space.take(by_space), np.arange(spaces))
    return AddressSpaces(first_epoch, by_space, version_space, tree, made)


def _blocks(first: I64, end: I64) -> Iterator[tuple[I64, I64]]:
    """Cut each range of cells, first < end, into blocks of 1, 2, 4, … cells.

    Yields:
        For each size in turn the blocks, and the range that each is of: i64[k] each. Block b of
        2^s cells begins at cell b << s.
    """
    rows = np.arange(len(first))
    while len(rows):
        head, tail = first & 1 == 1, end & 1 == 1
        yield np.concatenate((first[head], end[tail] - 1)), np.concatenate((rows[head], rows[tail]))
        first, end = first + 1 >> 1, end >> 1
        inner = np.flatnonzero(first < end)
        rows, first, end = rows.take(inner), first.take(inner), end.take(inner)


def _last_over(first: I64, end: I64, cells: int) -> I64:
    """Return the last of the ranges that each cell is in, -1 for none: i64[cells]."""
    tables = []
    for bits, (block, row) in enumerate(_blocks(first, end)):
        table = np.full((cells >> bits) + 1, -1, np.int64)
        np.maximum.at(table, block, row)
        tables.append(table)
    last = np.full(cells + 1, -1, np.int64)
    for table in reversed(tables):
        last = np.maximum(table, last.repeat(2)[: len(table)])
    return last[:cells]


def _changes(block: I64, row: I64, tree: VersionTree, made: MadeMappings) -> tuple[U64, I64]:
    """Turn the nested intervals of each block into a table of the changes of the innermost one.

    `row` i64[k] of `made` are filed in the blocks.

    Returns:
        u64[c] keys of block and version entered, ascending, and i64[c] the mapping from there on.
    """
    version = made.version.take(row)
    keys = np.concatenate(
        (_key(block, tree.enter.take(version)), _key(block, tree.leave.take(version)))
    )
    # A mapping closes before another opens at the same key; one made later in a version is inside.
    opened = np.concatenate((made.mapping.take(row), np.full(len(row), -1)))
    order = np.lexsort((opened, keys))
    keys, opened = keys.take(order), opened.take(order)
    is_opening = opened >= 0
    depth = np.cumsum(np.where(is_opening, 1, -1))
    # The innermost open interval is the last that opened at this depth.
    by_depth = np.argsort(depth, kind="stable")
    opening = np.where(is_opening.take(by_depth), np.arange(len(by_depth)), 0)
    innermost = np.empty(len(keys), np.int64)
    innermost[by_depth] = opened.take(by_depth.take(np.maximum.accumulate(opening)))
    innermost[depth == 0] = -1
    is_last = np.append(keys[1:] != keys[:-1], True)[: len(keys)]
    return keys[is_last], innermost[is_last]


def _key(block: I64, version: I64) -> U64:
    return block.view(np.uint64) << _LOW_BITS | version.view(np.uint64)
