"""Waits that last from one interval to the next: each piece by the stack that the first one has.

Comes in: the samples of a part, behind those of earlier parts, and the times of its threads. Goes
out: the same with a sample more for each thread that waited as the part began: it has the stack of
the wait in the part before, and its period is how long the wait went on in this one. Of a wait
whose own sample was lost, that is the stack of the thread's wait before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.columns.table_rows import appended, taken
from prospect.records import replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.profile.model import Profile
    from prospect.profile.thread_times import ThreadTimes


def is_wait(profile: Profile) -> NDArray[np.bool_]:
    """Mark the samples that are waits, bool[n]."""
    is_waiting = np.array([event.is_waiting for event in profile.run.events], np.bool_)
    of_hit = np.append(is_waiting, False).take(profile.hits.event, mode="clip")
    found: NDArray[np.bool_] = of_hit.take(profile.samples.hit_index)
    return found


def with_merged_waits(profile: Profile) -> Profile:
    """Make the waits of one thread by one stack one sample, at the time of the last of them.

    A busy machine's waits would else be most of what a session can remember.
    """
    samples, waits = profile.samples, np.flatnonzero(is_wait(profile))
    if samples.tid is None or samples.period is None or not len(waits):
        return profile
    stack = samples.stack_index
    columns = [samples.tid, samples.hit_index, *([] if stack is None else [stack])]
    keys: list[NDArray[Any]] = [samples.time_ns, *columns]
    order = waits.take(np.lexsort([key.take(waits) for key in keys]))
    is_last = np.zeros(len(order), np.bool_)
    is_last[-1] = True
    for column in columns:
        ordered = column.take(order)
        is_last[:-1] |= ordered[1:] != ordered[:-1]
    last = np.flatnonzero(is_last)
    period = samples.period.copy()
    sums = np.add.reduceat(period.take(order), np.append(0, last[:-1] + 1))
    period[order.take(last)] = sums
    is_kept = np.ones(len(samples), np.bool_)
    is_kept[order[~is_last]] = False
    merged = np.bincount(samples.hit_index[~is_kept], minlength=len(profile.hits))
    return replace(
        profile,
        samples=taken(replace(samples, period=period), np.flatnonzero(is_kept)),
        hits=replace(profile.hits, count=profile.hits.count - merged),
    )


class OpenWaits:
    """The last wait of each thread in the last part: its row of the joined samples."""

    def __init__(self) -> None:
        self._row: dict[int, int] = {}

    def renumber(self, is_kept: NDArray[np.bool_]) -> None:
        """Follow samples that are left out: those that are kept are marked, bool[n]."""
        new_row = (np.cumsum(is_kept) - 1).tolist()
        self._row = {tid: new_row[row] for tid, row in self._row.items() if is_kept[row]}

    def go_on(
        self, whole: Profile, first: int, threads: ThreadTimes, begin_ns: int
    ) -> tuple[Profile, NDArray[np.int64]]:
        """Add the pieces of waits that go on in a part.

        Args:
            whole: the joined profile, the part's samples last.
            first: the part's first sample.
            threads: what threads did in the part.
            begin_ns: when the part began.

        Returns:
            The profile with the pieces, and i64[t] how long they are.
        """
        known_ns = np.zeros(len(threads), np.int64)
        samples = whole.samples
        if samples.tid is None or samples.period is None:
            return whole, known_ns
        waited = np.flatnonzero(
            (threads.begin_ns == np.uint64(begin_ns)) & (threads.since_before_ns > 0)
        )
        tids = threads.tid.take(waited).tolist()
        before = np.array([self._row.get(tid, -1) for tid in tids], np.intp)
        waited, before = waited[before >= 0], before[before >= 0]
        known_ns[waited] = threads.since_before_ns.take(waited)
        pieces = replace(
            taken(samples, before),
            time_ns=np.full(len(before), begin_ns, np.uint64),
            period=known_ns.take(waited).astype(np.uint64),
        )
        own = first + np.flatnonzero(is_wait(whole)[first:])
        own = own.take(np.argsort(samples.time_ns.take(own), kind="stable"))
        self._row = dict(
            zip(
                threads.tid.take(waited).tolist(),
                range(len(samples), len(samples) + len(before)),
                strict=True,
            )
        )
        self._row |= dict(zip(samples.tid.take(own).tolist(), own.tolist(), strict=True))
        count, period = whole.hits.count.copy(), whole.hits.period.copy()
        np.add.at(count, pieces.hit_index, 1)
        np.add.at(period, pieces.hit_index, known_ns.take(waited))
        joined = replace(
            whole,
            samples=appended(samples, pieces, np.arange(len(before))),
            hits=replace(whole.hits, count=count, period=period),
        )
        return joined, known_ns
