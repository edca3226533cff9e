"""Times of threads in one interval after another → their times in all of them.

Comes in: `ThreadTimes` of parts, in the order of time. Goes out: those of all parts. A thread that
lives as a part ends is the same one as the part after it begins; its times add up, and its program
and name are the last. A wait that lasts from part to part is `longest_ns` long only within each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.table_rows import appended, taken
from prospect.records import NamedTuple, Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from prospect.profile.model import ProcessTable
    from prospect.profile.run_info import RunInfo
    from prospect.profile.thread_times import ThreadTimes

ProcessKey = tuple[int, int]
"""The pid of a process, and when its program began; see `JoinedProfile`."""

_SUMS = (
    "cpu_ns",
    "runnable_ns",
    "blocked_ns",
    "unknown_ns",
    "stackless_ns",
    "since_before_ns",
    "blocks",
    "preemptions",
)


class PartOfThreads(NamedTuple):
    """Times of threads in an interval.

    Attributes:
        threads: `since_before_ns` is 0 where the wait began in an earlier part.
        programs: the process of each.
        begin_ns: the interval's begin.
        end_ns: its end.
    """

    threads: ThreadTimes
    programs: list[ProcessKey | None]
    begin_ns: int
    end_ns: int


def part_of_threads(
    threads: ThreadTimes, processes: ProcessTable, run: RunInfo, known_ns: NDArray[np.int64]
) -> PartOfThreads:
    """Return a part's times.

    Args:
        threads: of the part.
        processes: that its rows refer to.
        run: the part's.
        known_ns: i64[t] of `stackless_ns`, what has the stack of a wait in the part before.
    """
    keys = list(zip(processes.pid.tolist(), processes.start_ns.tolist(), strict=True))
    return PartOfThreads(
        threads=replace(
            threads,
            stackless_ns=threads.stackless_ns - known_ns,
            since_before_ns=threads.since_before_ns - known_ns,
        ),
        programs=[keys[row] if row >= 0 else None for row in threads.process_index.tolist()],
        begin_ns=run.begin_ns,
        end_ns=run.end_ns,
    )


class JoinedThreads(Record, frozen=False):
    """What was added so far; the rows are in the order in which threads were met."""

    whole: PartOfThreads | None = None

    def add(self, part: PartOfThreads) -> None:
        """Add the times of the interval that follows."""
        if self.whole is None:
            self.whole = part
            return
        whole, threads = self.whole, part.threads
        lives = np.flatnonzero(whole.threads.end_ns == np.uint64(whole.end_ns)).tolist()
        row_of = {
            tid: row for row, tid in zip(lives, whole.threads.tid[lives].tolist(), strict=True)
        }
        was_there = (threads.begin_ns == np.uint64(part.begin_ns)).tolist()
        row = np.array(
            [
                row_of.get(tid, -1) if before else -1
                for tid, before in zip(threads.tid.tolist(), was_there, strict=True)
            ],
            np.int64,
        )
        goes_on, new = np.flatnonzero(row >= 0), np.flatnonzero(row < 0)
        joined = appended(whole.threads, threads, new)
        programs = [*whole.programs, *(part.programs[at] for at in new.tolist())]
        rows = row[goes_on]
        # The columns are new ones: nobody else has them yet.
        for name in _SUMS:
            getattr(joined, name)[rows] += getattr(threads, name)[goes_on]
        joined.end_ns[rows] = threads.end_ns[goes_on]
        joined.longest_ns[rows] = np.maximum(joined.longest_ns[rows], threads.longest_ns[goes_on])
        for at, into in zip(goes_on.tolist(), rows.tolist(), strict=True):
            joined.name[into] = threads.name[at]
            programs[into] = part.programs[at]
        self.whole = PartOfThreads(joined, programs, whole.begin_ns, part.end_ns)

    def table(self, rows_of: Callable[[Iterable[ProcessKey | None]], list[int]]) -> ThreadTimes:
        """Return the times of all threads.

        Args:
            rows_of: gives the rows of processes, -1 for none.

        Raises:
            ValueError: nothing was added yet.
        """
        if self.whole is None:
            raise ValueError("times of no parts")
        threads, programs, *_ = self.whole
        index = np.array(rows_of(programs), np.int32)
        found = replace(threads, process_index=index)
        return taken(found, np.lexsort((found.begin_ns, found.tid)))
