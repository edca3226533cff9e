"""How far rows can be told apart: digits of times, neighbours in a table, and many tests at once.

Neighbours are compared by the error of their difference; the run length that would tell them apart
follows from it. Of many tests at once, few that are called a difference are wrong.
Source: for digits the Particle Data Group's rule (Review of Particle Physics, Introduction, section
5.3): of an error's three leading digits, 100 to 354 leave two, 355 to 949 one, and 950 to 999 are
rounded up to 1000, of which two are left. For many tests Benjamini and Hochberg, Controlling the
false discovery rate, J. R. Statist. Soc. B 57 (1995); leaving out tests that cannot succeed:
Tarone, Biometrics 46 (1990).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_DECIMALS = 6
_TWO_DIGITS_UP_TO = 3.545

# Runs this many times as long are not worth proposing: the rows are equal for all purposes.
_LONGEST_FACTOR = 1000.0


def decimals(half_width_s: float) -> int:
    """Return how many digits after the point a time and its half width are shown with.

    These are the most digits if the half width is 0 or not known.
    """
    if not 0 < half_width_s < math.inf:
        return MOST_DECIMALS
    exponent = math.floor(math.log10(half_width_s))
    # 950 becomes 1000: a digit more in front, and two are left, so one after the point as before.
    has_two = half_width_s / 10.0**exponent < _TWO_DIGITS_UP_TO
    return min(max(has_two - exponent, 0), MOST_DECIMALS)


def alike(
    seconds: NDArray[np.float64],
    above: NDArray[np.int64],
    difference_half_width_s: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Return bool[r]: the rows that tie with the one above them, at 95 %.

    `above` i64[r] is the row above, -1 for none; `difference_half_width_s` as in `error_bars`.
    """
    difference = np.abs(seconds - seconds[above])
    return (above >= 0) & ~(difference > np.nan_to_num(difference_half_width_s))


def needed_seconds(
    seconds: NDArray[np.float64],
    above: NDArray[np.int64],
    difference_half_width_s: NDArray[np.float64],
    wall_s: float,
) -> NDArray[np.float64]:
    """Return how long a run would have to be to tell each row from the one above, f64[r].

    An interval gets narrower with the square root of the run. Infinite if no run of reasonable
    length would do, NaN if there is no row above.
    """
    difference = np.abs(seconds - seconds[above])
    factor = np.divide(
        difference_half_width_s, difference, out=np.full(len(seconds), np.inf), where=difference > 0
    )
    squared = factor * factor
    needed: NDArray[np.float64] = np.full(len(seconds), np.inf)
    np.multiply(squared, wall_s, out=needed, where=squared <= _LONGEST_FACTOR)
    needed[above < 0] = np.nan
    return needed


def separation_sentence(
    is_alike: NDArray[np.bool_], needed_s: NDArray[np.float64], what: str
) -> str:
    """Return what would separate the first rows of a table; "" where they are separate.

    `what` they are is in the plural: "processes".
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


def adjusted(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each test's least false-discovery rate at which it is a discovery, f64[n].

    A row that is not tested has a p-value of NaN, and gets NaN.
    """
    result = np.full(len(p_values), np.nan)
    tested = np.flatnonzero(~np.isnan(p_values))
    order = tested[np.argsort(-p_values[tested], kind="stable")]
    rank = np.arange(len(order), 0, -1)
    result[order] = np.minimum.accumulate(p_values[order] * len(order) / rank)
    return np.asarray(np.minimum(result, 1.0), np.float64)
