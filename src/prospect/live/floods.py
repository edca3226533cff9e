"""Drained records → the same without what a process floods them with.

Comes in: whole records of a live session, as they are drained. Goes out: those that a look at the
session can follow. A program may rename its threads or map files a million times a second, and each
time is a record. Of the names of a thread only the last of a drain is kept; names and mappings of
one process that are still too many are left out until the next look, and the session says so.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import constants as abi
from prospect.events.records import Ignored, Looks, find_records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.events.records import Positions
    from prospect.events.schema import Schema

    Words = NDArray[np.uint64]
    Rows = NDArray[np.int64]

# With fewer of these in a drain there is no flood, and nothing is looked through.
_FEW = 256
_MOST_OF_A_PROCESS = 2048
_MOST_NAMED_PROCESSES = 8

_MASK_LOW = np.uint64((1 << 32) - 1)
_SIZE_SHIFT = np.uint64(51)
_EXEC_BIT = np.uint64(abi.PERF_RECORD_MISC_COMM_EXEC << 32)
_MAPS = (abi.PERF_RECORD_MMAP, abi.PERF_RECORD_MMAP2)
_FLOODING = np.array(
    [abi.PERF_RECORD_COMM, abi.PERF_RECORD_FORK, abi.PERF_RECORD_EXIT, *_MAPS], np.uint64
)
_OTHERS = "Other processes do so too."
# Between two looks: each side record costs some 10 us a look.
_MOST_BYTES = 1 << 28
_MOST_SIDE_RECORDS = 200_000


class FloodGate:
    """Leaves out what is too much between two looks.

    Attributes:
        limits: a sentence for each process of which names or mappings were left out.
        side_records: how many records of processes passed since the last `open`, in drains
            that had many.
        most_bytes: how much one look should take in.
        condensed_bytes: how much is to wait until `condensed` is asked.
    """

    most_bytes = _MOST_BYTES
    condensed_bytes = sys.maxsize

    def __init__(self, schema: Schema) -> None:
        """Begin.

        Args:
            schema: of the session's events, whose records all have one layout of the tail.
        """
        time = schema.tail["time"]
        self._time_from_end = time if isinstance(time, int) else int(time[0])
        self._least_words = schema.least_fixed_words
        self._passed: dict[int, int] = {}
        self.limits: list[str] = []
        self.side_records = 0

    def open(self) -> None:
        """Begin to count anew: there was a look."""
        self._passed.clear()
        self.side_records = 0

    def passed(self, data: bytes) -> bytes:
        """Return whole records without what is too much; all of it where they are damaged."""
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
        """Return all: a recording of the session has all processes."""
        del until_ns
        return data

    def is_full(self, size_bytes: int) -> bool:
        """Return whether so many bytes are as much as one look should take in."""
        return size_bytes > self.most_bytes or self.side_records > _MOST_SIDE_RECORDS

    def _superseded(self, words: Words, renames: Rows) -> Rows:
        """Return the renames that a later one of the same thread follows."""
        task = words.take(renames + 1)
        end = renames + (words.take(renames) >> _SIZE_SHIFT).view(np.int64)
        order = np.lexsort((words.take(end + self._time_from_end), task))
        is_followed = task[order[:-1]] == task[order[1:]]
        followed: Rows = renames[order[:-1][is_followed]]
        return followed

    def _beyond(self, words: Words, start: Rows) -> Rows:
        """Return the records that their process has too many of; count those that pass."""
        pid = (words.take(start + 1) & _MASK_LOW).astype(np.uint32).view(np.int32)
        order = np.argsort(pid, kind="stable")
        pids, first, count = np.unique(pid[order], return_index=True, return_counts=True)
        room = np.empty(len(pids), np.int64)
        for row, (one, number) in enumerate(zip(pids.tolist(), count.tolist(), strict=True)):
            before = self._passed.get(one, 0)
            room[row] = max(_MOST_OF_A_PROCESS - before, 0)
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
        if len(self.limits) >= _MOST_NAMED_PROCESSES and sentence not in self.limits:
            sentence = _OTHERS
        if sentence not in self.limits:
            self.limits.append(sentence)


def without_records(words: Words, start: Rows) -> bytes:
    """Return records without those that begin at some words, in any order."""
    start = np.sort(start)
    end = start + (words.take(start) >> _SIZE_SHIFT).view(np.int64)
    kept_begin, kept_end = np.append(0, end), np.append(start, len(words))
    stays = kept_begin < kept_end
    pieces = zip(kept_begin[stays].tolist(), kept_end[stays].tolist(), strict=True)
    return b"".join([words[begin:end].data for begin, end in pieces])


class RecordStarts:
    """Where records of a kind begin."""

    def __init__(self) -> None:
        self._parts: list[Rows] = []

    def append(self, words: Words, positions: Positions) -> None:
        """Take positions of a batch."""
        del words
        self._parts.append(np.asarray(positions, np.int64))

    def all(self) -> Rows:
        """Return all of them, ascending."""
        return np.concatenate([np.empty(0, np.int64), *self._parts])
