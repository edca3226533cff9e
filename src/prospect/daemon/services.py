"""Processes → the services that they are part of, by their control groups.

Source: cgroups(7), ``/proc/PID/cgroup``; PERF_RECORD_CGROUP, which samples name where the kernel
has them. Where they name none, a process of this machine is asked as its window ends, and one that
has ended is taken for part of what its parent is part of.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.profile.control_groups import service_of

if TYPE_CHECKING:
    from prospect.profile.model import ProcessTable

_MOST_BYTES = 4096
_MOST_KNOWN = 20_000


class Services:
    """What processes are part of; remembers those that were asked for.

    Args:
        proc: where this machine's processes are asked; "" where they are another machine's.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._known: dict[tuple[int, int], str] = {}

    def of(self, processes: ProcessTable) -> dict[int, str]:
        """Return the services of those rows of processes that have one."""
        found: dict[int, str] = {}
        pids, starts = processes.pid.tolist(), processes.start_ns.tolist()
        kernel = processes.is_kernel_thread.tolist()
        groups = processes.control_group
        for row, (pid, start) in enumerate(zip(pids, starts, strict=True)):
            if pid <= 0 or kernel[row]:
                continue
            key = (pid, start)
            if groups and (sampled := service_of(groups[row])):
                self._known[key] = sampled
            elif key not in self._known:
                service = self._read(pid)
                if service is None:
                    continue
                self._known[key] = service
            found[row] = self._known[key]
        self._inherit(processes, found)
        for key in list(self._known)[: max(len(self._known) - _MOST_KNOWN, 0)]:
            del self._known[key]
        return {row: service for row, service in found.items() if service}

    def _inherit(self, processes: ProcessTable, found: dict[int, str]) -> None:
        parents = processes.parent_index.tolist()
        parent_pids, pids = processes.parent_pid.tolist(), processes.pid.tolist()
        by_pid = {pids[row]: service for row, service in found.items()}
        for row, pid in enumerate(pids):
            if row in found or pid <= 0:
                continue
            parent, steps = row, 0
            while parent >= 0 and parent not in found and steps < len(parents):
                parent, steps = parents[parent], steps + 1
            service = found.get(parent) or by_pid.get(parent_pids[row])
            if service:
                found[row] = self._known[pid, int(processes.start_ns[row])] = service

    def _read(self, pid: int) -> str | None:
        if not self._proc:
            return None
        try:
            descriptor = os.open(f"{self._proc}/{pid}/cgroup", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            text = os.read(descriptor, _MOST_BYTES).decode(errors="backslashreplace")
        except OSError:  # it ended just now
            return None
        finally:
            os.close(descriptor)
        return service_of_groups(text)


def service_of_groups(lines: str) -> str:
    """Return the service that lines of ``/proc/PID/cgroup`` name, "" for none."""
    for line in lines.splitlines():
        if service := service_of(line.split(":", 2)[-1]):
            return service
    return ""
