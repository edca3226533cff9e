"""The names that a person may call a routine by."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prospect.profile.model import Profile


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
