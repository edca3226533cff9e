"""Records of the scheduler → the critical path of a command, in pieces that add up to its time.

The path goes backwards from the command's exit. A piece is a time when a thread of the path ran,
waited for a CPU, or was blocked until something that the path does not follow ended the block. Each
piece begins where the one before ends, so they add up to the wall time even if records are missing.

For waits for a CPU, the path names the threads that had that CPU meanwhile.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.buffers import gather, segments
from prospect.records import NamedTuple, Record, replace
from prospect.wall.schedule_records import (
    BLOCK,
    NOT_RECORDED,
    by_thread_and_time,
    stretches,
    threads_with_times,
)
from prospect.wall.steps import steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prospect.columns.array_types import I32, I64, U8, U64
    from prospect.wall.schedule_records import Command, SchedulerRecords, Stretches, Threads
    from prospect.wall.steps import Steps


RUNNING, WAITING, BLOCKED, NOT_KNOWN = range(4)
NOBODY = 0


class Pieces(Record):
    """The pieces of a path, in chronological order: each begins where the one before ends.

    Attributes:
        cpu: i32[p] the thread's CPU, or the one that it got next; -1 if unknown.
        kind: u8[p] RUNNING, WAITING (for a CPU), BLOCKED or NOT_KNOWN.
        ended_by: i32[p] the thread that ended a blocked piece, BY_INTERRUPT or NOT_RECORDED.
        takers: the threads that had the CPU in pieces of the kind WAITING.
    """

    start_ns: U64
    end_ns: U64
    tid: I32
    cpu: I32
    kind: U8
    ended_by: I32
    takers: Takers

    def __len__(self) -> int:
        return len(self.tid)


class Takers(Record):
    """Threads that had the CPU while a thread of the path waited for it.

    Attributes:
        piece: i64[k] row of `Pieces`, ascending.
        tid: i32[k] the thread, NOBODY if none had it: the CPU woke up, a CPU limit stopped the
            waiting thread, or a host had the CPU.
        length_ns: i64[k] how long; those of a piece add up to its length.
    """

    piece: I64
    tid: I32
    length_ns: I64


def critical_path(records: SchedulerRecords, command: Command) -> Pieces | None:
    """Follow a command's wall time backwards from its exit.

    Returns:
        The pieces; None if the thread that ended last never had a CPU.
    """
    of = schedule(records, command, stretches(records))
    return None if of is None else pieces_of(records, of.stretches, _parts(of))


class Schedule(Record):
    """A command's run: when its threads had CPUs, and what each time on a CPU depended on.

    Attributes:
        stretches: the times of threads on CPUs.
        steps: what was before each of these.
        last: the stretch with which the command ended.
        start_ns, exit_ns: when the command began and ended, within the recording.
    """

    stretches: Stretches
    steps: Steps
    last: int
    start_ns: int
    exit_ns: int

    @property
    def seconds(self) -> float:
        """How long the command took."""
        return (self.exit_ns - self.start_ns) * 1e-9


def schedule(records: SchedulerRecords, command: Command, found: Stretches) -> Schedule | None:
    """Return the schedule of a command; None if the thread that ended last never had a CPU."""
    exit_ns = min(max(command.exit_ns, records.begin_ns), records.end_ns)
    start_ns = max(command.start_ns, records.begin_ns)
    last_tid = np.array([command.last_tid], np.int32)
    last = int(found.last_before(last_tid, np.array([exit_ns], np.uint64))[0])
    if last < 0 or start_ns >= exit_ns:
        return None
    every = steps(records, found, None if command.everybody else command.tid)
    return Schedule(found, every, last, start_ns, exit_ns)


class Parts(NamedTuple):
    """Pieces without takers; `stretch` i32[p] has their threads and CPUs."""

    start_ns: U64
    end_ns: U64
    stretch: I32
    kind: U8
    ended_by: I32

    @classmethod
    def unknown(cls, start_ns: U64, end_ns: U64, stretch: I32) -> Parts:
        """Return parts in which nothing is known of the threads."""
        count = len(stretch)
        kind = np.full(count, NOT_KNOWN, np.uint8)
        return cls(start_ns, end_ns, stretch, kind, np.full(count, NOT_RECORDED, np.int32))

    @classmethod
    def concatenate(cls, blocks: Iterable[Parts]) -> Parts:
        """Return the parts of all blocks, of which there is at least one."""
        return cls(*(np.concatenate(columns) for columns in zip(*blocks, strict=True)))

    def take(self, rows: I64) -> Parts:
        """Return some of the parts."""
        return Parts._make(column.take(rows) for column in self)


def _parts(of: Schedule) -> Parts:
    """Follow the path from its last stretch, and return its pieces in chronological order."""
    every = of.steps
    visited = _walk(every, of.last, of.start_ns)
    start_ns, enter_ns = np.uint64(of.start_ns), np.uint64(of.exit_ns)
    blocks = []
    for first in range(0, len(visited), BLOCK):
        block = visited[first : first + BLOCK]
        left_ns = every.enter_ns.take(block)
        entered_ns = np.append(enter_ns, left_ns[:-1])
        blocks.append(parts_of_stretches(of.stretches, every, block, entered_ns)[0])
        enter_ns = left_ns[-1]
    if enter_ns > start_ns:
        # Nothing is known of the time before the thread with which the path begins.
        blocks.append(Parts.unknown(np.array([start_ns]), np.array([enter_ns]), visited[-1:]))
    parts = Parts.concatenate(reversed(blocks))
    # Only the first pieces may begin before the command.
    first = int(np.searchsorted(parts.end_ns, start_ns, "right"))
    parts = Parts._make(column[first:] for column in parts)
    return parts._replace(start_ns=np.maximum(parts.start_ns, start_ns))


def _walk(every: Steps, last: int, start_ns: int) -> I32:
    """Return the stretches on the path, the last one first, i32[v]."""
    previous, enter_ns = every.previous.data, every.enter_ns.data
    visited = array("i")
    row = last
    # Each stretch begins before the one that it leads to, so the path visits none twice.
    while row >= 0:
        visited.append(row)
        if enter_ns[row] <= start_ns:
            break
        row = previous[row]
    return np.frombuffer(visited, np.int32)


def parts_of_stretches(
    found: Stretches, every: Steps, visited: I32, enter_ns: U64
) -> tuple[Parts, I64]:
    """Return the parts of the path that these stretches give, entering each at `enter_ns`.

    They are, backwards: a gap after the stretch, the stretch, the wait for its CPU, and the block
    before that.

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


