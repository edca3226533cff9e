"""How many digits a time may have: no more than its error bar supports.

Source: the Particle Data Group's rule (Review of Particle Physics, Introduction, section 5.3): of
an error's three leading digits, 100 to 354 leave two, 355 to 949 one, and 950 to 999 are rounded up
to 1000, of which two are left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_DECIMALS = 6
_TWO_DIGITS_UP_TO = 3.545
_ROUNDED_UP_FROM = 9.495


def decimals(half_width_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many digits behind the point a time and its half width are shown with, i64[n].

    Args:
        half_width_s: f64[n]; where it is 0 or not known there is nothing to go by, and the most
            digits are returned.
    """
    usable = np.isfinite(half_width_s) & (half_width_s > 0)
    half = np.where(usable, half_width_s, 1.0)
    exponent = np.floor(np.log10(half))
    leading = half / 10.0**exponent
    digits = np.where(leading < _TWO_DIGITS_UP_TO, 1 - exponent, -exponent)
    digits = np.where(usable, digits, MOST_DECIMALS)
    # 950 becomes 1000: one digit more in front, and two of them left, is one behind as before.
    digits = np.where(leading >= _ROUNDED_UP_FROM, -exponent, digits)
    return np.clip(np.where(usable, digits, MOST_DECIMALS), 0, MOST_DECIMALS).astype(np.int64)
