"""The part of a recording that a comparison is about.

Comes in: a Profile and a scope (`-V`). Goes out: its hits of one timed event that count, without
those of idle CPUs and of Prospect itself, and what else the machine was doing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.errors import RecordingError
from prospect.estimate.errors.design import sampling_design
from prospect.figures.by_routine import by_routine
from prospect.figures.portions import PORTION_INTERRUPT, hit_portions, is_kernel_portion
from prospect.figures.processes import busy_of_run, chosen_by_detail
from prospect.profile.complete import complete
from prospect.profile.model import sampled
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.estimate.errors.design import Design
    from prospect.figures.processes import Detail
    from prospect.profile.complete import CompleteProfile, ProfileByRoutine
    from prospect.profile.model import Profile
    from prospect.profile.run_info import EventInfo

# A burst shorter than a block counts as one event, which may or may not come again.
_BLOCK_NS = 10_000_000
_MOST_BLOCKS = 4096
# Temporaries of so many samples stay in a processor's cache.
_SAMPLES_AT_ONCE = 1 << 16


class SampleBlocks(NamedTuple):
    """The compared samples, and which of the equal stretches of the run each was taken in.

    Attributes:
        stretches: how many there are, 0 where samples have no times, or there are none.
        hit_index: i[n] row of hits of each compared sample.
        block: i[n] its stretch.
        seconds: f64[n] what it is worth; a broadcast scalar where all are worth the same.
    """

    stretches: int
    hit_index: NDArray[np.integer]
    block: NDArray[np.integer]
    seconds: NDArray[np.float64]


class ComparedRun(Record):
    """A recording as one side, or one of several of a side, of a comparison.

    Attributes:
        profile: each index of each table is a row; its hits may know no addresses.
        event_index: row of `RunInfo.events` of the event whose hits are compared.
        design: how it was sampled.
        counts: bool[h] which rows of `profile.hits` are compared.
        portion: i64[h] PORTION_* of every hit.
        other_load: time of everything else that ran, as a part of all CPUs' time, 0 to 1; NaN
            where the recording is not of the whole system.
        blocks: the samples of these hits in time.
    """

    profile: ProfileByRoutine
    event_index: int
    design: Design
    counts: NDArray[np.bool_]
    portion: NDArray[np.int64]
    other_load: float
    blocks: SampleBlocks

    @property
    def event(self) -> EventInfo:
        """The event whose hits are compared."""
        return self.design.event

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Time of every hit of the event, f64[h]; 0 for hits of others."""
        return self.design.seconds


def compared_run(profile: Profile, scope: Detail) -> ComparedRun:
    """Choose what of `profile` is compared.

    Raises:
        RecordingError: none of its events is worth time.
    """
    profile = _without_addresses(complete(profile))
    index = _timed_event(profile)
    hits, processes = profile.hits, profile.processes
    portion = hit_portions(profile)
    of_event = hits.event == index
    is_idle = (processes.pid == 0).take(hits.process_index) & (portion != PORTION_INTERRUPT)
    runs = of_event & ~is_idle & ~processes.is_recorder.take(hits.process_index)
    counts = runs & chosen_by_detail(processes, scope).take(hits.process_index)
    if scope == "k":
        counts &= is_kernel_portion(portion)
    design = sampling_design(profile, index)
    busy_s = float(design.seconds[runs].sum())
    if profile.run.busy:
        busy_s = busy_of_run(profile.run, index)[1]
    return ComparedRun(
        profile=profile,
        event_index=index,
        design=design,
        counts=counts,
        portion=portion,
        other_load=_other_load(profile, busy_s - float(design.seconds[counts].sum())),
        blocks=sample_blocks(profile, design, counts),
    )


def _without_addresses(profile: CompleteProfile) -> ProfileByRoutine:
    """Return the profile with fewer hits: no table of a comparison knows addresses.

    Where there are no samples, as in a part of a store, hits alone know their stacks, and stay.
    """
    has_stacks = profile.hits.stack_index is not None and not len(profile.samples)
    return profile if has_stacks else by_routine(profile)


def sample_blocks(
    profile: ProfileByRoutine, design: Design, counts: NDArray[np.bool_]
) -> SampleBlocks:
    """Find the stretch of each sample whose hit counts.

    Args:
        profile: of the recording.
        design: how it was sampled.
        counts: bool[h] which hits count.
    """
    source, run = sampled(profile), profile.run
    hit_index, time_ns = source.hit_index, source.profile.samples.time_ns
    if not len(time_ns) or not time_ns.any():
        none = np.empty(0, np.int64)
        return SampleBlocks(0, none, none, np.empty(0))
    begin, end = run.begin_ns, run.end_ns
    if not 0 <= begin < end < 2**63:
        begin, end = int(time_ns.min()), int(time_ns.max())
    if profile.part_of is not None or not counts.all():
        chosen = np.flatnonzero(np.append(counts, False).take(hit_index))
        hit_index, time_ns = hit_index.take(chosen), time_ns.take(chosen)
    count = int(min(max((end - begin) // _BLOCK_NS, 1), _MOST_BLOCKS))
    block = np.empty(len(time_ns), np.int16)
    for first in range(0, len(time_ns), _SAMPLES_AT_ONCE):
        part = slice(first, first + _SAMPLES_AT_ONCE)
        since = np.clip(time_ns[part], begin, end) - np.uint64(begin)
        share = since / np.float64(max(end - begin, 1))
        share *= count
        block[part] = np.minimum(share.astype(np.int64), count - 1)
    return SampleBlocks(count, hit_index, block, _worth(profile, design, counts, hit_index))


def _worth(
    profile: ProfileByRoutine,
    design: Design,
    counts: NDArray[np.bool_],
    hit_index: NDArray[np.integer],
) -> NDArray[np.float64]:
    """Return what samples are worth, f64[n] s, as in `SampleBlocks`."""
    hits = np.maximum(profile.hits.count, 1)
    if design.squares is not None:
        return (design.seconds / hits).take(hit_index)
    each = design.seconds[counts].sum() / max(int(hits[counts].sum()), 1)
    return np.broadcast_to(np.float64(each), hit_index.shape)


def _timed_event(profile: ProfileByRoutine) -> int:
    timed = [
        index
        for index, event in enumerate(profile.run.events)
        if event.seconds_per_period > 0 or event.seconds_per_hit > 0
    ]
    if not timed:
        raise RecordingError(
            f"{profile.run.origin}: none of its events measures time in seconds: "
            "record with a clock or a rate (-H)"
        )
    with_hits = set(distinct(profile.hits.event).tolist())
    return next((index for index in timed if index in with_hits), timed[0])


def _other_load(profile: ProfileByRoutine, seconds: float) -> float:
    run = profile.run
    cpu_seconds = run.wall_seconds * run.cpus
    if not (run.system_wide and math.isfinite(cpu_seconds) and cpu_seconds > 0):
        return math.nan
    return min(max(seconds, 0.0) / cpu_seconds, 1.0)
