"""How the samples of an event were taken: all that error bars need, made once for all rows.

Comes in: a completed Profile and one of its events. Goes out: a `Design`. What a recording lacks
(a grid, times, a second clock) is said in it, and estimates say what they assume instead.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prospect.estimate.clocks.grid import tick_grid
from prospect.estimate.errors.blocks import cut_in_blocks
from prospect.estimate.errors.local_error import compared_lags
from prospect.estimate.errors.sequence import plain_sequence, tick_sequence
from prospect.estimate.errors.successions import successions
from prospect.estimate.errors.ticks import DueTicks, event_ticks
from prospect.figures.portions import event_seconds
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.clocks.grid import Grid
    from prospect.estimate.errors.blocks import Blocks
    from prospect.estimate.errors.successions import Succession
    from prospect.estimate.errors.ticks import OrderedTicks, Ticks
    from prospect.profile.model import Profile
    from prospect.profile.run_info import EventInfo


class Design(Record):
    """How the samples of an event were taken.

    Attributes:
        event: the event.
        clocks: how many clocks count the same time; 1 where the samples are on no grid.
        has_time: whether hits are worth seconds, and so have error bars.
        hits: i64[h] samples of each of the profile's hits, 0 for those of other events.
        seconds: f64[h] their time.
        sequence: i32[s] what each tick hit (`tick_sequence`); None where samples have no times.
        ticks: how many clocks had, where the samples are on their grids; None where there are none.
        blocks: stretches of time in which clocks are compared; None with one clock.
        squares: f64[h] sum of the squared times of each hit's samples, in s²; None where samples
            of the event stand for the same time.
        host_hour: as in the profile's hits, None where all hosts stand for themselves.
        host_share: likewise, as in `RunInfo`.
    """

    event: EventInfo
    clocks: int
    has_time: bool
    hits: NDArray[np.int64]
    seconds: NDArray[np.float64]
    sequence: NDArray[np.int32] | None
    ticks: Ticks | None
    blocks: Blocks | None
    squares: NDArray[np.float64] | None = None
    host_hour: NDArray[np.int32] | None = None
    host_share: float = 1.0

    @cached_property
    def changes(self) -> tuple[Succession, ...] | None:
        """The pairs of different hits some ticks apart: what many tables of hits are made of."""
        if self.sequence is None:
            return None
        return successions(self.sequence, compared_lags(self.clocks))

    @property
    def sees_rhythm(self) -> bool:
        """Whether a program in step with a clock would show, because other clocks disagree."""
        return self.blocks is not None


def sampling_design(profile: Profile, event_index: int, grid: Grid | None = None) -> Design:
    """Find out how the samples of one event were taken.

    Args:
        profile: completed.
        event_index: row of its events.
        grid: the `tick_grid` of its samples, where that is known already.
    """
    event = profile.run.events[event_index]
    hits = profile.hits
    of_event = hits.event == event_index
    count = np.where(of_event, hits.count, 0)
    ticks = event_ticks(profile, event_index, tick_grid(profile) if grid is None else grid)
    clocks = len(ticks.period_ns) if ticks else 1
    reach = compared_lags(clocks)[-1]
    sequence = (
        tick_sequence(ticks, profile.samples.hit_index, reach)
        if ticks
        else _without_grid(profile, of_event, int(count.sum()), reach)
    )
    seconds = np.where(of_event, event_seconds(event, hits.count, hits.period), 0.0)
    return Design(
        event=event,
        clocks=clocks,
        has_time=event.seconds_per_period > 0 or event.seconds_per_hit > 0,
        hits=count,
        seconds=seconds,
        sequence=sequence if len(sequence) else None,
        ticks=ticks.without_samples() if ticks else None,
        blocks=_blocks(profile, ticks),
        squares=(
            _squares(profile, of_event, seconds)
            if event.weighs_periods or hits.host_hour is not None
            else None
        ),
        host_hour=hits.host_hour,
        host_share=profile.run.host_share,
    )


def _blocks(profile: Profile, ticks: OrderedTicks | None) -> Blocks | None:
    if not isinstance(ticks, DueTicks) or len(ticks.period_ns) < 2:
        return None
    return cut_in_blocks(ticks, profile.samples.hit_index, len(profile.hits))


def _squares(
    profile: Profile, of_event: NDArray[np.bool_], seconds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the sum of the squared times of each hit's samples, f64[h] s²."""
    samples, hits = profile.samples, profile.hits
    if samples.period is None or not len(samples):
        return seconds**2 / np.maximum(hits.count, 1)
    period = samples.period.astype(np.float64)
    worth = np.divide(seconds, hits.period, out=np.zeros(len(hits)), where=hits.period > 0)
    squares = np.bincount(samples.hit_index, period * period, len(hits))
    return np.asarray(np.where(of_event, squares * worth * worth, 0.0), np.float64)


def _without_grid(
    profile: Profile, of_event: NDArray[np.bool_], expected: int, reach: int
) -> NDArray[np.int32]:
    """Return the sequence of samples that are on no grid; empty unless it is of all samples."""
    samples = profile.samples
    hit_index, cpu, time_ns = samples.hit_index, samples.cpu, samples.time_ns
    if not of_event.all():
        chosen = np.flatnonzero(of_event.take(hit_index))
        hit_index, cpu, time_ns = hit_index[chosen], cpu[chosen], time_ns[chosen]
    if len(hit_index) != expected or not time_ns.any():
        return np.empty(0, np.int32)
    return plain_sequence(hit_index, cpu, time_ns, reach)
