"""Records of the scheduler → the critical path of a command, in pieces that add up to its time.

The path goes backwards from the command's exit. A piece is a time when a thread of the path ran,
waited for a CPU, or was blocked until something ended that which the path does not follow. Each
piece begins where the one before ends, so that they add up to the wall time whatever is missing.

For waits for a CPU, the threads that had that CPU meanwhile are found.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import gather, segments
from prospect.records import NamedTuple, Record, field_names, replace
from prospect.wall.schedule_records import (
    NOT_RECORDED,
    by_thread_and_time,
    numbered_with_times,
    stretches,
)
from prospect.wall.steps import steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.wall.schedule_records import Asked, SchedulerRecords, Stretches, Threads
    from prospect.wall.steps import Steps


RUNNING, WAITING, BLOCKED, NOT_KNOWN = range(4)
# Stretches whose pieces are made at once.
BLOCK = 1 << 18

NOBODY = 0
_BLOCK = 1 << 18


class Pieces(Record):
    """The pieces of a path, in chronological order: each begins where the one before ends.

    Attributes:
        start_ns, end_ns: u64[p].
        tid: i32[p] the thread.
        cpu: i32[p] that the thread had, or got after it; -1 if unknown.
        kind: u8[p] RUNNING, WAITING (for a CPU), BLOCKED or NOT_KNOWN.
        ended_by: i32[p] of blocked ones the thread that ended it, BY_INTERRUPT or NOT_RECORDED.
        takers: who had the CPU in the pieces of the kind WAITING.
    """

    start_ns: NDArray[np.uint64]
    end_ns: NDArray[np.uint64]
    tid: NDArray[np.int32]
    cpu: NDArray[np.int32]
    kind: NDArray[np.uint8]
    ended_by: NDArray[np.int32]
    takers: Takers

    def __len__(self) -> int:
        return len(self.tid)


def critical_path(records: SchedulerRecords, asked: Asked) -> Pieces | None:
    """Follow a command's wall time backwards from its exit.

    Returns:
        The pieces; None if the thread that ended last never had a CPU.
    """
    of = schedule(records, asked, *stretches(records))
    if of is None:
        return None
    parts = _parts(of.stretches, of.steps, of.last, (of.start_ns, of.exit_ns))
    return pieces_of(records, of.threads, of.stretches, parts)


class Schedule(Record):
    """A command's run: when its threads had CPUs, and what each time on a CPU depended on.

    Attributes:
        threads: that had a CPU.
        stretches: their times on CPUs.
        steps: what was before each of these.
        last: the stretch with which the command ended.
        start_ns, exit_ns: when the command began and ended, within the recording.
    """

    threads: Threads
    stretches: Stretches
    steps: Steps
    last: int
    start_ns: int
    exit_ns: int

    @property
    def seconds(self) -> float:
        """How long the command took."""
        return (self.exit_ns - self.start_ns) * 1e-9


def schedule(
    records: SchedulerRecords, asked: Asked, threads: Threads, found: Stretches
) -> Schedule | None:
    """Return the schedule of a command; None if the thread that ended last never had a CPU."""
    exit_ns = min(max(asked.exit_ns, records.begin_ns), records.end_ns)
    start_ns = max(asked.start_ns, records.begin_ns)
    last = _last_stretch(threads, found, asked.last_tid, exit_ns)
    if last is None or start_ns >= exit_ns:
        return None
    every = steps(records, threads, found, asked.tid, everybody=asked.everybody)
    return Schedule(threads, found, every, last, start_ns, exit_ns)


def _last_stretch(threads: Threads, found: Stretches, tid: int, end_ns: int) -> int | None:
    """Return the last stretch of a thread that began before a time; None without one."""
    of_thread = threads.row(np.array([tid], np.int32))
    keys = threads.key(found.thread, found.in_ns)
    last = int(np.searchsorted(keys, threads.key(of_thread, np.array([end_ns], np.uint64))[0])) - 1
    if last < 0 or of_thread[0] < 0 or found.thread[last] != of_thread[0]:
        return None
    return last


class Parts(NamedTuple):
    """Pieces without who had the CPUs: as `Pieces`, each with its stretch, i32[p]."""

    start_ns: NDArray[np.uint64]
    end_ns: NDArray[np.uint64]
    stretch: NDArray[np.int32]
    kind: NDArray[np.uint8]
    ended_by: NDArray[np.int32]


def _parts(found: Stretches, every: Steps, last: int, interval_ns: tuple[int, int]) -> Parts:
    """Follow the path from its last stretch, and return its pieces in chronological order."""
    visited = _walk(every, last, interval_ns[0])
    start_ns, enter_ns = (np.uint64(time_ns) for time_ns in interval_ns)
    blocks = []
    for first in range(0, len(visited), BLOCK):
        block = visited[first : first + BLOCK]
        left_ns = every.enter_ns.take(block)
        parts, _ = parts_of_stretches(found, every, block, np.append(enter_ns, left_ns[:-1]))
        blocks.append(parts)
        enter_ns = left_ns[-1]
    if enter_ns > start_ns:
        # Nothing is known of the time before a thread that the path ends with.
        blocks.append(
            Parts(
                np.array([start_ns]),
                np.array([enter_ns]),
                visited[-1:],
                np.array([NOT_KNOWN], np.uint8),
                np.array([NOT_RECORDED], np.int32),
            )
        )
    blocks.reverse()
    parts = Parts(*(np.concatenate(columns) for columns in zip(*blocks, strict=True)))
    # Only the first pieces may begin before the command.
    first = int(np.searchsorted(parts.end_ns, start_ns, "right"))
    parts = Parts._make(column[first:] for column in parts)
    return parts._replace(start_ns=np.maximum(parts.start_ns, start_ns))


def _walk(every: Steps, last: int, start_ns: int) -> NDArray[np.int32]:
    """Return the stretches on the path, the last one first, i32[v]."""
    previous, enter_ns = every.previous.data, every.enter_ns.data
    visited = array("i")
    row = last
    # Each stretch begins before the one that it leads to, so none is met twice.
    while row >= 0:
        visited.append(row)
        if enter_ns[row] <= start_ns:
            break
        row = previous[row]
    return np.frombuffer(visited, np.int32)


def parts_of_stretches(
    found: Stretches, every: Steps, visited: NDArray[np.int32], enter_ns: NDArray[np.uint64]
) -> tuple[Parts, NDArray[np.int64]]:
    """Return what these stretches have on the path, each entered at its end or before.

    From its end: a gap behind it, itself, the wait for its CPU, and the block before that.

    Returns:
        The parts, those of the last stretch first, and i64[p] which of the visits each is of.
    """
    in_ns, out_ns = found.in_ns.take(visited), found.out_ns.take(visited)
    ready_ns, blocked_ns = every.ready_ns.take(visited), every.blocked_ns.take(visited)
    stays_ns = np.maximum(np.minimum(enter_ns, out_ns), in_ns)
    ends = np.stack((enter_ns, stays_ns, in_ns, ready_ns), axis=1).reshape(-1)
    starts = np.stack((stays_ns, in_ns, ready_ns, blocked_ns), axis=1).reshape(-1)
    kind = np.tile(np.array([NOT_KNOWN, RUNNING, WAITING, BLOCKED], np.uint8), len(visited))
    kind[1::4][~found.is_known.take(visited)] = NOT_KNOWN
    is_there = np.flatnonzero(ends > starts)[::-1]
    stretch, kind = visited.take(is_there >> 2), kind.take(is_there)
    ended_by = np.where(kind == BLOCKED, every.ended_by.take(stretch), np.int32(NOT_RECORDED))
    parts = Parts(starts.take(is_there), ends.take(is_there), stretch, kind, ended_by)
    return parts, is_there >> 2


def pieces_of(
    records: SchedulerRecords, threads: Threads, found: Stretches, parts: Parts
) -> Pieces:
    """Return the pieces with their threads, and who had the CPUs that these waited for."""
    starts, ends, stretch, kind, ended_by = parts
    # A wait that something lost may have ended.
    is_lost = (kind == BLOCKED) & (ended_by == NOT_RECORDED)
    lost_ns = np.sort(records.lost_ns)
    is_lost &= np.searchsorted(lost_ns, ends, "right") > np.searchsorted(lost_ns, starts)
    kind = np.where(is_lost, np.uint8(NOT_KNOWN), kind)
    piece = np.flatnonzero(kind == WAITING)
    waits = Waits(piece, starts.take(piece), ends.take(piece), stretch.take(piece))
    return Pieces(
        start_ns=starts,
        end_ns=ends,
        tid=threads.tids.take(found.thread.take(stretch)),
        cpu=found.cpu.take(stretch),
        kind=kind,
        ended_by=ended_by,
        takers=takers(records, threads, found, waits),
    )


def pieces_at(pieces: Pieces, rows: NDArray[np.int64]) -> Pieces:
    """Return some of the pieces, i64[k] ascending, with who had their CPUs."""
    had = pieces.takers
    number = np.full(len(pieces), -1, np.int64)
    number[rows] = np.arange(len(rows))
    of_taker = number.take(had.piece)
    kept = np.flatnonzero(of_taker >= 0)
    takers = Takers(of_taker.take(kept), had.tid.take(kept), had.length_ns.take(kept))
    return replace(gather(pieces, rows, "takers"), takers=takers)


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
    """Find who had the CPUs in these waits."""
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
