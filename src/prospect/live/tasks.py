"""Carry processes and their mappings from one part of a session to the next.

A part begins with records, at time 0, that a snapshot of /proc would have given then, but only of
the processes with records in the part: so the mappings of the many others cost nothing.

Source: ``kernel/events/core.c`` (Linux 6.18), perf_event_task(), perf_event_comm() and
perf_event_mmap_event(); there is no record of an unmapping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prospect.capture.machine.synthesis import (
    Map,
    comm_record,
    fork_record,
    kernel_map_record,
    user_map_record,
    with_build_id,
)
from prospect.columns.buffers import appended
from prospect.columns.sorting import distinct
from prospect.events.record_columns import TASK_COMM, TASK_EXEC, TASK_EXIT, TASK_FORK, Mmaps, Tasks
from prospect.live.live_limits import MOST_EARLY_EXITS, MOST_MAPS
from prospect.profile.model import BIRTH_EXEC, BIRTH_FORK, BIRTH_PREEXISTING
from prospect.records import NamedTuple, Record, field, replace
from prospect.spaces.address_spaces import is_of_kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from prospect.columns.array_types import I32
    from prospect.events.record_columns import Events
    from prospect.live.source import Running

_Table = TypeVar("_Table", Tasks, Mmaps)
_Scalar = TypeVar("_Scalar", bound=np.generic)
_KERNEL_PID = -1
# Programs have a few dozen. Beyond this, covered ones are removed whenever the number has doubled.
_FEW_MAPS = 128


class _Map(NamedTuple):
    """A mapping, as its record describes it."""

    start: int
    length: int
    pgoff: int
    name: bytes
    build_id: bytes
    major: int
    minor: int
    inode: int
    prot: int
    mode: int


class _Process(Record, frozen=False):
    """A process as it is now.

    Attributes:
        threads: the names of all its threads, None if not known.
        maps: in chronological order; the parent's list if `shares_maps`, until one of them changes.
        most_maps: the number of maps at which covered ones are removed.
    """

    parent_pid: int
    birth: int
    start_ns: int
    threads: dict[int, bytes | None]
    maps: list[_Map] = field(default_factory=list)
    shares_maps: bool = False
    most_maps: int = _FEW_MAPS


class Birth(NamedTuple):
    """How and when a process's program began; time 0 for before the session."""

    birth: int
    start_ns: int


