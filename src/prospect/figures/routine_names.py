"""What a routine is called in reports, and the names that a person may call it by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.profile.late import taken
from prospect.profile.naming import LABELS, NameSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.profile.model import FunctionTable, Profile


def shown_name(functions: FunctionTable, row: int) -> str:
    """Return a function's name, or in brackets why it has none."""
    return shown_names(functions, (row,))[0]


def shown_names(functions: FunctionTable, rows: Sequence[int]) -> list[str]:
    """Return the same of several functions, whose names are made at once."""
    return [
        name or f"[{LABELS[NameSource(int(functions.source[row]))]}]"
        for row, name in zip(rows, taken(functions.name, rows), strict=True)
    ]


def routine_names(profile: Profile, row: int) -> list[str]:
    """Return a function's names and aliases; those of C++ also without their parameters.

    Args:
        profile: whose functions are meant.
        row: of them.
    """
    functions = profile.functions
    found = []
    for name in (functions.name[row], functions.raw_name[row], *functions.aliases[row]):
        if name:
            found.append(name)
            if name.endswith(")"):
                found.append(name.partition("(")[0])
    return found
