"""The little colour that a terminal gets; a file or a pipe gets none.

Source: ECMA-48, 8.3.117 (SGR).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BOLD = "\x1b[1m"
_FAINT = "\x1b[2m"
_HOT = "\x1b[1;31m"
_YELLOW = "\x1b[33m"
_PLAIN = "\x1b[0m"
# Rows with a good part of the whole are seen at a glance.
_HOT_SHARE = 0.1
RULE = "-" * 79


class Style(Record):
    """Marks up lines where `colour` is set, and leaves them alone otherwise."""

    colour: bool

    def title(self, line: str) -> str:
        """Return a section's title line."""
        return f"{_BOLD}{line}{_PLAIN}" if self.colour else line

    def cut(self, line: str) -> str:
        """Return a line that says what was left out."""
        return f"{_FAINT}{line}{_PLAIN}" if self.colour else line

    def warning(self, line: str) -> str:
        """Return a line that warns."""
        return f"{_YELLOW}{line}{_PLAIN}" if self.colour else line

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
