"""Drained records → the same without processes that began and ended unsampled.

Comes in: whole records since the last look, and up to when all of them are there. Goes out: the
same, without the records of processes that were born and ended meanwhile, of which there is no
sample, and that left no descendants which are kept. A build or a shell script starts a thousand
processes a second, each with a dozen records of its beginning, mappings and end; at 19 samples a
second hardly one of them is hit. Nothing in a profile of samples speaks of the others, and each of
their records would cost more to follow than to recognise here, on columns.

Source: ``kernel/events/core.c`` (Linux 6.18), perf_event_task(): FORK and EXIT are of a thread, and
have its process, the parent's process, its own number and the parent thread's, in this order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.events.records import Looks, find_records
from prospect.live.floods import FloodGate, RecordStarts, without_records
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.events.schema import PerEvent, Schema

    Words = NDArray[np.uint64]
    Rows = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_MASK_LOW = np.uint64((1 << 32) - 1)
_SIZE_SHIFT = np.uint64(51)
_HIGH_SHIFT = np.uint64(32)
_FORK, _EXIT = np.uint64(abi.PERF_RECORD_FORK), np.uint64(abi.PERF_RECORD_EXIT)
# Those whose second word begins with the process that they are about.
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
# PID_MAX_LIMIT of include/linux/threads.h has 22 bits, and -1 is the kernel's. A time has 40, in
# ns: 18 minutes; in longer parts some last bits are left out.
_PID_BITS = 23
_TIME_BITS = 40
# Each generation of orphans whose descendants are kept is a step; more are not looked for.
_MOST_STEPS = 64
_NEVER = np.uint64((1 << 64) - 1)
# What waits is looked through at this size, and again when it has doubled.
_CONDENSED_BYTES = 2 << 20
_MOST_BYTES = 1 << 26


class ShortLivesGate(FloodGate):
    """Leaves out what is too much between two looks, and who came and went unsampled."""

    most_bytes = _MOST_BYTES
    condensed_bytes = _CONDENSED_BYTES

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self._schema = schema

    def passed(self, data: bytes) -> bytes:
        """Return all: what is too much is seen when it has been condensed."""
        return data

    def condensed(self, data: bytes, until_ns: int) -> bytes:
        """Return records without short lives; all of them where they are damaged.

        Args:
            data: whole records, all since the last look.
            until_ns: of what was before that, all records are there; CPUs are drained in turn.
        """
        words = np.frombuffer(data, "<u8", len(data) // 8)
        start = _of_short_lives(words, self._schema, until_ns)
        self.open()
        return super().passed(without_records(words, start) if len(start) else data)


class _Lives(NamedTuple):
    """Records of processes and samples, in the order of process and time.

    A life is a stretch of them that begins with a birth, or with the first of a process.

    Attributes:
        key: u64[n] ascending: process and time.
        life: i64[n] which life each is of, ascending.
        start: i64[n] where each begins, -1 for samples.
        is_fork, is_exit, is_birth: bool[n], the first of threads too.
        is_own: bool[n] of FORK and EXIT, whether it is the process's first thread.
        time_ns: u64[n].
    """

    key: NDArray[np.uint64]
    life: Rows
    start: Rows
    is_fork: Flags
    is_exit: Flags
    is_birth: Flags
    is_own: Flags
    time_ns: NDArray[np.uint64]


def _of_short_lives(words: Words, schema: Schema, until_ns: int) -> Rows:
    """Return where the records begin that nobody will ask about."""
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
    tail_time = schema.tail["time"]
    time_from_end = tail_time if isinstance(tail_time, int) else int(tail_time[0])
    time = np.concatenate((_at(words, end + time_from_end), _of(words, sampled, schema, "time")))
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
    dropped: Rows = ordered.start[has_ended[life] & ~is_sample]
    return dropped


def _moments(time_ns: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return u64[n] times since the first, of 40 bits; 0 for what was there before."""
    is_known = time_ns > 0
    begin_ns = time_ns.min(where=is_known, initial=_NEVER)
    since = np.where(is_known, time_ns - begin_ns, np.uint64(0))
    surplus_bits = max(int(since.max()).bit_length() - _TIME_BITS, 0)
    moments: NDArray[np.uint64] = since >> np.uint64(surplus_bits)
    return moments


def _keys(pid: NDArray[np.uint64], moment: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return u64[n] process and time as one number, whose last bit is free."""
    short = np.minimum(pid, np.uint64((1 << _PID_BITS) - 1))
    return (short << np.uint64(_TIME_BITS + 1)) | (moment << np.uint64(1))


def _ended(lives: _Lives, until_ns: int) -> Flags:
    """Return bool[life] whether all of it is here: birth, no sample, the end of all threads."""
    count = int(lives.life[-1]) + 1
    first = np.flatnonzero(np.append(True, lives.life[1:] != lives.life[:-1]))

    def number(chosen: Flags) -> Rows:
        return np.bincount(lives.life[chosen], minlength=count)

    is_known = lives.is_birth[first] & (number(lives.start < 0) == 0)
    has_ended = (number(lives.is_exit) >= number(lives.is_fork)) & (
        number(lives.is_exit & lives.is_own) > 0
    )
    is_late = number(lives.time_ns >= np.uint64(max(until_ns, 0))) > 0
    result: Flags = is_known & has_ended & ~is_late
    return result


def _keep_ancestors(
    has_ended: Flags,
    lives: _Lives,
    pid: NDArray[np.uint64],
    parent: NDArray[np.uint64],
    parent_key: NDArray[np.uint64],
) -> bool:
    """Unset in `has_ended` those whose descendants are kept: these have their names and mappings.

    Returns:
        Whether all were found.
    """
    place = np.searchsorted(lives.key, parent_key, "right") - 1
    is_here = (place >= 0) & (pid.take(place, mode="clip") == parent)
    of_parent = lives.life.take(place, mode="clip")[is_here]
    of_child = lives.life[lives.is_birth][is_here]
    for _ in range(_MOST_STEPS):
        needed = of_parent[~has_ended[of_child] & has_ended[of_parent]]
        if not len(needed):
            return True
        has_ended[needed] = False
    return False


def _at(words: Words, place: Rows) -> NDArray[np.uint64]:
    """Return words at places; records of a target may be shorter than their kind has fields."""
    return words.take(place, mode="clip")


def _of(words: Words, start: Rows, schema: Schema, name: str) -> NDArray[np.uint64]:
    """Return u64[n] a field of samples; 0 of those whose event is not known."""
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
    """Where samples begin, of which a batch may be taken back."""

    def __init__(self) -> None:
        super().__init__()
        self._sure = 0

    def begin_batch(self, words: int, words_left: int) -> None:
        """Take what was appended for true."""
        del words, words_left
        self._sure = len(self._parts)

    def rewind(self) -> None:
        """Forget what was appended since the batch began."""
        del self._parts[self._sure :]
