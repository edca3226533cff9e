"""Sample columns → runs: neighbouring samples of one task with times that do not fall.

The kernel writes a CPU's samples in chronological order and a task stays on a CPU for many of them,
so a question about (task, time) need be asked once a run instead of once a sample.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from prospect.events.record_columns import Samples

# A block's columns and their temporaries (8 bytes an element) stay in the second-level cache.
BLOCK_SAMPLES = 1 << 16
# Where the low half of a word is in memory.
_LOW_HALF = int(sys.byteorder == "big")


class TaskRuns(Record):
    """Runs of one block of samples.

    Attributes:
        first_sample: row of the block's first sample in the recording.
        start: i64[r] the runs' first samples, relative to `first_sample`, ascending from 0.
        length: i64[r] samples, at least 1.
        task: u64[r] as in `Samples.task`.
        first_ns, last_ns: u64[r] times of the runs' first and last samples.
    """

    first_sample: int
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    task: NDArray[np.uint64]
    first_ns: NDArray[np.uint64]
    last_ns: NDArray[np.uint64]


def task_runs(samples: Samples) -> Iterator[TaskRuns]:
    """Cut the samples into runs, block by block; a run never reaches over a block's end."""
    for first_sample in range(0, len(samples), BLOCK_SAMPLES):
        task = samples.task[first_sample : first_sample + BLOCK_SAMPLES]
        time_ns = samples.time_ns[first_sample : first_sample + BLOCK_SAMPLES]
        is_cut = task[1:] != task[:-1]
        is_cut |= time_ns[1:] < time_ns[:-1]
        cuts = np.flatnonzero(is_cut)
        start = np.concatenate(([0], cuts + 1))
        last = np.append(cuts, len(task) - 1)
        yield TaskRuns(
            first_sample=first_sample,
            start=start,
            length=last - start + 1,
            task=task.take(start),
            first_ns=time_ns.take(start),
            last_ns=time_ns.take(last),
        )


def task_pid(task: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Return the pid of each task word, i32; -1 if the kernel could not say."""
    return _halves(task, _LOW_HALF)


def task_tid(task: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Return the tid of each task word, i32; -1 if the kernel could not say."""
    return _halves(task, 1 - _LOW_HALF)


def viewed_tid(task: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Return the same, i32, as a view of the words, which stay in memory with it."""
    return np.ascontiguousarray(task).view(np.int32)[1 - _LOW_HALF :: 2]


def _halves(task: NDArray[np.uint64], half: int) -> NDArray[np.int32]:
    halves = np.ascontiguousarray(task).view(np.int32)
    return np.ascontiguousarray(halves[half::2])
