"""Process rows: one life of a pid, from one birth to the next.

Goes out to `profile.model.ProcessTable`, which adds what no record carries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.model import BIRTH_PREEXISTING
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.spaces.replay import ProcessColumns


class ProcessRows(Record):
    """A row for each program image that a process ran: a new one at fork and at exec.

    Rows stand in the order in which they were learnt of: behind the row that forked them or that
    they replaced by exec. Going from parent to parent always ends, whatever a file says.

    Attributes:
        pid: i32[p]; -1 for the row of samples whose task the kernel could not name.
        parent_pid: i32[p], -1 where unknown.
        parent_row: i32[p] the row that forked this one, for an exec the row before it; -1 unknown.
        birth: u8[p] BIRTH_*.
        start_ns: u64[p] time of the birth, 0 for before the recording.
        end_ns: u64[p] time of the exit of the process's last thread, or of the exec or fork that
            began the pid's next row; 2**64 - 1 still running.
        name: i32[p] row of `World.names`: the main thread's last name in this row's life.
    """

    pid: NDArray[np.int32]
    parent_pid: NDArray[np.int32]
    parent_row: NDArray[np.int32]
    birth: NDArray[np.uint8]
    start_ns: NDArray[np.uint64]
    end_ns: NDArray[np.uint64]
    name: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.pid)


def freeze_processes(
    rows: ProcessColumns, ids: NDArray[np.int32], name: NDArray[np.int32]
) -> ProcessRows:
    """Turn the replay's columns, whose pids are ranks of `ids`, into process rows."""
    rank = np.array(rows.pid, np.int64)
    parent_rank = np.array(rows.parent_pid, np.int64)
    return ProcessRows(
        pid=ids.take(rank),
        parent_pid=np.where(parent_rank >= 0, ids.take(np.maximum(parent_rank, 0)), -1).astype(
            np.int32
        ),
        parent_row=np.array(_find_snapshot_parents(rows), np.int32),
        birth=np.array(rows.birth, np.uint8),
        start_ns=np.array(rows.start_ns, np.uint64),
        end_ns=np.array(rows.end_ns, np.uint64),
        name=name,
    )


def _find_snapshot_parents(rows: ProcessColumns) -> list[int]:
    """Return `parent_row`, with that of processes from before the recording filled in.

    A snapshot may list a child before its parent, hence only now. A file may say anything, so a
    step that would close a circle is left out.
    """
    parent_row = list(rows.parent_row)
    preexisting = [row for row, birth in enumerate(rows.birth) if birth == BIRTH_PREEXISTING]
    row_of = {rows.pid[row]: row for row in preexisting}
    for row in preexisting:
        parent_row[row] = row_of.get(rows.parent_pid[row], -1)
    is_checked = dict.fromkeys(preexisting, False)
    for row in preexisting:
        path = []
        current = row
        while current >= 0 and not is_checked[current]:
            is_checked[current] = True
            path.append(current)
            current = parent_row[current]
        if current in path:
            parent_row[path[-1]] = -1
    return parent_row
