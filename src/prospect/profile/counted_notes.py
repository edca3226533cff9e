"""Sentences with a count, of one part of a run after another: one for each kind, with the sum.

Recordings, sessions and stores keep sentences alone, so the count is read from its sentence: a long
session or a store would have one for each part otherwise.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# As they are made for the recorder (`capture.python.frames`) and of records (`assembly.python`).
_COUNTED = re.compile(r"(Python functions: [A-Za-z ,]{1,200}: )(\d{1,15})(\D.*)?", re.DOTALL)
_UNKNOWN = re.compile(r"CPython 3\.\d+ \(process ")


def counted_notes(notes: Iterable[str]) -> tuple[str, ...]:
    """Return each note once, and one for all of a kind that have a count.

    What else such a note says is said of the part that had most.
    """
    found: dict[str, tuple[int, int, str]] = {}
    for note in notes:
        match = _COUNTED.fullmatch(note)
        if match is None:
            unknown = _UNKNOWN.match(note)
            found.setdefault(unknown.group() if unknown else note, (0, 0, note))
            continue
        kind, count, rest = match[1], int(match[2]), match[3] or ""
        total, most, kept = found.get(kind, (0, -1, ""))
        found[kind] = total + count, max(most, count), rest if count > most else kept
    return tuple(
        f"{key}{total}{rest}" if total else rest for key, (total, _, rest) in found.items()
    )


def left_out_notes(notes: Iterable[str]) -> tuple[str, ...]:
    """Return those of `counted_notes` that say what was left out."""
    return tuple(
        note for note in counted_notes(notes) if _COUNTED.match(note) or _UNKNOWN.match(note)
    )
