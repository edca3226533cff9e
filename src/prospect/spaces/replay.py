"""Side records, one by one in chronological order → process rows, versions of spaces, changes.

The kernel records no unmapping: after `dlclose` a mapping ends when another one replaces it, and
from then on its addresses have other symbols.

This is the only Python loop over records: forks, execs, exits, names and mappings change a small
state, and each change is noted. `process_history` does the rest on whole columns, including the
mappings that need no look at earlier ones (`started_mappings`). Pids and tids are ranks here
(`task_timeline.TaskIds`).

A fork links its space to the parent's, and copies nothing (`SpaceColumns`). The mappings of a space
at one time are disjoint. Two lists have them by ascending address: `bounds`, start and end of each
in turn, and `owners`, the mapping of each. Inserting into one list of very many takes quadratic
time: `Blocks` keeps those in lists of bounded length.

Source: ``kernel/events/core.c`` perf_event_task(), perf_event_comm(), perf_event_mmap_event()
(Linux 6.18); the records of a snapshot, at time 0, as ``tools/perf/util/synthetic-events.c``
writes them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import numpy as np

from prospect.profile.model import BIRTH_EXEC, BIRTH_FORK, BIRTH_PREEXISTING
from prospect.records import Record

if TYPE_CHECKING:
    from prospect.columns.array_types import I32, U8, U64

# The parents that are searched for a mapping that a new one covers. If there are more, it is taken
# to cover one: an epoch too many costs a little, one too few would move earlier samples.
_PARENTS_ASKED = 8
# The most mappings in a list.
BLOCK_MAPPINGS = 1024

RUNNING_NS = (1 << 64) - 1
KIND_MMAP = 4


class SpaceColumns:
    """Address spaces and their versions as they are made (see `address_spaces`).

    Attributes:
        version_space, version_parent, version_epoch: per version; parent -1 after an exec.
        is_shared: per version, whether a fork has linked a child to it.
        process_row: per space, the process row that it belongs to.
        inherits: per space, the version that its fork saw, -1 after an exec.
        made_in, made: version and mapping of all that was ever placed.
    """

    def __init__(self) -> None:
        self.version_space: list[int] = []
        self.version_parent: list[int] = []
        self.version_epoch: list[int] = []
        self.is_shared: list[bool] = []
        self.process_row: list[int] = []
        self.inherits: list[int] = []
        self.made_in: list[int] = []
        self.made: list[int] = []
        # Per space, its mappings now, without those that it inherits; a mapping that was covered
        # in part has several pieces. Spaces of very many mappings are in `_blocks`.
        self._bounds: list[list[int]] = []
        self._owners: list[list[int]] = []
        self._blocks: dict[int, Blocks] = {}

    def add_space(self, process_row: int, parent: int) -> int:
        """Begin a space that inherits from version `parent` (-1: nothing); return its version."""
        space = len(self.inherits)
        self.process_row.append(process_row)
        self.inherits.append(parent)
        self._bounds.append([])
        self._owners.append([])
        return self._add_version(space, parent, 0)

    def add_epoch(self, version: int) -> int:
        """Begin the next epoch of the space whose last version this is; return its version."""
        epoch = self.version_epoch[version] + 1
        return self._add_version(self.version_space[version], version, epoch)

    def _add_version(self, space: int, parent: int, epoch: int) -> int:
        self.version_space.append(space)
        self.version_parent.append(parent)
        self.version_epoch.append(epoch)
        self.is_shared.append(False)
        return len(self.version_space) - 1

    def place(self, version: int, start: int, end: int, mapping: int) -> None:
        """Put a mapping at its addresses from this version on, over what was there."""
        self.made_in.append(version)
        self.made.append(mapping)
        space = self.version_space[version]
        if space in self._blocks:
            self._blocks[space].place(start, end, mapping)
            return
        bounds, owners = self._bounds[space], self._owners[space]
        place_in(bounds, owners, start, end, mapping)
        if len(owners) > BLOCK_MAPPINGS:
            self._blocks[space] = Blocks(bounds, owners)
            self._bounds[space], self._owners[space] = [], []

    def place_apart(self, version: int, start: int, end: int, mapping: int) -> bool:
        """Put a mapping that covers nothing into a space that neither shares nor inherits any.

        Nearly all mappings are such: those of a program that was just started. It returns False,
        and does nothing, for any other.
        """
        space = self.version_space[version]
        if self.is_shared[version] or self.inherits[space] >= 0 or space in self._blocks:
            return False
        bounds, owners = self._bounds[space], self._owners[space]
        if len(owners) >= BLOCK_MAPPINGS or not placed_apart(bounds, owners, start, end, mapping):
            return False
        self.made_in.append(version)
        self.made.append(mapping)
        return True

    def covered(self, space: int, start: int, end: int) -> list[int]:
        """Return the space's own mappings in [start, end)."""
        if space in self._blocks:
            return self._blocks[space].covered(start, end)
        return covered_in(self._bounds[space], self._owners[space], start, end)

    def is_inside(self, space: int, start: int, end: int) -> bool:
        """Return whether [start, end) is within one of the space's own mappings."""
        if space in self._blocks:
            return self._blocks[space].is_inside(start, end)
        return is_inside_in(self._bounds[space], start, end)

    def covers_inherited(self, space: int, start: int, end: int) -> bool:
        """Return whether a mapping at [start, end) covers one of the parents'; True if not sure."""
        version = self.inherits[space]
        for _ in range(_PARENTS_ASKED):
            if version < 0:
                return False
            space = self.version_space[version]
            if self._covers_any(space, start, end):
                return True
            version = self.inherits[space]
        return version >= 0

    def _covers_any(self, space: int, start: int, end: int) -> bool:
        if space in self._blocks:
            return self._blocks[space].covers_any(start, end)
        return covers_any_in(self._bounds[space], start, end)


