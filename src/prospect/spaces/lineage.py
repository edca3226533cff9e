"""Address spaces as they come to be, for the replay of side records: forks link, nothing is copied.

Comes in: what `replay` found in fork, exec and mapping records. Goes out: columns for `versions`
and `address_spaces`.

The mappings that stand in a space are disjoint, and kept as two lists by ascending address:
`bounds`, start and end of each in turn, and `owners`, the mapping of each. A list of very many
would move half of itself at each mapping that comes between two, so that the time of a million
mappings grows with their square: `Blocks` keeps those in lists of bounded length.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

# How many parents are asked whether a mapping covers one of theirs. Beyond, it is taken to:
# an epoch too many costs a little, one too few would change what earlier samples hit.
_PARENTS_ASKED = 8
# Mappings of a list at most.
BLOCK_MAPPINGS = 1024


class SpaceColumns:
    """Address spaces and their versions as they are made (see `versions`).

    Attributes:
        version_space, version_parent, version_epoch: per version; parent -1 for an exec's first.
        is_shared: per version, whether a fork has linked a child to it.
        process_row: per space, the process row that it belongs to.
        inherits: per space, the version that its fork saw, -1 after an exec.
        made_in, made: version and mapping, for all that was ever placed.
    """

    def __init__(self) -> None:
        self.version_space: list[int] = []
        self.version_parent: list[int] = []
        self.version_epoch: list[int] = []
        self.is_shared: list[bool] = []
        self.process_row: list[int] = []
        self.inherits: list[int] = []
        self.made_in: list[int] = []
        self.made: list[int] = []
        # Per space, the mappings that stand in it now, without what it inherits; pieces of one
        # that was covered in part count each. Those of a space of very many are in `_blocks`.
        self._bounds: list[list[int]] = []
        self._owners: list[list[int]] = []
        self._blocks: dict[int, Blocks] = {}

    def add_space(self, process_row: int, parent: int) -> int:
        """Begin a space that inherits from version `parent` (-1: nothing); return its version."""
        space = len(self.inherits)
        self.process_row.append(process_row)
        self.inherits.append(parent)
        self._bounds.append([])
        self._owners.append([])
        return self._add_version(space, parent, 0)

    def add_epoch(self, version: int) -> int:
        """Begin the next epoch of the space whose last version this is; return its version."""
        epoch = self.version_epoch[version] + 1
        return self._add_version(self.version_space[version], version, epoch)

    def _add_version(self, space: int, parent: int, epoch: int) -> int:
        self.version_space.append(space)
        self.version_parent.append(parent)
        self.version_epoch.append(epoch)
        self.is_shared.append(False)
        return len(self.version_space) - 1

    def place(self, version: int, start: int, end: int, mapping: int) -> None:
        """Let a mapping stand at its addresses from this version on, over what was there."""
        self.made_in.append(version)
        self.made.append(mapping)
        space = self.version_space[version]
        if space in self._blocks:
            self._blocks[space].place(start, end, mapping)
            return
        bounds, owners = self._bounds[space], self._owners[space]
        place_in(bounds, owners, start, end, mapping)
        if len(owners) > BLOCK_MAPPINGS:
            self._blocks[space] = Blocks(bounds, owners)
            self._bounds[space], self._owners[space] = [], []

    def place_apart(self, version: int, start: int, end: int, mapping: int) -> bool:
        """Let a mapping stand that covers nothing, in a space that neither shares nor inherits any.

        Nearly all are such: those of a program that was just started. False, and nothing done, for
        another one.
        """
        space = self.version_space[version]
        if self.is_shared[version] or self.inherits[space] >= 0 or space in self._blocks:
            return False
        bounds, owners = self._bounds[space], self._owners[space]
        if len(owners) >= BLOCK_MAPPINGS or not placed_apart(bounds, owners, start, end, mapping):
            return False
        self.made_in.append(version)
        self.made.append(mapping)
        return True

    def covered(self, space: int, start: int, end: int) -> list[int]:
        """Return the space's own mappings that stand in [start, end)."""
        if space in self._blocks:
            return self._blocks[space].covered(start, end)
        return covered_in(self._bounds[space], self._owners[space], start, end)

    def is_inside(self, space: int, start: int, end: int) -> bool:
        """Return whether [start, end) lies within one of the space's own mappings."""
        if space in self._blocks:
            return self._blocks[space].is_inside(start, end)
        return is_inside_in(self._bounds[space], start, end)

    def covers_inherited(self, space: int, start: int, end: int) -> bool:
        """Return whether a mapping at [start, end) covers one of the parents'; True if not sure."""
        version = self.inherits[space]
        for _ in range(_PARENTS_ASKED):
            if version < 0:
                return False
            space = self.version_space[version]
            if self._covers_any(space, start, end):
                return True
            version = self.inherits[space]
        return version >= 0

    def _covers_any(self, space: int, start: int, end: int) -> bool:
        if space in self._blocks:
            return self._blocks[space].covers_any(start, end)
        return covers_any_in(self._bounds[space], start, end)


