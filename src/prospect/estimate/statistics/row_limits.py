"""Limits of a row's time and of quantiles, and rows that can be told apart.

The limits of a time are asymmetric if hits are few. A row of n single hits is a Poisson count: 1
hit may have been 0.1 or 4.7. A row with another variance is treated as the count that would have
that variance, each hit of it worth more or less than a tick.
Source: limits of a Poisson count as quantiles of Gamma(n + 1/2), the equal-tailed Jeffreys
interval, which holds the truth in 95 % of cases on average over rates (Brown, Cai and DasGupta,
Statistica Sinica 13, 2003) and is close to the mid-P limits (Lancaster, J. Amer. Statist. Assoc.
56, 1961), but is defined for counts that are not whole; the quantiles by Wilson and Hilferty
(Proc. Nat. Acad. Sci. 17, 1931).

The limits of quantiles assume no distribution: the number of values below the true quantile of
order q is binomial, so that two order statistics enclose it with a known probability (David and
Nagaraja, Order Statistics, 3rd edition, 7.1).

Neighbours in a table are compared by the error of their difference; the run length that would
separate them follows from it. Of many tests at once, few that are called a difference are wrong.
Source: for the digits of times the Particle Data Group's rule (Review of Particle Physics,
Introduction, section 5.3): of an error's three leading digits, 100 to 354 leave two, 355 to 949
one, and 950 to 999 are rounded up to 1000, of which two are left. For many tests Benjamini and
Hochberg, Controlling the false discovery rate, J. R. Statist. Soc. B 57 (1995); excluding tests
that cannot succeed: Tarone, Biometrics 46 (1990).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from prospect.records import NamedTuple

if TYPE_CHECKING:
    from prospect.columns.array_types import F64, I64, Bools

MOST_DECIMALS = 6
_TWO_DIGITS_UP_TO = 3.545

# Longer runs, by this factor, are not proposed: the rows are practically equal.
_LONGEST_FACTOR = 1000.0


def decimals(half_width_s: float) -> int:
    """Return how many digits after the point a time and its half width are shown with.

    If the half width is 0 or unknown, that is the maximum.
    """
    if not 0 < half_width_s < math.inf:
        return MOST_DECIMALS
    exponent = math.floor(math.log10(half_width_s))
    # 950 becomes 1000: a digit more in front, and two are left, so one after the point as before.
    has_two = half_width_s / 10.0**exponent < _TWO_DIGITS_UP_TO
    return min(max(has_two - exponent, 0), MOST_DECIMALS)


def tied(seconds: F64, above: I64, difference_half_width_s: F64) -> Bools:
    """Return bool[r]: the rows that tie with the one above them, at 95 %.

    `above` i64[r] is the row above, -1 for none; `difference_half_width_s` as in `error_bars`.
    """
    difference = np.abs(seconds - seconds[above])
    return (above >= 0) & ~(difference > np.nan_to_num(difference_half_width_s))


def needed_seconds(seconds: F64, above: I64, difference_half_width_s: F64, wall_s: float) -> F64:
    """Return the length of a run that would separate each row from the one above, f64[r].

    An interval narrows with the square root of the run. Infinite if no run of reasonable
    length would do, NaN if there is no row above.
    """
    difference = np.abs(seconds - seconds[above])
    factor = np.divide(
        difference_half_width_s, difference, out=np.full(len(seconds), np.inf), where=difference > 0
    )
    squared = factor * factor
    needed: F64 = np.full(len(seconds), np.inf)
    np.multiply(squared, wall_s, out=needed, where=squared <= _LONGEST_FACTOR)
    needed[above < 0] = np.nan
    return needed


def separation_sentence(is_alike: Bools, needed_s: F64, what: str) -> str:
    """Return how to separate the first rows of a table; "" if they are separate.

    `what` names them in the plural: "processes".
    """
    if not is_alike.any():
        return ""
    longest = float(needed_s[is_alike].max())
    first = f"The first {len(is_alike)} {what}"
    if not np.isfinite(longest):
        return f"{first} differ by too little for any run of reasonable length to tell them apart."
    return (
        f"{first} cannot all be told apart; a run of about {_rounded(longest)} would separate them."
    )


def _rounded(seconds: float) -> str:
    """Return a length of time with the two digits that an extrapolation supports."""
    for unit, name in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2.0 * unit:
            return f"{float(f'{seconds / unit:.2g}'):g} {name}"
    return f"{float(f'{seconds:.2g}'):g} s"


def adjusted(p_values: F64) -> F64:
    """Return each test's least false-discovery rate at which it is a discovery, f64[n].

    A row that is not tested has a p-value of NaN, and gets NaN.
    """
    result = np.full(len(p_values), np.nan)
    tested = np.flatnonzero(~np.isnan(p_values))
    order = tested[np.argsort(-p_values[tested], kind="stable")]
    rank = np.arange(len(order), 0, -1)
    result[order] = np.minimum.accumulate(p_values[order] * len(order) / rank)
    return np.asarray(np.minimum(result, 1.0), np.float64)


def approximate_student_quantile(normal: float, freedom: F64) -> F64:
    """Return Student's quantiles from the normal distribution's, f64[n], for 2 degrees and more.

    `beta.student_quantile` is exact, for any confidence, and takes a hundredth of a second to make
    its tables; this is right to 1 % for 2 degrees of freedom and to 0.1 % for 3 and more.
    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    z = normal
    terms = (
        (z**3 + z) / 4.0,
        (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0,
        (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0,
        (79.0 * z**9 + 776.0 * z**7 + 1482.0 * z**5 - 1920.0 * z**3 - 945.0 * z) / 92160.0,
    )
    return z + sum(
        (term / freedom**power for power, term in enumerate(terms, 1)), np.zeros_like(freedom)
    )


def count_limits(count: F64, quantile: F64) -> tuple[F64, F64]:
    """Return the limits of the mean of Poisson counts, f64[n] each.

    `count` need not be whole; `quantile` is the normal (or Student's) one of the confidence.
    """
    shape = count + 0.5
    middle = 1.0 - 1.0 / (9.0 * shape)
    width = quantile / (3.0 * np.sqrt(shape))
    low = shape * _cube(np.maximum(middle - width, 0.0))
    return np.minimum(low, count), np.maximum(shape * _cube(middle + width), count)


def _cube(values: F64) -> F64:
    """Return third powers: two products take numpy a fifth of the time."""
    return values * values * values


def effective_limits(
    hits: F64, of_ticks: F64, tick_s: F64, variance: F64, quantile: F64
) -> tuple[F64, F64]:
    """Return the distances of each row's limits from its time, f64[r] s each.

    Args:
        hits: f64[r] samples.
        of_ticks: f64[r] ticks of the CPUs where the row was seen.
        tick_s: f64[r] time of a tick.
        variance: f64[r] s² of the row's time.
        quantile: f64[r] of the confidence.
    """
    # A row with nearly all ticks is as uncertain as the few ticks without it.
    rest = np.maximum(of_ticks - hits, 0.0)
    mostly = hits > rest
    small_s = np.minimum(hits, rest) * tick_s
    known = (variance > 0) & (small_s > 0)
    count = np.divide(small_s**2, variance, out=np.zeros(len(hits)), where=known)
    worth_s = np.divide(variance, small_s, out=tick_s.copy(), where=known)
    low, high = count_limits(count, quantile)
    below, above = (count - low) * worth_s, (high - count) * worth_s
    # Row and rest have the same skew with opposite signs: none if they are equal.
    half, skew = (below + above) / 2.0, (above - below) / 2.0
    share = np.minimum(hits, rest) / np.maximum(of_ticks, 1.0)
    skew *= np.where(mostly, -1.0, 1.0) * (1.0 - 2.0 * share)
    return half - skew, half + skew


_TAIL = 0.025  # on each side of a 95 % interval
_WIDEST = 12.0  # standard deviations that are summed: the rest is less than rounding


class Quantile(NamedTuple):
    """A quantile, and its 95 % interval: NaN on a side where the sample has too few values."""

    value: float
    low: float
    high: float


def quantile_of(ordered: F64, order: float) -> Quantile:
    """Return a quantile of a sample.

    Args:
        ordered: f64[n] ascending, at least one.
        order: between 0 and 1, such as 0.5 for the median.
    """
    count = len(ordered)
    low, high = interval_ranks(count, order)
    return Quantile(
        value=float(np.quantile(ordered, order)),
        low=float(ordered[low]) if low >= 0 else math.nan,
        high=float(ordered[high]) if high < count else math.nan,
    )


def interval_ranks(count: int, order: float) -> tuple[int, int]:
    """Return the ranks, from 0 on, of the values that enclose a quantile with 95 % probability.

    Returns:
        The lower one, -1 if there is none, and the upper one, `count` if there is none.
    """
    mean, deviation = count * order, math.sqrt(count * order * (1 - order))
    first = max(int(mean - _WIDEST * deviation) - 1, 0)
    last = min(int(mean + _WIDEST * deviation) + 1, count)
    number = np.arange(first, last + 1)
    logs = np.array(
        [math.lgamma(one + 1) + math.lgamma(count - one + 1) for one in number.tolist()]
    )
    logs = math.lgamma(count + 1) - logs
    logs += number * math.log(order) + (count - number) * math.log1p(-order)
    at_most = np.cumsum(np.exp(logs))
    # The lower value is above the quantile if no more values than its rank are below that.
    low = first + int(np.searchsorted(at_most, _TAIL, "right")) - 1
    high = first + int(np.searchsorted(at_most, 1 - _TAIL))
    return max(low, -1) if at_most[0] <= _TAIL else -1, min(high, count)