def placed_apart(bounds: list[int], owners: list[int], start: int, end: int, mapping: int) -> bool:
    """Put a mapping at [start, end), start < end, if nothing is there."""
    low = bisect_right(bounds, start)
    if low & 1 or low != bisect_left(bounds, end):
        return False
    bounds[low:low] = (start, end)
    owners.insert(low >> 1, mapping)
    return True


def place_in(bounds: list[int], owners: list[int], start: int, end: int, mapping: int) -> None:
    """Put a mapping at [start, end), start < end, over what was there."""
    if placed_apart(bounds, owners, start, end, mapping):
        return
    low, high = bisect_left(bounds, start), bisect_right(bounds, end)
    # At an odd place an owner ends or is cut in two: a piece remains outside of [start, end).
    first, after = low >> 1, high + 1 >> 1
    pieces = [mapping]
    new_bounds = [start, end]
    if low & 1:
        pieces.insert(0, owners[first])
        new_bounds.insert(0, start)
    if high & 1:
        pieces.append(owners[after - 1])
        new_bounds.append(end)
    bounds[low:high] = new_bounds
    owners[first:after] = pieces


def covered_in(bounds: list[int], owners: list[int], start: int, end: int) -> list[int]:
    """Return the mappings in [start, end)."""
    low, high = bisect_right(bounds, start), bisect_left(bounds, end)
    if low == high and not low & 1:
        return []
    return owners[low >> 1 : high + 1 >> 1]


def covers_any_in(bounds: list[int], start: int, end: int) -> bool:
    """Return whether a mapping is in [start, end), without a list of them."""
    low = bisect_right(bounds, start)
    return low & 1 == 1 or low < bisect_left(bounds, end)


def is_inside_in(bounds: list[int], start: int, end: int) -> bool:
    """Return whether [start, end) is within one mapping."""
    low = bisect_right(bounds, start)
    return low & 1 == 1 and bounds[low] >= end


