"""Error bars: how far each row's time may be from the truth, by sampling.

Each row, with each hit in at most one, has an interval that contains the row's true time in 95 of
100 runs, as far as sampling makes it uncertain. Differences in the program's next run are not an
error of this report.

Two estimates of the variance are compared. `local_error` is precise, and correct for programs
without a rhythm. The clocks' disagreement over the whole run is correct for any program, but it is
the variance of K sums, with K - 1 degrees of freedom only. The disagreement in shorter blocks has
many, and decides: if it agrees with the first estimate, within chance, that one is used; if it is
more or less, the program runs in some rhythm, and only the whole run's is used. (Less, too: in a
steady rhythm errors compensate each other.) As the second is correct in either case, a wrong choice
costs width and not truth.

Samples of a hardware counter represent different times (`Design.squares`), and the counter's rate
has an error of its own (`relative_error`).

If only a share of hosts was measured, chosen again each hour, their choice adds an error
(`host_error`). Each host was chosen for an hour independently, with probability p, and counts 1/p
times: of the sum of such weighted times y, by row, host and hour, the estimated variance is
Σ (1 - p) y². Source: Särndal, Swensson and Wretman, Model Assisted Survey Sampling (1992), section
3.2, Poisson sampling. All other estimates are of the error that samples within a host add.

Tables that are estimated together share `Parts`: hits that none of them separates, merged. Most
tables show the kernel by function or entry reason and all else by process, so that few of the
changes between hits are changes between parts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import alike
from prospect.estimate.errors.clock_sums import clock_sums, merged_cells
from prospect.estimate.errors.local_error import LocalError, compared_lags, local_error, successions
from prospect.estimate.statistics.row_limits import (
    adjusted,
    approximate_student_quantile,
    effective_limits,
)
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import F64, I32, I64, Bools, Ints
    from prospect.estimate.errors.clock_sums import Cells, ClockSums
    from prospect.estimate.errors.design import Design
    from prospect.estimate.errors.local_error import Succession

_LEAST_FREEDOM = 2.0

CONFIDENCE = 0.95
_NORMAL = 1.9599639845400536  # of the normal distribution, for CONFIDENCE
# The disagreement of blocks is within chance up to here, in standard deviations: 1 row in 80.
_WITHIN_CHANCE = 2.5
_LEAST_CHANGES = 6
# Degrees of freedom above those of the clocks' sums: errors in a rhythm are bounded, unlike normal
# ones, and mostly one clock's, so that Student's t for K - 1 would cover more than it says.
_BOUNDED = 1.0
# The error of a clock's phase, in ticks.
_PHASE_ERROR = 0.02


def host_error(design: Design, row_of_hit: I32, other: I64, normal: float) -> tuple[F64, F64]:
    """Return half of the interval of each row, and of its difference to its other, f64[r] s each.

    Args:
        row_of_hit: i32[h] the row of each hit, -1 for none.
        other: i64[r] a row to compare each one with, -1 for none.
        normal: the quantile of the normal distribution for the confidence.
    """
    rows = len(other)
    if design.host_hour is None:
        return np.zeros(rows), np.zeros(rows)
    chosen = np.flatnonzero((design.host_hour >= 0) & (row_of_hit >= 0))
    hours = int(design.host_hour.max(initial=0)) + 1
    pair = row_of_hit.take(chosen).astype(np.int64) * hours + design.host_hour.take(chosen)
    distinct, number = np.unique(pair, return_inverse=True)
    seconds = np.bincount(number, design.seconds.take(chosen), len(distinct)).astype(np.float64)
    row, hour = np.divmod(distinct, hours)
    squares = np.bincount(row, seconds**2, rows)
    freedom = np.bincount(row, minlength=rows) - 1.0
    of_other = _values_of(distinct, seconds, other.take(row) * hours + hour)
    between = np.bincount(row, seconds * of_other, rows)
    apart = np.maximum(squares + squares[other] - 2.0 * between, 0.0)
    quantile = approximate_student_quantile(normal, np.maximum(freedom, _LEAST_FREEDOM))
    rest = 1.0 - design.host_share
    return quantile * np.sqrt(rest * squares), quantile * np.sqrt(rest * apart)


def _values_of(keys: I64, values: F64, wanted: I64) -> F64:
    """Return the values of some of the ascending keys, f64[n]; zero for missing keys."""
    if not len(keys):
        return np.zeros(len(wanted))
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys.take(at) == wanted, values.take(at), 0.0)


class Parts(Record):
    """The parts of an event's hits.

    Attributes:
        first_hit: i64[p] the first hit of each part.
        part_of_hit: i32[h] the part of each hit, -1 for none.
        hits: f64[p] samples of each part.
        changes: as `Design.changes`, of parts instead of hits.
        cells: samples of each part by stretch, block and clock; None if `Design.blocks` has none
            or counts hits themselves, and for a single table, which is counted directly.
    """

    first_hit: I64
    part_of_hit: I32
    hits: F64
    changes: tuple[Succession, ...] | None
    cells: Cells | None


class ErrorBars(Record):
    """How far each row's time may be off; all columns are of rows [r].

    Attributes:
        seconds: f64 the row's time, as in the report.
        half_width_s: f64 the distance of the time from the farther end of the interval, printed
            after ±.
        low_s, high_s: f64 the 95 % interval; wider above than below if a row has few hits.
        in_rhythm: bool its clocks disagree more or less than by chance.
        alias_p: f64 the probability that the clocks' counts differ as much by chance; NaN if not
            tested.
        difference_half_width_s: f64 half of the 95 % interval of the difference to `other`; NaN
            for none.
    """

    seconds: F64
    half_width_s: F64
    low_s: F64
    high_s: F64
    in_rhythm: Bools
    alias_p: F64
    difference_half_width_s: F64

    def __len__(self) -> int:
        return len(self.seconds)


class _Spread(Record):
    """The variance of each row's time in s², and the quantile that makes a bar of its root.

    `bias_s` is the known part of the error, `of_ticks` how many ticks there were on its CPUs.
    """

    variance: F64
    quantile: F64
    in_rhythm: Bools
    bias_s: F64
    of_ticks: F64
    alias_p: F64


def error_bars(
    design: Design,
    row_of_hit: I32,
    row_count: int,
    other: I64 | None = None,
    parts: Parts | None = None,
) -> ErrorBars:
    """Estimate the error of each row's time.

    Args:
        row_of_hit: i32[h] the row of each of the profile's hits, -1 for none.
        row_count: how many rows there are, those without a hit included.
        other: i64[r] a row to compare each one with, such as the next in the table; -1 for none.
        parts: hits that this table does not separate, merged, to save time.
    """
    if other is None:
        other = np.full(row_count, -1, np.int64)
    hits = _hits_of_rows(design, row_of_hit, row_count, parts)
    in_rows = np.flatnonzero(row_of_hit >= 0)
    rows = row_of_hit.take(in_rows)
    seconds = np.bincount(rows, design.seconds.take(in_rows), row_count).astype(np.float64)
    local = _local_error(design, row_of_hit, other, hits, parts)
    tick_s = _tick_seconds(design, hits, seconds)
    square_s2 = _square_seconds(design, tick_s)
    of_ticks = np.full(row_count, max(float(design.of_hits), 1.0))
    if design.squares is not None:
        squares = np.bincount(rows, design.squares.take(in_rows), row_count).astype(np.float64)
        typical_s = float(design.squares.sum()) / max(float(design.seconds.sum()), 1e-9)
        tick_s, square_s2 = _weighted(seconds, squares, hits, typical_s)
        hits, of_ticks = seconds / tick_s, design.of_seconds / tick_s
    variance = local.variance * square_s2
    spread = _spread(design, row_of_hit, (variance, local.changes), of_ticks, parts)
    low, high = effective_limits(
        np.minimum(hits, spread.of_ticks), spread.of_ticks, tick_s, spread.variance, spread.quantile
    )
    centre, least = seconds - spread.bias_s, _PHASE_ERROR * tick_s
    low_s = np.clip(centre - low - least, 0.0, seconds)
    high_s = np.maximum(centre + high + least, seconds)
    if design.event.relative_error > 0:
        scale_s = _NORMAL * design.event.relative_error * seconds
        low_s = np.maximum(seconds - np.hypot(seconds - low_s, scale_s), 0.0)
        high_s = seconds + np.hypot(high_s - seconds, scale_s)
    difference = _difference(spread, variance, local.between * square_s2, other)
    if design.host_hour is not None:
        of_hosts_s, between_s = host_error(design, row_of_hit, other, _NORMAL)
        low_s = np.maximum(seconds - np.hypot(seconds - low_s, of_hosts_s), 0.0)
        high_s = seconds + np.hypot(high_s - seconds, of_hosts_s)
        difference = np.hypot(difference, between_s)
    if design.known_share < 1.0:
        # Lost ticks are assumed to hit the same rows as the others.
        high_s = np.maximum(high_s / design.known_share, high_s)
        difference = difference / design.known_share
    return ErrorBars(
        seconds=seconds,
        half_width_s=np.where(hits > 0, np.maximum(seconds - low_s, high_s - seconds), 0.0),
        low_s=np.where(hits > 0, low_s, 0.0),
        high_s=np.where(hits > 0, high_s, 0.0),
        in_rhythm=spread.in_rhythm,
        alias_p=spread.alias_p,
        difference_half_width_s=difference,
    )


def _hits_of_rows(design: Design, row_of_hit: I32, row_count: int, parts: Parts | None) -> F64:
    """Return the samples of each row, f64[r]: whole numbers, exact in any order of addition."""
    # Shifted by one, so that hits in no row need no extra pass.
    if parts is None:
        found = np.bincount(row_of_hit + 1, design.hits, row_count + 1)
    else:
        row_of_part = row_of_hit.take(parts.first_hit)
        found = np.bincount(row_of_part + 1, parts.hits, row_count + 1)
    return found[1:].astype(np.float64)


def _local_error(
    design: Design, row_of_hit: I32, other: I64, hits: F64, parts: Parts | None
) -> LocalError:
    """Return the error of a program without a rhythm; of a random one, if samples lack times."""
    if parts is not None and parts.changes is not None:
        row_of_part = row_of_hit.take(parts.first_hit)
        return local_error(parts.changes, row_of_part, other, design.clocks)
    if design.changes is not None:
        return local_error(design.changes, row_of_hit, other, design.clocks)
    total = max(float(design.of_hits), 1.0)
    return LocalError(
        variance=hits * (1.0 - hits / total),
        changes=(2.0 * hits).astype(np.int64),
        between=2.0 * hits * hits[other] / total,
    )


def _tick_seconds(design: Design, hits: F64, seconds: F64) -> F64:
    """Return the time of one tick in each row, f64[r]."""
    if design.ticks:
        rate_hz = float((1e9 / design.ticks.period_ns).sum())
        return np.full(len(hits), 1.0 / rate_hz)
    whole = float(seconds.sum()) / max(float(hits.sum()), 1.0)
    by_row = np.divide(seconds, hits, out=np.full(len(hits), whole), where=hits > 0)
    return np.asarray(by_row, np.float64)


def _square_seconds(design: Design, tick_s: F64) -> F64:
    """Return the square of a tick in s², f64[r]: a little more if periods differ."""
    if not design.ticks:
        return np.square(tick_s)
    mean_s = float(design.ticks.period_ns.mean()) * 1e-9
    return np.asarray(tick_s * (mean_s / design.clocks), np.float64)


def _weighted(seconds: F64, squares: F64, hits: F64, typical_s: float) -> tuple[F64, F64]:
    """Return the same two, f64[r] each, if samples represent different times.

    n samples of times w are as uncertain as (Σw)²/Σw² equal ones of Σw²/Σw each (Kish, Survey
    Sampling, 1965, section 11.7). A row that was only seen while samples represent little may have
    been missed while they represent much, so its tick is at least the mean tick of all.
    """
    own_s = np.divide(squares, seconds, out=np.zeros(len(seconds)), where=seconds > 0)
    tick_s = np.maximum(own_s, typical_s if typical_s > 0 else 1.0)
    return tick_s, np.divide(seconds * tick_s, hits, out=np.zeros(len(hits)), where=hits > 0)


def _spread(
    design: Design, row_of_hit: I32, local: tuple[F64, I64], of_ticks: F64, parts: Parts | None
) -> _Spread:
    """Return the uncertainty of rows; `local` is the variance of each in s², and its changes."""
    variance, changes = local
    rows = len(variance)
    normal = np.full(rows, _NORMAL)
    if design.ticks is None or design.blocks is None:
        return _Spread(
            variance=variance,
            quantile=normal,
            in_rhythm=np.zeros(rows, np.bool_),
            bias_s=np.zeros(rows),
            of_ticks=of_ticks,
            alias_p=np.full(rows, np.nan),
        )
    merged = None
    if parts is not None and parts.cells is not None:
        merged = parts.cells, row_of_hit.take(parts.first_hit)
    sums = clock_sums(design.ticks, design.blocks, row_of_hit, rows, merged)
    in_rhythm = _in_rhythm(sums, variance) & (changes >= _LEAST_CHANGES)
    whole = sums.by_level[0]
    freedom = whole.freedom + _BOUNDED
    period_s = design.ticks.period_ns.mean() * 1e-9
    # The resolution of a clock's count: one change falls anywhere between two ticks.
    resolution = np.bincount(sums.row, minlength=rows) * period_s**2 / (12.0 * design.clocks)
    ticks = design.ticks.count
    return _Spread(
        variance=np.where(in_rhythm, whole.variance * 1e-18 + resolution, variance),
        quantile=np.where(in_rhythm, approximate_student_quantile(_NORMAL, freedom), normal),
        in_rhythm=in_rhythm,
        bias_s=sums.bias_ns * 1e-9,
        of_ticks=np.bincount(sums.row, ticks.sum(axis=1).take(sums.stretch), rows).astype(
            np.float64
        ),
        alias_p=homogeneity(sums, ticks, rows),
    )


def _in_rhythm(sums: ClockSums, variance: F64) -> Bools:
    """Return bool[r]: whether the clocks disagree more or less than by chance, in any blocks.

    Source: Wilson and Hilferty, Proc. Nat. Acad. Sci. 17 (1931): the cube root of a mean of
    squares is nearly normal.
    """
    result = np.zeros(len(variance), np.bool_)
    for level in sums.by_level:
        known = variance > 0
        ratio = np.divide(level.variance * 1e-18, variance, out=np.ones(len(variance)), where=known)
        spread = 2.0 / (9.0 * level.freedom)
        result |= known & (np.abs(np.cbrt(ratio) - 1.0 + spread) > _WITHIN_CHANCE * np.sqrt(spread))
    return result


def _difference(spread: _Spread, variance: F64, between: F64, other: I64) -> F64:
    """Return half of the 95 % interval of each row's difference to its other, f64[r] s.

    When one of two rows has a tick, the other has none, so their errors are opposed, in a rhythm
    perhaps entirely.
    """
    bar = spread.quantile * np.sqrt(spread.variance)
    rhythm = spread.in_rhythm | spread.in_rhythm[other]
    local = variance + variance[other] + between
    by_chance = spread.quantile * np.sqrt(np.maximum(local, 0.0))
    half = np.where(rhythm, bar + bar[other], by_chance)
    return np.where(other >= 0, half, np.nan)


def half_widths(design: Design, row_of_hit: Ints, rows: int, parts: Parts | None = None) -> F64:
    """Return half of each row's 95 % interval, f64[rows] s; NaN if the event has none.

    `row_of_hit` is [h], -1 for none; `parts` as in `error_bars`.
    """
    if not (design.has_bars and rows):
        return np.full(rows, np.nan)
    row = row_of_hit.astype(np.int32, copy=False)
    return error_bars(design, row, rows, parts=parts).half_width_s


def parts_of(design: Design, tables: Sequence[I32]) -> Parts:
    """Merge the hits that are in the same row of each of these tables.

    Each table is i32[h], the row of each hit, -1 for none.
    """
    merged = alike([rows + np.int32(1) for rows in tables])
    part_of_hit, first_hit = merged.place, merged.row
    if len(first_hit) and all(rows[first_hit[0]] < 0 for rows in tables):
        # The first part is of the hits in no table.
        part_of_hit, first_hit = part_of_hit - np.int32(1), first_hit[1:]
    ticks, blocks, changes, cells = design.ticks, design.blocks, None, None
    if design.sequence is not None:
        changes = successions(design.sequence, compared_lags(design.clocks), part_of_hit)
    if ticks is not None and blocks is not None and blocks.hits is None and len(tables) > 1:
        cells = merged_cells(ticks, blocks, part_of_hit, len(first_hit))
    hits = np.bincount(part_of_hit + 1, design.hits, len(first_hit) + 1)[1:]
    return Parts(first_hit, part_of_hit, hits.astype(np.float64), changes, cells)


# The alias alarm: rows whose program runs in step with a clock.
#
# Clocks of different rates see the same program. One that is in step with it counts far too much or
# too little, unlike the others. A single clock cannot detect such a program.
#
# Counts on a grid vary by less than the binomial distribution, so the test raises fewer false
# alarms than promised. Source: Pearson's test of homogeneity (Philosophical Magazine 50, 1900),
# with the rate of false discoveries controlled by Benjamini and Hochberg, J. R. Statist. Soc. B 57
# (1995).

_erfc = np.frompyfunc(math.erfc, 1, 1)

FALSE_DISCOVERIES = 0.01
# With fewer hits the distribution of Pearson's sum is too coarse for so small a rate.
_LEAST_HITS = 20


def chi_square_tail(statistic: F64, freedom: F64) -> F64:
    """Return the probability of at least `statistic` by chance, f64[n]."""
    spread = 2.0 / (9.0 * freedom)
    deviation = (np.cbrt(statistic / freedom) - 1.0 + spread) / np.sqrt(spread)
    return np.asarray(0.5 * _erfc(deviation / math.sqrt(2.0)), np.float64)


def homogeneity(sums: ClockSums, ticks: I64, rows: int) -> F64:
    """Return the p-value that each row's counts by clock are equal but for chance, f64[r].

    `ticks` i64[s, K] are those of each clock in each stretch.

    Returns:
        NaN for rows with too few hits for the test.
    """
    had = ticks.take(sums.stretch, axis=0).astype(np.float64)
    all_hits, all_ticks = sums.hits.sum(axis=1), had.sum(axis=1)
    share = np.clip(all_hits / np.maximum(all_ticks, 1.0), 0.0, 1.0)
    expected = had * share[:, None]
    # A row that fills its CPU has no variance, and no degrees of freedom.
    spread = expected * (1.0 - share[:, None])
    counts = (spread > 0).all(axis=1)
    square = np.divide(
        (sums.hits - expected) ** 2, spread, out=np.zeros_like(spread), where=spread > 0
    ).sum(axis=1)
    statistic = np.bincount(sums.row[counts], square[counts], rows)
    freedom = np.bincount(sums.row[counts], minlength=rows) * (ticks.shape[1] - 1.0)
    hits = np.bincount(sums.row, all_hits, rows)
    tested = (freedom > 0) & (hits >= _LEAST_HITS)
    tail = np.full(rows, np.nan)
    tail[tested] = chi_square_tail(statistic[tested], freedom[tested])
    return tail


def alarms(p_values: F64) -> Bools:
    """Return bool[r]: the marked rows, of which at most 1 % are so by chance.

    `p_values` are of all rows of a report, NaN if not tested.
    """
    return np.nan_to_num(adjusted(p_values), nan=1.0) <= FALSE_DISCOVERIES
