"""How many digits a time may have: no more than its error bar supports.

Source: the Particle Data Group's rule (Review of Particle Physics, Introduction, section 5.3): of
an error's three leading digits, 100 to 354 leave two, 355 to 949 one, and 950 to 999 are rounded up
to 1000, of which two are left.
"""

from __future__ import annotations

import math

MOST_DECIMALS = 6
_TWO_DIGITS_UP_TO = 3.545


def decimals(half_width_s: float) -> int:
    """Return how many digits behind the point a time and its half width are shown with.

    Args:
        half_width_s: where it is 0 or not known there is nothing to go by, and the most digits
            are returned.
    """
    if not 0 < half_width_s < math.inf:
        return MOST_DECIMALS
    exponent = math.floor(math.log10(half_width_s))
    # 950 becomes 1000: one digit more in front, and two of them left, is one behind as before.
    has_two = half_width_s / 10.0**exponent < _TWO_DIGITS_UP_TO
    return min(max(has_two - exponent, 0), MOST_DECIMALS)
