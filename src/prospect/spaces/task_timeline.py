"""(pid, time) → process row, address space and epoch; (tid, time) → thread name.

Answers hold for any u64 time in nanoseconds. Each `Track` is one sorted table of u64 keys: the
dense rank of the id above, the time relative to the first change below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct, run_starts
from prospect.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.columns.array_types import I32, I64, U64, Bools

# include/linux/threads.h: PID_MAX_LIMIT. Below it a rank is one access to a table.
_PID_MAX_LIMIT = 1 << 22
_WORD_BITS = 64


class TaskIds(Record):
    """Dense ranks for pids and tids, which share one number space.

    Attributes:
        ids: i32[k] ascending and distinct; the first is -1, the unknown task.
        rank: i32[k] the rank of each; ids may share one.
        table: i32 rank by id + 1, with a last row for larger ids; None if ids are out of range.
    """

    ids: I32
    rank: I32
    table: I32 | None

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, ids: I32) -> I64:
        """Return each id's rank, i64; 0, which is the rank of -1, for ids that never occurred."""
        if self.table is not None:
            # Adding in 64 bits: the largest i32 must not wrap round to a negative index.
            return self.table.take(ids.astype(np.int64) + 1, mode="clip").astype(np.int64)
        ids = np.maximum(ids, np.int32(-1))
        row = np.searchsorted(self.ids, ids)
        np.minimum(row, len(self.ids) - 1, out=row)
        return np.where(self.ids.take(row) == ids, self.rank.take(row), 0).astype(np.int64)


def collect_ids(*columns: I32) -> TaskIds:
    """Rank the distinct ids of all columns; -1 is always among them and has rank 0.

    The kernel gives out no other negative id: these count as -1.
    """
    largest = max((int(column.max(initial=-1)) for column in columns), default=-1)
    if largest <= _PID_MAX_LIMIT:
        is_present = np.zeros(largest + 2, np.bool_)
        is_present[0] = True
        for column in columns:
            is_present[np.maximum(column, -1).astype(np.int64) + 1] = True
        ids = np.flatnonzero(is_present).astype(np.int32) - np.int32(1)
    else:
        lowest = np.array([-1], np.int32)
        ids = distinct(np.maximum(np.concatenate((lowest, *columns)), lowest))
    return with_ranks(ids, np.arange(len(ids), dtype=np.int32))


def with_ranks(ids: I32, rank: I32) -> TaskIds:
    """Give ascending `ids` these ranks."""
    table = None
    if ids[-1] <= _PID_MAX_LIMIT:
        table = np.zeros(int(ids[-1]) + 3, np.int32)
        table[ids.astype(np.int64) + 1] = rank
    return TaskIds(ids, rank, table)


class RelativeTime(Record):
    """u64 nanoseconds → few bits in the same order, as far as a track's changes separate times.

    Attributes:
        base_ns: earlier times become 0: only records of a snapshot have them.
        last_ns: later times become this one.
        ticks_ns: u64[d] distinct times of change, if the span has too many bits: a time is
            then replaced by how many of them it has reached. Else None.
        bits: bits of the largest result.
    """

    base_ns: int
    last_ns: int
    ticks_ns: U64 | None
    bits: int

    def find(self, time_ns: U64) -> U64:
        """Return the relative time of each time, u64."""
        if self.ticks_ns is not None:
            return np.searchsorted(self.ticks_ns, time_ns, side="right").astype(np.uint64)
        before = np.uint64(self.base_ns - 1)
        relative = np.clip(time_ns, before, np.uint64(self.last_ns))
        relative -= before
        return relative


