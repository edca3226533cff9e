"""Changes between two means: intervals, relative sizes, p-values; a table of them.

`judge` answers `--fail-if`: its condition is met if the change is more than the limit with the
required confidence, and not met if it is less with that confidence. docs/diff.md explains the
figures.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from prospect.estimate.statistics.beta import (
    binomial_two_sided,
    student_quantile,
    student_two_sided,
)
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from prospect.columns.array_types import F64, I64, Bools
    from prospect.estimate.compare.matching import Kind
    from prospect.estimate.compare.option_texts import Condition
    from prospect.estimate.compare.variation import Spread


CONFIDENCE = 0.95
# With fewer hits on a side the normal approximation of a count is too narrow.
_EXACT_BELOW_HITS = 20
_DECIMALS = 9


class Changes(NamedTuple):
    """f64[r] columns; relative ones are parts of A's time, NaN or infinite if unbounded."""

    change: F64
    half_width: F64
    relative: F64
    relative_low: F64
    relative_high: F64
    p_value: F64


def changes(mean: F64, spread: Spread, hits: I64, exposure: tuple[float, float]) -> Changes:
    """Compare both sides of each row.

    `mean` and `hits` are [r, 2], of the sides. `exposure` is how many hits each side would have of
    a row that took one unit of time.
    """
    before, after = mean[:, 0], mean[:, 1]
    change = after - before
    variance, df = combined(spread, 1.0)
    error = np.sqrt(variance)
    quantile = student_quantile(CONFIDENCE, df)
    t = np.divide(change, error, out=np.zeros_like(change), where=error > 0)
    relative = np.divide(change, before, out=np.full_like(change, np.nan), where=before > 0)
    low, high = _ratio_interval(mean, spread, quantile)
    return Changes(
        change=change,
        half_width=quantile * error,
        relative=relative,
        relative_low=low - 1.0,
        relative_high=high - 1.0,
        p_value=np.maximum(student_two_sided(t, df), _counting_p_value(hits, exposure)),
    )


def one_sided(
    mean: tuple[float, float], spread: Spread, factor: float, confidence: float
) -> tuple[float, float, float]:
    """Compare B with `factor` times A, in one row.

    Returns:
        B less `factor` times A, its standard error, and the one-sided quantile of `confidence`.
    """
    variance, df = combined(spread, factor)
    quantile = student_quantile(2.0 * confidence - 1.0, df)
    return mean[1] - factor * mean[0], float(np.sqrt(variance[0])), float(quantile[0])


def ratio_bounds(
    mean: tuple[float, float], spread: Spread, confidence: float
) -> tuple[float, float]:
    """Return one-sided bounds of B over A, each with `confidence`, in one row."""
    _, df = combined(spread, 1.0)
    quantile = student_quantile(2.0 * confidence - 1.0, df)
    low, high = _ratio_interval(np.array([mean]), spread, quantile)
    return float(low[0]), float(high[0])


def combined(spread: Spread, factor: float) -> tuple[F64, F64]:
    """Return variance and degrees of freedom, f64[r] each, of B's mean less `factor` times A's.

    Source: Satterthwaite, Biometrics Bulletin 2 (1946).
    """
    weight = np.array([factor**2, 1.0])
    variance = np.zeros(len(spread.row))
    squares = np.zeros(len(spread.row))  # of variances, each over its degrees of freedom
    for part, df in ((spread.common, spread.common_df), (spread.row, spread.row_df)):
        weighed = part * weight
        variance = variance + weighed.sum(axis=1)
        if spread.is_shared:
            squares += weighed.sum(axis=1) ** 2 / np.maximum(df[:, 0], 1.0)
        else:
            squares += (weighed**2 / np.maximum(df, 1.0)).sum(axis=1)
    df = np.divide(variance**2, squares, out=np.full_like(variance, np.inf), where=squares > 0)
    return variance, np.maximum(df, 1.0)


def _counting_p_value(hits: I64, exposure: tuple[float, float]) -> F64:
    """Return f64[r]: the probability of such unequal counts; 0 with many hits on both sides.

    Given their sum, two Poisson counts are binomial.
    Source: Przyborowski and Wilenski, Biometrika 31 (1940).
    """
    few = hits.min(axis=1) < _EXACT_BELOW_HITS
    p_value = np.zeros(len(hits))
    share = exposure[1] / (exposure[0] + exposure[1])
    p_value[few] = binomial_two_sided(hits[few, 1], hits[few].sum(axis=1), share)
    return p_value


def _ratio_interval(mean: F64, spread: Spread, quantile: F64) -> tuple[F64, F64]:
    """Return the interval of B's mean over A's, f64[r] each; infinite if A may be nothing.

    Source: Fieller, J. R. Statist. Soc. B 16 (1954).
    """
    variance = spread.common + spread.row
    before, after = mean[:, 0], mean[:, 1]
    square = quantile**2
    a = before**2 - square * variance[:, 0]
    b = before * after
    c = after**2 - square * variance[:, 1]
    root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    bounded = a > 0
    safe = np.where(bounded, a, 1.0)
    low = np.where(bounded, np.maximum((b - root) / safe, 0.0), 0.0)
    high = np.where(bounded, (b + root) / safe, np.inf)
    return low, high


