"""What threads did all their life: ran, waited for a CPU, or waited for something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCKED = "blocked"
RUNNABLE = "runnable"


class ThreadTimes(Record):
    """The life of every thread in the interval, by the scheduler's switches; exact.

    The times of a row add up to its life, from `begin_ns` to `end_ns`. Process zero, the idle one,
    has no row. Rows ascend by thread, then by begin: a number may be given again.

    Attributes:
        process_index: i32[t] into processes: the program that it was last; -1 where unknown.
        name: list[str] the thread's last name.
        tid: i32[t].
        begin_ns, end_ns: u64[t] on the recording's clock; birth and death where these lie within
            the interval.
        cpu_ns: i64[t] on a CPU, interrupts included.
        runnable_ns: i64[t] ready, without a CPU.
        blocked_ns: i64[t] waiting for anything else.
        unknown_ns: i64[t] between switches of which records are missing.
        stackless_ns: i64[t] runnable or blocked, by a stack that is not known: since before the
            interval, new threads until they get a CPU, and where the sample was lost.
        since_before_ns: i64[t] of these, in the wait that it was in as the interval began.
        blocks, preemptions: i64[t] how often it left a CPU to wait, and although it could go on.
        longest_ns: i64[t] the longest time that it was blocked.
    """

    process_index: NDArray[np.int32]
    name: list[str]
    tid: NDArray[np.int32]
    begin_ns: NDArray[np.uint64]
    end_ns: NDArray[np.uint64]
    cpu_ns: NDArray[np.int64]
    runnable_ns: NDArray[np.int64]
    blocked_ns: NDArray[np.int64]
    unknown_ns: NDArray[np.int64]
    stackless_ns: NDArray[np.int64]
    since_before_ns: NDArray[np.int64]
    blocks: NDArray[np.int64]
    preemptions: NDArray[np.int64]
    longest_ns: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.tid)

    @property
    def life_ns(self) -> NDArray[np.int64]:
        """How long each lived in the interval, i64[t]."""
        return (self.end_ns - self.begin_ns).view("int64")