def relative_time(time_ns: U64, available_bits: int) -> RelativeTime:
    """Choose how to pack the times of change points, and of queries between them.

    Times of change ascend, 0 for a snapshot's; `available_bits` of a key are left by the id's rank.
    """
    live = time_ns[np.searchsorted(time_ns, np.uint64(1)) :]
    base_ns = int(live[0]) if len(live) else 1
    last_ns = int(live[-1]) if len(live) else 1
    bits = (last_ns - base_ns + 1).bit_length()
    if bits <= available_bits:
        return RelativeTime(base_ns, last_ns, None, bits)
    ticks_ns = live.take(run_starts(live))
    return RelativeTime(base_ns, last_ns, ticks_ns, len(ticks_ns).bit_length())


class Track(Record):
    """The state of an id, by time. A time before an id's first change counts as after it.

    Attributes:
        ids: ranks of the ids.
        time: how times are packed.
        keys: u64[c] ascending, rank above and relative time below; the first row is for ids that
            never occurred.
    """

    ids: TaskIds
    time: RelativeTime
    keys: U64

    def find(self, ids: I32, time_ns: U64) -> I64:
        """Return the change that is in force for each (id, time): a row of the track, i64[n]."""
        return self._row(*self._packed(ids, time_ns))

    def find_runs(self, ids: I32, first_ns: U64, last_ns: U64) -> tuple[I64, Bools]:
        """Return the change in force at `first_ns`, and whether it still is at `last_ns`."""
        rank, first_key = self._packed(ids, first_ns)
        row = self._row(rank, first_key)
        last_key = (rank << np.uint64(self.time.bits)) | self.time.find(last_ns)
        following = np.minimum(row + 1, len(self.keys) - 1)
        holds = (self.keys.take(following) > last_key) | (following == row)
        # Ids without changes have the first row, which never ends.
        holds |= row == 0
        return row, holds

    def _packed(self, ids: I32, time_ns: U64) -> tuple[U64, U64]:
        rank = self.ids.find(ids).view(np.uint64)
        return rank, (rank << np.uint64(self.time.bits)) | self.time.find(time_ns)

    def _row(self, rank: U64, key: U64) -> I64:
        row = np.searchsorted(self.keys, key, side="right") - 1
        row[self.keys.take(row) >> np.uint64(self.time.bits) != rank] = 0
        return row


def build_track(ids: TaskIds, rank: Sequence[int], time_ns: Sequence[int]) -> tuple[Track, I64]:
    """Sort change points by id; `rank` is that of each one's id, whose times ascend.

    Returns:
        The track, and the change point that each of its rows is, i64[c + 1]: -1 for the first.
    """
    # The first one, a change of id -1, is for ids that never occurred.
    ranks = np.concatenate(([0], np.array(rank, np.int64)))
    times_ns = np.concatenate((np.zeros(1, np.uint64), np.array(time_ns, np.uint64)))
    order = np.argsort(ranks, kind="stable")
    ranks, times_ns = ranks.take(order), times_ns.take(order)
    rank_bits = max(len(ids) - 1, 1).bit_length()
    packing = relative_time(np.sort(times_ns), _WORD_BITS - rank_bits)
    relative = packing.find(times_ns)
    relative[run_starts(ranks)] = 0
    keys = (ranks.view(np.uint64) << np.uint64(packing.bits)) | relative
    return Track(ids, packing, keys), order - 1


class Timeline(Record):
    """The state of each process and thread at each time.

    Attributes:
        processes: changes of pids, rows of the next three columns.
        process_row: i32[c] row of `ProcessHistory.processes`; -1 if nothing is known of the pid.
        space, epoch: i32[c] for `AddressSpaces.locate`.
        threads: changes of tids.
        comm: i32[d] row of `ProcessHistory.names`, for the rows of `threads`; never -1.
    """

    processes: Track
    process_row: I32
    space: I32
    epoch: I32
    threads: Track
    comm: I32

    def programs_at(self, pid: I32, tid: I32, time_ns: U64) -> tuple[I32, I32]:
        """Return the process row of each thread at a time, and the row of its name, i32[n] each."""
        process_row = self.process_row.take(self.processes.find(pid, time_ns))
        return process_row, self.comm.take(self.threads.find(tid, time_ns))
