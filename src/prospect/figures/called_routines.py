"""Which routines a person means by a name, a pattern or a part of a name."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from prospect.figures.routine_names import routine_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.profile.model import Profile


# Shorter parts are in too many names to mean one.
_LEAST_LETTERS_OF_A_PART = 3


def routines_called(profile: Profile, what: str) -> NDArray[np.bool_]:
    """Return bool[f]: which functions a person means by `what`.

    Those with this name; where there are none, those that it fits as a pattern; where there are
    none either, those with it in their names.
    """
    names = [routine_names(profile, row) for row in range(len(profile.functions))]
    return _called(names, profile.functions.name, what)


def inlined_called(names: Sequence[str], what: str) -> NDArray[np.bool_]:
    """Return bool[n]: which inlined functions a person means, as `routines_called` does it."""
    return _called([[name, name.partition("(")[0]] for name in names], names, what)


def routines_with_part(profile: Profile, part: str) -> NDArray[np.bool_]:
    """Return bool[f]: the functions in whose names a part occurs, parameters left aside."""
    return _with_part(profile.functions.name, part)


def _called(names: Sequence[list[str]], shown: Sequence[str], what: str) -> NDArray[np.bool_]:
    found = np.array([what in known for known in names], np.bool_)
    if not found.any():
        fits = [any(fnmatchcase(name, what) for name in known) for known in names]
        found = np.array(fits, np.bool_)
    return found if found.any() else _with_part(shown, what)


def _with_part(names: Sequence[str], part: str) -> NDArray[np.bool_]:
    if len(part) < _LEAST_LETTERS_OF_A_PART:
        return np.zeros(len(names), np.bool_)
    return np.array([part in name.partition("(")[0] for name in names], np.bool_)
