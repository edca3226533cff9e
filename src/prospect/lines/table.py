"""Frames of one image after another → the `LineTable` of a profile.

Comes in: for some rows of a table at a time, their frames. Goes out: frames in the order of the
rows, with each function and file named once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.profile.source import LineTable
from prospect.symbols.demangle import demangle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.lines.symcache import Frames

_Text = TypeVar("_Text", bytes, str)


class LineTableBuilder:
    """Collects frames; `table()` gives what was collected."""

    def __init__(self) -> None:
        self._names: dict[bytes, int] = {}
        self._files: dict[str, int] = {}
        self._pieces: list[tuple[NDArray[np.int64], Frames]] = []

    def add(self, row: NDArray[np.int64], frames: Frames) -> None:
        """Add frames of the rows `row` i64[n], distinct and not added before."""
        self._pieces.append((row, frames))

    def table(self, rows: int, notes: dict[int, str]) -> LineTable:
        """Return the table; rows that were not added have no frames.

        Args:
            rows: how many it has.
            notes: see `LineTable`.
        """
        count = np.zeros(rows + 1, np.int64)
        for row, frames in self._pieces:
            count[row + 1] = np.diff(frames.start)
        frame_start = np.cumsum(count)
        total = int(frame_start[-1])
        name_index, file_index = np.full(total, -1, np.int32), np.full(total, -1, np.int32)
        line = np.zeros(total, np.uint32)
        for row, frames in self._pieces:
            own_start = frames.start[:-1]
            shift = np.repeat(frame_start.take(row) - own_start, np.diff(frames.start))
            place = np.arange(len(frames.line)) + shift
            name_index[place] = _renumbered(frames.name_index, frames.names, self._names)
            file_index[place] = _renumbered(frames.file_index, frames.files, self._files)
            line[place] = frames.line
        names = demangle(list(self._names))
        return LineTable(frame_start, name_index, file_index, line, names, list(self._files), notes)


def _renumbered(
    index: NDArray[np.int32], texts: list[_Text], rows: dict[_Text, int]
) -> NDArray[np.int32]:
    """Turn an index of `texts` into one of all texts, of which `rows` gives the numbers."""
    new = np.array([*(rows.setdefault(text, len(rows)) for text in texts), -1], np.int32)
    return new.take(index)
