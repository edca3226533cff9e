"""Which recorded object each object row of a profile is, for those who go back to its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prospect.lines.finder import LineFinder
from prospect.symbols.cache import SymbolCache

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.assembly.places import Placement
    from prospect.lines.symcache import Frames
    from prospect.symbols.image_files import FoundImage
    from prospect.symbols.objects import Missing, ObjectKey
    from prospect.symbols.options import SymbolOptions
    from prospect.symbols.symbolizer import Symbolizer


@dataclass(frozen=True)
class RecordedObjects:
    """Which recorded object each object row of a profile is, and where its image is found.

    Attributes:
        keys: by object row; parts of an object (kernel modules) have none.
        pids: by object row, processes that had it mapped.
        options: what naming knows of the recording.
        symbolizer: finds their files and names addresses in them.
        lines: finds source lines in them.
    """

    keys: dict[int, ObjectKey]
    pids: dict[int, list[int]]
    options: SymbolOptions
    symbolizer: Symbolizer
    lines: LineFinder

    def image(self, row: int) -> FoundImage | Missing:
        """Find the file of an object row that has a key."""
        return self.symbolizer.images.find(self.keys[row], self.pids[row])

    def frames(self, row: int, found: FoundImage, svma: NDArray[np.uint64]) -> tuple[Frames, str]:
        """Find source lines of addresses in an object, and a note on what is missing."""
        key = self.keys[row]
        return self.lines.frames(found, lambda: self.symbolizer.images.debug_file(key, found), svma)


def recorded_objects(
    placement: Placement,
    object_rows: NDArray[np.int32],
    symbolizer: Symbolizer,
    options: SymbolOptions,
) -> RecordedObjects:
    """Pair object rows of a profile with what was placed there.

    Args:
        placement: the placed hits.
        object_rows: i32[k] profile row of each of `placement.keys`, -1 for none.
        symbolizer: what named them.
        options: what it knows of the recording.
    """
    placed = [(int(object_rows[at]), at) for at in np.flatnonzero(object_rows >= 0).tolist()]
    cache = SymbolCache.of_user() if options.use_cache else None
    return RecordedObjects(
        keys={row: placement.keys[at] for row, at in placed},
        pids={row: placement.pids[at] for row, at in placed},
        options=options,
        symbolizer=symbolizer,
        lines=LineFinder(cache),
    )
