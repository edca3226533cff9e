"""Samples of Python processes without a Python function → a sentence for each process.

Comes in: samples, and the stacks that were read at them or not. Goes out: notes on processes of
which much was not read, or something that should have been.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import python_frames as wire

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.events.columns import Samples
    from prospect.events.python_records import PythonRecords
    from prospect.profile.run_info import ProcessNote

_PID = np.uint64((1 << 32) - 1)
_MOST_PROCESSES = 1000
# Starting and ending leave a few samples of every process.
_SHARE, _LEAST = 0.02, 10


def unread_notes(
    records: PythonRecords, samples: Samples, read: NDArray[np.int64]
) -> tuple[ProcessNote, ...]:
    """Say of which processes samples show no Python function, and why.

    What a process was before Python ran in it, and what it became by an exec, is not counted.

    Args:
        records: all stacks.
        samples: of the recording.
        read: i64[r] rows of `records` that belong to a sample and have frames.
    """
    pid_of_record = records.task & _PID
    order, pids, start = _by_pid(samples)
    notes = []
    for pid in np.unique(pid_of_record).tolist()[:_MOST_PROCESSES]:
        row = int(np.searchsorted(pids, pid))
        if row == len(pids) or pids[row] != pid:
            continue
        mine = pid_of_record == pid
        at = records.sample[mine]
        of_pid = order[start[row] : start[row + 1]]
        first = np.searchsorted(of_pid, at.min())
        total = int(np.searchsorted(of_pid, at.max(), side="right") - first)
        shown = int(np.count_nonzero(mine.take(read)))
        status = records.status[mine]
        frames = np.diff(records.start)[mine]
        threads = int(np.count_nonzero(status == wire.NO_THREAD))
        broken = int(np.count_nonzero(status == wire.FAULT))
        cut = int(np.count_nonzero(status == wire.TRUNCATED))
        missing = total - shown - threads
        much = max(_SHARE * total, _LEAST)
        is_much = missing > much
        parts = [f"{missing} of {total} samples show no Python function"] if is_much else []
        parts += [f"{threads} are of threads that are not Python's"] if threads and is_much else []
        lost = int(np.count_nonzero((status == wire.FAULT) & (frames == 0)))
        if broken - lost > much:
            parts.append(f"the frames of {broken - lost} samples could not be read to the end")
        if cut:
            parts.append(f"of {cut} samples only the innermost {wire.MOST_FRAMES} frames were read")
        if parts:
            notes.append((pid, f"Process {pid}: {'; '.join(parts)}."))
    return tuple(notes)


def _by_pid(
    samples: Samples,
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64]]:
    """Return samples in the order of their processes, these, and where each one's begin and end."""
    pid = samples.task & _PID
    order = np.argsort(pid, kind="stable")
    ordered = pid.take(order)
    start = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return order, ordered.take(start), np.append(start, len(order))
