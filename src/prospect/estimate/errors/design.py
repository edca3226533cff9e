"""How the samples of an event were taken: the data for error bars, made once for all rows.

A `Design` shows which data a recording lacks (a grid, times, a second clock); estimates make
assumptions instead.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.clocks.grid import tick_grid
from prospect.estimate.errors.clock_sums import cut_in_blocks
from prospect.estimate.errors.local_error import (
    compared_lags,
    plain_sequence,
    successions,
    tick_sequence,
)
from prospect.estimate.errors.ticks import DueTicks, event_ticks
from prospect.figures.modes import event_has_time, event_seconds
from prospect.figures.processes import busy_of_run
from prospect.figures.report.counters import lost_samples
from prospect.profile.model import sampled
from prospect.records import Record

if TYPE_CHECKING:
    from prospect.columns.array_types import F64, I32, I64
    from prospect.estimate.clocks.grid import Grid
    from prospect.estimate.errors.clock_sums import Blocks
    from prospect.estimate.errors.local_error import Succession
    from prospect.estimate.errors.ticks import OrderedTicks, Ticks
    from prospect.profile.model import Profile, SampleTable
    from prospect.profile.run_info import EventInfo

# Keeps bars finite.
_MOST_LOST = 0.99


class Design(Record):
    """How the samples of an event were taken.

    Attributes:
        clocks: how many clocks count the same time; 1 if the samples are on no grid.
        hits: i64[h] samples of each of the profile's hits, 0 for those of other events.
        seconds: f64[h] their time.
        of_hits, of_seconds: ticks and time that these are a sample of: those of the whole recording
            or machine if the profile is a part of it.
        known_share: the share of the ticks that was not lost, over 0 to 1.
        sequence: i32[s] the hit of each tick (`tick_sequence`); None if samples have no times.
        ticks: of clocks, if the samples are on their grids; None if there are none.
        blocks: stretches of time in which clocks are compared; None with one clock.
        squares: f64[h] sum of the squared times of each hit's samples, in s²; None if samples
            of the event represent the same time.
        host_hour: as in the profile's hits, None if all hosts represent only themselves.
        host_share: as in `RunInfo`.
    """

    event: EventInfo
    clocks: int
    has_time: bool
    hits: I64
    seconds: F64
    of_hits: int
    of_seconds: float
    known_share: float
    sequence: I32 | None
    ticks: Ticks | None
    blocks: Blocks | None
    squares: F64 | None = None
    host_hour: I32 | None = None
    host_share: float = 1.0

    @cached_property
    def changes(self) -> tuple[Succession, ...] | None:
        """The pairs of different hits some ticks apart, for many tables of hits."""
        if self.sequence is None:
            return None
        return successions(self.sequence, compared_lags(self.clocks))

    @property
    def has_bars(self) -> bool:
        """Whether times have error bars: those of another tool may not be sampled."""
        return self.has_time and self.event.is_sampled

    @property
    def sees_rhythm(self) -> bool:
        """Whether other clocks would show a program in step with one clock."""
        return self.blocks is not None


def sampling_design(profile: Profile, event_index: int, grid: Grid | None = None) -> Design:
    """Return how the samples of one event were taken.

    `grid` is the `tick_grid` of the profile's samples, if known already.
    """
    event = profile.run.events[event_index]
    hits = profile.hits
    source = sampled(profile)
    whole, hit_index = source.profile, source.hit_index
    of_event = hits.event == event_index
    count = np.where(of_event, hits.count, 0)
    ticks = event_ticks(whole, event_index, tick_grid(whole) if grid is None else grid)
    clocks = len(ticks.period_ns) if ticks else 1
    reach = compared_lags(clocks)[-1]
    sequence = (
        tick_sequence(ticks, hit_index, reach)
        if ticks
        else _without_grid(whole, event_index, hit_index, reach)
    )
    seconds = np.where(of_event, event_seconds(event, hits.count, hits.period), 0.0)
    own = int(count.sum()), float(seconds.sum())
    of_hits, of_seconds, known_share = _sampled_of(whole, event_index, ticks, own)
    blocks = None
    if isinstance(ticks, DueTicks) and clocks > 1:
        blocks = cut_in_blocks(ticks, hit_index, len(hits))
    return Design(
        event=event,
        clocks=clocks,
        has_time=event_has_time(event),
        hits=count,
        seconds=seconds,
        of_hits=of_hits,
        of_seconds=of_seconds,
        known_share=known_share,
        sequence=sequence if len(sequence) else None,
        ticks=ticks.without_samples() if ticks else None,
        blocks=blocks,
        squares=(
            _squares(profile, (whole.samples, hit_index), seconds)
            if event.weighs_periods or hits.host_hour is not None
            else None
        ),
        host_hour=hits.host_hour,
        host_share=profile.run.host_share,
    )


def _sampled_of(
    whole: Profile, event_index: int, ticks: OrderedTicks | None, own: tuple[int, float]
) -> tuple[int, float, float]:
    """Return `Design.of_hits`, `of_seconds` and `known_share`.

    `own` are the number of samples of the profile's hits, and their time.
    """
    count, seconds = own
    run, hits = whole.run, whole.hits
    lost = _lost(whole, event_index)
    if run.due_ticks:
        # A part of a store: its machine had these ticks. Throttled and missing ones are as unknown
        # as lost ones.
        due = max(run.due_ticks, run.busy[event_index][0] if run.busy else 0)
        lost += int(whole.losses.throttled.sum())
        lost = max(lost, due - run.seen_ticks if run.seen_ticks else 0)
        of_hits = max(due - lost, count)
        of_seconds = seconds * of_hits / max(count, 1)
    else:
        of_event = hits.event == event_index
        event, period = run.events[event_index], hits.period[of_event]
        of_hits = max(int(hits.count[of_event].sum()), count)
        of_seconds = float(event_seconds(event, hits.count[of_event], period).sum())
        if run.busy:  # a part of a store whose clocks' ticks are not known
            busy_hits, busy_s = busy_of_run(run, event_index)
            of_hits, of_seconds = max(of_hits, busy_hits), max(of_seconds, busy_s)
        due = int(ticks.count.sum()) if ticks else of_hits + lost
    return of_hits, of_seconds, 1.0 - min(lost / max(due, 1), _MOST_LOST)


def _lost(whole: Profile, event_index: int) -> int:
    """Return how many samples of an event were lost."""
    records, clocks = int(whole.losses.lost.sum()), whole.clocks
    if records <= 0 or not len(clocks):
        return max(records, 0)
    by_clock = np.maximum(clocks.lost, 0)
    own = float(by_clock[clocks.event == event_index].sum()) / max(float(by_clock.sum()), 1.0)
    return round(own * lost_samples(whole, records))


def _squares(profile: Profile, taken: tuple[SampleTable, I32], seconds: F64) -> F64:
    """Return the sum of the squared times of each hit's samples, f64[h] s².

    `taken` are the samples and the hit of each, -1 for none; `seconds` f64[h] is 0 for hits of
    other events.
    """
    (samples, hit_index), hits = taken, profile.hits
    if samples.period is None or not len(samples):
        return seconds**2 / np.maximum(hits.count, 1)
    period = samples.period.astype(np.float64)
    worth = np.divide(seconds, hits.period, out=np.zeros(len(hits)), where=hits.period > 0)
    # Index 0 is for samples without a hit.
    squares = np.bincount(hit_index + 1, period * period, len(hits) + 1)[1:]
    return np.asarray(squares * worth * worth, np.float64)


def _without_grid(whole: Profile, event_index: int, hit_index: I32, reach: int) -> I32:
    """Return the sequence of samples that are on no grid; empty unless it is of all samples.

    `hit_index` i32[n] is the hit of each sample; `reach` as in `tick_sequence`.
    """
    samples, hits = whole.samples, whole.hits
    cpu, time_ns = samples.cpu, samples.time_ns
    of_event = hits.event == event_index
    if not of_event.all():
        chosen = np.flatnonzero(of_event.take(samples.hit_index))
        hit_index, cpu, time_ns = hit_index[chosen], cpu[chosen], time_ns[chosen]
    if len(hit_index) != int(hits.count[of_event].sum()) or not time_ns.any():
        return np.empty(0, np.int32)
    return plain_sequence(hit_index, cpu, time_ns, reach)
