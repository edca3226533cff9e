"""How many digits a figure gets: no more than its error bar or its number of hits justifies.

A single hit is the least that sampling can tell apart, so seconds get the digits that show one
hit, and fewer if the error bar is wider. A share of n hits has a standard error of up to
50 / sqrt(n) percentage points: whole percents are given below 1,000 hits, tenths from there,
hundredths from 1,000,000.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prospect.estimate.statistics.row_limits import decimals
from prospect.render.encoding import significant
from prospect.render.text.text_table import Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prospect.estimate.errors.event_estimates import RowEstimates

_TENTHS_FROM_HITS = 1_000
_HUNDREDTHS_FROM_HITS = 1_000_000
_LEAST_SECOND_DIGITS = 2
_MOST_SECOND_DIGITS = 6
_DIGIT_TOLERANCE = 0.02
NO_TIME = "-"


def percent_digits(hits: int) -> int:
    """Return how many decimals a share of `hits` hits is given with."""
    return (hits >= _TENTHS_FROM_HITS) + (hits >= _HUNDREDTHS_FROM_HITS)


def second_digits(hits: int, seconds: float) -> int:
    """Return how many decimals of a second show one hit."""
    if hits <= 0 or seconds <= 0:
        return _LEAST_SECOND_DIGITS
    # The tolerance keeps 1000 Hz at 3 digits: a hit of a bank is worth a little more or less.
    needed = math.ceil(-math.log10(seconds / hits) - _DIGIT_TOLERANCE)
    return min(max(needed, _LEAST_SECOND_DIGITS), _MOST_SECOND_DIGITS)


class Figures:
    """Formats the times of one event: all with the same digits, or none if it has no time."""

    def __init__(self, hits: int, seconds: float, *, has_time: bool) -> None:
        self.has_time = has_time
        self.digits = second_digits(hits, seconds)
        self._form = f"%.{self.digits}f"

    def seconds(self, seconds: float) -> str:
        """Return a time in seconds."""
        return self._form % significant(seconds) if self.has_time else NO_TIME

    def seconds_column(self, column: Iterable[float]) -> list[str]:
        """Return the cells of a column of seconds."""
        form = self._form
        return [form % significant(value) if self.has_time else NO_TIME for value in column]

    def timed_columns(
        self, column: Sequence[float], half_widths: Iterable[float]
    ) -> tuple[list[str], list[str]]:
        """Return the cells of a column of seconds and of their error bars.

        Each row has the digits that its own bar supports; points are below each other.
        """
        if not self.has_time:
            return [NO_TIME] * len(column), [NO_TIME] * len(column)
        times, bars = [], []
        for seconds, half in zip(column, half_widths, strict=True):
            digits = self._digits_of(half)
            # The point goes with the last digit.
            padding = " " * (self.digits - digits + (digits == 0))
            times.append(f"{significant(seconds):.{digits}f}{padding}")
            bar = f"{significant(half):.{digits}f}{padding}"
            bars.append(bar if _is_known(seconds, half) else NO_TIME)
        return times, bars

    def time_columns(
        self, column: Sequence[float], half_widths: Iterable[float], title: str = "Secs"
    ) -> tuple[Column, Column]:
        """Return a column of seconds and that of its error bars, shown if the event has time."""
        times, bars = self.timed_columns(column, half_widths)
        return Column(title, times), Column("±", bars, when=self.has_time)

    def with_bar(self, seconds: float, half_width_s: float) -> str:
        """Return a time in seconds with its error bar, if known."""
        if not self.has_time or not _is_known(seconds, half_width_s):
            return self.seconds(seconds)
        digits = self._digits_of(half_width_s)
        return f"{significant(seconds):.{digits}f} ± {significant(half_width_s):.{digits}f}"

    def milliseconds_with_bar(self, seconds: float, half_width_s: float) -> str:
        """Return a time in milliseconds with its error bar, if known, and its unit."""
        if not self.has_time:
            return "unknown"
        if not _is_known(seconds, half_width_s):
            return f"{seconds * 1e3:.{max(self.digits - 3, 0)}f} ms"
        digits = self._digits_of(half_width_s)
        # Tenths of a second are whole hundreds of milliseconds.
        time, half = (round(significant(value), digits) * 1e3 for value in (seconds, half_width_s))
        return f"{time:.{max(digits - 3, 0)}f} ± {half:.{max(digits - 3, 0)}f} ms"

    def _digits_of(self, half_width_s: float) -> int:
        return min(decimals(half_width_s), self.digits)


def _is_known(seconds: float, half_width_s: float) -> bool:
    """Return whether a bar can be shown; a row without a hit has none that would mean something."""
    return seconds > 0 and not math.isnan(half_width_s)


def rank_column(estimates: RowEstimates) -> list[str]:
    """Return the cells of a column of ranks, from 1.

    `=` marks a row that ties with the one above, `!` one in step with a clock.
    """
    marks = zip(estimates.tied.tolist(), estimates.aliased.tolist(), strict=True)
    return [
        f"{rank}{'=' if is_like else ''}{'!' if aliased else ''}"
        for rank, (is_like, aliased) in enumerate(marks, start=1)
    ]


def pid_text(pid: int) -> str:
    """Return a process's number, if it is known."""
    return str(pid) if pid >= 0 else "?"


def microseconds(seconds: float) -> str:
    """Return a time in µs, if known."""
    return NO_TIME if math.isnan(seconds) else f"{seconds * 1e6:.3f}"


def percent(share: float, digits: int) -> str:
    """Return a share of 0 to 1 as a percentage."""
    return f"{significant(share * 100.0):.{digits}f}%"


def percent_column(shares: Iterable[float], digits: int) -> list[str]:
    """Return the cells of a column of shares."""
    form = f"%.{digits}f%%"
    return [form % significant(share * 100.0) for share in shares]