class Blocks:
    """Very many mappings of one space, in lists of BLOCK_MAPPINGS at most; see the functions."""

    def __init__(self, bounds: list[int], owners: list[int]) -> None:
        self._bounds = [bounds]
        self._owners = [owners]
        # Between each two blocks, the address at which the second one begins. No mapping is on both
        # sides of it. No block is empty.
        self._separators: list[int] = []

    def place(self, start: int, end: int, mapping: int) -> None:
        """As `place_in`."""
        first, last = self._reached(start, end)
        if first != last:
            # The blocks between the outermost two are covered.
            for blocks in (self._bounds, self._owners):
                blocks[first : last + 1] = [blocks[first] + blocks[last]]
            del self._separators[first:last]
        place_in(self._bounds[first], self._owners[first], start, end, mapping)
        self._shorten(first)

    def covered(self, start: int, end: int) -> list[int]:
        """As `covered_in`."""
        first, last = self._reached(start, end)
        found: list[int] = []
        for block in range(first, last + 1):
            found += covered_in(self._bounds[block], self._owners[block], start, end)
        return found

    def covers_any(self, start: int, end: int) -> bool:
        """As `covers_any_in`."""
        first, last = self._reached(start, end)
        return last - first > 1 or any(
            covers_any_in(self._bounds[block], start, end) for block in {first, last}
        )

    def is_inside(self, start: int, end: int) -> bool:
        """As `is_inside_in`."""
        return is_inside_in(self._bounds[self._reached(start, end)[0]], start, end)

    def _reached(self, start: int, end: int) -> tuple[int, int]:
        """Return the first and the last block that [start, end) reaches into."""
        return bisect_right(self._separators, start), bisect_left(self._separators, end)

    def _shorten(self, block: int) -> None:
        bounds, owners = self._bounds[block], self._owners[block]
        if len(owners) <= BLOCK_MAPPINGS:
            return
        middle = len(owners) // 2
        self._bounds[block : block + 1] = [bounds[: 2 * middle], bounds[2 * middle :]]
        self._owners[block : block + 1] = [owners[:middle], owners[middle:]]
        self._separators.insert(block, bounds[2 * middle])
        # Halves of two full blocks that were joined may be too long as well.
        self._shorten(block + 1)
        self._shorten(block)


class SideRecords(Record):
    """Records to replay: plain lists, because they are looked at one by one.

    Attributes:
        kind: one of TASK_*, or KIND_MMAP.
        row: the record's row in the lists of its table, which follow.
        task_pid, task_tid, parent_pid, parent_tid: ranks.
        task_ns: time, 0 for a snapshot's.
        task_name: row of the recording's names.
        mmap_pid, mmap_ns, mmap_start, mmap_end: pid's rank, time, addresses.
        mmap_runs: whether a mapping is executable: loaders first map a file to read it.
        mmap_content: a number that is the same for mappings of the same content.
    """

    kind: list[int]
    row: list[int]
    task_pid: list[int]
    task_tid: list[int]
    parent_pid: list[int]
    parent_tid: list[int]
    task_ns: list[int]
    task_name: list[int]
    mmap_pid: list[int]
    mmap_ns: list[int]
    mmap_start: list[int]
    mmap_end: list[int]
    mmap_runs: list[bool]
    mmap_content: list[int]


class ProcessColumns:
    """Process rows under construction; see `ProcessRows`."""

    def __init__(self) -> None:
        self.pid: list[int] = []
        self.parent_pid: list[int] = []
        self.parent_row: list[int] = []
        self.birth: list[int] = []
        self.start_ns: list[int] = []
        self.end_ns: list[int] = []
        self.name: list[int] = []

    def add(self, pid: int, parent_pid: int, parent_row: int, birth: int, start_ns: int) -> int:
        """Append a row without an end and a name; return its number."""
        self.pid.append(pid)
        self.parent_pid.append(parent_pid)
        self.parent_row.append(parent_row)
        self.birth.append(birth)
        self.start_ns.append(start_ns)
        self.end_ns.append(RUNNING_NS)
        self.name.append(-1)
        return len(self.pid) - 1


