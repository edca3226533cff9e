"""Functions of threads that had a lock which others waited for.

The thread that wakes the waiter had the lock. Its functions meanwhile are known from its samples on
a CPU within the wait, each worth its time, and from its own waits, whose length is exact; not
before it got the lock, if it waited for it too. A wait for Python's global lock that ends by its
time-out, after 5 ms, is followed by others, until its holder ends one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.columns.table_rows import gather
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prospect.figures.stacks.frames import FrameTable, NamedForest
    from prospect.profile.complete import CompleteProfile

_NS = 1e-9
_MOST_HOLDERS = 1000  # threads, those that others waited for longest
_MOST_ROWS = 10
# A function of these is not what its holder wanted of the lock.
_SYSTEM_LIBRARIES = ("libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "[vdso]")


class LockHolder(NamedTuple):
    """A function of threads that had a lock, while others waited for it.

    Attributes:
        lock: the name of the kind of lock.
        function: innermost of the program, not of the C library.
        caller: its caller, "" if that is not known.
        seconds: how long others waited meanwhile, those that waited at once together.
    """

    lock: str
    function: str
    caller: str
    seconds: float


class LockWaits(Record):
    """Waits for locks: `lock` i8[n] the kind, `tid` and `holder` i32[n], from and until ns i64[n].

    `holder` is not above 0 if it is not known.
    """

    lock: NDArray[np.int8]
    tid: NDArray[np.int32]
    holder: NDArray[np.int32]
    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]


class ThreadMoments(Record):
    """What threads did: `tid` i32[m], from and until ns i64[m], and `row` i64[m] of a forest.

    `seconds` f64[m] is what a moment is worth that does not last, as of a sample; NaN for others.
    """

    tid: NDArray[np.int32]
    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    row: NDArray[np.int64]
    seconds: NDArray[np.float64]


def with_next_holders(waits: LockWaits) -> LockWaits:
    """Return waits in the order of threads and times, each ended by who ended the thread's next."""
    order = np.lexsort((waits.begin_ns, waits.tid, waits.lock))
    waits = gather(waits, order)
    tid, lock, holder = waits.tid, waits.lock, waits.holder
    places = np.where(holder > 0, np.arange(len(order)), len(order))
    following = np.minimum.accumulate(places[::-1])[::-1]
    at = np.minimum(following, len(order) - 1)
    is_its = (following < len(order)) & (tid.take(at) == tid) & (lock.take(at) == lock)
    return replace(waits, holder=np.where(is_its, holder.take(at), np.int32(0)))


def waited_meanwhile(waits: LockWaits, moments: ThreadMoments, lock: int) -> NDArray[np.float64]:
    """Return f64[m]: how long others waited for a lock of a thread while it did something.

    Args:
        waits: with their holders.
        moments: of any threads.
        lock: the kind.
    """
    of_lock = np.flatnonzero((waits.lock == lock) & (waits.holder > 0))
    found = np.zeros(len(moments.tid))
    holder, begin, end = (one.take(of_lock) for one in (waits.holder, waits.begin_ns, waits.end_ns))
    holders, place = np.unique(holder, return_inverse=True)
    total = np.bincount(place, (end - begin).astype(np.float64), len(holders))
    for number in np.argsort(-total)[:_MOST_HOLDERS].tolist():
        rows = np.flatnonzero(moments.tid == holders[number])
        if not len(rows):
            continue
        of_holder = place == number
        ended = end[of_holder]
        got = np.sort(waits.end_ns[(waits.lock == lock) & (waits.tid == holders[number])])
        got = np.append(np.iinfo(np.int64).min, got)
        got = got.take(np.searchsorted(got, ended, "left") - 1)
        begins, ends = np.sort(np.maximum(begin[of_holder], got)), np.sort(ended)
        until, since = moments.end_ns.take(rows), moments.begin_ns.take(rows)
        # Waits that are under way, and the sum of such from the first one on.
        lasting = _elapsed(begins, ends, until) - _elapsed(begins, ends, since)
        under_way = np.searchsorted(begins, since, "right") - np.searchsorted(ends, since, "right")
        seconds = moments.seconds.take(rows)
        found[rows] = np.where(np.isnan(seconds), lasting * _NS, under_way * seconds)
    return found


def _elapsed(
    begins: NDArray[np.int64], ends: NDArray[np.int64], at: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return f64[k] how long intervals lasted until some moments, together, in ns."""

    def since(times: NDArray[np.int64]) -> NDArray[np.float64]:
        count = np.searchsorted(times, at, "right")
        sums = np.append(0.0, np.cumsum((times - begins[0]).astype(np.float64)))
        elapsed: NDArray[np.float64] = count * (at - begins[0]).astype(np.float64) - sums.take(
            count
        )
        return elapsed

    return since(begins) - since(ends)


def lock_holders(
    waits: LockWaits,
    moments: ThreadMoments,
    names: dict[int, str],
    functions: tuple[NDArray[np.int64], NDArray[np.int64]],
    labels: Sequence[str],
) -> tuple[LockHolder, ...]:
    """Return the functions that held others up, those with most time first.

    Args:
        waits: for locks.
        moments: of all threads.
        names: of the kinds of locks.
        functions: i64[t] each the frame and its caller's of each row of the forest, as from
            `own_functions`, -1 for none.
        labels: the name of each frame.
    """
    waits = with_next_holders(waits)
    is_of_holder = np.isin(moments.tid, distinct(waits.holder))
    rows = np.flatnonzero(is_of_holder)
    moments = gather(moments, rows)
    frame, caller = (column.take(moments.row) for column in functions)
    sums: dict[tuple[str, str, str], float] = {}
    for lock, name in names.items():
        seconds = waited_meanwhile(waits, moments, lock)
        key, place = np.unique(frame * (len(labels) + 1) + caller + 1, return_inverse=True)
        total = np.bincount(place, seconds, len(key))
        for row in np.flatnonzero((total > 0) & (key >= 0)).tolist():
            function, above = divmod(int(key[row]), len(labels) + 1)
            words = (name, labels[function], labels[above - 1] if above else "")
            sums[words] = sums.get(words, 0.0) + float(total[row])
    ordered = sorted(sums.items(), key=lambda one: -one[1])
    return tuple(LockHolder(*words, seconds) for words, seconds in ordered[:_MOST_ROWS])


def own_functions(
    profile: CompleteProfile, frames: FrameTable, forest: NamedForest, user_row: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the innermost function of each stack that is not the C library's, and its caller.

    Args:
        profile: completed.
        frames: of its locations.
        forest: stacks of these.
        user_row: i64[t] the row of the program's innermost frame, -1 for none.

    Returns:
        i64[t] frames each, -1 for none.
    """
    is_system = np.array(
        [path.rpartition("/")[2].startswith(_SYSTEM_LIBRARIES) for path in profile.objects.path],
        np.bool_,
    )
    is_system_row = np.append(is_system.take(frames.object_index).take(forest.frame_index), False)
    row = user_row
    for _ in range(int(forest.depth.max(initial=0)) + 1):
        goes_on = np.flatnonzero(is_system_row.take(row))
        if not len(goes_on):
            break
        row = row.copy()
        row[goes_on] = forest.caller_index.take(row.take(goes_on))
    row = np.where(row < 0, user_row, row)
    frame_of = np.append(forest.frame_index, -1)
    above = np.append(forest.caller_index, -1).take(row)
    return frame_of.take(row), frame_of.take(above)
