"""Jumps within a routine → arrows in a margin, drawn in characters.

Comes in: from which row each jump goes to which. Goes out: one string of equal width a row. The
shortest jumps run closest to the text; of more than fit side by side the longest are left out.
"""

from __future__ import annotations

from bisect import bisect
from typing import TYPE_CHECKING

from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_LANES = 6


class Glyphs(NamedTuple):
    """The characters of an arrow; each stands for one column."""

    down: str
    across: str
    top: str
    bottom: str
    meeting: str
    head: str


ASCII = Glyphs("|", "-", ".", "'", "+", ">")
BOXES = Glyphs("│", "─", "┌", "└", "├", "▶")


def draw_arrows(rows: int, jumps: Sequence[tuple[int, int]], glyphs: Glyphs) -> list[str]:
    """Draw jumps.

    Args:
        rows: how many rows there are.
        jumps: (from, to) rows; a jump to itself is drawn as one to its own row.
        glyphs: what to draw with.

    Returns:
        One string a row, all equally long; "" each where nothing is drawn.
    """
    lanes = _lanes(sorted(set(jumps), key=lambda jump: (abs(jump[1] - jump[0]), jump)))
    if not lanes:
        return [""] * rows
    width = len(lanes) + 2
    canvas = [[" "] * width for _ in range(rows)]
    for lane, members in enumerate(lanes):
        for source, target in members:
            _draw(canvas, len(lanes) - 1 - lane, source, target, glyphs)
    return ["".join(line) for line in canvas]


def _lanes(jumps: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Give each jump the first lane where it shares no row; the first lane is the innermost."""
    lanes: list[list[tuple[int, int]]] = []
    spans: list[list[tuple[int, int]]] = []  # first and last row of each, ascending
    for jump in jumps:
        span = min(jump), max(jump)
        for lane, taken in zip(lanes, spans, strict=True):
            place = bisect(taken, span)
            after_previous = not place or taken[place - 1][1] < span[0]
            if after_previous and (place == len(taken) or span[1] < taken[place][0]):
                lane.append(jump)
                taken.insert(place, span)
                break
        else:
            if len(lanes) < _MOST_LANES:
                lanes.append([jump])
                spans.append([span])
    return lanes


def _draw(canvas: list[list[str]], column: int, source: int, target: int, glyphs: Glyphs) -> None:
    low, high = min(source, target), max(source, target)
    for row in range(low + 1, high):
        canvas[row][column] = glyphs.down
    for row in {low, high}:
        line = canvas[row]
        corner = glyphs.top if row == low else glyphs.bottom
        line[column] = glyphs.meeting if low == high else corner
        for place in range(column + 1, len(line) - 1):
            if line[place] == " ":
                line[place] = glyphs.across
        if row == target:
            line[-2] = glyphs.head
        elif line[-2] == " ":
            line[-2] = glyphs.across