class Replay:
    """The state of all tasks, and the history of its changes.

    Attributes:
        processes: the process rows; their `parent_pid` is a rank, -1 if unknown.
        is_named: whether any record, or the process's row, names this tid.
        state_pid, state_ns, state_row, state_version: changes of pids.
        comm_tid, comm_ns, comm_name: changes of thread names; -1 if none is known.
        mapping_row: process row that made each mapping.
        exec_task, exec_row, exec_version: record of each exec, and what it began.
    """

    def __init__(self, records: SideRecords, tasks: int) -> None:
        self._records = records
        self.processes = ProcessColumns()
        self.spaces = SpaceColumns()
        self.state_pid: list[int] = []
        self.state_ns: list[int] = []
        self.state_row: list[int] = []
        self.state_version: list[int] = []
        self.comm_tid: list[int] = []
        self.comm_ns: list[int] = []
        self.comm_name: list[int] = []
        self.mapping_row: list[int] = []
        self.exec_task: list[int] = []
        self.exec_row: list[int] = []
        self.exec_version: list[int] = []
        self._row = [-1] * tasks
        self._version = [-1] * tasks
        self._comm = [-1] * tasks
        self.is_named = [False] * tasks

    def run(self) -> None:
        """Replay all records."""
        handlers = (self._fork, self._exit, self._comm_changed, self._exec, self._mmap)
        for kind, row in zip(self._records.kind, self._records.row, strict=True):
            handlers[kind](row)

    def known_row(self, pid: int) -> int:
        """Return the row that a pid is in; one from before the recording if it has none yet."""
        row = self._row[pid]
        if row < 0:
            row = self.processes.add(pid, -1, -1, BIRTH_PREEXISTING, 0)
            self._enter(pid, 0, row, self.spaces.add_space(row, -1))
            if not self.is_named[pid]:
                self._name_thread(pid, 0, -1)
        return row

    def _enter(self, pid: int, time_ns: int, row: int, version: int) -> None:
        self._row[pid] = row
        self._version[pid] = version
        self.state_pid.append(pid)
        self.state_ns.append(time_ns)
        self.state_row.append(row)
        self.state_version.append(version)

    def _name_thread(self, tid: int, time_ns: int, name: int) -> None:
        self._comm[tid] = name
        self.is_named[tid] = True
        self.comm_tid.append(tid)
        self.comm_ns.append(time_ns)
        self.comm_name.append(name)

    def _fork(self, index: int) -> None:
        records = self._records
        pid, parent_pid = records.task_pid[index], records.parent_pid[index]
        time_ns = records.task_ns[index]
        if not time_ns:
            # A snapshot names the current parent; nobody was born then.
            row = self.known_row(pid)
            if pid != parent_pid:
                self.processes.parent_pid[row] = parent_pid
            return
        tid = records.task_tid[index]
        name = self._comm[records.parent_tid[index]]
        if name < 0:
            name = self._comm[parent_pid]
        parent_row = self.known_row(parent_pid)
        if pid != parent_pid:
            self._end(self._row[pid], time_ns)
            row = self.processes.add(pid, parent_pid, parent_row, BIRTH_FORK, time_ns)
            self.processes.name[row] = name
            version = self._version[parent_pid]
            self.spaces.is_shared[version] = True
            self._enter(pid, time_ns, row, version)
        self._name_thread(tid, time_ns, name)

    def _exit(self, index: int) -> None:
        records = self._records
        pid, time_ns = records.task_pid[index], records.task_ns[index]
        row = self.known_row(pid)
        ends = self.processes.end_ns
        # A leader may exit before its threads; the process then ends with the last of them.
        if records.task_tid[index] == pid or ends[row] != RUNNING_NS:
            ends[row] = time_ns

    def _end(self, row: int, time_ns: int) -> None:
        if row >= 0 and self.processes.end_ns[row] == RUNNING_NS:
            self.processes.end_ns[row] = time_ns

    def _comm_changed(self, index: int) -> None:
        records = self._records
        pid, tid, name = records.task_pid[index], records.task_tid[index], records.task_name[index]
        row = self.known_row(pid)
        if pid == tid:
            self.processes.name[row] = name
        self._name_thread(tid, records.task_ns[index], name)

    def _exec(self, index: int) -> None:
        records = self._records
        time_ns = records.task_ns[index]
        if time_ns:
            pid = records.task_pid[index]
            before = self.known_row(pid)
            self.processes.end_ns[before] = time_ns
            parent_pid = self.processes.parent_pid[before]
            row = self.processes.add(pid, parent_pid, before, BIRTH_EXEC, time_ns)
            version = self.spaces.add_space(row, -1)
            self._enter(pid, time_ns, row, version)
            self.exec_task.append(index)
            self.exec_row.append(row)
            self.exec_version.append(version)
        self._comm_changed(index)

    def _mmap(self, index: int) -> None:
        records, spaces = self._records, self.spaces
        pid = records.mmap_pid[index]
        row = self._row[pid]
        if row < 0:
            row = self.known_row(pid)
        self.mapping_row.append(row)
        start, end = records.mmap_start[index], records.mmap_end[index]
        version = self._version[pid]
        space = spaces.version_space[version]
        if spaces.process_row[space] != row:
            version = spaces.add_space(row, version)
            self._enter(pid, records.mmap_ns[index], row, version)
        elif spaces.place_apart(version, start, end, index):
            return
        else:
            is_same = True
            if covered := spaces.covered(space, start, end):
                content, runs = records.mmap_content, records.mmap_runs
                is_same = all(content[each] == content[index] for each in covered)
                runs_alike = all(runs[each] == runs[index] for each in covered)
                if is_same and runs_alike and spaces.is_inside(space, start, end):
                    return
            if (
                not is_same
                or spaces.is_shared[version]
                or (spaces.inherits[space] >= 0 and spaces.covers_inherited(space, start, end))
            ):
                version = spaces.add_epoch(version)
                self._enter(pid, records.mmap_ns[index], row, version)
        spaces.place(version, start, end, index)


