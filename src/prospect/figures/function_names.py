"""The names of functions in reports, those that a person may use, and their main callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import group_sums
from prospect.profile.late import gather
from prospect.profile.naming import LABELS, NameSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.profile.complete import ProfileByFunction
    from prospect.profile.model import FunctionTable, Profile


def shown_name(functions: FunctionTable, row: int) -> str:
    """Return a function's name, or in brackets why it has none."""
    return shown_names(functions, (row,))[0]


def shown_names(functions: FunctionTable, rows: Sequence[int]) -> list[str]:
    """Return the same of several functions, whose names are made at once."""
    return [
        name or f"[{LABELS[NameSource(int(functions.source[row]))]}]"
        for row, name in zip(rows, gather(functions.name, rows), strict=True)
    ]


def function_names(profile: Profile, row: int) -> list[str]:
    """Return a function's names and aliases; those of C++ also without their parameters."""
    functions = profile.functions
    found = []
    for name in (functions.name[row], functions.linkage_name[row], *functions.aliases[row]):
        if name:
            found.append(name)
            if name.endswith(")"):
                found.append(name.partition("(")[0])
    return found


def main_callers(profile: ProfileByFunction, row_of_hit: NDArray[np.int32], rows: int) -> list[int]:
    """Return for each row the function that called it in most samples, -1 if none is known.

    Args:
        profile: completed.
        row_of_hit: i32[h] row of each hit, -1 for none; all hits of a row are of one function.
        rows: how many there are.
    """
    samples, stacks = profile.samples, profile.stacks
    if stacks is None or samples.stack_index is None:
        return [-1] * rows
    row = row_of_hit.take(samples.hit_index)
    known = np.flatnonzero((row >= 0) & (samples.stack_index >= 0))
    row, frame = row.take(known), samples.stack_index.take(known)
    function = profile.locations.function_index.take(stacks.location_index)
    own = function.take(frame)
    caller = stacks.caller_index.take(frame)
    while (again := (caller >= 0) & (function.take(caller) == own)).any():  # it called itself
        caller = np.where(again, stacks.caller_index.take(caller), caller)
    is_called = caller >= 0
    key = row[is_called].astype(np.int64), function.take(caller[is_called]).astype(np.int64)
    (of_row, by), (count,) = group_sums(key, (np.ones(int(is_called.sum()), np.int64),))
    found = [-1] * rows
    for at in np.argsort(count, kind="stable").tolist():
        found[int(of_row[at])] = int(by[at])
    return found
