"""The state of a session as columns of hits, which every page of the screen groups and adds up.

Time, modes and error bars are those of the report on the same profile.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.finished_report import Report
from prospect.figures.modes import MODE_COUNT, MODE_INTERRUPT, event_has_time, hit_modes
from prospect.profile.complete import complete
from prospect.profile.model import ENTRY_REASON_IDLE
from prospect.records import Record

if TYPE_CHECKING:
    from prospect.columns.array_types import F64, I32, I64, Bools
    from prospect.estimate.errors.design import Design
    from prospect.estimate.turn_account import TurnAccount
    from prospect.live.session import LiveState
    from prospect.profile.complete import CompleteProfile

BUCKET_S = 2
BUCKETS = 30  # stretches of `BUCKET_S` in a row's history: the last minute


class LiveFigures(Record):
    """One state, completed; columns are of its hits [h].

    Attributes:
        profile: that of the state, completed.
        event_index: the event that is shown: the first with time and a sample.
        mode: i64[h] MODE_*.
        function: i64[h] rows of the profile's functions.
        is_shown: bool[h] hits of the event that are not idle, of processes that are followed.
    """

    state: LiveState
    profile: CompleteProfile
    event_index: int
    mode: I64
    function: I64
    is_shown: Bools

    @cached_property
    def design(self) -> Design:
        """How the samples were taken."""
        return sampling_design(self.profile, self.event_index)

    @cached_property
    def turns(self) -> TurnAccount | None:
        """The turns of the followed processes in the last interval; None without any."""
        part = self.state.part
        if part is None or part.turns is None:
            return None
        with Report(part, "3" if self.state.followed else "4") as report:
            return report.turns

    @property
    def span_s(self) -> float:
        """The time that the figures cover; never 0."""
        return max(self.profile.run.wall_seconds or self.state.kept_s, 1e-9)

    @property
    def is_followed(self) -> Bools:
        """Which processes the session follows, bool[p]."""
        return _followed(self.state, self.profile)

    @property
    def is_interrupt(self) -> Bools:
        """Which hits are of interrupts, bool[h]: their process did not cause them."""
        interrupts: Bools = self.mode == MODE_INTERRUPT
        return interrupts

    @property
    def seconds_by_mode(self) -> F64:
        """The time of each mode without idle, f64[MODE_COUNT]."""
        shown = self.is_shown
        sums = np.bincount(self.mode[shown], self.seconds[shown], MODE_COUNT)
        return sums.astype(np.float64)

    @cached_property
    def seconds(self) -> F64:
        """The time of each hit, f64[h]."""
        return self.design.seconds

    @cached_property
    def recent(self) -> tuple[I64, I64, int]:
        """The hit and the bucket of each sample of the last minute, i64[n], and the first bucket.

        Buckets have fixed times, so that a history does not flicker; the one that has not ended is
        left out. Those before the first bucket were not seen.
        """
        samples = self.profile.samples
        nothing = np.empty(0, np.int64)
        if not len(samples):
            return nothing, nothing, BUCKETS
        bucket_ns = BUCKET_S * 1_000_000_000
        last = int(max(samples.time_ns.max(), self.profile.run.end_ns))
        first = last // bucket_ns - BUCKETS
        at = np.flatnonzero(samples.time_ns >= np.uint64(max(first, 0) * bucket_ns))
        bucket = (samples.time_ns.take(at) // np.uint64(bucket_ns)).astype(np.int64) - first
        is_over = bucket < BUCKETS
        begin = self.profile.run.begin_ns or int(samples.time_ns.min())
        unseen = max(-(-begin // bucket_ns) - first, 0)
        return samples.hit_index.take(at[is_over]).astype(np.int64), bucket[is_over], unseen

    def history(self, row_of_hit: I32, rows: int) -> I64:
        """Return i64[rows, BUCKETS] hits of the last minute, -1 for what was not seen."""
        hit, bucket, unseen = self.recent
        row = row_of_hit.take(hit).astype(np.int64)
        member = row >= 0
        table = np.bincount(
            row[member] * BUCKETS + bucket[member], minlength=rows * BUCKETS
        ).reshape(rows, BUCKETS)
        table[:, : min(unseen, BUCKETS)] = -1
        return table.astype(np.int64)


def live_figures(state: LiveState) -> LiveFigures:
    """Complete a state's profile and classify its hits."""
    profile = complete(state.profile)
    hits = profile.hits
    present = distinct(hits.event).tolist()
    timed = [row for row in present if event_has_time(profile.run.events[row])]
    event_index = (timed or present or [0])[0]
    is_idle = profile.entry_reasons.kind.take(hits.entry_reason_index) == ENTRY_REASON_IDLE
    return LiveFigures(
        state=state,
        profile=profile,
        event_index=event_index,
        mode=hit_modes(profile),
        function=profile.locations.function_index.take(hits.location_index).astype(np.int64),
        is_shown=(hits.event == event_index)
        & ~is_idle
        & _followed(state, profile).take(hits.process_index),
    )


def _followed(state: LiveState, profile: CompleteProfile) -> Bools:
    if state.followed:
        return profile.processes.is_descendant
    return np.ones(len(profile.processes), np.bool_)
