"""Event columns from a few calls: a log of forks, execs, names, exits, mappings and samples."""

from __future__ import annotations

import numpy as np

from prospect.abi import constants as abi
from prospect.events.record_columns import (
    TASK_COMM,
    TASK_EXEC,
    TASK_EXIT,
    TASK_FORK,
    Events,
    KernelSymbols,
    Losses,
    Mmaps,
    Samples,
    Tasks,
)

USER = abi.PERF_RECORD_MISC_USER
KERNEL = abi.PERF_RECORD_MISC_KERNEL


class EventLog:
    """Records in the order of the calls, time 0 for a snapshot's, until `events()` sorts them."""

    def __init__(self):
        self.names = []
        self.tasks = []
        self.mmaps = []
        self.samples = []
        self.calls = 0

    def _name(self, name):
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def _task(self, kind, time, pid, tid, *, parents=(-1, -1), name=-1):
        tid = pid if tid is None else tid
        self.tasks.append((time, self.calls, kind, pid, tid, *parents, name))
        self.calls += 1

    def fork(self, time, parent_pid, pid, *, tid=None, parent_tid=None):
        parent_tid = parent_pid if parent_tid is None else parent_tid
        self._task(TASK_FORK, time, pid, tid, parents=(parent_pid, parent_tid))

    def clone(self, time, pid, tid, *, parent_tid=None):
        self.fork(time, pid, pid, tid=tid, parent_tid=parent_tid)

    def exit(self, time, pid, *, tid=None):
        self._task(TASK_EXIT, time, pid, tid, parents=(pid, pid))

    def comm(self, time, pid, name, *, tid=None):
        self._task(TASK_COMM, time, pid, tid, name=self._name(name))

    def exec(self, time, pid, name):
        self._task(TASK_EXEC, time, pid, None, name=self._name(name))

    def mmap(self, time, pid, start, length, name, *, pgoff=0, inode=0, mode=USER):
        self.mmaps.append(
            (time, self.calls, pid, start, length, pgoff, self._name(name), inode, mode)
        )
        self.calls += 1

    def sample(self, time, pid, ip, *, tid=None, mode=USER, period=1, event=0):
        tid = pid if tid is None else tid
        task = pid & 0xFFFFFFFF | (tid & 0xFFFFFFFF) << 32
        self.samples.append((ip, task, time, mode, period, event))

    def part(self, begin, end):
        """What was logged from one time to before the other."""
        part = EventLog()
        part.names, part.calls = self.names, self.calls
        part.tasks = [row for row in self.tasks if begin <= row[0] < end]
        part.mmaps = [row for row in self.mmaps if begin <= row[0] < end]
        part.samples = [row for row in self.samples if begin <= row[2] < end]
        return part

    def events(self):
        order = {
            call: place
            for place, (_, call) in enumerate(sorted(row[:2] for row in self.tasks + self.mmaps))
        }
        return Events(
            samples=samples_of(self.samples),
            mmaps=_mmaps(self.mmaps, order),
            tasks=_tasks(self.tasks, order),
            losses=Losses(*_columns([], (np.uint64, np.uint8, np.uint64, np.uint64, np.int32))),
            kernel_symbols=KernelSymbols(
                *_columns([], (np.int64, *[np.uint64] * 3, np.uint8, np.bool_, np.int32))
            ),
            names=self.names,
            build_ids=[],
        )


def _columns(rows, dtypes):
    return [np.array([row[column] for row in rows], dtype) for column, dtype in enumerate(dtypes)]


def samples_of(rows):
    """Columns of (ip, task, time, mode, period, event) rows."""
    ip, task, time, mode, period, event = _columns(
        rows, (np.uint64, np.uint64, np.uint64, np.uint8, np.uint64, np.uint8)
    )
    cpu = np.broadcast_to(np.uint16(0xFFFF), len(rows))
    clock = np.broadcast_to(np.uint8(0), len(rows))
    return Samples(ip, task, time, mode, cpu, period, event, clock)


def _tasks(rows, order):
    rows = [(order[row[1]], row[0], *row[2:]) for row in rows]
    i32 = [np.int32] * 5
    return Tasks(*_columns(sorted(rows), (np.int64, np.uint64, np.uint8, *i32)))


def _mmaps(rows, order):
    columns = [
        (order[call], time, pid, pid, start, length, pgoff, name, -1, 0, 0, inode, 5, mode)
        for time, call, pid, start, length, pgoff, name, inode, mode in rows
    ]
    dtypes = (
        *(np.int64, np.uint64, np.int32, np.int32, np.uint64, np.uint64, np.uint64),
        *(np.int32, np.int32, np.uint32, np.uint32, np.uint64, np.uint32, np.uint8),
    )
    return Mmaps(*_columns(sorted(columns), dtypes))