class LiveTasks:
    """All running processes."""

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}
        self._kernel_maps: list[_Map] = []
        self._early_exits: dict[int, int] = {}

    def __len__(self) -> int:
        """Return their number."""
        return len(self._processes)

    def births(self, pids: Iterable[int]) -> dict[int, Birth]:
        """Return how the programs of these processes began, as far as they are known."""
        known = ((pid, self._processes.get(pid)) for pid in pids)
        return {pid: Birth(one.birth, one.start_ns) for pid, one in known if one}

    def pids(self) -> set[int]:
        """Return the known processes."""
        return set(self._processes)

    def tids(self) -> I32:
        """Return the known threads, in no order."""
        return np.array([tid for one in self._processes.values() for tid in one.threads], np.int32)

    def take_in(self, events: Events) -> None:
        """Follow the side records of a part, and forget processes that ended."""
        tasks, mmaps = events.tasks, events.mmaps
        order = np.argsort(np.concatenate((tasks.order, mmaps.order)), kind="stable")
        rows = _task_rows(tasks, events.names)
        maps = list(_maps(mmaps, events))
        ended = set()
        for place in order.tolist():
            if place >= len(rows):
                self._mmap(*maps[place - len(rows)])
                continue
            kind, pid, tid, parents, time_ns, name = rows[place]
            if kind == TASK_FORK:
                self._fork(pid, tid, parents, time_ns)
                ended.discard(pid)
                # CPUs are drained one after the other: the last part may have its exit.
                has_ended = 0 < time_ns <= self._early_exits.pop(tid, -1)
                if has_ended and self._exit(pid, tid):
                    ended.add(pid)
            elif kind == TASK_EXIT:
                if not self._is_known(pid, tid):
                    self._early_exits[tid] = time_ns
                elif self._exit(pid, tid):
                    ended.add(pid)
            else:
                self._name(pid, tid, name, time_ns, is_exec=kind == TASK_EXEC)
        for pid in ended:
            self._processes.pop(pid, None)
        for tid in list(self._early_exits)[:-MOST_EARLY_EXITS]:
            del self._early_exits[tid]

    def forget_ended(self, running: Running) -> None:
        """Forget processes that do not run any more, whose exit was lost."""
        self._processes = {
            pid: one
            for pid, one in self._processes.items()
            if pid <= 0 or pid in running.pids or one.start_ns > running.time_ns
        }

    def carried(
        self, events: Events, pids: set[int], named: set[int] | frozenset[int] = frozenset()
    ) -> Events:
        """Return the records of a part after the state before it, at time 0.

        Args:
            pids: processes whose state is needed, see `pids_of`.
            named: processes of which only the names of threads are needed.
        """
        names = _Strings(events.names)
        build_ids = _Strings(events.build_ids)
        listed = sorted((pids | named) & self._processes.keys())
        tasks = _carried_tasks([(pid, self._processes[pid]) for pid in listed], names)
        known = [(pid, self._processes[pid]) for pid in listed if pid in pids]
        mapped = [
            (pid, each)
            for pid, process in ((_KERNEL_PID, None), *known)
            for each in (process.maps if process else self._kernel_maps)
        ]
        mmaps = _carried_mmaps(mapped, names, build_ids)
        first = len(tasks.order) + len(mmaps.order)
        mmaps.order[:] += len(tasks.order)
        return replace(
            events,
            tasks=_behind(tasks, events.tasks, first),
            mmaps=_behind(mmaps, events.mmaps, first),
            names=names.strings,
            build_ids=build_ids.strings,
        )

    def records(self) -> bytes:
        """Return the records, at time 0, of the kernel and of all running processes."""
        pieces = [
            kernel_map_record(each.start, each.length, each.pgoff, each.name)
            for each in self._kernel_maps
        ]
        for pid, process in self._processes.items():
            if process.parent_pid >= 0:
                pieces.append(fork_record(pid, process.parent_pid))
            pieces += [
                comm_record(pid, tid, name)
                for tid, name in process.threads.items()
                if name is not None
            ]
            pieces += [_map_record(pid, each) for each in process.maps]
        return b"".join(pieces)

    def _is_known(self, pid: int, tid: int) -> bool:
        process = self._processes.get(pid)
        return process is not None and tid in process.threads

    def _process(self, pid: int) -> _Process:
        found = self._processes.get(pid)
        if found is None:
            found = self._processes[pid] = _Process(-1, BIRTH_PREEXISTING, 0, {pid: None})
        return found

    def _fork(self, pid: int, tid: int, parents: tuple[int, int], time_ns: int) -> None:
        parent_pid, parent_tid = parents
        if not time_ns:
            # A snapshot has the current parent, which is not a birth.
            self._process(pid).parent_pid = parent_pid
            return
        parent = self._process(parent_pid)
        name = parent.threads.get(parent_tid) or parent.threads.get(parent_pid)
        if pid == parent_pid:
            parent.threads[tid] = name
            return
        parent.shares_maps = True
        self._processes[pid] = _Process(
            parent_pid, BIRTH_FORK, time_ns, {tid: name}, parent.maps, shares_maps=True
        )

    def _exit(self, pid: int, tid: int) -> bool:
        """Remove a thread; return whether its process has none left."""
        process = self._process(pid)
        process.threads.pop(tid, None)
        return not process.threads

    def _name(self, pid: int, tid: int, name: bytes, time_ns: int, *, is_exec: bool) -> None:
        process = self._process(pid)
        if is_exec and time_ns:
            # Only the thread that calls exec lives on, with the process's number.
            self._processes[pid] = _Process(process.parent_pid, BIRTH_EXEC, time_ns, {pid: name})
            return
        process.threads[tid] = name

    def _mmap(self, pid: int, is_kernel: bool, new: _Map) -> None:  # noqa: FBT001 - a column
        if is_kernel:
            self._kernel_maps = _latest([*self._kernel_maps, new])
            return
        process = self._process(pid)
        if process.shares_maps:
            process.maps, process.shares_maps = list(process.maps), False
        process.maps.append(new)
        if len(process.maps) >= process.most_maps:
            process.maps = _latest(process.maps)
            process.most_maps = max(2 * len(process.maps), _FEW_MAPS)


def _map_record(pid: int, mapping: _Map) -> bytes:
    known = mapping._asdict() | {"flags": 0}
    record = user_map_record(pid, Map(**{name: known[name] for name in Map._fields}))
    return with_build_id(record, mapping.build_id) if mapping.build_id else record


def _latest(maps: list[_Map]) -> list[_Map]:
    """Remove maps that a later one of the same start covers, and the oldest of very many."""
    longest: dict[int, int] = {}
    kept = []
    for one in reversed(maps):
        if one.length > longest.get(one.start, 0):
            longest[one.start] = one.length
            kept.append(one)
    return kept[:MOST_MAPS][::-1]


