"""Histories as lines of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII = " .:-=+*#%"
"""For terminals whose font has no blocks."""

# Where the most is less, the line stays low: a single hit is no peak.
_LEAST_FULL = 8


def sparkline(history: Sequence[int], width: int, ramp: str = BLOCKS) -> str:
    """Draw a history, the latest at the right.

    Args:
        history: a number a stretch, oldest first; -1 where nothing was seen.
        width: in characters, a divisor of the history's length.
        ramp: a character for nothing, then for rising parts of the largest number.
    """
    joined = max(len(history) // width, 1)
    sums = [
        sum(part) if min(part) >= 0 else -1
        for part in (history[at : at + joined] for at in range(0, len(history), joined))
    ]
    full = max(max(sums, default=0), _LEAST_FULL * joined)
    top = len(ramp) - 1
    # Every hit shows: only nothing is blank.
    return "".join(ramp[-(-max(number, 0) * top // full)] for number in sums)
