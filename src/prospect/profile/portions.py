"""Hits in a report's terms: what a hit is worth in seconds, and which portion it belongs to.

Comes in: a completed Profile (`complete`) and one of its events. Goes out: columns of that event's
hits, the user, kernel or other *portion* of each, and the rule that makes seconds of periods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.grouping import group_sums
from prospect.profile.model import MODE_KERNEL, MODE_USER, EventInfo, Profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

PORTION_USER = 0
PORTION_KERNEL = 1
PORTION_OTHER = 2  # a guest, a hypervisor, or a sample that does not say
PORTION_COUNT = 3
PORTION_NAMES = ("user", "kernel", "other")


@dataclass(frozen=True)
class EventHits:
    """The hits of one event, added up by process, function and portion.

    Attributes:
        event: the event; its rule makes seconds.
        process, function: i64[h] rows of the profile's tables.
        portion: i64[h] PORTION_*.
        count: i64[h] samples.
        period: i64[h] sum of the samples' periods.
    """

    event: EventInfo
    process: NDArray[np.int64]
    function: NDArray[np.int64]
    portion: NDArray[np.int64]
    count: NDArray[np.int64]
    period: NDArray[np.int64]

    @property
    def has_time(self) -> bool:
        """Whether this event's hits can be turned into seconds at all."""
        return self.event.seconds_per_period > 0 or self.event.seconds_per_hit > 0

    def seconds(self, count: NDArray[np.int64], period: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return f64 seconds of summed counts and periods; zeros where the event has no time."""
        return event_seconds(self.event, count, period)

    def weight(self, count: NDArray[np.int64], period: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return f64 what shares are of: whole periods where they are time, hits otherwise.

        Whole numbers, unlike seconds, have exact running sums (below 2**53: 100 days in ns).
        """
        whole = np.maximum(period, 0) if self.event.seconds_per_period > 0 else count
        return whole.astype(np.float64)


def event_seconds(
    event: EventInfo, count: NDArray[np.int64], period: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return f64 seconds of an event's hits and summed periods; zeros where it has no time."""
    if event.seconds_per_period > 0:
        # A damaged recording can overflow a sum; time is never negative.
        return np.maximum(period, 0) * np.float64(event.seconds_per_period)
    return count * np.float64(event.seconds_per_hit)


def event_hits(profile: Profile, event_index: int) -> EventHits:
    """Select the hits of one event of a completed profile."""
    hits = profile.hits
    of_event = hits.event == event_index
    chosen = slice(None) if of_event.all() else of_event
    of_hit = profile.locations.function_index.take(hits.location_index[chosen])
    (process, portion, function), (count, period) = group_sums(
        (hits.process_index[chosen], portion_of(hits.mode[chosen]), of_hit),
        (hits.count[chosen], hits.period[chosen]),
    )
    return EventHits(profile.run.events[event_index], process, function, portion, count, period)


def portion_of(mode: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the portion, i64[n] PORTION_*, of PERF_RECORD_MISC_CPUMODE values."""
    portion = np.full(len(mode), PORTION_OTHER, np.int64)
    portion[mode == MODE_USER] = PORTION_USER
    portion[mode == MODE_KERNEL] = PORTION_KERNEL
    return portion
