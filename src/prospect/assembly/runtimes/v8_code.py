"""Whose code the native frames of V8's processes are in: V8's own, or that of C++.

V8's compiled code is in memory without a file, and so is its copy of the builtins, if it has one.
The builtins are in the program's file too. Where they begin follows from the entry that C++ enters
JavaScript by, whose address is in the stacks that were read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.abi import v8
from prospect.columns.buffers import segments
from prospect.columns.sorting import distinct
from prospect.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prospect.events.record_columns import Events
    from prospect.events.runtime_records import RuntimeRecords

    Rows = NDArray[np.int64]
    Words = NDArray[np.uint64]

_OWN, _ENTRY = 1, 2
_PID = np.uint64((1 << 32) - 1)
_MOST_PROCESSES = 4096


class V8Code(Record):
    """The code of V8's processes.

    Attributes:
        is_mine: bool[s] stacks of V8.
        runs: bool[s] stacks whose innermost function runs; in the others it has called C++.
        pid: i64[s] of each stack's process.
        files: by process, begin and end u64[k] each of its mapped files.
        builtins: u64[s, 2] begin and end of the builtins in the file; 0 if not known.
        entries: u64[e] the places that C++ enters JavaScript by, in return addresses, ascending.
    """

    is_mine: NDArray[np.bool_]
    runs: NDArray[np.bool_]
    pid: Rows
    files: dict[int, tuple[Words, Words]]
    builtins: Words
    entries: Words

    def kinds(
        self, kind: NDArray[np.int8], stack: Rows, address: Words, words: Words
    ) -> NDArray[np.int8]:
        """Return whose code native frames are in, those of other stacks as they were.

        Args:
            kind: i8[w] of each frame: 0 for code of others, 1 for the runtime's own, 2 for the
                entry from others to it.
            stack: i64[w] the stack.
            address: u64[w] of the instruction.
            words: u64[w] as in the chain.
        """
        found = kind.copy()
        rows = np.flatnonzero(self.is_mine.take(stack))
        if not len(rows):
            return found
        stack, address = stack.take(rows), address.take(rows)
        is_own = ~self._is_in_file(self.pid.take(stack), address)
        begin, end = self.builtins[:, 0].take(stack), self.builtins[:, 1].take(stack)
        is_own |= (address >= begin) & (address < end)
        is_entry = np.isin(words.take(rows), self.entries)
        found[rows] = np.where(is_entry, _ENTRY, np.where(is_own, _OWN, 0))
        return found

    def _is_in_file(self, pid: Rows, address: Words) -> NDArray[np.bool_]:
        """Return which addresses are in a mapped file; all, if nothing is known of a process."""
        found = np.ones(len(pid), np.bool_)
        for one, (begin, end) in self.files.items():
            mine = np.flatnonzero(pid == one)
            at = address.take(mine)
            row = np.searchsorted(begin, at, side="right") - 1
            found[mine] = (row >= 0) & (at < end.take(row, mode="clip"))
        return found


def find_v8_code(
    events: Events, records: RuntimeRecords, rows: Rows, is_mine: NDArray[np.bool_]
) -> V8Code:
    """Find the code of V8's processes.

    Args:
        events: of the recording.
        records: its stacks.
        rows: i64[s] those of them that belong to samples.
        is_mine: bool[s] which of these are of V8.
    """
    start, end = records.start.take(rows), records.start.take(rows + 1)
    owner = records.owner.take(start, mode="clip")
    runs = is_mine & (end > start) & (owner & v8.RUNS > 0)
    pid = (records.task.take(rows) & _PID).astype(np.int64)
    mine = np.flatnonzero(is_mine)
    length = (end - start).take(mine)
    frames = segments(start.take(mine), length)
    is_entry = records.owner.take(frames) & v8.KIND_MASK == v8.ENTRY
    entry = records.code.take(frames[is_entry])
    image = np.repeat(records.image.take(rows).take(mine), length)[is_entry]
    builtins = np.zeros((len(rows), 2), np.uint64)
    for number in distinct(image).tolist():
        size, offset = v8.builtins_place(records.images[number].version)
        first = int(entry[image == number].min())
        if size and first > offset:
            begin = np.uint64(first - offset)
            of_image = is_mine & (records.image.take(rows) == number)
            builtins[of_image] = begin, begin + np.uint64(size)
    files = {
        one: _files_of(events, one) for one in distinct(pid.take(mine)).tolist()[:_MOST_PROCESSES]
    }
    return V8Code(
        is_mine=is_mine,
        runs=runs,
        pid=pid,
        files={one: found for one, found in files.items() if len(found[0])},
        builtins=builtins,
        entries=distinct(entry),
    )


def _files_of(events: Events, pid: int) -> tuple[Words, Words]:
    """Return begin and end of the files that a process has mapped, in the order of addresses."""
    mmaps = events.mmaps
    rows = np.flatnonzero(mmaps.pid == pid)
    is_file = [_is_file(events.names[name]) for name in mmaps.name.take(rows).tolist()]
    rows = rows[np.array(is_file, np.bool_)] if len(rows) else rows
    begin = mmaps.start.take(rows)
    end = begin + mmaps.length.take(rows)
    order = np.argsort(begin, kind="stable")
    # Of mappings that overlap, which were there one after the other, the longest reaches furthest.
    return begin.take(order), np.maximum.accumulate(end.take(order))


def _is_file(name: bytes) -> bool:
    return name.startswith(b"/") and not name.startswith((b"//", b"/memfd:", b"/dev/"))
