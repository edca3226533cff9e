"""Hits added up by row: hits, time, weight and the error of the time, for any rows.

Tables of functions, which rank their rows, are made in `figures.report.functions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import half_widths
from prospect.figures.modes import event_seconds, event_weight
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.errors.design import Design
    from prospect.profile.complete import CompleteProfile


class RowSums(Record):
    """Sums of rows [r].

    Attributes:
        hits, period: i64[r].
        seconds: f64[r] zeros where the event has no time.
        weight: f64[r] what shares are of, see `event_weight`.
        half_width_s: f64[r] half of the time's 95 % interval; None if the event has no time.
        share: f64[r] of the weight of all hits that count, in a row or none.
    """

    hits: NDArray[np.int64]
    period: NDArray[np.int64]
    seconds: NDArray[np.float64]
    weight: NDArray[np.float64]
    half_width_s: NDArray[np.float64] | None
    share: NDArray[np.float64]


class EventSums(Record):
    """Adds up hits of one event of a profile; `design` is how its samples were taken."""

    profile: CompleteProfile
    design: Design

    def by(self, at: NDArray[np.int64], row_of_hit: NDArray[np.integer], rows: int) -> RowSums:
        """Add up hits of the event.

        `row_of_hit` has the row of each of the hits `at` that count, -1 for none.
        """
        hits, event = self.profile.hits, self.design.event
        count, period = hits.count.take(at), hits.period.take(at)
        weight = event_weight(event, count, period)
        known = row_of_hit >= 0
        counted, periods, weights = (
            np.bincount(row_of_hit[known], column[known], rows)
            for column in (count, period, weight)
        )
        row = np.full(len(hits), -1, np.int32)
        row[at] = row_of_hit
        whole, whole_periods = counted.astype(np.int64), periods.astype(np.int64)
        return RowSums(
            hits=whole,
            period=whole_periods,
            seconds=event_seconds(event, whole, whole_periods),
            weight=weights.astype(np.float64),
            half_width_s=half_widths(self.design, row, rows) if self.design.has_bars else None,
            share=weights / max(float(weight.sum()), 1.0),
        )


def event_sums(profile: CompleteProfile, event: int) -> EventSums:
    """Return what adds up hits of an event, a row of `RunInfo.events`."""
    return EventSums(profile, sampling_design(profile, event))
