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

    `starts`, `ends` and `owners` hold, for each space, what stands at its addresses now: disjoint,
    ascending, without what it inherits; an owner is a row of mappings.
    """

    def __init__(self) -> None:
        self.version_space: list[int] = []
        self.version_parent: list[int] = []
        self.version_epoch: list[int] = []
        self.is_shared: list[bool] = []
        self.process_row: list[int] = []
        self.inherits: list[int] = []
        self.starts: list[list[int]] = []
        self.ends: list[list[int]] = []
        self.owners: list[list[int]] = []
        self.made_in: list[int] = []
        self.made: list[int] = []

    def add_space(self, process_row: int, parent: int) -> int:
        """Begin a space that inherits from version `parent` (-1: nothing); return its version."""
        space = len(self.inherits)
        self.process_row.append(process_row)
        self.inherits.append(parent)
        self.starts.append([])
        self.ends.append([])
        self.owners.append([])
        return self._add_version(space, parent, 0)

    def add_epoch(self, version: int) -> int:
        """Begin the next epoch of the space whose last version this is; return its version."""
        return self._add_version(
            self.version_space[version], version, self.version_epoch[version] + 1
        )

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
        starts, ends, owners = self.starts[space], self.ends[space], self.owners[space]
        covered = self.standing(space, start, end)
        low, high = covered.start, covered.stop
        if low == high:
            starts.insert(low, start)
            ends.insert(low, end)
            owners.insert(low, mapping)
            return
        pieces = [(start, end, mapping)]
        if starts[low] < start:
            pieces.insert(0, (starts[low], start, owners[low]))
        if ends[high - 1] > end:
            pieces.append((end, ends[high - 1], owners[high - 1]))
        starts[low:high] = [piece[0] for piece in pieces]
        ends[low:high] = [piece[1] for piece in pieces]
        owners[low:high] = [piece[2] for piece in pieces]

    def standing(self, space: int, start: int, end: int) -> range:
        """Return where, in the space's lists, what it has of its own in [start, end) stands."""
        low = bisect_right(self.ends[space], start)
        return range(low, bisect_left(self.starts[space], end, low))

    def stands_whole(self, space: int, start: int, end: int) -> bool:
        """Tell whether one of the space's own mappings covers all of [start, end)."""
        low = bisect_right(self.ends[space], start)
        starts = self.starts[space]
        return low < len(starts) and starts[low] <= start and self.ends[space][low] >= end

    def covers_inherited(self, space: int, start: int, end: int) -> bool:
        """Tell whether a mapping at [start, end) covers one of the parents'; True if not sure."""
        version = self.inherits[space]
        for _ in range(_PARENTS_ASKED):
            if version < 0:
                return False
            space = self.version_space[version]
            if self.standing(space, start, end):
                return True
            version = self.inherits[space]
        return version >= 0
