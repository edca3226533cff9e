"""Jumps within a routine → arrows in a margin, drawn in characters.

Comes in: from which row each jump goes to which. Goes out: one string of equal width a row. The
shortest jumps run closest to the text; of more than fit side by side the longest are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
    """Give each jump the first lane where it overlaps none; the first lane is the innermost."""
    lanes: list[list[tuple[int, int]]] = []
    for jump in jumps:
        for lane in lanes:
            if all(_apart(jump, other) for other in lane):
                lane.append(jump)
                break
        else:
            if len(lanes) < _MOST_LANES:
                lanes.append([jump])
    return lanes


def _apart(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two jumps share no row, or lead to the same one from the same side or both."""
    return max(one) < min(other) or max(other) < min(one)


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
