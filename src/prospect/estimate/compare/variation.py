"""How much runs of the same program differ, beyond sampling errors.

Runs differ by factors common to all rows of a run (the machine's speed, other load) and by each
row's own (layout of memory, caches, chance). The first is seen once a run, however many rows there
are, and has few degrees of freedom. The second is seen once a row and run, so rows lend each other
the degrees of freedom that few recordings lack (`lent_freedom`). A `Spread` is the deviation of
each side's mean from that of endless runs: never less than the sampling error.
Source: Smyth, Linear models and empirical Bayes methods, Stat. Appl. Genet. Mol. Biol. 3 (2004),
for rows that lend each other and for shrinking a row's variance to the expected one, section 6.2
and its appendix for the degrees of freedom; Lund et al., same journal 11 (2012), for a factor over
a trend of the mean, which is here the sampling error and a share of the row's time; Welch,
Biometrika 34 (1947), for two sides of unequal variance.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import F64, I64

_FEWEST_ROWS = 5
_TRIGAMMA_BISECTIONS = 50
# Added to ratios: equal rows have a ratio of 0, without a logarithm.
_LEAST_RATIO = 1e-6

# Degrees of freedom of the assumed variation.
ASSUMED_DF = 8.0
_LEAST_HITS = 10  # a recording and row; with fewer, the sampling error hides the variation
_ROUNDS = 3
_NO_VARIANCE = 1e-300  # of recordings without a hit
_BISECTIONS = 30


def lent_freedom(ratios: Sequence[F64], freedoms: Sequence[int]) -> float:
    """Return the degrees of freedom that rows lend each other: more if they vary alike.

    Never more than the rows were seen with; 0 with too few rows.

    Args:
        ratios: of each group, f64[r] variance seen over variance expected.
        freedoms: of each group, the degrees of freedom of each of its ratios.
    """
    rows = len(ratios[0])
    if rows < _FEWEST_ROWS:
        return 0.0
    # The logarithm of a variance varies by trigamma(d / 2); the rest is rows' own.
    excess = [
        float(np.log(ratio + _LEAST_RATIO).var(ddof=1)) - trigamma(freedom / 2.0)
        for ratio, freedom in zip(ratios, freedoms, strict=True)
    ]
    return min(2.0 * inverse_trigamma(float(np.mean(excess))), float(rows * sum(freedoms)))


def trigamma(x: float) -> float:
    """Return the second derivative of log gamma. Source: DLMF 5.15.5 and 5.15.8."""
    value = 0.0
    while x < 10.0:
        value += 1.0 / x**2
        x += 1.0
    inverse = 1.0 / x
    square = inverse**2
    return (
        value
        + inverse
        + square / 2.0
        + inverse * square * (1.0 / 6.0 - square * (1.0 / 30.0 - square / 42.0))
    )


def inverse_trigamma(value: float) -> float:
    """Return x such that trigamma(x) is `value`; infinite if that is 0 or less."""
    if value <= 1e-9:
        return math.inf
    low, high = -20.0, 25.0  # of log x
    for _ in range(_TRIGAMMA_BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if trigamma(math.exp(middle)) > value else (low, middle)
    return math.exp((low + high) / 2.0)


class Rows(NamedTuple):
    """A table over all recordings, A's before B's: hits i64[r, n]; f64[r, n] in the unit compared.

    `sampling` and `own` are variances, see `compared_run.RowTimes`.
    """

    hits: I64
    values: F64
    sampling: F64
    own: F64


class Variation(Record):
    """How runs differ; standard deviations as parts of a row's time.

    Attributes:
        assumed: neither side has several recordings: `common` is assumed, for each row by itself.
        common: common to all rows of a run, of each side.
        common_df: degrees of freedom of each.
        row: of each row's own.
        row_df: degrees of freedom that rows lend each other; infinite if none are needed.
        factors: f64[n] how much more than its side's mean each recording took, in all rows alike.
    """

    assumed: bool
    common: tuple[float, float]
    common_df: tuple[float, float]
    row: float
    row_df: float
    factors: F64


def side_means(values: F64, before: int) -> F64:
    """Return f64[r, 2]: the means of the first `before` columns and of the others."""
    return np.stack([values[:, :before].mean(axis=1), values[:, before:].mean(axis=1)], axis=1)


def spread_over(means: F64, before: int, count: int) -> F64:
    """Return f64[r, n]: the mean of its side for each recording."""
    return means.take([0] * before + [1] * (count - before), axis=1)


def variation_of(rows: Rows, before: int, assumed: tuple[float, float]) -> Variation:
    """Estimate how runs differ from how the recordings of a side do.

    `rows` are the functions of all recordings, of which the first `before` are A's. `assumed` is
    the variation of A and B if each has one recording, as a part of a row's time.
    """
    count = rows.values.shape[1]
    freedom = (before - 1, count - before - 1)
    if not sum(freedom):
        return Variation(
            assumed=True,
            common=assumed,
            common_df=(ASSUMED_DF, ASSUMED_DF),
            row=0.0,
            row_df=math.inf,
            factors=np.zeros(count),
        )
    well_hit = _well_hit(rows)
    row_variance = assumed[0] ** 2
    for _ in range(_ROUNDS):
        factors = _factors(rows, before, row_variance)
        row_variance = _row_variance(well_hit, factors, before)
    squares = [float((part**2).sum()) for part in (factors[:before], factors[before:])]
    common = [square / df if df else math.nan for square, df in zip(squares, freedom, strict=True)]
    # A single recording is assumed to vary as the other side's do.
    first, second = (common[0] if freedom[0] else common[1], common[1] if freedom[1] else common[0])
    return Variation(
        assumed=False,
        common=(math.sqrt(first), math.sqrt(second)),
        common_df=(freedom[0] or freedom[1], freedom[1] or freedom[0]),
        row=math.sqrt(row_variance),
        row_df=lent_freedom(
            _ratios(well_hit, factors, before, row_variance), [df for df in freedom if df]
        ),
        factors=factors,
    )


def _well_hit(rows: Rows) -> Rows:
    """Return the rows with enough hits to show more than sampling errors; else their sum."""
    chosen = (rows.hits >= _LEAST_HITS).all(axis=1)
    columns: tuple[Any, ...] = rows
    if chosen.any():
        return Rows(*(column[chosen] for column in columns))
    return Rows(*(column.sum(axis=0, keepdims=True) for column in columns))


def _factors(rows: Rows, before: int, row_variance: float) -> F64:
    """Return f64[n]: the common deviation of all rows of a recording, as their average.

    Rows are weighted by their precision; `row_variance` keeps a big row from dominating.
    """
    count = rows.values.shape[1]
    factors = np.zeros(count)
    for side in (slice(0, before), slice(before, count)):
        mean = rows.values[:, side].mean(axis=1)
        present = mean > 0
        mean = mean[present]
        noise = rows.own[present, side].mean(axis=1) / mean**2 + row_variance
        weight = 1.0 / np.maximum(noise, 1e-12)
        if len(weight):
            deviation = rows.values[present, side] / mean[:, None] - 1.0
            factors[side] = weight @ deviation / weight.sum()
    return factors


def _ratios(rows: Rows, factors: F64, before: int, row_variance: float) -> list[F64]:
    """Return how much more rows vary than expected: f64[r] of each side with several recordings."""
    count = rows.values.shape[1]
    mean = spread_over(side_means(rows.values, before), before, count)
    residual = rows.values - mean * (1.0 + factors)
    square = residual**2 / np.maximum(rows.own + row_variance * mean**2, _NO_VARIANCE)
    sides = (square[:, :before], square[:, before:])
    return [side.sum(axis=1) / (side.shape[1] - 1) for side in sides if side.shape[1] > 1]


def _row_variance(rows: Rows, factors: F64, before: int) -> float:
    """Return the relative variance of rows' own that makes rows vary as expected on average."""
    count, columns = rows.values.shape
    mean = spread_over(side_means(rows.values, before), before, columns)
    freedom = np.repeat([before - 1.0, columns - before - 1.0], [before, columns - before])
    repeated = freedom > 0
    square = ((rows.values - mean * (1.0 + factors)) ** 2 / np.maximum(freedom, 1.0))[:, repeated]
    own, mean_square = np.maximum(rows.own[:, repeated], _NO_VARIANCE), mean[:, repeated] ** 2
    sides = (before > 1) + (columns - before > 1)
    # The common factor has removed one row's worth of variation.
    expected = float((count - 1) * sides)

    def excess(row_variance: float) -> float:
        return float((square / (own + row_variance * mean_square)).sum()) - expected

    low, high = 0.0, 1.0
    if excess(low) <= 0:
        return 0.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


