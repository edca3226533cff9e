"""The samples and the waits that are on the critical path of a command, of all in a profile.

Moments of threads become numbers in one order: by thread, then by time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import gather, segments
from prospect.columns.sorting import distinct
from prospect.errors import UsageError
from prospect.figures.selection import only_used
from prospect.profile.complete import complete
from prospect.profile.model import NO_PATH, PATH_BLOCKED, PATH_RAN, PATH_WAITED
from prospect.records import replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.profile.model import Profile, SampleTable, WaitTable, WallPath


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
    """Return the samples that hit a thread of the path while it was on it, and their pieces.

    The path is a command's, or of turns: a sample is in as many pieces as have it.
    """
    nothing = np.empty(0, np.int64)
    pieces = np.flatnonzero(path.state == PATH_RAN)
    if samples.tid is None or not len(pieces) or not len(samples):
        return nothing, nothing
    tid, begin_ns = path.tid.take(pieces), path.begin_ns.take(pieces)
    end_ns = begin_ns + path.length_ns.take(pieces).view(np.uint64)
    of_samples, begins, ends = moment_keys(
        (samples.tid, samples.time_ns), (tid, begin_ns), (tid, end_ns)
    )
    order = np.argsort(of_samples, kind="stable")
    ordered = of_samples.take(order)
    first = np.searchsorted(ordered, begins)
    count = np.searchsorted(ordered, ends) - first
    return order.take(segments(first, count)), np.repeat(pieces, count)


def waits_on(
    path: WallPath, waits: WaitTable, state: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pieces whose wait is in the table, and its rows there, i64[k] each.

    `state` is that of the pieces: PATH_BLOCKED or PATH_WAITED.
    """
    pieces = np.flatnonzero(path.state == state)
    rows = np.flatnonzero(waits.is_runnable == (state == PATH_WAITED))
    if not len(rows):
        return pieces[:0], rows
    tid, time_ns = path.tid.take(pieces), path.begin_ns.take(pieces)
    begin_ns = waits.begin_ns.take(rows)
    begins, wanted = moment_keys((waits.tid.take(rows), begin_ns), (tid, time_ns))
    order = np.argsort(begins, kind="stable")
    place = np.searchsorted(begins.take(order), wanted, "right") - 1
    row = rows.take(order.take(np.maximum(place, 0)))
    is_in = (place >= 0) & (waits.tid.take(row) == tid)
    is_in &= time_ns < waits.begin_ns.take(row) + waits.length_ns.take(row)
    return pieces[is_in], row[is_in]


_KEY_BITS = 63


def moment_keys(
    *moments: tuple[NDArray[np.int32], NDArray[np.uint64]],
) -> list[NDArray[np.int64]]:
    """Return keys, i64[n], of several columns of threads and times, which compare with each other.

    Times that many threads and a long interval leave no room for lose their lowest bits.

    Args:
        moments: i32[n] threads and u64[n] times in ns.
    """
    tids = distinct(np.concatenate([tid for tid, _ in moments]))
    times = [time_ns for _, time_ns in moments if len(time_ns)]
    begin_ns = np.uint64(min((int(one.min()) for one in times), default=0))
    length_ns = max((int(one.max()) for one in times), default=0) - int(begin_ns)
    room = _KEY_BITS - max(len(tids), 1).bit_length()
    bits = min(max(length_ns, 1).bit_length(), room)
    shift = np.uint64(max(length_ns.bit_length() - room, 0))
    return [
        (np.searchsorted(tids, tid).astype(np.int64) << bits)
        | ((time_ns - begin_ns) >> shift).astype(np.int64)
        for tid, time_ns in moments
    ]