class ChangeTable(Record):
    """The rows of one kind: significant ones first, by the size of their change, then by time.

    Rows with too few hits to be tested come last. Times are seconds per unit of work. Missing
    values are NaN.

    Attributes:
        kind: "total", "mode", "process", "object", "function", or "inclusive": functions with all
            that they call, of all modes together.
        name, object: "" for a function without a name, and if there is none.
        hits: i64[r, 2] of all recordings of a side.
        mean: f64[r, 2] time of A and of B.
        change, half_width: f64[r] B - A, and half the width of its 95 % interval.
        relative, relative_low, relative_high: f64[r] the change as a part of A's time, with its
            interval; infinite if there is no bound.
        p_value, q_value: f64[r] NaN for rows that are not tested.
        significant: bool[r] whether q_value is within the rate of false discoveries.
    """

    kind: Kind
    name: list[str]
    object: list[str]
    mode: I64
    hits: I64
    mean: F64
    change: F64
    half_width: F64
    relative: F64
    relative_low: F64
    relative_high: F64
    p_value: F64
    q_value: F64
    significant: Bools

    def __len__(self) -> int:
        return len(self.name)

    def shown(self, rows: int) -> int:
        """Return how many rows, from the first, a report of `rows` rows a table shows.

        These are all significant ones, but no others with too few hits to be tested.
        """
        tested = int(np.count_nonzero(~np.isnan(self.p_value)))
        return max(int(np.count_nonzero(self.significant)), min(rows, tested))


def in_order(table: ChangeTable) -> ChangeTable:
    """Sort significant rows by the size of their change, then the others by their time.

    Ties, to the nanosecond, are by p-value: the last digits of sums differ by CPU.
    """
    size = np.where(table.significant, np.abs(table.change), table.mean.max(axis=1, initial=0.0))
    surer, larger = np.round(table.p_value, _DECIMALS), -np.round(size, _DECIMALS)
    order = np.lexsort((surer, larger, np.isnan(table.p_value), ~table.significant))
    columns: dict[str, Any] = {
        name: column.take(order, axis=0)
        for name, column in vars(table).items()
        if isinstance(column, np.ndarray)
    }
    names = [table.name[row] for row in order.tolist()]
    objects = [table.object[row] for row in order.tolist()]
    return replace(table, name=names, object=objects, **columns)


Outcome = Literal["met", "not met", "undecided"]
# Beyond this, the change is too near to the limit for a useful number of recordings.
_MOST_RECORDINGS = 100


class Verdict(Record):
    """The answer to a condition.

    Attributes:
        about: the judged row, in words.
        before, after: mean time of A and of B, in the unit compared.
        relative: the change as a part of A's time; NaN if A has none.
        relative_low, relative_high: its bounds, each with the condition's confidence; infinite if
            there is none.
        recordings_needed: for an undecided one, how many recordings a side would likely decide it
            if the change is as measured; 0 if these are too many.
    """

    condition: Condition
    outcome: Outcome
    about: str
    before: float
    after: float
    relative: float
    relative_low: float
    relative_high: float
    recordings_needed: int


def judge(
    condition: Condition, about: str, mean: tuple[float, float], spread: Spread, recordings: int
) -> Verdict:
    """Judge a condition.

    `mean` is the time of A and of B, in the row that `about` names, and `recordings` the number of
    the side that has more.
    """
    is_two_sided = condition.direction == "different"
    sure = (1.0 + condition.confidence) / 2.0 if is_two_sided else condition.confidence
    more, less, needed = [], [], []
    for direction, factor in (("slower", 1.0 + condition.limit), ("faster", 1.0 - condition.limit)):
        if condition.direction in (direction, "different"):
            sign = 1.0 if direction == "slower" else -1.0
            margin, error, quantile = one_sided(mean, spread, factor, sure)
            more.append(sign * margin - quantile * error)
            less.append(sign * margin + quantile * error)
            needed.append(_recordings(abs(margin), error, sure, recordings))
    if max(more) > 0:
        outcome: Outcome = "met"
    else:
        outcome = "not met" if max(less) < 0 else "undecided"
    before, after = mean
    low, high = ratio_bounds(mean, spread, sure)
    return Verdict(
        condition=condition,
        outcome=outcome,
        about=about,
        before=before,
        after=after,
        relative=after / before - 1.0 if before > 0 else math.nan,
        relative_low=low - 1.0,
        relative_high=high - 1.0,
        recordings_needed=max(needed) if all(needed) and outcome == "undecided" else 0,
    )


def _recordings(margin: float, error: float, sure: float, recordings: int) -> int:
    """Return how many recordings a side make `margin` significant if it is true, 0 for too many."""
    if margin <= 0:
        return 0
    needed = recordings * (NormalDist().inv_cdf(sure) * error / margin) ** 2
    return max(math.ceil(needed), recordings + 1, 3) if needed <= _MOST_RECORDINGS else 0
