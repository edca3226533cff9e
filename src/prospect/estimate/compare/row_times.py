"""How long each row of one recording took, and how far that may be off.

Comes in: the compared part of a recording and the row of each hit. Goes out: seconds with two
variances: of sampling alone, and of sampling with the run's own unsteadiness.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import is_scalar
from prospect.columns.counting import tallied
from prospect.columns.grouping import distinct_keys
from prospect.estimate.errors.error_bars import CONFIDENCE, error_bars
from prospect.estimate.errors.parts import parts_of
from prospect.estimate.statistics.beta import student_quantile
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.estimate.compare.compared import ComparedRun, SampleBlocks
    from prospect.estimate.errors.parts import Parts

_FEWEST_BLOCKS = 8
# Temporaries of so many samples stay in a processor's cache.
_SAMPLES_AT_ONCE = 1 << 16


class RowTimes(Record):
    """The rows of a table in one recording.

    Attributes:
        hits: i64[r].
        seconds: f64[r].
        sampling_variance: f64[r] s², of the sampling error alone; over 0 without a hit too.
        own_variance: f64[r] s², at least that: what neighbouring blocks of the run differ by.
    """

    hits: NDArray[np.int64]
    seconds: NDArray[np.float64]
    sampling_variance: NDArray[np.float64]
    own_variance: NDArray[np.float64]


class RunParts(NamedTuple):
    """Compared hits that no table of a comparison tells apart, as one.

    Attributes:
        parts: what error bars are made of.
        blocks: as `ComparedRun.blocks`, of parts in place of samples; `hit_index` is their number.
    """

    parts: Parts
    blocks: SampleBlocks


def run_parts(run: ComparedRun, tables: Sequence[NDArray[np.int64]]) -> RunParts:
    """Merge the compared hits of a recording that are in the same row of each of these tables.

    Args:
        run: the compared part of a recording.
        tables: i64[h] each, the row of each hit; that of every compared hit is there.
    """
    parts = parts_of(run.design, [rows.astype(np.int32) for rows in tables])
    samples = run.blocks
    blocks = max(samples.stretches, 1)
    found, seconds = _by_cell(samples, parts.part_of_hit, len(parts.first_hit), blocks)
    part, block = np.divmod(found, blocks)
    return RunParts(parts, samples._replace(hit_index=part, block=block, seconds=seconds))


def _by_cell(
    samples: SampleBlocks, part_of_hit: NDArray[np.int32], parts: int, blocks: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
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
    run: ComparedRun,
    row_of_hit: NDArray[np.int64],
    row_count: int,
    merged: RunParts | None = None,
) -> RowTimes:
    """Sum a recording's hits by row.

    Args:
        run: the compared part of a recording.
        row_of_hit: i64[h] the row of each hit, -1 for none.
        row_count: how many rows there are, those without a hit here included.
        merged: of tables with this one among them, where that is known: to save time.
    """
    member = row_of_hit >= 0
    row = row_of_hit[member]
    count = run.profile.hits.count[member]
    hits = np.bincount(row, count, row_count).astype(np.int64)
    seconds = np.bincount(row, run.seconds[member], row_count).astype(np.float64)
    parts = merged.parts if merged else None
    bars = error_bars(run.design, row_of_hit.astype(np.int32), row_count, parts=parts)
    error = bars.half_width_s / student_quantile(CONFIDENCE, np.full(row_count, np.inf))
    # Whatever else is known, a hit more or less may have been just missed.
    sampling = np.maximum(error, seconds_per_hit(run)) ** 2
    samples, row_of = run.blocks, row_of_hit
    if merged:
        samples, row_of = merged.blocks, row_of_hit.take(merged.parts.first_hit)
    own = np.maximum(sampling, _successive_variance(samples, row_of, row_count))
    return RowTimes(hits, seconds, sampling, own)


def seconds_per_hit(run: ComparedRun) -> float:
    """Return what a hit of the compared event is worth on average, in seconds; never 0."""
    hits = run.profile.hits
    of_event = run.seconds > 0
    seconds, count = float(run.seconds[of_event].sum()), int(hits.count[of_event].sum())
    if count > 0 and seconds > 0:
        return seconds / count
    rate_hz = run.event.frequency_hz
    return run.event.seconds_per_hit or (1.0 / rate_hz if rate_hz > 0 else 1e-3)


def _successive_variance(
    samples: SampleBlocks, row_of_hit: NDArray[np.int64], row_count: int
) -> NDArray[np.float64]:
    """Return f64[r] s²: the variance of a row's sum, from differences of neighbouring blocks.

    A slow change, such as a phase of the program, makes few neighbours differ and costs little;
    bursts that come at random make as many differ as there are bursts. Zeros where the recording
    has no times.
    Source: von Neumann, Ann. Math. Statist. 12 (1941), the mean square successive difference; for
    systematic samples Wolter, Introduction to Variance Estimation (2007), chapter 8.
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
    # The sum of squared differences, written out so that only blocks with a hit are looked at.
    weight = 2.0 - (of_block == 0) - (of_block == blocks - 1)
    total = np.bincount(of_row, weight * seconds**2, row_count)
    follows = np.flatnonzero((np.diff(key) == 1) & (np.diff(of_row) == 0))
    product = seconds[follows] * seconds[follows + 1]
    total = total - 2.0 * np.bincount(of_row[follows], product, row_count)
    return np.asarray(np.maximum(total, 0.0) * blocks / (2.0 * (blocks - 1)), np.float64)
