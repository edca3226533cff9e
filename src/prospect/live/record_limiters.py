"""Leave out drained records that a session does not need or cannot follow.

A program may rename its threads or map files a million times a second, with a record each time.
`RecordLimiter` keeps only the last of a thread's names in a drain. If one process still has too
many names and mappings, the rest is left out until the next look, and the session reports it.

A build or a shell script starts a thousand processes a second, each with a dozen records of its
fork, mappings and exit; at 19 samples a second hardly one of them has a sample. `ShortLivesLimiter`
leaves out processes that began and ended since the last look, without a sample and without kept
descendants. No profile shows them, and following their records costs more than finding them here,
on columns.

Source: ``kernel/events/core.c`` (Linux 6.18), perf_event_task(): FORK and EXIT are of a thread, and
have its process, the parent's process, its own number and the parent thread's, in this order.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.events.record_starts import Ignored, Looks, find_records
from prospect.live.live_limits import (
    MOST_GENERATIONS,
    MOST_LOOK_BYTES,
    MOST_NAMED_PROCESSES,
    MOST_OF_A_PROCESS,
    MOST_RUNTIME_NAME_BYTES,
    MOST_SIDE_RECORDS,
    MOST_UNSAMPLED_BYTES,
)
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from prospect.columns.array_types import I64, U64, Bools
    from prospect.events.record_starts import Positions
    from prospect.events.sample_schema import PerEvent, Schema
    from prospect.live.source import Gate


# A drain with fewer of these is not searched.
_FEW = 256

_MASK_LOW = np.uint64((1 << 32) - 1)
_SIZE_SHIFT = np.uint64(51)
_EXEC_BIT = np.uint64(abi.PERF_RECORD_MISC_COMM_EXEC << 32)
_MAPS = (abi.PERF_RECORD_MMAP, abi.PERF_RECORD_MMAP2)
_FLOODING = np.array(
    [abi.PERF_RECORD_COMM, abi.PERF_RECORD_FORK, abi.PERF_RECORD_EXIT, *_MAPS], np.uint64
)
_OTHERS = "Other processes do so too."


class RecordLimiter:
    """Leaves out names and mappings of processes that have too many between two looks.

    Attributes:
        limits: a sentence for each process whose names or mappings were left out.
        side_records: the records of processes that passed since the last `open`, in drains with
            many.
        most_bytes: the most that one look should read.
        condensed_bytes: the size of waiting records from which on `condensed` is called.
    """

    most_bytes = MOST_LOOK_BYTES
    condensed_bytes = sys.maxsize

    def __init__(self, schema: Schema) -> None:
        """Begin; all records of the schema have one layout of the tail."""
        self._time_from_end = _time_from_end(schema)
        self._least_words = schema.least_fixed_words
        self._passed: dict[int, int] = {}
        self.limits: list[str] = []
        self.side_records = 0

    def open(self) -> None:
        """Start counting again, after a look."""
        self._passed.clear()
        self.side_records = 0

    def passed(self, data: bytes) -> bytes:
        """Return whole records without the surplus; all of them if they are damaged."""
        words = np.frombuffer(data, "<u8", len(data) // 8)
        if np.count_nonzero(np.isin(words & _MASK_LOW, _FLOODING)) < _FEW:
            return data
        found = RecordStarts()
        if find_records(words, Looks(self._least_words), Ignored(), found) is not None:
            return data
        start = found.all()
        type_ = words.take(start) & _MASK_LOW
        self.side_records += int(np.isin(type_, _FLOODING).sum())
        is_exec = (words.take(start) & _EXEC_BIT) != 0
        renames = start[(type_ == abi.PERF_RECORD_COMM) & ~is_exec]
        superseded = self._superseded(words, renames)
        counted = np.sort(
            np.concatenate((np.setdiff1d(renames, superseded), start[np.isin(type_, _MAPS)]))
        )
        dropped = np.concatenate((superseded, self._beyond(words, counted)))
        if not len(dropped):
            return data
        self.side_records -= len(dropped)
        return without_records(words, dropped)

    def condensed(self, data: bytes, until_ns: int) -> bytes:
        """Return all records: a recording of the session has all processes."""
        del until_ns
        return data

    def is_full(self, size_bytes: int) -> bool:
        """Return whether one look should not read more than this."""
        return size_bytes > self.most_bytes or self.side_records > MOST_SIDE_RECORDS

    def _superseded(self, words: U64, renames: I64) -> I64:
        """Return the renames that a later one of the same thread follows."""
        task = words.take(renames + 1)
        end = renames + (words.take(renames) >> _SIZE_SHIFT).view(np.int64)
        order = np.lexsort((words.take(end + self._time_from_end), task))
        is_followed = task[order[:-1]] == task[order[1:]]
        followed: I64 = renames[order[:-1][is_followed]]
        return followed

    def _beyond(self, words: U64, start: I64) -> I64:
        """Return the records beyond the bound of their process; count those that pass."""
        pid = (words.take(start + 1) & _MASK_LOW).astype(np.uint32).view(np.int32)
        order = np.argsort(pid, kind="stable")
        pids, first, count = np.unique(pid[order], return_index=True, return_counts=True)
        room = np.empty(len(pids), np.int64)
        for row, (one, number) in enumerate(zip(pids.tolist(), count.tolist(), strict=True)):
            before = self._passed.get(one, 0)
            room[row] = max(MOST_OF_A_PROCESS - before, 0)
            self._passed[one] = before + number
            if number > room[row]:
                self._say(one)
        rank = np.arange(len(order)) - np.repeat(first, count)
        return start[order[rank >= np.repeat(room, count)]]

    def _say(self, pid: int) -> None:
        sentence = (
            f"Process {pid} names its threads or maps files more often than can be followed: some "
            "of its names and mappings are missing."
        )
        if len(self.limits) >= MOST_NAMED_PROCESSES and sentence not in self.limits:
            sentence = _OTHERS
        if sentence not in self.limits:
            self.limits.append(sentence)


def _time_from_end(schema: Schema) -> int:
    time = schema.tail["time"]
    return time if isinstance(time, int) else int(time[0])


def without_records(words: U64, start: I64) -> bytes:
    """Return records without those that begin at the words `start`, in any order."""
    start = np.sort(start)
    end = start + (words.take(start) >> _SIZE_SHIFT).view(np.int64)
    kept_begin, kept_end = np.append(0, end), np.append(start, len(words))
    stays = kept_begin < kept_end
    pieces = zip(kept_begin[stays].tolist(), kept_end[stays].tolist(), strict=True)
    return b"".join([words[begin:end].data for begin, end in pieces])


class RecordStarts:
    """The positions at which records of a kind begin."""

    def __init__(self) -> None:
        self._parts: list[I64] = []

    def append(self, words: U64, positions: Positions) -> None:
        """Add positions of a batch."""
        del words
        self._parts.append(np.asarray(positions, np.int64))

    def all(self) -> I64:
        """Return all positions, ascending."""
        return np.concatenate([np.empty(0, np.int64), *self._parts])


_HIGH_SHIFT = np.uint64(32)
_FORK, _EXIT = np.uint64(abi.PERF_RECORD_FORK), np.uint64(abi.PERF_RECORD_EXIT)
# Records whose second word begins with their process.
_OF_PROCESSES = np.array(
    [
        abi.PERF_RECORD_COMM,
        abi.PERF_RECORD_FORK,
        abi.PERF_RECORD_EXIT,
        abi.PERF_RECORD_MMAP,
        abi.PERF_RECORD_MMAP2,
        abi.PERF_RECORD_NAMESPACES,
    ],
    np.uint64,
)
# PID_MAX_LIMIT of include/linux/threads.h has 22 bits, and -1 is the kernel. A time has 40 bits of
# nanoseconds, 18 minutes; longer parts lose the last bits.
_PID_BITS = 23
_TIME_BITS = 40
_NEVER = np.uint64((1 << 64) - 1)
# Waiting records are searched at this size, and again when they have doubled.
_CONDENSED_BYTES = 2 << 20


class ShortLivesLimiter(RecordLimiter):
    """A `RecordLimiter` that also leaves out processes that came and went without a sample."""

    most_bytes = MOST_UNSAMPLED_BYTES
    condensed_bytes = _CONDENSED_BYTES

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self._schema = schema

    def passed(self, data: bytes) -> bytes:
        """Return all records: the surplus is counted after condensing."""
        return data

    def condensed(self, data: bytes, until_ns: int) -> bytes:
        """Return records without short lives; all of them if they are damaged.

        Args:
            data: all records since the last look, whole ones.
            until_ns: all records before this time are there; CPUs are drained in turn.
        """
        words = np.frombuffer(data, "<u8", len(data) // 8)
        start = _of_short_lives(words, self._schema, until_ns)
        self.open()
        return super().passed(without_records(words, start) if len(start) else data)


class _Lives(NamedTuple):
    """Records of processes and samples, in the order of process and time.

    A life is a run of them that begins with a birth, or with the first record of a process.

    Attributes:
        key: u64[n] ascending: process and time.
        life: i64[n] the life of each, ascending.
        start: i64[n] the word at which each begins, -1 for samples.
        is_fork, is_exit: bool[n], of threads too.
        is_birth: bool[n], of processes.
        is_own: bool[n], whether a FORK or EXIT is of the process's first thread.
        time_ns: u64[n].
    """

    key: U64
    life: I64
    start: I64
    is_fork: Bools
    is_exit: Bools
    is_birth: Bools
    is_own: Bools
    time_ns: U64


def _of_short_lives(words: U64, schema: Schema, until_ns: int) -> I64:
    """Return the words at which the records of short lives begin."""
    samples, others = _SampleStarts(), RecordStarts()
    looks = Looks(schema.least_fixed_words)
    if find_records(words, looks, samples, others) is not None:
        return np.empty(0, np.int64)
    side = others.all()
    side = side[np.isin(words.take(side) & _MASK_LOW, _OF_PROCESSES)]
    sampled = samples.all()
    if not len(side):
        return np.empty(0, np.int64)
    start = np.concatenate((side, sampled))
    end = side + (words.take(side) >> _SIZE_SHIFT).view(np.int64)
    side_time = _at(words, end + _time_from_end(schema))
    time = np.concatenate((side_time, _of(words, sampled, schema, "time")))
    task = np.concatenate((_at(words, side + 1), _of(words, sampled, schema, "tid")))
    pid = task & _MASK_LOW
    type_ = words.take(start) & _MASK_LOW
    is_fork, is_exit = type_ == _FORK, type_ == _EXIT
    is_birth = is_fork & (pid != task >> _HIGH_SHIFT)
    # The second word of FORK and EXIT has the thread.
    tid = _at(words, start + 2) & _MASK_LOW
    moment = _moments(time)
    key = _keys(pid, moment) + (~is_birth).view(np.uint8)
    order = np.argsort(key, kind="stable")
    key, is_birth, pid = key[order], is_birth[order], pid[order]
    life = np.cumsum(is_birth | np.append(True, pid[1:] != pid[:-1])) - 1
    is_sample = order >= len(side)
    ordered = _Lives(
        key=key,
        life=life,
        start=np.where(is_sample, -1, start[order]),
        is_fork=is_fork[order],
        is_exit=is_exit[order],
        is_birth=is_birth,
        is_own=(tid == task & _MASK_LOW)[order],
        time_ns=time[order],
    )
    has_ended = _ended(ordered, until_ns)
    parent = (task >> _HIGH_SHIFT)[order][is_birth]
    parent_key = _keys(parent, moment[order][is_birth]) + np.uint64(1)
    if not _keep_ancestors(has_ended, ordered, pid, parent, parent_key):
        return np.empty(0, np.int64)
    dropped: I64 = ordered.start[has_ended[life] & ~is_sample]
    return dropped


def _moments(time_ns: U64) -> U64:
    """Return u64[n] times since the first, of 40 bits; 0 for records of the state before."""
    is_known = time_ns > 0
    begin_ns = time_ns.min(where=is_known, initial=_NEVER)
    since = np.where(is_known, time_ns - begin_ns, np.uint64(0))
    surplus_bits = max(int(since.max()).bit_length() - _TIME_BITS, 0)
    moments: U64 = since >> np.uint64(surplus_bits)
    return moments


def _keys(pid: U64, moment: U64) -> U64:
    """Return u64[n] process and time as one number, with a free last bit."""
    short = np.minimum(pid, np.uint64((1 << _PID_BITS) - 1))
    return (short << np.uint64(_TIME_BITS + 1)) | (moment << np.uint64(1))


def _ended(lives: _Lives, until_ns: int) -> Bools:
    """Return bool[life]: whether a life has its birth, the exits of all threads, and no sample."""
    count = int(lives.life[-1]) + 1
    first = np.flatnonzero(np.append(True, lives.life[1:] != lives.life[:-1]))

    def number(chosen: Bools) -> I64:
        return np.bincount(lives.life[chosen], minlength=count)

    is_known = lives.is_birth[first] & (number(lives.start < 0) == 0)
    has_ended = (number(lives.is_exit) >= number(lives.is_fork)) & (
        number(lives.is_exit & lives.is_own) > 0
    )
    is_late = number(lives.time_ns >= np.uint64(max(until_ns, 0))) > 0
    result: Bools = is_known & has_ended & ~is_late
    return result


def _keep_ancestors(
    has_ended: Bools, lives: _Lives, pid: U64, parent: U64, parent_key: U64
) -> bool:
    """Unset `has_ended` of lives with kept descendants, which inherit their names and mappings.

    Return whether all were found.
    """
    place = np.searchsorted(lives.key, parent_key, "right") - 1
    is_here = (place >= 0) & (pid.take(place, mode="clip") == parent)
    of_parent = lives.life.take(place, mode="clip")[is_here]
    of_child = lives.life[lives.is_birth][is_here]
    for _ in range(MOST_GENERATIONS):
        needed = of_parent[~has_ended[of_child] & has_ended[of_parent]]
        if not len(needed):
            return True
        has_ended[needed] = False
    return False


def _at(words: U64, place: I64) -> U64:
    """Return words at places; a target's records may be shorter than the fields of their kind."""
    return words.take(place, mode="clip")


