"""Sums of hits by where their instructions were written: by file, by line and by function.

Comes in: a completed Profile with `lines`. Goes out: the place of each hit, and `Amounts` of any
rows that hits are put into. `annotated_source` lays them out by file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.source import innermost, innermost_name
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.annotate.row_sums import EventSums, RowSums
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.source import LineTable


class Amounts(NamedTuple):
    """Hits, seconds, half of the 95 % interval and share of rows, all columns of rows [r].

    `half_width_s` is None where nothing is known of the error; shares are of all that was chosen.
    """

    hits: NDArray[np.int64]
    seconds: NDArray[np.float64]
    half_width_s: NDArray[np.float64] | None
    share: NDArray[np.float64]

    @classmethod
    def of(cls, sums: RowSums) -> Amounts:
        """Return what is shown of sums."""
        return cls(sums.hits, sums.seconds, sums.half_width_s, sums.share)

    def rows(self, row: NDArray[np.integer]) -> Amounts:
        """Return some of the rows."""
        half = self.half_width_s
        return Amounts(
            self.hits.take(row),
            self.seconds.take(row),
            None if half is None else half.take(row),
            self.share.take(row),
        )


class Places(NamedTuple):
    """Of each hit: row of the file and of the function's name (-1: none), line, and object."""

    file: NDArray[np.int32]
    name: NDArray[np.int32]
    line: NDArray[np.int64]
    object: NDArray[np.int32]


def places_of_hits(profile: CompleteProfile, lines: LineTable) -> Places:
    """Find the places of all hits of a completed profile."""
    location = profile.hits.location_index
    file, line = innermost(lines, location)
    function = profile.locations.function_index.take(location)
    return Places(
        file,
        innermost_name(lines, location),
        line.astype(np.int64),
        profile.functions.object_index.take(function),
    )


class Pairs(NamedTuple):
    """Distinct (file, second) with hits, in rising order, and their amounts."""

    file: NDArray[np.int64]
    second: NDArray[np.int64]
    amounts: Amounts

    @classmethod
    def of(
        cls,
        sums: EventSums,
        at: NDArray[np.int64],
        file: NDArray[np.integer],
        second: NDArray[np.integer],
    ) -> Pairs:
        """Add up by pairs; a file of -1 is none."""
        key = (file.astype(np.int64) << 32) | np.maximum(second, 0)
        distinct, row = np.unique(key[file >= 0], return_inverse=True)
        rows = np.full(len(file), -1, np.int64)
        rows[file >= 0] = row
        amounts = Amounts.of(sums.by(at, rows, len(distinct)))
        return cls(distinct >> 32, distinct & 0xFFFFFFFF, amounts)

    def of_file(self, file: int) -> NDArray[np.int64]:
        """Return the rows of a file."""
        first, last = np.searchsorted(self.file, [file, file + 1]).tolist()
        return np.arange(first, last)
