"""Sums of hits by where their instructions were written: by file, by line and by function.

Comes in: a completed Profile with `lines`. Goes out: the place of each hit, and `Amounts` of any
rows that hits are put into. `annotated_source` lays them out by file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.figures.portions import event_seconds, event_weight
from prospect.profile.source import innermost, innermost_name
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.figures.annotate.annotation import HalfWidths
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


class Sums:
    """Adds the hits of one profile up by rows."""

    def __init__(self, profile: CompleteProfile, half_widths: HalfWidths | None) -> None:
        self.profile = profile
        self._half_widths = half_widths

    def by(self, event: int, at: NDArray[np.int64], row: NDArray[np.integer], rows: int) -> Amounts:
        """Add up hits of an event: `at` i64[k] which, `row` i[k] where each belongs, -1 nowhere."""
        hits, info = self.profile.hits, self.profile.run.events[event]
        known = row >= 0
        count, period = hits.count.take(at), hits.period.take(at)
        weight = event_weight(info, count, period)
        counted, periods, weights = (
            np.bincount(row[known], column[known], rows) for column in (count, period, weight)
        )
        half = None
        if self._half_widths is not None:
            of_hit = np.full(len(hits), -1, np.int32)
            of_hit[at] = row
            half = self._half_widths(self.profile, event, of_hit, rows)
        whole = counted.astype(np.int64)
        return Amounts(
            whole,
            event_seconds(info, whole, periods.astype(np.int64)),
            half,
            weights / max(float(weight.sum()), 1.0),
        )


class Pairs(NamedTuple):
    """Distinct (file, second) with hits, in rising order, and their amounts."""

    file: NDArray[np.int64]
    second: NDArray[np.int64]
    amounts: Amounts

    @classmethod
    def of(
        cls,
        sums: Sums,
        event: int,
        at: NDArray[np.int64],
        file: NDArray[np.integer],
        second: NDArray[np.integer],
    ) -> Pairs:
        """Add up by pairs; a file of -1 is none."""
        key = (file.astype(np.int64) << 32) | np.maximum(second, 0)
        distinct, row = np.unique(key[file >= 0], return_inverse=True)
        rows = np.full(len(file), -1, np.int64)
        rows[file >= 0] = row
        amounts = sums.by(event, at, rows, len(distinct))
        return cls(distinct >> 32, distinct & 0xFFFFFFFF, amounts)

    def of_file(self, file: int) -> NDArray[np.int64]:
        """Return the rows of a file."""
        first, last = np.searchsorted(self.file, [file, file + 1]).tolist()
        return np.arange(first, last)
