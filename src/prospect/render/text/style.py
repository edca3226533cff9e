"""How lines look: the little colour that a terminal gets, and phrases, plain or those of 2002.

Source: ECMA-48, 8.3.117 (SGR); Tsariounov, "Prospect", OLS 2002, for the classic phrases.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from prospect.records import NamedTuple, Record
from prospect.render.escape import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prospect.estimate.finished_report import EventReport, Report
    from prospect.render.text.numbers import Figures

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
# Rows with a good part of the whole are seen at a glance.
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


class Words(Record):
    """How sections, births and cuts are called.

    Attributes:
        is_classic: as in 2002.
    """

    is_classic: bool = False

    def term(self, phrase: str) -> str:
        """Return a phrase of this report, which names nothing of a recording, in its own words."""
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
        """Return a sentence of the estimates, of which one counts functions before it names any."""
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
        """Say how a process began: by exec, by fork, preexisting, or unknown."""
        return f"Birth by {how}" if self.is_classic else _BIRTHS.get(how, "Began unseen")

    def end(self, *, by_exec: bool) -> str:
        """Say how a process ended."""
        if self.is_classic:
            return f"Process END by {'exec()' if by_exec else 'exit()'}"
        return "Went on as another program, by exec()" if by_exec else "Ended by exit()"

    @property
    def left_out(self) -> str:
        """The first words of a line that says what is not shown."""
        return "Skip remainder," if self.is_classic else "Left out:"

    def skipped(self, seconds: float, option: str, threshold_s: float, what: str) -> str:
        """Say what a table leaves out.

        Args:
            seconds: the time of the first row that is left out.
            option: which sets the threshold, as it is typed.
            threshold_s: the threshold.
            what: how many rows and hits, in words.
        """
        if self.is_classic:
            limit = f"'{option} {threshold_s:.6f}' Sec"
            return f"- Skip remainder, SPU of {seconds:.6f} is below {limit} ({what})"
        return f"- Left out by '{option} {threshold_s:g}': {what}, of {seconds:.6f} s and less"


class Style(Record):
    """Marks up lines where `colour` is set, and leaves them alone otherwise."""

    colour: bool
    words: Words = Words()

    def title(self, line: str) -> str:
        """Return a section's title line."""
        return f"{_BOLD}{line}{_PLAIN}" if self.colour else line

    def cut(self, line: str) -> str:
        """Return a line that says what was left out."""
        return f"{_FAINT}{line}{_PLAIN}" if self.colour else line

    def warning(self, line: str) -> str:
        """Return a line that warns."""
        return f"{_YELLOW}{line}{_PLAIN}" if self.colour else line

    def warnings(self, sentences: Iterable[str]) -> Iterator[str]:
        """Yield what was lost or damaged."""
        for sentence in sentences:
            yield self.warning(f"Warning: {escaped(sentence)}")

    def hot_rows(self, lines: Iterable[str], shares: Iterable[float]) -> Iterator[str]:
        """Yield a table, its titles first, with the rows marked that have a good part of all."""
        rows = iter(lines)
        yield from islice(rows, 1)
        for line, share in zip(rows, shares, strict=True):
            is_hot = self.colour and share >= _HOT_SHARE
            yield f"{_HOT}{line}{_PLAIN}" if is_hot else line

    def section(self, title: str) -> list[str]:
        """Return the three lines that open a section."""
        return [RULE, self.title(title), RULE]


def note_lines(sentences: Iterable[str]) -> Iterator[str]:
    """Yield what a profile or a comparison could not see."""
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
