"""System calls that the recorder counted + process rows → `SyscallTable`.

They are the value of `syscalls` in Prospect's own feature section (docs/recording.md), which
anybody may have written. There is no table if nothing was counted, or if the value is not what a
recorder writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.abi.syscall_names import NO_SUCH_CALL, syscall_name
from prospect.assembly.extras import counts_of, is_i32, mapping_of, number_of
from prospect.columns.grouping import group_sums
from prospect.profile.model import SyscallTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.profile.model import ProcessTable

_COLUMNS = ("image", "number", "compat", "calls", "ended", "time_ns")
# Sums of any counts that a document can hold stay within 64 bits.
_MOST = 1 << 62


def describe_syscalls(info: RecordingInfo, processes: ProcessTable) -> SyscallTable | None:
    """Build the table of counted system calls; rows ascend by process, then by name."""
    document = mapping_of(info.extras.get("syscalls"))
    counts = _columns(document.get("counts"))
    image_pid, since_ns = _images(document.get("images"))
    if counts is None or image_pid is None or not _are_rows(counts["image"], len(image_pid)):
        return None
    process = _rows_at(image_pid, since_ns, processes)
    called, name_of_call = np.unique(
        counts["number"] << 1 | (counts["compat"] > 0), return_inverse=True
    )
    names, name_index = _names(info.arch, called.tolist())
    (row, name, compat), (calls, ended, time_ns) = group_sums(
        (process.take(counts["image"]) + 1, name_index[name_of_call], counts["compat"] > 0),
        tuple(counts[column] for column in ("calls", "ended", "time_ns")),
    )
    return SyscallTable(
        process_index=(row - 1).astype(np.int32),
        name_index=name.astype(np.int32),
        is_compat=compat.astype(np.bool_),
        calls=calls,
        unfinished=np.maximum(calls - ended, 0),
        time_ns=time_ns,
        names=names,
        dropped=next(iter(counts_of([document.get("dropped")])), 0),
        cost_ns=max(number_of(document.get("cost_ns")), 0.0),
    )


def _columns(document: object) -> dict[str, NDArray[np.int64]] | None:
    """Return the columns of the counts, None unless all are there and equally long."""
    columns = {name: counts_of(mapping_of(document).get(name)) for name in _COLUMNS}
    rows = len(columns["image"])
    if not rows or any(len(column) != rows for column in columns.values()):
        return None
    arrays = {name: np.array(column, np.int64) for name, column in columns.items()}
    summed = [arrays[name] for name in ("calls", "ended", "time_ns")]
    if any(column.sum(dtype=np.float64) >= _MOST for column in summed):
        return None
    return arrays if (arrays["number"] <= NO_SUCH_CALL).all() else None


def _images(document: object) -> tuple[NDArray[np.int64] | None, NDArray[np.uint64]]:
    """Return pid and since_ns of the program images, None for pids that cannot be any."""
    pids: Any = mapping_of(document).get("pid")
    since_ns = counts_of(mapping_of(document).get("since_ns"))
    if type(pids) is not list or len(pids) != len(since_ns) or not all(map(is_i32, pids)):
        return None, np.empty(0, np.uint64)
    return np.array(pids, np.int64), np.array(since_ns, np.uint64)


def _are_rows(index: NDArray[np.int64], rows: int) -> bool:
    return bool((index < rows).all())


def _names(machine: str, called: list[int]) -> tuple[list[str], NDArray[np.int64]]:
    """Return distinct names in order, and for each ``number * 2 + compat`` which of them it has."""
    names = [syscall_name(machine, call >> 1, compat=bool(call & 1)) for call in called]
    distinct = sorted(set(names))
    place = {name: index for index, name in enumerate(distinct)}
    return distinct, np.array([place[name] for name in names], np.int64)


def _rows_at(
    pid: NDArray[np.int64], time_ns: NDArray[np.uint64], processes: ProcessTable
) -> NDArray[np.int64]:
    """Return i64: the process row of each pid at a time; its first row before that, -1 for none.

    A row begins at the fork or the exec, and an image is known from its first call on, so that
    the last row that had begun is the one.
    """
    count = len(processes)
    every_pid = np.concatenate((processes.pid.astype(np.int64), pid))
    every_time = np.concatenate((processes.start_ns, time_ns))
    is_asked = np.arange(len(every_pid)) >= count
    order = np.lexsort((is_asked, every_time, every_pid))
    places = np.arange(len(order))
    is_row = ~is_asked.take(order)
    before = np.maximum.accumulate(np.where(is_row, places, -1))
    after = np.minimum.accumulate(np.where(is_row, places, len(order))[::-1])[::-1]
    found = np.full(len(order), -1, np.int64)
    for near in (after, before):  # the one before wins
        row = order.take(np.clip(near, 0, len(order) - 1))
        is_own = (near >= 0) & (near < len(order)) & (every_pid.take(row) == every_pid.take(order))
        found = np.where(is_own, row, found)
    result = np.empty(len(order), np.int64)
    result[order] = found
    return result[count:]
