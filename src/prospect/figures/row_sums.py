"""Hits added up by row: hits, time, weight and the error of the time, for any rows.

Comes in: a completed Profile, which of an event's hits count, and the row of each. Goes out:
`RowSums`. Tables of routines, which rank their rows, are made in `figures.report.routines`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.figures.portions import event_seconds, event_weight
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from prospect.profile.complete import CompleteProfile

    HalfWidths = Callable[
        [CompleteProfile, int, NDArray[np.int32], int], NDArray[np.float64] | None
    ]
    """Of a profile's event, the row of each hit and how many rows: half of each 95 % interval."""


class RowSums(Record):
    """Sums of rows [r].

    Attributes:
        hits, period: i64[r].
        seconds: f64[r] zeros where the event has no time.
        weight: f64[r] what shares are of, see `event_weight`.
        half_width_s: f64[r] half of the time's 95 % interval; None where that is not known.
        share: f64[r] of the weight of all hits that count, in a row or none.
    """

    hits: NDArray[np.int64]
    period: NDArray[np.int64]
    seconds: NDArray[np.float64]
    weight: NDArray[np.float64]
    half_width_s: NDArray[np.float64] | None
    share: NDArray[np.float64]


class Sums(Record):
    """Adds hits of a profile up; `half_widths` estimates the error of rows, None for no errors."""

    profile: CompleteProfile
    half_widths: HalfWidths | None

    def by(
        self, event: int, at: NDArray[np.int64], row_of_hit: NDArray[np.integer], rows: int
    ) -> RowSums:
        """Add up hits of an event.

        Args:
            event: row of `RunInfo.events`.
            at: i64[k] the hits that count.
            row_of_hit: i[k] the row of each, -1 for none.
            rows: how many there are.
        """
        hits, info = self.profile.hits, self.profile.run.events[event]
        count, period = hits.count.take(at), hits.period.take(at)
        weight = event_weight(info, count, period)
        known = row_of_hit >= 0
        counted, periods, weights = (
            np.bincount(row_of_hit[known], column[known], rows)
            for column in (count, period, weight)
        )
        half_width_s = None
        if self.half_widths is not None:
            row = np.full(len(hits), -1, np.int32)
            row[at] = row_of_hit
            half_width_s = self.half_widths(self.profile, event, row, rows)
        whole, whole_periods = counted.astype(np.int64), periods.astype(np.int64)
        return RowSums(
            hits=whole,
            period=whole_periods,
            seconds=event_seconds(info, whole, whole_periods),
            weight=weights.astype(np.float64),
            half_width_s=half_width_s,
            share=weights / max(float(weight.sum()), 1.0),
        )
