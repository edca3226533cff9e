"""Address spaces as they come to be, for the replay of side records: forks link, nothing is copied.

Comes in: what `replay` found in fork, exec and mapping records. Goes out: columns for `versions`
and `address_spaces`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

# How many parents are asked whether a mapping covers one of theirs. Beyond, it is taken to:
# an epoch too many costs a little, one too few would change what earlier samples hit.
_PARENTS_ASKED = 8


class SpaceColumns:
    """Address spaces and their versions as they are made (see `versions`).

    Attributes:
        version_space, version_parent, version_epoch: per version; parent -1 for an exec's first.
        is_shared: per version, whether a fork has linked a child to it.
        process_row: per space, the process row that it belongs to.
        inherits: per space, the version that its fork saw, -1 after an exec.
        owners: per space, the mappings that stand in it now by ascending address, without what
            it inherits; pieces of one that was covered in part count each.
        made_in, made: version and mapping, for all that was ever placed.
    """

    def __init__(self) -> None:
        self.version_space: list[int] = []
        self.version_parent: list[int] = []
        self.version_epoch: list[int] = []
        self.is_shared: list[bool] = []
        self.process_row: list[int] = []
        self.inherits: list[int] = []
        self.owners: list[list[int]] = []
        self.made_in: list[int] = []
        self.made: list[int] = []
        # Per space, start and end of each owner in turn: disjoint, so the list ascends.
        self._bounds: list[list[int]] = []

    def add_space(self, process_row: int, parent: int) -> int:
        """Begin a space that inherits from version `parent` (-1: nothing); return its version."""
        space = len(self.inherits)
        self.process_row.append(process_row)
        self.inherits.append(parent)
        self.owners.append([])
        self._bounds.append([])
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
        bounds, owners = self._bounds[space], self.owners[space]
        low, high = bisect_left(bounds, start), bisect_right(bounds, end)
        if low == high and not low & 1:
            bounds[low:low] = (start, end)
            owners.insert(low >> 1, mapping)
            return
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

    def covered(self, space: int, start: int, end: int) -> list[int]:
        """Return the space's own mappings that stand in [start, end)."""
        bounds = self._bounds[space]
        low, high = bisect_right(bounds, start), bisect_left(bounds, end)
        if low == high and not low & 1:
            return []
        return self.owners[space][low >> 1 : high + 1 >> 1]

    def is_inside(self, space: int, start: int, end: int) -> bool:
        """Tell whether [start, end) lies within one of the space's own mappings."""
        bounds = self._bounds[space]
        low = bisect_right(bounds, start)
        return low & 1 == 1 and bounds[low] >= end

    def covers_inherited(self, space: int, start: int, end: int) -> bool:
        """Tell whether a mapping at [start, end) covers one of the parents'; True if not sure."""
        version = self.inherits[space]
        for _ in range(_PARENTS_ASKED):
            if version < 0:
                return False
            space = self.version_space[version]
            if self.covered(space, start, end):
                return True
            version = self.inherits[space]
        return version >= 0
