"""The records of the scheduler that a critical path is made of, as whole columns.

Times are nanoseconds on the recording's clock. Threads are numbers of the kernel, of which one may
be given again after a birth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

BY_INTERRUPT = 0
NOT_RECORDED = -1


class Switches(Record):
    """Threads that get a CPU or leave it; process zero, the idle one, is left out later.

    Attributes:
        time_ns: u64[n].
        tid: i32[n] the thread.
        cpu: i32[n] the CPU, -1 if unknown.
        is_out: bool[n] whether it leaves the CPU.
        is_preempted: bool[n] whether it could have gone on as it left.
    """

    time_ns: NDArray[np.uint64]
    tid: NDArray[np.int32]
    cpu: NDArray[np.int32]
    is_out: NDArray[np.bool_]
    is_preempted: NDArray[np.bool_]


class Wakings(Record):
    """Threads that are woken.

    Attributes:
        time_ns: u64[m].
        tid: i32[m] the thread that is woken.
        waker: i32[m] the thread that did it, BY_INTERRUPT for a timer or a device.
    """

    time_ns: NDArray[np.uint64]
    tid: NDArray[np.int32]
    waker: NDArray[np.int32]


class Births(Record):
    """Threads that began while the recording ran: `time_ns` u64, `tid` and `parent_tid` i32."""

    time_ns: NDArray[np.uint64]
    tid: NDArray[np.int32]
    parent_tid: NDArray[np.int32]


class Processes(Record):
    """The process of each thread: `tid` i32[t] ascending, and `pid` i32[t]."""

    tid: NDArray[np.int32]
    pid: NDArray[np.int32]

    def pid_of(self, tid: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the process of each thread, i32[n]; its own number where it is not known."""
        if not len(self.tid):
            return tid
        place = np.minimum(np.searchsorted(self.tid, tid), len(self.tid) - 1)
        return np.where(self.tid.take(place) == tid, self.pid.take(place), tid)


class SchedulerRecords(Record):
    """All records of a recording that say when threads ran, and why not.

    Attributes:
        processes: of the threads.
        begin_ns, end_ns: the time that was recorded.
        lost_ns: u64[l] when records are known to be missing.
    """

    switches: Switches
    wakings: Wakings
    births: Births
    processes: Processes
    begin_ns: int
    end_ns: int
    lost_ns: NDArray[np.uint64]


class Asked(Record):
    """The thread whose wall time is explained, and from when to when.

    Attributes:
        tid: the first thread of a command, which is the root of all its threads.
        start_ns, exit_ns: when the command began and ended.
        last_tid: the thread that ended last.
        everybody: whether the path goes on with threads that are not the command's own.
    """

    tid: int
    start_ns: int
    exit_ns: int
    last_tid: int
    everybody: bool = False
