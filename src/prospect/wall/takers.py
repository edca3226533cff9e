"""Waits for a CPU → the threads that had that CPU meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import segments
from prospect.records import NamedTuple, Record, field_names
from prospect.wall.stretches import by_thread_and_time, numbered_with_times

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.wall.schedule_records import SchedulerRecords
    from prospect.wall.stretches import Stretches, Threads

NOBODY = 0
_BLOCK = 1 << 18


class Takers(Record):
    """Threads that had the CPU while a thread of the path waited for it.

    Attributes:
        piece: i64[k] row of `Pieces`, ascending.
        tid: i32[k] the thread, NOBODY if none had it: the CPU woke up, a CPU limit stopped the
            waiting thread, or a host had the CPU.
        length_ns: i64[k] how long; those of a piece add up to its length.
    """

    piece: NDArray[np.int64]
    tid: NDArray[np.int32]
    length_ns: NDArray[np.int64]


class Waits(Record):
    """Pieces in which a thread waited for a CPU.

    Attributes:
        piece: i64[w] row of `Pieces`.
        start_ns, end_ns: u64[w].
        stretch: i32[w] the stretch that follows each, whose CPU was waited for.
    """

    piece: NDArray[np.int64]
    start_ns: NDArray[np.uint64]
    end_ns: NDArray[np.uint64]
    stretch: NDArray[np.int32]


_COLUMNS = field_names(Waits)
_RESULTS = field_names(Takers)


def takers(records: SchedulerRecords, threads: Threads, found: Stretches, waits: Waits) -> Takers:
    """Find who had the CPUs in these waits.

    Args:
        records: of the recording.
        threads: of the stretches.
        found: the stretches.
        waits: of the path.
    """
    cpus = numbered_with_times(found.cpu[found.cpu >= 0], records)
    on_cpu = _on_cpus(cpus, found)
    parts = []
    for first in range(0, len(waits.piece), _BLOCK):
        block = Waits(*(getattr(waits, name)[first : first + _BLOCK] for name in _COLUMNS))
        parts.append(_of_block(cpus, threads, found, block, on_cpu))
    if not parts:
        empty = np.empty(0, np.int64)
        return Takers(empty, empty.astype(np.int32), empty)
    return Takers(*(np.concatenate([getattr(one, name) for one in parts]) for name in _RESULTS))


class _OnCpu(NamedTuple):
    """Known stretches by CPU and time, i64[k] `row`; u64[k] their times, i64[k] keys of these."""

    row: NDArray[np.int64]
    in_ns: NDArray[np.uint64]
    out_ns: NDArray[np.uint64]
    in_key: NDArray[np.int64]
    out_key: NDArray[np.int64]


def _on_cpus(cpus: Threads, found: Stretches) -> _OnCpu:
    rows = np.flatnonzero(found.is_known & (found.cpu >= 0))
    cpu = cpus.row(found.cpu.take(rows))
    order = by_thread_and_time(cpu, found.in_ns.take(rows))
    rows, cpu = rows.take(order), cpu.take(order)
    in_ns, out_ns = found.in_ns.take(rows), found.out_ns.take(rows)
    # If records are missing, stretches overlap: each then ends as the next one begins.
    is_same = cpu[1:] == cpu[:-1]
    out_ns[:-1] = np.where(is_same, np.minimum(out_ns[:-1], in_ns[1:]), out_ns[:-1])
    return _OnCpu(rows, in_ns, out_ns, cpus.key(cpu, in_ns), cpus.key(cpu, out_ns))


def _of_block(
    cpus: Threads, threads: Threads, found: Stretches, waits: Waits, on_cpu: _OnCpu
) -> Takers:
    cpu = cpus.row(found.cpu.take(waits.stretch))
    left = (waits.end_ns - waits.start_ns).view(np.int64)
    first = np.searchsorted(on_cpu.out_key, cpus.key(cpu, waits.start_ns), "right")
    count = np.searchsorted(on_cpu.in_key, cpus.key(cpu, waits.end_ns)) - first
    count = np.where(cpu >= 0, np.maximum(count, 0), 0)
    wait, at = np.repeat(np.arange(len(left)), count), segments(first, count)
    length = np.minimum(on_cpu.out_ns.take(at), waits.end_ns.take(wait)).view(np.int64)
    length -= np.maximum(on_cpu.in_ns.take(at), waits.start_ns.take(wait)).view(np.int64)
    length = np.maximum(length, 0)
    tid = threads.tids.take(found.thread.take(on_cpu.row.take(at)))
    np.subtract.at(left, wait, length)
    wait = np.concatenate((wait, np.arange(len(left))))
    tid = np.concatenate((tid, np.full(len(left), NOBODY, np.int32)))
    length = np.concatenate((length, left))
    kept = np.flatnonzero(length > 0)
    order = kept.take(np.argsort(wait.take(kept), kind="stable"))
    return Takers(waits.piece.take(wait.take(order)), tid.take(order), length.take(order))
