"""Section 2, System Calls: kernel time by call from samples, and counts of calls.

Samples estimate how long the CPU worked for a call. Counts (--count-syscalls) are exact: how often
it was made, and how long callers were inside, waiting included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prospect.columns.grouping import RowsByGroup, group_sums, rows_by_group
from prospect.figures.modes import MODE_KERNEL, event_seconds, hit_modes
from prospect.profile.model import ENTRY_REASON_SYSCALL
from prospect.records import Record

if TYPE_CHECKING:
    from prospect.columns.array_types import F64, I64, Bools
    from prospect.profile.complete import ProfileByFunction
    from prospect.profile.run_info import EventInfo

_NS = 1e-9


class SyscallRows(Record):
    """A row a system call: those with the most CPU time first, then with the most time inside.

    Attributes:
        name: of the call in user space; in brackets for unknown calls.
        hits: i64[c] samples in it.
        sampled_s: f64[c] CPU seconds, by these samples.
        share: f64[c] of the kernel time of the process or the system; 0.0 if there is none.
        calls: i64[c] that began in the interval; 0 if nothing was counted, as all below.
        compat_calls: i64[c] of these, through the 32-bit interface.
        unfinished: i64[c] of these, without an end in the interval.
        time_s: f64[c] wall seconds inside those that ended, waiting included.
        cost_s: f64[c] seconds by which counting made them longer.
    """

    name: list[str]
    hits: I64
    sampled_s: F64
    share: F64
    calls: I64
    compat_calls: I64
    unfinished: I64
    time_s: F64
    cost_s: F64

    def __len__(self) -> int:
        return len(self.name)

    @property
    def mean_s(self) -> F64:
        """Mean wall seconds inside a call that ended, f64[c]; nan if none did."""
        ended = (self.calls - self.unfinished).astype(np.float64)
        mean_s = np.full(len(self), np.nan)
        np.divide(self.time_s, ended, out=mean_s, where=ended > 0)
        return mean_s


class SyscallFigures(Record):
    """The system calls of a run.

    Attributes:
        is_counted: whether calls were counted; if not, there are only samples.
        system: those of all processes together.
        dropped: calls that were not counted, as the kernel had no room.
        recorder_calls: how many of the counted calls the recorder itself made.
        cost_ns: by how much counting made one call longer.
        cost_share: all calls' cost as a part of all CPUs' time; 0.0 if the time is unknown.
    """

    is_counted: bool
    system: SyscallRows
    dropped: int
    recorder_calls: int
    cost_ns: float
    cost_share: float
    _calls: _CallSums
    _by_process: RowsByGroup
    _kernel_s: F64

    def of_process(self, row: int) -> SyscallRows:
        """Return the calls of a row of the process table."""
        chosen = self._by_process.rows(row)
        return self._calls.rows(chosen, float(self._kernel_s[row]), self.cost_ns)

    def of_processes(self, chosen: Bools) -> SyscallRows:
        """Return the calls of several rows of the process table together, bool[p]."""
        rows = np.flatnonzero(chosen.take(self._calls.process))
        return self._calls.rows(rows, float(self._kernel_s[chosen].sum()), self.cost_ns)

    @property
    def is_calling(self) -> Bools:
        """The rows of the process table with a counted call, bool[p]."""
        is_calling = np.zeros(len(self._kernel_s), np.bool_)
        is_calling[self._calls.process[self._calls.calls > 0]] = True
        return is_calling


class _CallSums(Record):
    """Sums by process and call, i64[n] each."""

    names: list[str]
    event: EventInfo
    process: I64
    name: I64
    hits: I64
    period: I64
    calls: I64
    compat_calls: I64
    unfinished: I64
    time_ns: I64

    def rows(self, chosen: I64, kernel_s: float, cost_ns: float) -> SyscallRows:
        """Add up the chosen sums by call, in the order of a report."""
        columns = (
            *(self.hits, self.period, self.calls, self.compat_calls),
            *(self.unfinished, self.time_ns),
        )
        (name,), sums = group_sums(
            (self.name.take(chosen),), tuple(column.take(chosen) for column in columns)
        )
        hits, period, calls, compat_calls, unfinished, time_ns = sums
        sampled_s = event_seconds(self.event, hits, period)
        order = np.lexsort((name, -calls, -time_ns, -hits, -sampled_s))
        return SyscallRows(
            name=[self.names[index] for index in name.take(order).tolist()],
            hits=hits.take(order),
            sampled_s=sampled_s.take(order),
            share=(sampled_s / kernel_s if kernel_s > 0 else np.zeros(len(name))).take(order),
            calls=calls.take(order),
            compat_calls=compat_calls.take(order),
            unfinished=unfinished.take(order),
            time_s=time_ns.take(order) * np.float64(_NS),
            cost_s=calls.take(order) * np.float64(cost_ns * _NS),
        )


def syscall_figures(profile: ProfileByFunction, event_index: int) -> SyscallFigures:
    """Gather the system calls of a completed profile."""
    counted = profile.syscalls
    calls = _sum_calls(profile, event_index)
    kernel_s = _kernel_seconds(profile, event_index)
    cost_ns = counted.cost_ns if counted else 0.0
    every = np.arange(len(calls.process))
    system = calls.rows(every, float(kernel_s.sum()), cost_ns)
    cpu_s = profile.run.wall_seconds * profile.run.cpus
    by_recorder = profile.processes.is_recorder.take(calls.process)
    return SyscallFigures(
        is_counted=counted is not None,
        system=system,
        dropped=counted.dropped if counted else 0,
        recorder_calls=int(calls.calls[by_recorder].sum()),
        cost_ns=cost_ns,
        cost_share=float(system.cost_s.sum()) / cpu_s if cpu_s > 0 else 0.0,
        _calls=calls,
        _by_process=rows_by_group(calls.process, len(profile.processes)),
        _kernel_s=kernel_s,
    )


def _sum_calls(profile: ProfileByFunction, event_index: int) -> _CallSums:
    """Sum samples and counts by process and name of the call."""
    hits, entry_reasons, counted = profile.hits, profile.entry_reasons, profile.syscalls
    is_call = (hits.event == event_index) & (entry_reasons.kind == ENTRY_REASON_SYSCALL).take(
        hits.entry_reason_index
    )
    names = sorted({*entry_reasons.name, *(counted.names if counted else ())})
    place = {name: index for index, name in enumerate(names)}
    of_entry_reason = np.array([place[name] for name in entry_reasons.name], np.int64)
    process = hits.process_index[is_call].astype(np.int64)
    name = of_entry_reason.take(hits.entry_reason_index[is_call])
    nothing = np.zeros(len(process), np.int64)
    sampled = (hits.count[is_call], hits.period[is_call], *[nothing] * 4)
    if counted is None:
        (process, name), sums = group_sums((process, name), sampled)
        return _CallSums(names, profile.run.events[event_index], process, name, *sums)
    of_counted = np.array([place[name] for name in counted.names], np.int64)
    none = np.zeros(len(counted), np.int64)
    compat = np.where(counted.is_compat, counted.calls, 0)
    exact = (none, none, counted.calls, compat, counted.unfinished, counted.time_ns)
    (process, name), sums = group_sums(
        (
            np.concatenate((process, counted.process_index)),
            np.concatenate((name, of_counted.take(counted.name_index))),
        ),
        tuple(map(np.concatenate, zip(sampled, exact, strict=True))),
    )
    return _CallSums(names, profile.run.events[event_index], process, name, *sums)


def _kernel_seconds(profile: ProfileByFunction, event_index: int) -> F64:
    """Return f64[p]: kernel time of each process's own work, without interrupts."""
    hits = profile.hits
    chosen = (hits.event == event_index) & (hit_modes(profile) == MODE_KERNEL)
    process = hits.process_index[chosen]
    (row,), (count, period) = group_sums((process,), (hits.count[chosen], hits.period[chosen]))
    seconds = np.zeros(len(profile.processes))
    seconds[row] = event_seconds(profile.run.events[event_index], count, period)
    return seconds
