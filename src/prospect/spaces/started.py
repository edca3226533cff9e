"""Mappings of programs that were started and map beside what they have, found all at once.

Comes in: side records as columns, in the order of time. Goes out: `Started`, the mappings that the
replay need not look at one by one: from an exec to the process's next one, where it forks no other
process meanwhile and none of its mappings covers another. Each stands in the space that the exec
began, at any time. Nearly all mappings of a build or a busy server are such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.events.columns import TASK_EXEC, TASK_FORK
from prospect.records import Record
from prospect.spaces.apart import file_by_tree

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.events.columns import Mmaps, Tasks
    from prospect.spaces.mappings import Mappings
    from prospect.spaces.timeline import TaskIds

# Below it a record's place among all, above it the rank of its pid.
_PLACE_BITS = 32


class Started(Record):
    """Which mappings are such, and which are not.

    Attributes:
        mapping: i64[k] ascending.
        task: i64[k] the record of the exec before each.
        other: i64[m - k] all others, ascending.
    """

    mapping: NDArray[np.int64]
    task: NDArray[np.int64]
    other: NDArray[np.int64]


def started_mappings(tasks: Tasks, mmaps: Mmaps, mappings: Mappings, ids: TaskIds) -> Started:
    """Find the mappings of programs that fork no process and never map over what they have.

    Args:
        tasks: records of tasks.
        mmaps: records of mappings.
        mappings: of these.
        ids: ranks of all pids.
    """
    in_time = np.argsort(np.concatenate((tasks.order, mmaps.order)), kind="stable")
    place = np.empty_like(in_time)
    place[in_time] = np.arange(len(in_time))
    of_task, of_mmap = place[: len(tasks.order)], place[len(tasks.order) :]
    is_live = tasks.time_ns > 0  # a snapshot says who runs, not that anything began
    is_birth = (tasks.kind == TASK_FORK) & (tasks.pid != tasks.parent_pid) & is_live
    begin = np.flatnonzero(is_birth | (tasks.kind == TASK_EXEC) & is_live)
    key = _key(ids.find(tasks.pid.take(begin)), of_task.take(begin))
    order = np.argsort(key)
    key, begin = key.take(order), begin.take(order)
    is_plain = ~is_birth.take(begin)
    forks = np.flatnonzero(is_birth)
    parent = _stretch(key, ids.find(tasks.parent_pid.take(forks)), of_task.take(forks))
    is_plain[parent[parent >= 0]] = False
    stretch = _stretch(key, ids.find(mmaps.pid), of_mmap)
    # The last entry is that of mappings before any exec or fork of their process.
    found = np.flatnonzero(np.append(is_plain, False).take(stretch))
    stretch = stretch.take(found)
    filed = file_by_tree(stretch, mappings.start.take(found), mappings.end.take(found), len(begin))
    is_apart = ~filed.overlaps.take(stretch)
    found = found[is_apart]
    is_other = np.ones(len(mmaps.start), np.bool_)
    is_other[found] = False
    return Started(found, begin.take(stretch[is_apart]), np.flatnonzero(is_other))


def _key(rank: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.int64]:
    return rank << _PLACE_BITS | place


def _stretch(
    begins: NDArray[np.int64], rank: NDArray[np.int64], place: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return which begin of its pid each record is behind, i64[n], -1 for none."""
    if not len(begins):
        return np.full(len(rank), -1)
    row = np.searchsorted(begins, _key(rank, place)) - 1
    is_of_pid = (row >= 0) & (begins.take(row) >> _PLACE_BITS == rank)
    return np.where(is_of_pid, row, -1)
