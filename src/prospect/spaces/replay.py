"""Side records, one by one in the order of time → process rows, versions of spaces, changes.

The one Python loop over records: forks, execs, exits, names and mappings change a small state,
and what changes is noted. Everything before and after it works on whole columns (`world`), and so
do mappings that need no look at what stood before them (`started`).
Pids and tids are ranks here (`timeline.TaskIds`).

Source: ``kernel/events/core.c`` perf_event_task(), perf_event_comm(), perf_event_mmap_event()
(Linux 6.18); the records of a snapshot, at time 0, as ``tools/perf/util/synthetic-events.c``
writes them.
"""

from __future__ import annotations

from prospect.profile.model import BIRTH_EXEC, BIRTH_FORK, BIRTH_PREEXISTING
from prospect.records import Record
from prospect.spaces.lineage import SpaceColumns

RUNNING_NS = (1 << 64) - 1
KIND_MMAP = 4


class SideRecords(Record):
    """Records to replay: plain lists, because they are looked at one by one.

    Attributes:
        kind: one of TASK_*, or KIND_MMAP.
        row: the record's row in the lists of its table, which follow.
        task_pid, task_tid, parent_pid, parent_tid: ranks.
        task_ns: time, 0 for a snapshot's.
        task_name: row of the recording's names.
        mmap_pid, mmap_ns, mmap_start, mmap_end: pid's rank, time, addresses.
        mmap_runs: whether a mapping is executable: loaders map a file to be read first.
        mmap_content: what a mapping maps: a number that is the same for the same.
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
    """Process rows as they are born; see `processes.ProcessRows`."""

    def __init__(self) -> None:
        self.pid: list[int] = []
        self.parent_pid: list[int] = []
        self.parent_row: list[int] = []
        self.birth: list[int] = []
        self.start_ns: list[int] = []
        self.end_ns: list[int] = []
        self.name: list[int] = []

    def add(self, pid: int, parent_pid: int, parent_row: int, birth: int, start_ns: int) -> int:
        """Append a row that is still running and has no name; return its number."""
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
        processes: the process rows; their `parent_pid` is a rank, -1 where unknown.
        spaces: the address spaces.
        state_pid, state_ns, state_row, state_version: changes of pids.
        comm_tid, comm_ns, comm_name: changes of thread names; -1 where none is known.
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
        self._is_named = [False] * tasks

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
            if not self._is_named[pid]:
                self._name_thread(pid, 0, -1)
        return row

    def is_named(self, tid: int) -> bool:
        """Return whether any record, or the process's row, gave this thread's name a beginning."""
        return self._is_named[tid]

    def _enter(self, pid: int, time_ns: int, row: int, version: int) -> None:
        self._row[pid] = row
        self._version[pid] = version
        self.state_pid.append(pid)
        self.state_ns.append(time_ns)
        self.state_row.append(row)
        self.state_version.append(version)

    def _name_thread(self, tid: int, time_ns: int, name: int) -> None:
        self._comm[tid] = name
        self._is_named[tid] = True
        self.comm_tid.append(tid)
        self.comm_ns.append(time_ns)
        self.comm_name.append(name)

    def _fork(self, index: int) -> None:
        records = self._records
        pid, parent_pid = records.task_pid[index], records.parent_pid[index]
        time_ns = records.task_ns[index]
        if not time_ns:
            # A snapshot says who the parent is now, not that anybody was born.
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
        # A leader may go before its threads; the process then ends with the last of them.
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