class ProcessRows(Record):
    """A row for each program image that a process ran: a new one at fork and at exec.

    A row is after the row that forked it or that it replaced by exec. Parents form no circle,
    whatever a file says.

    Attributes:
        pid: i32[p]; -1 for the row of samples whose task the kernel could not name.
        parent_pid: i32[p], -1 if unknown.
        parent_row: i32[p] the row that forked this one, or that it replaced by exec; -1 if unknown.
        birth: u8[p] BIRTH_*.
        start_ns: u64[p] time of the birth, 0 if before the recording.
        end_ns: u64[p] time of the exit of the process's last thread, or of the exec or fork that
            began the pid's next row; 2**64 - 1 if it is still running.
        name: i32[p] row of `ProcessHistory.names`: the main thread's last name in this row's life.
    """

    pid: I32
    parent_pid: I32
    parent_row: I32
    birth: U8
    start_ns: U64
    end_ns: U64
    name: I32

    def __len__(self) -> int:
        return len(self.pid)


def freeze_processes(rows: ProcessColumns, ids: I32, name: I32) -> ProcessRows:
    """Turn the replay's columns, whose pids are ranks of `ids`, into process rows."""
    rank = np.array(rows.pid, np.int64)
    parent_rank = np.array(rows.parent_pid, np.int64)
    return ProcessRows(
        pid=ids.take(rank),
        parent_pid=np.where(parent_rank >= 0, ids.take(np.maximum(parent_rank, 0)), -1).astype(
            np.int32
        ),
        parent_row=np.array(_find_snapshot_parents(rows), np.int32),
        birth=np.array(rows.birth, np.uint8),
        start_ns=np.array(rows.start_ns, np.uint64),
        end_ns=np.array(rows.end_ns, np.uint64),
        name=name,
    )


def _find_snapshot_parents(rows: ProcessColumns) -> list[int]:
    """Return `parent_row`, including that of processes from before the recording.

    A snapshot may list a child before its parent, so this is done last. A file may say anything, so
    links that would close a circle are left out.
    """
    parent_row = list(rows.parent_row)
    preexisting = [row for row, birth in enumerate(rows.birth) if birth == BIRTH_PREEXISTING]
    row_of = {rows.pid[row]: row for row in preexisting}
    for row in preexisting:
        parent_row[row] = row_of.get(rows.parent_pid[row], -1)
    is_checked = dict.fromkeys(preexisting, False)
    for row in preexisting:
        path = []
        current = row
        while current >= 0 and not is_checked[current]:
            is_checked[current] = True
            path.append(current)
            current = parent_row[current]
        if current in path:
            parent_row[path[-1]] = -1
    return parent_row
