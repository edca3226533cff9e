"""Waits for a CPU → the threads that had that CPU meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import segments
from prospect.columns.sorting import distinct
from prospect.records import NamedTuple, Record, field_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.wall.stretches import Stretches, Threads

NOBODY = 0
_BLOCK = 1 << 18


class Takers(Record):
    """Who had the CPU while a thread of the path waited for it.

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


def takers(threads: Threads, found: Stretches, waits: Waits) -> Takers:
    """Find who had the CPUs in these waits.

    Args:
        threads: of the stretches.
        found: the stretches.
        waits: of the path.
    """
    parts = []
    of_cpu = {cpu: _of_cpu(found, cpu) for cpu in distinct(found.cpu.take(waits.stretch)).tolist()}
    for first in range(0, len(waits.piece), _BLOCK):
        block = Waits(*(getattr(waits, name)[first : first + _BLOCK] for name in _COLUMNS))
        parts.append(_of_block(threads, found, block, of_cpu))
    if not parts:
        empty = np.empty(0, np.int64)
        return Takers(empty, empty.astype(np.int32), empty)
    return Takers(*(np.concatenate([getattr(one, name) for one in parts]) for name in _RESULTS))


class _OnCpu(NamedTuple):
    """Known stretches on a CPU, in the order of time: `row`, `in_ns` and `out_ns`."""

    row: NDArray[np.int64]
    in_ns: NDArray[np.uint64]
    out_ns: NDArray[np.uint64]


def _of_cpu(found: Stretches, cpu: int) -> _OnCpu:
    rows = np.flatnonzero((found.cpu == cpu) & found.is_known)
    rows = rows.take(np.argsort(found.in_ns.take(rows), kind="stable"))
    in_ns, out_ns = found.in_ns.take(rows), found.out_ns.take(rows)
    # Where records are missing, stretches overlap: each then ends as the next one begins.
    np.minimum(out_ns[:-1], in_ns[1:], out=out_ns[:-1])
    return _OnCpu(rows, in_ns, out_ns)


def _of_block(
    threads: Threads, found: Stretches, waits: Waits, of_cpu: dict[int, _OnCpu]
) -> Takers:
    cpu_of_wait = found.cpu.take(waits.stretch)
    left = (waits.end_ns - waits.start_ns).view(np.int64)
    waits_of_rows, tids, lengths = [], [], []
    for cpu in distinct(cpu_of_wait).tolist():
        on_cpu = of_cpu[cpu]
        here = np.flatnonzero(cpu_of_wait == cpu)
        first = np.searchsorted(on_cpu.out_ns, waits.start_ns.take(here), "right")
        count = np.searchsorted(on_cpu.in_ns, waits.end_ns.take(here)) - first
        count = np.maximum(count, 0)
        wait, at = np.repeat(here, count), segments(first, count)
        length = np.minimum(on_cpu.out_ns.take(at), waits.end_ns.take(wait)).view(np.int64)
        length -= np.maximum(on_cpu.in_ns.take(at), waits.start_ns.take(wait)).view(np.int64)
        waits_of_rows.append(wait)
        tids.append(threads.tids.take(found.thread.take(on_cpu.row.take(at))))
        lengths.append(length)
        np.subtract.at(left, wait, length)
    waits_of_rows.append(np.arange(len(left)))
    tids.append(np.full(len(left), NOBODY, np.int32))
    lengths.append(left)
    wait, length = np.concatenate(waits_of_rows), np.concatenate(lengths)
    kept = np.flatnonzero(length > 0)
    order = kept.take(np.argsort(wait.take(kept), kind="stable"))
    piece = waits.piece.take(wait.take(order))
    return Takers(piece, np.concatenate(tids).take(order), length.take(order))