class Spread(NamedTuple):
    """Variances of the mean of each row and side, with degrees of freedom; f64[r, 2] each.

    `is_shared`: one estimate is for both sides, and has its degrees of freedom once.
    """

    common: F64
    common_df: F64
    row: F64
    row_df: F64
    is_shared: bool


def spread_of(rows: Rows, before: int, variation: Variation) -> Spread:
    """Return the variance of each row's mean on each side, never less than sampling's.

    `rows` is any table of the recordings that `variation` was estimated from; the first `before` of
    them are A's.
    """
    count = rows.values.shape[1]
    mean = spread_over(side_means(rows.values, before), before, count)
    expected = rows.own + variation.row**2 * mean**2
    residual = rows.values - mean * (1.0 + variation.factors)
    shape = (len(mean), 2)
    spread = Spread(
        common=np.empty(shape),
        common_df=np.empty(shape),
        row=np.empty(shape),
        row_df=np.empty(shape),
        is_shared=min(before, count - before) == 1,
    )
    sides = (slice(0, before), slice(before, count))
    factors = [_moderated(residual[:, side], expected[:, side], variation.row_df) for side in sides]
    for number, side in enumerate(sides):
        columns = expected[:, side].shape[1]
        # A single recording is assumed to vary as the other side's do.
        factor, freedom = factors[number] if columns > 1 else factors[1 - number]
        row = np.maximum(factor[:, None] * expected[:, side], rows.sampling[:, side])
        spread.row[:, number] = row.sum(axis=1) / columns**2
        spread.row_df[:, number] = freedom
        spread.common[:, number] = (variation.common[number] * mean[:, side][:, 0]) ** 2 / columns
        spread.common_df[:, number] = variation.common_df[number]
    return spread