def _of(words: U64, start: I64, schema: Schema, name: str) -> U64:
    """Return u64[n] a field of samples; 0 for samples of an unknown event."""
    offset: PerEvent = schema.sample[name]
    if isinstance(offset, int):
        return _at(words, start + offset)
    if schema.ids is None:
        return np.zeros(len(start), np.uint64)
    event, _ = schema.ids.events_of(_at(words, start + schema.id_word))
    found = _at(words, start + offset.take(event, mode="clip"))
    found[event < 0] = 0
    return found


class _SampleStarts(RecordStarts):
    """The positions at which samples begin; `rewind` removes a batch of them."""

    def __init__(self) -> None:
        super().__init__()
        self._sure = 0

    def begin_batch(self, *_: int | None) -> None:
        """Confirm the positions so far."""
        self._sure = len(self._parts)

    def rewind(self) -> None:
        """Remove the positions that were added since the batch began."""
        del self._parts[self._sure :]


class Bounds(Record):
    """The bounds of a session; the defaults suit `top`.

    Attributes:
        most_samples: samples that the profile remembers, 0 for a number by the CPUs.
        most_addresses: addresses whose names stay in memory from one part to the next.
        most_symbols: symbols of images that stay in memory.
        most_name_bytes: the size of names of runtimes' functions that stay in memory.
        spool_bytes: the most that `save` can write; 0 keeps no records.
        gate: makes the limiter of records.
    """

    most_samples: int = 0
    most_addresses: int = 1 << 19
    most_symbols: int = 1 << 22
    most_name_bytes: int = MOST_RUNTIME_NAME_BYTES
    spool_bytes: int = 1 << 29
    gate: Callable[[Schema], Gate] = RecordLimiter
