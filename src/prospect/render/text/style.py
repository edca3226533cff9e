"""The little colour that a terminal gets; a file or a pipe gets none.

Source: ECMA-48, 8.3.117 (SGR).
"""

from __future__ import annotations

from prospect.records import Record

_BOLD = "\x1b[1m"
_FAINT = "\x1b[2m"
_YELLOW = "\x1b[33m"
_PLAIN = "\x1b[0m"
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

    def section(self, title: str) -> list[str]:
        """Return the three lines that open a section."""
        return [RULE, self.title(title), RULE]
