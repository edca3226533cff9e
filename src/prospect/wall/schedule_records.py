"""Records of the scheduler → stretches: the times that each thread had a CPU.

Records are whole columns. Times are nanoseconds on the recording's clock. Threads are numbers of
the kernel, which gives a number to another thread after the first one ended.

Stretches are in the order of threads and times. Records may be lost. If a thread leaves a CPU that
it never got, or gets one twice, the time between the two records is an unknown stretch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.sorting import distinct
from prospect.records import Record

if TYPE_CHECKING:
    from prospect.columns.array_types import I32, I64, U8, U64, Bools, Ints


BY_INTERRUPT = 0
NOT_RECORDED = -1
# Stretches whose steps or pieces are found at once.
BLOCK = 1 << 18
_BIRTH, _IN, _OUT = range(3)
_DIGIT_BITS = 16
_KEY_BITS = 63
_FEW_IDS = 1 << 24  # more than any kernel's pid_max


class Switches(Record):
    """Threads that get a CPU or leave it. Rows of the idle thread, 0, have no effect.

    Attributes:
        cpu: i32[n] the CPU, -1 if unknown.
        is_out: bool[n] whether the thread leaves the CPU.
        is_preempted: bool[n] whether it was runnable as it left.
    """

    time_ns: U64
    tid: I32
    cpu: I32
    is_out: Bools
    is_preempted: Bools


class Wakings(Record):
    """Wake-ups of `tid` by the thread `waker`, BY_INTERRUPT for a timer or a device."""

    time_ns: U64
    tid: I32
    waker: I32


class Births(Record):
    """Threads that began while the recording ran."""

    time_ns: U64
    tid: I32
    parent_tid: I32


class Processes(Record):
    """The process of each thread; `tid` ascends."""

    tid: I32
    pid: I32

    def pid_of(self, tid: I32) -> I32:
        """Return the process of each thread, i32[n]; its own number if unknown."""
        if not len(self.tid):
            return tid
        place = np.minimum(np.searchsorted(self.tid, tid), len(self.tid) - 1)
        return np.where(self.tid.take(place) == tid, self.pid.take(place), tid)


class SchedulerRecords(Record):
    """All records of a recording that say when threads ran, and why not.

    Attributes:
        begin_ns, end_ns: the time that was recorded.
        lost_ns: u64[l] when records are known to be missing.
    """

    switches: Switches
    wakings: Wakings
    births: Births
    processes: Processes
    begin_ns: int
    end_ns: int
    lost_ns: U64


class Command(Record):
    """The command whose wall time is explained.

    Attributes:
        tid: its first thread, from which its others descend.
        last_tid: the thread that ended last.
        everybody: whether the path may follow threads of other commands.
    """

    tid: int
    start_ns: int
    exit_ns: int
    last_tid: int
    everybody: bool = False


class Threads(Record):
    """Rows for numbers of threads, processes or CPUs, and keys of these with times.

    Attributes:
        tids: i32[t] ascending.
        begin_ns: the earliest time.
        bits: of a time in a key, after `shift` of its lowest bits are dropped.
    """

    tids: I32
    begin_ns: int
    bits: int
    shift: int

    def row(self, tid: I32) -> I32:
        """Return the row of each thread, i32[n], -1 for unknown ones."""
        if not len(self.tids):
            return np.full(len(tid), -1, np.int32)
        row = np.searchsorted(self.tids, tid).astype(np.int32)
        np.minimum(row, len(self.tids) - 1, out=row)
        return np.where(self.tids.take(row) == tid, row, np.int32(-1))

    def key(self, row: I32, time_ns: U64) -> I64:
        """Return i64[n], ascending by thread, then by time; negative for row -1."""
        key = row.astype(np.int64)
        key <<= self.bits
        since = np.maximum(time_ns, np.uint64(self.begin_ns)) - np.uint64(self.begin_ns)
        since >>= np.uint64(self.shift)
        key += np.minimum(since, np.uint64((1 << self.bits) - 1)).view(np.int64)
        return key


class Stretches(Record):
    """Times on a CPU, by thread and time.

    Attributes:
        thread: i32[s] row of `Threads`.
        in_ns, out_ns: u64[s].
        cpu: i32[s], -1 if unknown.
        is_known: bool[s] whether the thread ran all that time; if not, records are missing.
        is_preempted: bool[s] whether it was runnable at the end.
        since_ns: u64[s] the end of the stretch before; of a thread's first one its birth, or the
            start of the recording.
        birth: i32[s] the row of the birth that a first stretch follows, -1 for all others.
        is_first: bool[s] whether no stretch of the same life is before it.
        keys: i64[s] of threads and `in_ns`.
    """

    threads: Threads
    thread: I32
    in_ns: U64
    out_ns: U64
    cpu: I32
    is_known: Bools
    is_preempted: Bools
    since_ns: U64
    birth: I32
    is_first: Bools
    keys: I64

    def __len__(self) -> int:
        return len(self.thread)

    def tid(self, rows: Ints) -> I32:
        """Return the threads of some stretches, i32[n]."""
        return self.threads.tids.take(self.thread.take(rows))

    def last_before(self, tid: I32, time_ns: U64) -> I64:
        """Return the last stretch of each thread that began before a time, i64[n], -1 for none."""
        if not len(self):
            return np.full(len(tid), -1)
        row = self.threads.row(tid)
        at = np.searchsorted(self.keys, self.threads.key(row, time_ns)) - 1
        is_of_thread = (at >= 0) & (row >= 0)
        is_of_thread &= self.keys.take(at, mode="clip") >> self.threads.bits == row
        return np.where(is_of_thread, at, -1)


def stretches(records: SchedulerRecords) -> Stretches:
    """Find every stretch of every thread.

    Records from before the recording's start or after its end count as of then.
    """
    threads, mark_thread, time_ns, kind, mark_row = _marks(records)
    is_new = np.ones(len(kind), np.bool_)
    is_new[1:] = mark_thread[1:] != mark_thread[:-1]
    is_last = np.append(is_new[1:], True)[: len(kind)]
    before = np.roll(kind, 1)
    before_ns = np.roll(time_ns, 1)
    before_ns[is_new] = records.begin_ns
    # A thread without a birth is older than the recording.
    is_out_alone = (kind == _OUT) & (is_new | (before != _IN))
    at = np.flatnonzero((kind == _IN) | is_out_alone)
    is_out = kind.take(at) == _OUT
    after = np.minimum(at + 1, len(kind) - 1)
    ends = ~is_out & ~is_last.take(at) & (kind.take(after) == _OUT)
    closing = np.where(ends, after, at)
    until_ns = np.where(is_last.take(at), np.uint64(records.end_ns), time_ns.take(after))
    out_ns = np.where(is_out, time_ns.take(at), until_ns)
    in_ns = np.where(is_out, before_ns.take(at), time_ns.take(at))
    is_since_begin = is_out & is_new.take(at)
    is_known = np.where(is_out, is_since_begin, ends | is_last.take(at))
    thread = mark_thread.take(at)
    is_birth_before = ~is_new.take(at) & (before.take(at) == _BIRTH)
    is_first = is_new.take(at) | is_birth_before
    since_ns = np.append(np.uint64(0), out_ns[:-1])[: len(at)]
    since_ns[is_first] = before_ns.take(at)[is_first]
    switch = mark_row.take(closing)
    switches = records.switches
    return Stretches(
        threads=threads,
        thread=thread,
        in_ns=in_ns,
        out_ns=out_ns,
        cpu=switches.cpu.take(mark_row.take(at)),
        is_known=is_known,
        is_preempted=switches.is_preempted.take(switch) & switches.is_out.take(switch),
        since_ns=since_ns,
        birth=np.where(is_birth_before, mark_row.take(at - 1), -1).astype(np.int32),
        is_first=is_first,
        keys=threads.key(thread, in_ns),
    )


def _marks(records: SchedulerRecords) -> tuple[Threads, I32, U64, U8, I32]:
    """Return births and switches by thread and time.

    Returns:
        The threads; rows of these, times, kinds, and rows in the tables of births or switches.
    """
    switches, births = records.switches, records.births
    chosen, born = np.flatnonzero(switches.tid > 0), np.flatnonzero(births.tid > 0)
    tid = np.concatenate((births.tid.take(born), switches.tid.take(chosen)))
    time_ns = np.concatenate((births.time_ns.take(born), switches.time_ns.take(chosen)))
    np.clip(time_ns, np.uint64(records.begin_ns), np.uint64(records.end_ns), out=time_ns)
    kind = np.full(len(tid), _BIRTH, np.uint8)
    kind[len(born) :] = np.where(switches.is_out.take(chosen), _OUT, _IN)
    row = np.concatenate((born, chosen)).astype(np.int32)
    del chosen, born
    threads = threads_with_times(tid, records)
    order = by_thread_and_time(threads.row(tid), time_ns)
    thread = threads.row(tid.take(order))
    return threads, thread, time_ns.take(order), kind.take(order), row.take(order)


def threads_with_times(ids: I32, records: SchedulerRecords) -> Threads:
    """Return the distinct ids, none negative, with room for the times of records in their keys."""
    largest = int(ids.max(initial=0))
    if largest < _FEW_IDS:
        is_there = np.zeros(largest + 1, np.bool_)
        is_there[ids] = True
        found = np.flatnonzero(is_there).astype(np.int32)
    else:
        found = distinct(ids)
    bits = max(records.end_ns - records.begin_ns, 1).bit_length()
    room = _KEY_BITS - max(len(found), 1).bit_length()
    return Threads(found, records.begin_ns, min(bits, room), max(bits - room, 0))


def by_thread_and_time(row: I32, time_ns: U64) -> I64:
    """Return the order by thread, then by time, i64[n]; equal rows keep their order.

    Rows of threads are not below -1. The sort is quick if times are a few ascending pieces.
    """
    order = np.argsort(time_ns, kind="stable")
    # Numpy sorts 16-bit numbers by radix, in linear time.
    digits = row.view(np.uint32) + np.uint32(1)
    most = int(digits.max(initial=0))
    for shift in range(0, max(most.bit_length(), 1), _DIGIT_BITS):
        digit = (digits >> np.uint32(shift)).astype(np.uint16)
        order = order.take(np.argsort(digit.take(order), kind="stable"))
    return order
