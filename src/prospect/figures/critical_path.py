"""The samples and the waits that are on the critical path of a command, of all in a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.table_rows import gather
from prospect.errors import UsageError
from prospect.figures.selection import only_used
from prospect.profile.complete import complete
from prospect.profile.model import NO_PATH, PATH_BLOCKED, PATH_RAN, PATH_WAITED
from prospect.records import replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.profile.model import Profile, SampleTable, WaitTable, WallPath

# CPUs may be left in the same nanosecond: so many of them are looked at.
_MOST_AT_ONCE = 4


def on_critical_path(profile: Profile) -> Profile:
    """Return a profile with the samples and waits on its critical path alone.

    Raises:
        UsageError: it has no critical path.
    """
    path = profile.wall
    if path is None:
        raise UsageError(NO_PATH)
    profile = complete(profile)
    rows, _ = samples_on(path, profile.samples)
    is_on = np.zeros(len(profile.samples), np.bool_)
    is_on[rows] = True
    waits = profile.waits
    if waits is not None:
        found = [waits_on(path, waits, state)[1] for state in (PATH_BLOCKED, PATH_WAITED)]
        waits = gather(waits, np.sort(np.concatenate(found)))
    return only_used(replace(profile, waits=waits), is_on)


def samples_on(path: WallPath, samples: SampleTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the samples that hit a thread of the path while it was on it, and their pieces."""
    if samples.tid is None or not len(path):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    piece = np.searchsorted(path.begin_ns, samples.time_ns, "right") - 1
    at = np.maximum(piece, 0)
    since_ns = samples.time_ns - path.begin_ns.take(at)
    is_on = (piece >= 0) & (since_ns < path.length_ns.take(at).view(np.uint64))
    is_on &= (path.tid.take(at) == samples.tid) & (path.state.take(at) == PATH_RAN)
    rows = np.flatnonzero(is_on)
    return rows, piece.take(rows)


def waits_on(
    path: WallPath, waits: WaitTable, state: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pieces whose wait is in the table, and its rows there, i64[k] each.

    Args:
        path: of a command.
        waits: of the same recording.
        state: of the pieces: PATH_BLOCKED or PATH_WAITED.
    """
    rows = np.flatnonzero(waits.is_runnable == (state == PATH_WAITED))
    pieces = np.flatnonzero(path.state == state)
    if not len(rows):
        return pieces[:0], rows
    rows = rows.take(np.argsort(waits.begin_ns.take(rows), kind="stable"))
    begin_ns = waits.begin_ns.take(rows)
    at = np.searchsorted(begin_ns, path.begin_ns.take(pieces))
    wait = np.full(len(pieces), -1, np.int64)
    for step in range(_MOST_AT_ONCE):
        here = np.minimum(at + step, len(rows) - 1)
        is_it = begin_ns.take(here) == path.begin_ns.take(pieces)
        is_it &= waits.tid.take(rows.take(here)) == path.tid.take(pieces)
        wait = np.where((wait < 0) & is_it, rows.take(here), wait)
    return pieces[wait >= 0], wait[wait >= 0]
