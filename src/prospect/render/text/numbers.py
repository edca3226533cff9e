"""How many digits a figure gets: no more than the hits behind it justify.

A single hit is the least that sampling can tell apart, so seconds get the digits that show one
hit. A share of n hits has a standard error of up to 50 / sqrt(n) percentage points; whole percents
are given below 1,000 hits, tenths from there, hundredths from 1,000,000.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_TENTHS_FROM_HITS = 1_000
_HUNDREDTHS_FROM_HITS = 1_000_000
_LEAST_SECOND_DIGITS = 2
_MOST_SECOND_DIGITS = 6
NO_TIME = "-"


def percent_digits(hits: int) -> int:
    """Return how many digits behind the point a share of `hits` hits is given with."""
    return (hits >= _TENTHS_FROM_HITS) + (hits >= _HUNDREDTHS_FROM_HITS)


def second_digits(hits: int, seconds: float) -> int:
    """Return how many digits behind the point of a second show one hit."""
    if hits <= 0 or seconds <= 0:
        return _LEAST_SECOND_DIGITS
    # The tolerance keeps 0.001 s a hit at 3 digits, whatever its logarithm rounds to.
    needed = math.ceil(-math.log10(seconds / hits) - 1e-9)
    return min(max(needed, _LEAST_SECOND_DIGITS), _MOST_SECOND_DIGITS)


class Figures:
    """Formats the times of one event: all with the same digits, or none where it has no time."""

    def __init__(self, hits: int, seconds: float, *, has_time: bool) -> None:
        self.has_time = has_time
        self.digits = second_digits(hits, seconds)
        self._form = f"%.{self.digits}f"

    def seconds(self, seconds: float) -> str:
        """Return a time in seconds."""
        return self._form % seconds if self.has_time else NO_TIME

    def seconds_column(self, column: Iterable[float]) -> list[str]:
        """Return the cells of a column of seconds."""
        form = self._form
        return [form % value if self.has_time else NO_TIME for value in column]

    def milliseconds(self, seconds: float) -> str:
        """Return a time in milliseconds, with its unit."""
        if not self.has_time:
            return "unknown"
        return f"{seconds * 1e3:.{max(self.digits - 3, 0)}f} ms"


def percent(share: float, digits: int) -> str:
    """Return a share of 0 to 1 as a percentage."""
    return f"{share * 100.0:.{digits}f}%"


def percent_column(shares: Iterable[float], digits: int) -> list[str]:
    """Return the cells of a column of shares."""
    form = f"%.{digits}f%%"
    return [form % (share * 100.0) for share in shares]


def counted(number: int, noun: str) -> str:
    """Return ``1 routine`` or ``2 routines``."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{plural}"
