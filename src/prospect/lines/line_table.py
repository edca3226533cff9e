"""Frames of one image after another → the `LineTable` of a profile.

The frames are in the order of the rows, and each function and file is named once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.lines.symcache import join_frames
from prospect.profile.source_tables import LineTable
from prospect.symbols.demangling.demangle import demangle

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prospect.lines.symcache import Frames


class LineTableBuilder:
    """Collects frames; `table()` gives what was collected."""

    def __init__(self) -> None:
        self._pieces: list[tuple[NDArray[np.int64], Frames]] = []

    def add(self, row: NDArray[np.int64], frames: Frames) -> None:
        """Add frames of the rows `row` i64[n], distinct and not added before."""
        self._pieces.append((row, frames))

    def table(
        self,
        rows: int,
        notes: dict[int, str],
        built_ns: dict[int, int] | None = None,
        named_by: dict[str, set[int]] | None = None,
    ) -> LineTable:
        """Return the table; rows that were not added have no frames.

        Args:
            rows: how many it has.
            notes: see `LineTable`.
            built_ns: the same.
            named_by: the same.
        """
        joined = join_frames(rows, self._pieces)
        return LineTable(
            joined.start,
            joined.name_index,
            joined.file_index,
            joined.line,
            demangle(joined.names),
            joined.files,
            notes,
            built_ns or {},
            [name.decode("utf-8", "surrogateescape") for name in joined.names],
            named_by or {},
        )
