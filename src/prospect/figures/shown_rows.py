"""Rows of tables as a report shows them: names of functions and callers, thresholds, sets of hits.

Each table of figures gives the row of every hit of the profile, and the row above each row, so
that a column computed elsewhere, such as ±, has the rows of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import group_sums
from prospect.profile.naming import LABELS, NameSource, gather
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import F64, I32, I64, Bools, Ints
    from prospect.profile.complete import ProfileByFunction
    from prospect.profile.model import FunctionTable, Profile


def shown_name(functions: FunctionTable, row: int) -> str:
    """Return a function's name, or in brackets why it has none."""
    return shown_names(functions, (row,))[0]


def shown_names(functions: FunctionTable, rows: Sequence[int]) -> list[str]:
    """Return the same for several functions."""
    return [
        name or f"[{LABELS[NameSource(int(functions.source[row]))]}]"
        for row, name in zip(rows, gather(functions.name, rows), strict=True)
    ]


def function_names(profile: Profile, row: int) -> list[str]:
    """Return a function's names and aliases; for C++ also without their parameters."""
    functions = profile.functions
    found = []
    for name in (functions.name[row], functions.linkage_name[row], *functions.aliases[row]):
        if name:
            found.append(name)
            if name.endswith(")"):
                found.append(name.partition("(")[0])
    return found


def main_callers(profile: ProfileByFunction, row_of_hit: I32, rows: int) -> list[int]:
    """Return for each row the function that called it in most samples, -1 if unknown.

    `row_of_hit` i32[h] is the row of each hit, -1 for none; all hits of a row are of one function.
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


class CutRows(Record):
    """Rows by descending weight (see `event_weight`), of which the first are shown.

    Attributes:
        hits: i64[r].
        seconds: f64[r].
        share: f64[r] part of the weight of all rows, 0 to 1.
        shown: how many rows, from the first, reach the threshold.
        total_hits, total_seconds: sums over all rows, shown or not.
    """

    hits: I64
    seconds: F64
    share: F64
    shown: int
    total_hits: int
    total_seconds: float

    def __len__(self) -> int:
        return len(self.hits)

    @property
    def skipped_hits(self) -> int:
        """Hits in the rows that are not shown."""
        return int(self.hits[self.shown :].sum())

    @property
    def skipped_seconds(self) -> float:
        """Seconds in the rows that are not shown."""
        return float(self.seconds[self.shown :].sum())


class RankedRows(NamedTuple):
    """The rows of a table.

    Attributes:
        row_of_hit: i32[h] the row of each of the profile's hits, -1 for none.
        above: i64[r] the row to compare each one with; -1 for a table's first row.
        is_shown: bool[r].
    """

    row_of_hit: I32
    above: I64
    is_shown: Bools


def unranked(row_of_hit: Ints, rows: int) -> RankedRows:
    """Return rows without an order, all of them shown."""
    return RankedRows(
        row_of_hit.astype(np.int32, copy=False),
        np.full(rows, -1, np.int64),
        np.ones(rows, np.bool_),
    )


def ranked(row_of_hit: I32, is_shown: Bools) -> RankedRows:
    """Return rows each below the one before it; hits of rows that are not shown have no row."""
    shown = np.append(is_shown, False).take(row_of_hit)  # -1 takes the last one
    return RankedRows(
        np.where(shown, row_of_hit, np.int32(-1)), np.arange(-1, len(is_shown) - 1), is_shown
    )
