"""Lines of a fixed width made of spans of text, with untrusted text made inert.

Nothing here is markup: a name such as ``[red]`` is five columns of text. Styles use the terminal's
own 16 colours, which suit light and dark backgrounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from prospect.records import NamedTuple
from prospect.render.escape import escaped, shortened
from prospect.render.name_parts import short_name
from prospect.tui.rows import HOT, INTERRUPT, KERNEL, USER

if TYPE_CHECKING:
    from collections.abc import Iterable


PLAIN = Style()
BOLD = Style(bold=True)
FAINT = Style(dim=True)
TITLE = Style(bold=True, underline=True)
CHOSEN = Style(reverse=True)
CURSOR = Style(reverse=True, bold=True)
HISTORY = Style(color="cyan")
WARNING = Style(color="red", bold=True)
KEY = Style(bold=True)

OF_PAINT = {
    "": PLAIN,
    USER: PLAIN,
    KERNEL: Style(color="magenta"),
    INTERRUPT: Style(color="red"),
    HOT: BOLD,
}
_LEAST_WIDTH = 4


class Span(NamedTuple):
    """A piece of a line. Its text is printable."""

    text: str
    style: Style = PLAIN


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """Return any text as exactly `width` columns, cut or filled."""
    text = shortened(escaped(text), width) if width > 3 else escaped(text)
    if text.isascii():
        return text[:width].rjust(width) if right else text[:width].ljust(width)
    missing = width - cell_len(text)
    if right and missing > 0:
        return " " * missing + text
    return set_cell_size(text, width)


def name_fitted(name: str, width: int, lead: str = "") -> str:
    """Return a lead and a function's name as exactly `width` columns.

    The parts that identify a function least are dropped first.
    """
    return fitted(lead + short_name(escaped(name), max(width - len(lead), _LEAST_WIDTH)), width)


def strip(spans: Iterable[Span], width: int) -> Strip:
    """Return a line of exactly `width` columns."""
    segments = [Segment(text, style) for text, style in spans if text]
    length = sum(len(text) if text.isascii() else cell_len(text) for text, _, _ in segments)
    return Strip(segments, length).adjust_cell_length(width, PLAIN)


def ends_apart(left: list[Span], right: list[Span], width: int) -> list[Span]:
    """Put spans at both ends of a line; the right end gives way if there is no room."""
    used = sum(cell_len(span.text) for span in left)
    needed = sum(cell_len(span.text) for span in right)
    if used + needed + 1 > width:
        return left
    return [*left, Span(" " * (width - used - needed)), *right]