def placed_apart(bounds: list[int], owners: list[int], start: int, end: int, mapping: int) -> bool:
    """Let a mapping stand at [start, end), start < end, if nothing stands there."""
    low = bisect_right(bounds, start)
    if low & 1 or low != bisect_left(bounds, end):
        return False
    bounds[low:low] = (start, end)
    owners.insert(low >> 1, mapping)
    return True


def place_in(bounds: list[int], owners: list[int], start: int, end: int, mapping: int) -> None:
    """Let a mapping stand at [start, end), start < end, over what was there."""
    if placed_apart(bounds, owners, start, end, mapping):
        return
    low, high = bisect_left(bounds, start), bisect_right(bounds, end)
    # At an odd place an owner ends or is cut in two: one piece keeps what lies outside. What
    # is covered to its first or last address leaves no piece there.
    first, behind = low >> 1, high + 1 >> 1
    pieces = [mapping]
    new_bounds = [start, end]
    if low & 1:
        pieces.insert(0, owners[first])
        new_bounds.insert(0, start)
    if high & 1:
        pieces.append(owners[behind - 1])
        new_bounds.append(end)
    bounds[low:high] = new_bounds
    owners[first:behind] = pieces


def covered_in(bounds: list[int], owners: list[int], start: int, end: int) -> list[int]:
    """Return the mappings that stand in [start, end)."""
    low, high = bisect_right(bounds, start), bisect_left(bounds, end)
    if low == high and not low & 1:
        return []
    return owners[low >> 1 : high + 1 >> 1]


def covers_any_in(bounds: list[int], start: int, end: int) -> bool:
    """Return whether a mapping stands in [start, end), without a list of them."""
    low = bisect_right(bounds, start)
    return low & 1 == 1 or low < bisect_left(bounds, end)


def is_inside_in(bounds: list[int], start: int, end: int) -> bool:
    """Return whether [start, end) lies within one mapping."""
    low = bisect_right(bounds, start)
    return low & 1 == 1 and bounds[low] >= end


class Blocks:
    """Very many mappings of one space, in lists of BLOCK_MAPPINGS at most; see the functions."""

    def __init__(self, bounds: list[int], owners: list[int]) -> None:
        self._bounds = [bounds]
        self._owners = [owners]
        # Between each two blocks, the address from which on things stand in the second one.
        # Nothing stands on both sides of it, and no block is empty.
        self._separators: list[int] = []

    def lengths(self) -> list[int]:
        """Return how many mappings each block has."""
        return [len(owners) for owners in self._owners]

    def place(self, start: int, end: int, mapping: int) -> None:
        """As `place_in`."""
        first, last = self._reached(start, end)
        if first != last:
            # What stands between the outermost two is covered, and goes.
            for blocks in (self._bounds, self._owners):
                blocks[first : last + 1] = [blocks[first] + blocks[last]]
            del self._separators[first:last]
        place_in(self._bounds[first], self._owners[first], start, end, mapping)
        self._shorten(first)

    def covered(self, start: int, end: int) -> list[int]:
        """As `covered_in`."""
        first, last = self._reached(start, end)
        found: list[int] = []
        for block in range(first, last + 1):
            found += covered_in(self._bounds[block], self._owners[block], start, end)
        return found

    def covers_any(self, start: int, end: int) -> bool:
        """As `covers_any_in`."""
        first, last = self._reached(start, end)
        return last - first > 1 or any(
            covers_any_in(self._bounds[block], start, end) for block in {first, last}
        )

    def is_inside(self, start: int, end: int) -> bool:
        """As `is_inside_in`."""
        return is_inside_in(self._bounds[self._reached(start, end)[0]], start, end)

    def _reached(self, start: int, end: int) -> tuple[int, int]:
        """Return the first and the last block that [start, end) reaches into."""
        return bisect_right(self._separators, start), bisect_left(self._separators, end)

    def _shorten(self, block: int) -> None:
        bounds, owners = self._bounds[block], self._owners[block]
        if len(owners) <= BLOCK_MAPPINGS:
            return
        middle = len(owners) // 2
        self._bounds[block : block + 1] = [bounds[: 2 * middle], bounds[2 * middle :]]
        self._owners[block : block + 1] = [owners[:middle], owners[middle:]]
        self._separators.insert(block, bounds[2 * middle])
        # Two full ones joined, and what a mapping adds: halves may be too long as well.
        self._shorten(block + 1)
        self._shorten(block)