def pieces_of(records: SchedulerRecords, found: Stretches, parts: Parts) -> Pieces:
    """Return the pieces with their threads, and the takers of the CPUs that these waited for."""
    starts, ends, stretch, kind, ended_by = parts
    # The wake-up that ended this block may be among the lost records.
    is_lost = (kind == BLOCKED) & (ended_by == NOT_RECORDED)
    lost_ns = np.sort(records.lost_ns)
    is_lost &= np.searchsorted(lost_ns, ends, "right") > np.searchsorted(lost_ns, starts)
    kind = np.where(is_lost, np.uint8(NOT_KNOWN), kind)
    return Pieces(
        start_ns=starts,
        end_ns=ends,
        tid=found.tid(stretch),
        cpu=found.cpu.take(stretch),
        kind=kind,
        ended_by=ended_by,
        takers=_takers(records, found, parts, np.flatnonzero(kind == WAITING)),
    )


def pieces_at(pieces: Pieces, rows: I64) -> Pieces:
    """Return some of the pieces, i64[k] ascending, with their takers."""
    had = pieces.takers
    number = np.full(len(pieces), -1, np.int64)
    number[rows] = np.arange(len(rows))
    of_taker = number.take(had.piece)
    takers = gather(replace(had, piece=of_taker), np.flatnonzero(of_taker >= 0))
    return replace(gather(pieces, rows, "takers"), takers=takers)


def _takers(records: SchedulerRecords, found: Stretches, parts: Parts, piece: I64) -> Takers:
    """Find the threads that had the CPUs in the waits, i64[w] rows of `parts`."""
    cpus = threads_with_times(found.cpu[found.cpu >= 0], records)
    on_cpu = _on_cpus(cpus, found)
    blocks = [
        _takers_of_block(cpus, found, on_cpu, parts, piece[first : first + BLOCK])
        for first in range(0, max(len(piece), 1), BLOCK)
    ]
    return Takers(*(np.concatenate(columns) for columns in zip(*blocks, strict=True)))


class _OnCpu(NamedTuple):
    """Known stretches by CPU and time, i64[k] `row`; u64[k] their times, i64[k] keys of these."""

    row: I64
    in_ns: U64
    out_ns: U64
    in_key: I64
    out_key: I64


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


def _takers_of_block(
    cpus: Threads, found: Stretches, on_cpu: _OnCpu, parts: Parts, piece: I64
) -> tuple[I64, I32, I64]:
    """Return the columns of `Takers` for some waits."""
    start_ns, end_ns = parts.start_ns.take(piece), parts.end_ns.take(piece)
    cpu = cpus.row(found.cpu.take(parts.stretch.take(piece)))
    left = (end_ns - start_ns).view(np.int64)
    first = np.searchsorted(on_cpu.out_key, cpus.key(cpu, start_ns), "right")
    count = np.searchsorted(on_cpu.in_key, cpus.key(cpu, end_ns)) - first
    count = np.where(cpu >= 0, np.maximum(count, 0), 0)
    wait, at = np.repeat(np.arange(len(left)), count), segments(first, count)
    length = np.minimum(on_cpu.out_ns.take(at), end_ns.take(wait)).view(np.int64)
    length -= np.maximum(on_cpu.in_ns.take(at), start_ns.take(wait)).view(np.int64)
    length = np.maximum(length, 0)
    tid = found.tid(on_cpu.row.take(at))
    np.subtract.at(left, wait, length)
    wait = np.concatenate((wait, np.arange(len(left))))
    tid = np.concatenate((tid, np.full(len(left), NOBODY, np.int32)))
    length = np.concatenate((length, left))
    kept = np.flatnonzero(length > 0)
    order = kept.take(np.argsort(wait.take(kept), kind="stable"))
    return piece.take(wait.take(order)), tid.take(order), length.take(order)
