"""The compared part of a recording, and the time of each row in it.

The part is the hits of one timed event that a scope (`-V`) chooses, without those of idle CPUs and
of Prospect itself. The seconds of a row have two variances: of sampling alone, and of sampling with
the run's own unsteadiness.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import is_scalar
from prospect.columns.grouping import distinct_keys, tallied
from prospect.columns.sorting import distinct
from prospect.errors import RecordingError
from prospect.estimate.compare.variation import Rows
from prospect.estimate.errors.design import sampling_design
from prospect.estimate.errors.error_bars import CONFIDENCE, error_bars, parts_of
from prospect.estimate.statistics.beta import student_quantile
from prospect.figures.modes import MODE_INTERRUPT, event_has_time, hit_modes, is_kernel_mode
from prospect.figures.processes import busy_of_run, chosen_by_detail
from prospect.figures.selection import by_function
from prospect.profile.complete import complete
from prospect.profile.model import sampled
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import F64, I32, I64, Bools, Ints
    from prospect.estimate.errors.design import Design
    from prospect.estimate.errors.error_bars import Parts
    from prospect.options import Detail
    from prospect.profile.complete import CompleteProfile, ProfileByFunction
    from prospect.profile.model import Profile
    from prospect.profile.run_info import EventInfo

# A burst shorter than a block counts as one event, which may or may not recur.
_BLOCK_NS = 10_000_000
_MOST_BLOCKS = 4096
# Temporaries of so many samples stay in a CPU's cache.
_SAMPLES_AT_ONCE = 1 << 16

_FEWEST_BLOCKS = 8


class SampleBlocks(NamedTuple):
    """The compared samples, and the stretch of the run of each; stretches are equally long.

    Attributes:
        stretches: how many there are, 0 if samples have no times, or there are none.
        hit_index: i[n] row of hits of each compared sample.
        block: i[n] its stretch.
        seconds: f64[n] its time; a broadcast scalar if all are equal.
    """

    stretches: int
    hit_index: Ints
    block: Ints
    seconds: F64


class ComparedRun(Record):
    """A recording as one side, or one of several of a side, of a comparison.

    Attributes:
        profile: with a row for each index; its hits may have no addresses.
        event_index: row of `RunInfo.events` of the event whose hits are compared.
        counts: bool[h] the rows of `profile.hits` that are compared.
        mode: i64[h] MODE_* of every hit.
        other_load: time of everything else that ran, as a share of all CPUs' time, 0 to 1; NaN if
            the recording is not of the whole system.
        blocks: the samples of these hits in time.
    """

    profile: ProfileByFunction
    event_index: int
    design: Design
    counts: Bools
    mode: I64
    other_load: float
    blocks: SampleBlocks

    @property
    def event(self) -> EventInfo:
        """The event whose hits are compared."""
        return self.design.event

    @property
    def seconds(self) -> F64:
        """Time of every hit of the event, f64[h]; 0 for hits of other events."""
        return self.design.seconds


def compared_run(profile: Profile, scope: Detail) -> ComparedRun:
    """Choose the compared part of `profile`.

    Raises:
        RecordingError: none of its events is time.
    """
    profile = _without_addresses(complete(profile))
    index = _timed_event(profile)
    hits, processes = profile.hits, profile.processes
    mode = hit_modes(profile)
    of_event = hits.event == index
    is_idle = (processes.pid == 0).take(hits.process_index) & (mode != MODE_INTERRUPT)
    runs = of_event & ~is_idle & ~processes.is_recorder.take(hits.process_index)
    counts = runs & chosen_by_detail(processes, scope).take(hits.process_index)
    if scope == "k":
        counts &= is_kernel_mode(mode)
    design = sampling_design(profile, index)
    busy_s = float(design.seconds[runs].sum())
    if profile.run.busy:
        busy_s = busy_of_run(profile.run, index)[1]
    return ComparedRun(
        profile=profile,
        event_index=index,
        design=design,
        counts=counts,
        mode=mode,
        other_load=_other_load(profile, busy_s - float(design.seconds[counts].sum())),
        blocks=sample_blocks(profile, design, counts),
    )


def _without_addresses(profile: CompleteProfile) -> ProfileByFunction:
    """Return the profile with fewer hits: no table of a comparison has addresses.

    Without samples, as in a part of a store, only hits have stacks, and stay.
    """
    has_stacks = profile.hits.stack_index is not None and not len(profile.samples)
    return profile if has_stacks else by_function(profile)


def sample_blocks(profile: ProfileByFunction, design: Design, counts: Bools) -> SampleBlocks:
    """Find the stretch of each sample whose hit counts."""
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


def _worth(profile: ProfileByFunction, design: Design, counts: Bools, hit_index: Ints) -> F64:
    """Return the times of samples, f64[n] s, as in `SampleBlocks`."""
    hits = np.maximum(profile.hits.count, 1)
    if design.squares is not None:
        return (design.seconds / hits).take(hit_index)
    each = design.seconds[counts].sum() / max(int(hits[counts].sum()), 1)
    return np.broadcast_to(np.float64(each), hit_index.shape)


def _timed_event(profile: ProfileByFunction) -> int:
    timed = [at for at, event in enumerate(profile.run.events) if event_has_time(event)]
    if not timed:
        raise RecordingError(
            f"{profile.run.origin}: none of its events measures time in seconds: "
            "record with a clock or a rate (-H)"
        )
    with_hits = set(distinct(profile.hits.event).tolist())
    return next((index for index in timed if index in with_hits), timed[0])


def _other_load(profile: ProfileByFunction, seconds: float) -> float:
    run = profile.run
    cpu_seconds = run.wall_seconds * run.cpus
    if not (run.system_wide and math.isfinite(cpu_seconds) and cpu_seconds > 0):
        return math.nan
    return min(max(seconds, 0.0) / cpu_seconds, 1.0)


class RowTimes(Record):
    """The rows of a table in one recording.

    Attributes:
        sampling_variance: f64[r] s², of the sampling error alone; over 0 without a hit too.
        own_variance: f64[r] s², at least that: from differences of neighbouring blocks of the run.
    """

    hits: I64
    seconds: F64
    sampling_variance: F64
    own_variance: F64


class RunParts(NamedTuple):
    """Compared hits that no table of a comparison separates, merged.

    Attributes:
        blocks: as `ComparedRun.blocks`, of parts instead of samples; `hit_index` is their number.
    """

    parts: Parts
    blocks: SampleBlocks


def run_parts(run: ComparedRun, tables: Sequence[I64]) -> RunParts:
    """Merge the compared hits of a recording that are in the same row of each of these tables.

    Each table is i64[h], the row of each hit; every compared hit has one.
    """
    parts = parts_of(run.design, [rows.astype(np.int32) for rows in tables])
    samples = run.blocks
    blocks = max(samples.stretches, 1)
    found, seconds = _by_cell(samples, parts.part_of_hit, len(parts.first_hit), blocks)
    part, block = np.divmod(found, blocks)
    return RunParts(parts, samples._replace(hit_index=part, block=block, seconds=seconds))


def _by_cell(samples: SampleBlocks, part_of_hit: I32, parts: int, blocks: int) -> tuple[I64, F64]:
    """Return part times `blocks` + block of each that has samples, i64[c], and their time, f64."""
    bound = parts * blocks
    kind = np.uint32 if bound <= 1 << 32 else np.uint64
    cell: NDArray[np.unsignedinteger] = np.empty(len(samples.block), kind)
    for first in range(0, len(cell), _SAMPLES_AT_ONCE):
        at = slice(first, first + _SAMPLES_AT_ONCE)
        own = part_of_hit.take(samples.hit_index[at]).astype(np.int64)
        own *= blocks
        own += samples.block[at]
        cell[at] = own
    if is_scalar(samples.seconds):
        value, times = tallied(cell)
        return value.view(np.int64), times * samples.seconds[:1]
    found, place = distinct_keys(cell.astype(np.int64), bound)
    return found, np.bincount(place, samples.seconds, len(found)).astype(np.float64)


def row_times(
    run: ComparedRun, row_of_hit: I64, row_count: int, merged: RunParts | None = None
) -> RowTimes:
    """Add up a recording's hits by row.

    `row_of_hit` is i64[h], -1 for none. `merged` are the parts of tables with this one among them,
    to save time.
    """
    member = row_of_hit >= 0
    row = row_of_hit[member]
    count = run.profile.hits.count[member]
    hits = np.bincount(row, count, row_count).astype(np.int64)
    seconds = np.bincount(row, run.seconds[member], row_count).astype(np.float64)
    parts = merged.parts if merged else None
    bars = error_bars(run.design, row_of_hit.astype(np.int32), row_count, parts=parts)
    error = bars.half_width_s / student_quantile(CONFIDENCE, np.full(row_count, np.inf))
    # In any case, one hit more or less is possible.
    sampling = np.maximum(error, seconds_per_hit(run)) ** 2
    samples, row_of = run.blocks, row_of_hit
    if merged:
        samples, row_of = merged.blocks, row_of_hit.take(merged.parts.first_hit)
    own = np.maximum(sampling, _successive_variance(samples, row_of, row_count))
    return RowTimes(hits, seconds, sampling, own)


def rows_of(
    runs: Iterable[tuple[ComparedRun, I64, RunParts | None]], row_count: int, divisor: F64
) -> Rows:
    """Add the hits of all recordings up by row, in the unit compared.

    `runs` are the arguments of `row_times`; `divisor` f64[n] divides the times of each recording.
    """
    times = [row_times(run, row_of_hit, row_count, merged) for run, row_of_hit, merged in runs]
    return Rows(
        hits=np.stack([each.hits for each in times], axis=1),
        values=np.stack([each.seconds for each in times], axis=1) / divisor,
        sampling=np.stack([each.sampling_variance for each in times], axis=1) / divisor**2,
        own=np.stack([each.own_variance for each in times], axis=1) / divisor**2,
    )


def seconds_per_hit(run: ComparedRun) -> float:
    """Return the mean time of a hit of the compared event, in seconds; never 0."""
    hits = run.profile.hits
    of_event = run.seconds > 0
    seconds, count = float(run.seconds[of_event].sum()), int(hits.count[of_event].sum())
    if count > 0 and seconds > 0:
        return seconds / count
    rate_hz = run.event.frequency_hz
    return run.event.seconds_per_hit or (1.0 / rate_hz if rate_hz > 0 else 1e-3)


def _successive_variance(samples: SampleBlocks, row_of_hit: I64, row_count: int) -> F64:
    """Return f64[r] s²: the variance of a row's sum, from differences of neighbouring blocks.

    A slow change, such as a phase of the program, changes few neighbours and adds little; random
    bursts change as many as there are bursts. Zeros if the recording has no times. Source: von
    Neumann, Ann. Math. Statist. 12 (1941), the mean square successive difference; for systematic
    samples Wolter, Introduction to Variance Estimation (2007), chapter 8.
    """
    blocks = samples.stretches
    if blocks < _FEWEST_BLOCKS:
        return np.zeros(row_count)
    row, block, worth = row_of_hit.take(samples.hit_index), samples.block, samples.seconds
    member = row >= 0
    if not member.all():
        row, block, worth = row[member], block[member], worth[member]
    key, place = distinct_keys(row * blocks + block, row_count * blocks)
    seconds = np.bincount(place, worth, len(key))
    of_row, of_block = np.divmod(key, blocks)
    # The sum of squared differences, expanded so that it needs only blocks with a hit.
    weight = 2.0 - (of_block == 0) - (of_block == blocks - 1)
    total = np.bincount(of_row, weight * seconds**2, row_count)
    follows = np.flatnonzero((np.diff(key) == 1) & (np.diff(of_row) == 0))
    product = seconds[follows] * seconds[follows + 1]
    total = total - 2.0 * np.bincount(of_row[follows], product, row_count)
    return np.asarray(np.maximum(total, 0.0) * blocks / (2.0 * (blocks - 1)), np.float64)
