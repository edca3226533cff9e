"""The look of lines and figures: digits, colours of a terminal, phrases of today or of 2002.

A figure has no more digits than its error bar or its number of samples justifies. Seconds have the
digits that show one sample, and fewer if the error bar is wider. A share of n samples has a
standard error of up to 50 / sqrt(n) percentage points: whole percents are given below 1,000
samples, tenths from there, hundredths from 1,000,000.

Source: ECMA-48, 8.3.117 (SGR); Tsariounov, "Prospect", OLS 2002, for the classic phrases.
"""

from __future__ import annotations

import math
import re
from itertools import islice
from typing import TYPE_CHECKING

from prospect.estimate.statistics.row_limits import decimals
from prospect.records import NamedTuple, Record
from prospect.render.encoding import significant
from prospect.render.escape import escaped
from prospect.render.text.text_table import Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prospect.estimate.errors.event_estimates import RowEstimates
    from prospect.estimate.finished_report import EventReport, Report

_BIRTHS = {
    "exec": "Began by exec",
    "fork": "Began by fork",
    "preexisting": "Ran before the recording",
}
_BOLD = "\x1b[1m"
_FAINT = "\x1b[2m"
_HOT = "\x1b[1;31m"
_YELLOW = "\x1b[33m"
_PLAIN = "\x1b[0m"
# Rows with such a share of the whole are marked.
_HOT_SHARE = 0.1
RULE = "-" * 79
NO_NAME = "[no name]"


# Words of the report of 2002, which `--classic` keeps, by those of today.
_OF_2002 = {
    "sample": "hit",
    "samples": "hits",
    "Sample": "Hit",
    "Samples": "Hits",
    "Function Sampled": "Routine Hit",
    "function": "routine",
    "functions": "routines",
    "Function": "Routine",
    "Functions": "Routines",
    "entry reason": "cause",
    "entry reasons": "causes",
    "Entry reason": "Cause",
    "Entry Reason": "Cause",
    "Sample accounting": "Tick ledger",
    "accounting": "books",
}
_TENTHS_FROM_HITS = 1_000
_HUNDREDTHS_FROM_HITS = 1_000_000
_LEAST_SECOND_DIGITS = 2
_MOST_SECOND_DIGITS = 6
_DIGIT_TOLERANCE = 0.02
NO_TIME = "-"


class Words(Record):
    """The titles of sections, and words for births and cuts.

    Attributes:
        is_classic: as in 2002.
    """

    is_classic: bool = False

    def term(self, phrase: str) -> str:
        """Return a phrase in the words of this report; it must contain no name of a recording."""
        if not self.is_classic:
            return phrase
        words = sorted(_OF_2002, key=len, reverse=True)
        return re.sub(rf"\b({'|'.join(words)})\b", lambda found: _OF_2002[found[0]], phrase)

    @property
    def function_title(self) -> str:
        """The title of a column of names of functions."""
        return "Routine name" if self.is_classic else "Function"

    @property
    def profiled_title(self) -> str:
        """The same in a process's profile and the kernel's."""
        return "Routine name | Instruction TEXT" if self.is_classic else "Function"

    def sentence(self, sentence: str) -> str:
        """Return a sentence of the estimates; one counts functions before it names any."""
        begin, of, rest = sentence.partition(" of ")
        return self.term(begin) + of + rest if begin.startswith("The first ") else sentence

    def mode(self, name: str) -> str:
        """Return the title of a mode of a process's profile."""
        return f"{name} portion of profile:" if self.is_classic else f"{name} mode:"

    @property
    def profile(self) -> str:
        """The title of a process's functions."""
        if self.is_classic:
            return "Section 1: Process Intersection with Sampling Mechanism, UK"
        return "Functions of the Process"

    @property
    def system_calls(self) -> str:
        """The title of a process's system calls."""
        return "Section 2: System Calls" if self.is_classic else "System Calls of the Process"

    def memory_map(self, name: str, pid: int) -> str:
        """Return the title of a process's mappings."""
        return "Section 3: Memory Map" if self.is_classic else f"Memory Map of {name} {pid}"

    def birth(self, how: str) -> str:
        """Return how a process began, for "exec", "fork", "preexisting" or "unknown"."""
        return f"Birth by {how}" if self.is_classic else _BIRTHS.get(how, "Began unseen")

    def end(self, *, by_exec: bool) -> str:
        """Return how a process ended."""
        if self.is_classic:
            return f"Process END by {'exec()' if by_exec else 'exit()'}"
        return "Went on as another program, by exec()" if by_exec else "Ended by exit()"

    @property
    def left_out(self) -> str:
        """The first words of a line on rows that are not shown."""
        return "Skip remainder," if self.is_classic else "Left out:"

    def skipped(self, seconds: float, option: str, threshold_s: float, what: str) -> str:
        """Return the line on rows that a table leaves out.

        Args:
            seconds: the time of the first row that is left out.
            option: sets the threshold.
            what: the number of rows and samples, in words.
        """
        if self.is_classic:
            limit = f"'{option} {threshold_s:.6f}' Sec"
            return f"- Skip remainder, SPU of {seconds:.6f} is below {limit} ({what})"
        return f"- Left out by '{option} {threshold_s:g}': {what}, of {seconds:.6f} s and less"


class Style(Record):
    """Marks up lines if `colour` is set."""

    colour: bool
    words: Words = Words()

    def title(self, line: str) -> str:
        """Return a section's title line."""
        return f"{_BOLD}{line}{_PLAIN}" if self.colour else line

    def cut(self, line: str) -> str:
        """Return a line on what was left out."""
        return f"{_FAINT}{line}{_PLAIN}" if self.colour else line

    def warning(self, line: str) -> str:
        """Return a line that warns."""
        return f"{_YELLOW}{line}{_PLAIN}" if self.colour else line

    def warnings(self, sentences: Iterable[str]) -> Iterator[str]:
        """Yield what was lost or damaged."""
        for sentence in sentences:
            yield self.warning(f"Warning: {escaped(sentence)}")

    def hot_rows(self, lines: Iterable[str], shares: Iterable[float]) -> Iterator[str]:
        """Yield a table, its titles first, with rows of a large share marked."""
        rows = iter(lines)
        yield from islice(rows, 1)
        for line, share in zip(rows, shares, strict=True):
            is_hot = self.colour and share >= _HOT_SHARE
            yield f"{_HOT}{line}{_PLAIN}" if is_hot else line

    def section(self, title: str) -> list[str]:
        """Return the three lines that open a section."""
        return [RULE, self.title(title), RULE]


def note_lines(sentences: Iterable[str]) -> Iterator[str]:
    """Yield the notes of a profile or a comparison."""
    for sentence in sentences:
        yield f"Note: {escaped(sentence)}"


class Page(NamedTuple):
    """One event of a report, and how it is written."""

    event: EventReport
    figures: Figures
    style: Style

    @property
    def report(self) -> Report:
        """The processes that the event is of."""
        return self.event.report


def percent_digits(hits: int) -> int:
    """Return the number of decimals for a share of so many samples, in percent."""
    return (hits >= _TENTHS_FROM_HITS) + (hits >= _HUNDREDTHS_FROM_HITS)


def second_digits(hits: int, seconds: float) -> int:
    """Return how many decimals of a second show one hit."""
    if hits <= 0 or seconds <= 0:
        return _LEAST_SECOND_DIGITS
    # The tolerance keeps 1000 Hz at 3 digits: a sample of a bank of clocks is worth a little more
    # or less than its mean.
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
    """Return whether a bar can be shown; that of a row without samples means nothing."""
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
