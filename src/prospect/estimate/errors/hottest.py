"""The routines with most time over all processes that are asked for, with their error bars.

Comes in: a Profile. Goes out: `HottestRoutines`, of the first event with hits. Where one process is
asked for, its rows are those of the report's tables of routines. A CPU with nothing to do is in no
routine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import half_widths
from prospect.estimate.errors.first_rows import Bound, first_rows
from prospect.figures.portions import event_seconds, hit_portions
from prospect.figures.processes import chosen_hits, shown_detail
from prospect.figures.smaller_profiles import without_waits
from prospect.profile.complete import complete
from prospect.profile.model import CAUSE_IDLE
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.figures.processes import Detail
    from prospect.profile.complete import CompleteProfile
    from prospect.profile.model import Profile
    from prospect.profile.run_info import EventInfo


class HottestRoutines(Record):
    """Routines by descending time, or hits where the event has no time.

    Attributes:
        profile: completed, without waits.
        detail: the `-V` that is shown.
        event: the event whose hits are counted.
        has_time: whether they are worth seconds.
        function: i64[r] rows of the profile's functions.
        portion: i64[r] PORTION_*.
        hits: i64[r].
        seconds, half_width_s: f64[r] and half of the 95 % interval, NaN where unknown.
        share: f64[r] part of all that is asked for, 0 to 1.
        left_out: how many routines there are besides.
        total_hits, total_s: of all that is asked for, shown or not.
    """

    profile: CompleteProfile
    detail: Detail
    event: EventInfo
    has_time: bool
    function: NDArray[np.int64]
    portion: NDArray[np.int64]
    hits: NDArray[np.int64]
    seconds: NDArray[np.float64]
    half_width_s: NDArray[np.float64]
    share: NDArray[np.float64]
    left_out: int
    total_hits: int
    total_s: float

    def __len__(self) -> int:
        return len(self.function)


def hottest_routines(profile: Profile, detail: Detail, most: int) -> HottestRoutines:
    """Add up hits by routine and portion, and estimate the error of the first `most` rows."""
    profile = without_waits(complete(profile))
    hits = profile.hits
    chosen = chosen_hits(profile, detail)
    chosen &= profile.causes.kind.take(hits.cause_index) != CAUSE_IDLE
    event_index = int(hits.event[chosen].min()) if chosen.any() else 0
    event = profile.run.events[event_index]
    at = np.flatnonzero(chosen & (hits.event == event_index))
    function = profile.locations.function_index.take(hits.location_index).astype(np.int64)
    key = function * (1 << 2) + hit_portions(profile)
    design = sampling_design(profile, event_index)
    rows = first_rows(profile, design, at, key.take(at), Bound(most))
    count, period = hits.count.take(at), hits.period.take(at)
    return HottestRoutines(
        profile=profile,
        detail=shown_detail(profile.processes, detail),
        event=event,
        has_time=design.has_time,
        function=rows.key >> 2,
        portion=rows.key & 3,
        hits=rows.hits,
        seconds=rows.seconds,
        half_width_s=half_widths(design, rows.row_of_hit, len(rows.key)),
        share=rows.share,
        left_out=rows.more,
        total_hits=int(count.sum()),
        total_s=float(event_seconds(event, count, period).sum()),
    )