def own_spread_of(rows: Rows, before: int, variation: Variation) -> Spread:
    """Return the same for rows that were chosen beforehand, such as the total: by their own runs.

    This is the plain test of Welch, without other rows, never below the sampling error.
    """
    if variation.assumed:
        return spread_of(rows, before, variation)
    means = side_means(rows.values, before)
    count = rows.values.shape[1]
    shape = (len(means), 2)
    row, row_df = np.empty(shape), np.empty(shape)
    sides = (slice(0, before), slice(before, count))
    for number, side in enumerate(sides):
        columns = rows.values[:, side].shape[1]
        shown_by, scale = number, np.ones(len(means))
        if columns == 1:  # assumed to vary as the other side does, as a part of its time
            shown_by = 1 - number
            scale = np.divide(
                means[:, number], means[:, shown_by], out=scale, where=means[:, shown_by] > 0
            )
        seen = rows.values[:, sides[shown_by]]
        sampling = rows.sampling[:, side].mean(axis=1)
        row[:, number] = np.maximum(scale**2 * seen.var(axis=1, ddof=1), sampling) / columns
        row_df[:, number] = seen.shape[1] - 1
    is_shared = min(before, count - before) == 1
    return Spread(np.zeros(shape), np.full(shape, math.inf), row, row_df, is_shared)


def _moderated(residual: F64, expected: F64, lent_df: float) -> tuple[F64, float]:
    """Return f64[r]: how much more than expected rows vary, shrunk to 1; and its degrees."""
    freedom = residual.shape[1] - 1
    if math.isinf(lent_df) or not freedom:
        return np.ones(len(residual)), math.inf
    ratio = (residual**2 / expected).sum(axis=1) / freedom
    return (lent_df + freedom * ratio) / (lent_df + freedom), lent_df + freedom