class _Strings:
    """Byte strings, each once."""

    def __init__(self, strings: Sequence[bytes]) -> None:
        self.strings = list(strings)
        self._row = {string: row for row, string in enumerate(self.strings)}

    def row(self, string: bytes) -> int:
        """Return the row of a string, -1 for an empty one."""
        if not string:
            return -1
        row = self._row.setdefault(string, len(self.strings))
        if row == len(self.strings):
            self.strings.append(string)
        return row


def pids_of(events: Events) -> set[int]:
    """Return the processes of a part: those with samples or records."""
    sampled = distinct(events.samples.task).astype(np.uint32).view(np.int32)
    columns = (sampled, events.tasks.pid, events.tasks.parent_pid, events.mmaps.pid)
    return set(np.concatenate(columns).tolist())


def _task_rows(
    tasks: Tasks, names: Sequence[bytes]
) -> list[tuple[int, int, int, tuple[int, int], int, bytes]]:
    parents = zip(tasks.parent_pid.tolist(), tasks.parent_tid.tolist(), strict=True)
    texts = (names[name] if name >= 0 else b"" for name in tasks.name.tolist())
    columns = (tasks.kind.tolist(), tasks.pid.tolist(), tasks.tid.tolist())
    return list(zip(*columns, parents, tasks.time_ns.tolist(), texts, strict=True))


def _maps(mmaps: Mmaps, events: Events) -> Iterable[tuple[int, bool, _Map]]:
    columns = (
        mmaps.pid,
        is_of_kernel(mmaps),
        mmaps.start,
        mmaps.length,
        mmaps.pgoff,
        mmaps.name,
        mmaps.build_id,
        mmaps.major,
        mmaps.minor,
        mmaps.inode,
        mmaps.prot,
        mmaps.mode,
    )
    for pid, is_kernel, start, length, pgoff, name, build_id, *rest in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        own_id = events.build_ids[build_id] if build_id >= 0 else b""
        own_name = events.names[name] if name >= 0 else b""
        yield pid, is_kernel, _Map(start, length, pgoff, own_name, own_id, *rest)


def _carried_tasks(known: list[tuple[int, _Process]], names: _Strings) -> Tasks:
    rows = [(TASK_FORK, pid, pid, one.parent_pid, -1) for pid, one in known]
    rows += [
        (TASK_COMM, pid, tid, -1, names.row(name))
        for pid, one in known
        for tid, name in one.threads.items()
        if name is not None
    ]
    columns = np.array(rows, np.int64).reshape(len(rows), 5).T
    kind, pid, tid, parent_pid, name = (column.astype(np.int32) for column in columns)
    return Tasks(
        order=np.arange(len(rows)),
        time_ns=np.zeros(len(rows), np.uint64),
        kind=kind.astype(np.uint8),
        pid=pid,
        tid=tid,
        parent_pid=parent_pid,
        parent_tid=parent_pid,
        name=name,
    )


def _carried_mmaps(mapped: list[tuple[int, _Map]], names: _Strings, build_ids: _Strings) -> Mmaps:
    rows = len(mapped)

    def column(values: Iterable[int], dtype: type[_Scalar]) -> NDArray[_Scalar]:
        return np.fromiter(values, dtype, rows)

    pid = column((pid for pid, _ in mapped), np.int32)
    return Mmaps(
        order=np.arange(rows),
        time_ns=np.zeros(rows, np.uint64),
        pid=pid,
        tid=pid,
        start=column((each.start for _, each in mapped), np.uint64),
        length=column((each.length for _, each in mapped), np.uint64),
        pgoff=column((each.pgoff for _, each in mapped), np.uint64),
        name=column((names.row(each.name) for _, each in mapped), np.int32),
        build_id=column((build_ids.row(each.build_id) for _, each in mapped), np.int32),
        major=column((each.major for _, each in mapped), np.uint32),
        minor=column((each.minor for _, each in mapped), np.uint32),
        inode=column((each.inode for _, each in mapped), np.uint64),
        prot=column((each.prot for _, each in mapped), np.uint32),
        mode=column((each.mode for _, each in mapped), np.uint8),
    )


def _behind(carried: _Table, table: _Table, first: int) -> _Table:
    """Return a part's own records after the carried ones; their order begins at `first`."""
    return appended(carried, replace(table, order=table.order + first), np.arange(len(table.order)))
