"""Reads memory maps of running processes, and how long CPU limits made them wait.

For the recording's description it reads the newest text of each process's /proc/PID/maps, its
process group and session at that time, which no record reports, and how long CPU limits kept the
chosen processes from running.

The kernel could write a record for each mapping of data (``attr.mmap_data``), but writes none for
an unmapping: a program that maps and unmaps buffers would fill the rings, and its last mappings
would be unknown. So this module reads maps, but not of every process at once. It looks at a process
that COMMAND started 20 ms after this mapped code, then each time that its age has doubled, and
reads its map if it has used the CPU since. From then on it also watches the children, as those that
only fork map no code. It looks at all other processes once, at the end. Apart from COMMAND's, looks
take at most 3 ms of CPU time and 0.05 % of the elapsed time.

A control group may use a limited CPU time in each period (cpu.max, cpu.cfs_quota_us). A process
whose group has used it up waits even if CPUs are idle; the scheduler reports it as runnable. This
module reads the counters of a group and of its parents when it first sees a process in it, and
again until the end.

Defined by: proc(5); ``fs/proc/task_mmu.c``; cgroups(7); ``cpu.stat`` in
``Documentation/admin-guide/cgroup-v2.rst`` and ``Documentation/scheduler/sched-bwc.rst``
(Linux 6.18): version 1 counts throttled_time in ns, version 2 throttled_usec.
"""

from __future__ import annotations

import heapq
import os
import time
import zlib

from prospect.capture.capture_limits import (
    DEEPEST_PARENTS,
    LONGEST_WAIT_NS,
    MOST_LIMITED_GROUPS,
    MOST_LIMITED_PIDS,
    MOST_MAP_BYTES,
    MOST_MAP_PROCESSES,
    MOST_PACKED_BYTES,
    MOST_PROCESS_GROUPS,
)
from prospect.capture.kernel.procfs import read_if_there, read_maps, read_short
from prospect.capture.machine.process_snapshot import parse_stat
from prospect.capture.machine.surroundings import control_groups
from prospect.files.child import tell
from prospect.files.mounts import mounts
from prospect.light import monotonic_ns
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prospect.capture.machine.containers import ContainerNames
    from prospect.capture.machine.process_snapshot import Stat

    ThrottledRow = tuple[str, int, int, int, list[int]]

_FIRST_LOOK_NS = 20_000_000
_ALLOWANCE_NS = 3_000_000
_ALLOWED_PART = 2000
_LAST_WORD_NS = 50_000_000
_CONTAINERS_NS = 100_000_000
_LEAST_CONTAINER_PATH = 65  # "/" and an id
_LEAST_TICKS = 1
_QUICKLY = 1


class _Watched(NamedTuple):
    """A watched process: the time from one look to the next, and its ticks at the last look."""

    wait_ns: int
    ticks: int


def shortest_wait(*waits_ms: int | None) -> int | None:
    """Return the shortest wait; None is for ever."""
    return min((wait_ms for wait_ms in waits_ms if wait_ms is not None), default=None)


class MapReader:
    """Reads the maps of processes that come and go."""

    def __init__(
        self, command_pid: int, proc: str = "/proc", attached: tuple[int, ...] = ()
    ) -> None:
        """Prepare.

        Args:
            command_pid: COMMAND, whose map is read even if it has not used the CPU; -1 for none,
                which watches every process that maps code.
            attached: processes that the recording attached to; without these and COMMAND, limits
                of all processes are wanted.
        """
        self._command_pid = command_pid
        self._proc = proc
        self._family = {pid for pid in (command_pid, *attached) if pid >= 0}
        self._limits = CpuLimits(proc)
        self._limits.see(self._family)
        self._strangers: set[int] = set()
        self._watched: dict[int, _Watched] = {}
        self._due: list[tuple[int, int]] = []
        self._ticks_before: Mapping[int, int] = {}
        # pid → when its map was read, and the text
        self._texts: dict[int, tuple[int, bytes]] = {}
        self._groups: dict[int, tuple[int, int, int]] = {}
        self._names: ContainerNames | None = None
        self._containers: dict[str, tuple[str, ...]] = {}
        self._bytes = 0
        self._spent_ns = 0
        self._began_ns = monotonic_ns()

    def see(self, pids: Iterable[int]) -> None:
        """Watch processes from now on, which map code or are chosen by pid."""
        now_ns = monotonic_ns()
        pids = set(pids)
        # COMMAND and its scripts may join another group before they execute the next program.
        self._limits.see(pids & self._family)
        for pid in pids:
            if pid in self._watched or pid <= 0 or len(self._watched) >= MOST_MAP_PROCESSES:
                continue
            self._watched[pid] = _Watched(_FIRST_LOOK_NS, 0)
            is_command = pid == self._command_pid
            heapq.heappush(self._due, (now_ns + (0 if is_command else _FIRST_LOOK_NS), pid))

    def see_before(self, ticks: Mapping[int, int]) -> None:
        """Keep the CPU time that processes had used as recording began, in ticks, for the end."""
        self._ticks_before = ticks
        if not self._family:
            self._limits.see(ticks)
        self._name_containers()

    def wait_ms(self) -> int | None:
        """Return the time until the next look, None if there is none."""
        wait_ms = None
        if self._due:
            wait_ns = self._due[0][0] - monotonic_ns()
            least_ns = 0 if self._may_spend() else _FIRST_LOOK_NS
            wait_ms = max(wait_ns, least_ns) // 1_000_000 + 1
        return shortest_wait(wait_ms, self._limits.wait_ms())

    def look(self) -> None:
        """Look at the processes that are due."""
        began_ns = time.thread_time_ns()
        spent_ns = self._spent_ns
        now_ns = monotonic_ns()
        self._limits.look()
        while self._due and self._due[0][0] <= now_ns:
            pid = self._due[0][1]
            if pid != self._command_pid and not self._may_spend():
                break
            heapq.heappop(self._due)
            self._look_at(pid, now_ns)
            self._spent_ns = spent_ns + time.thread_time_ns() - began_ns

    def finish(self, fd: int, of_files: tuple[object, ...] = ((), 0, ())) -> None:
        """Look at all running processes a last time; write what `MappedFiles.finish` reads.

        Args:
            of_files: results of `ImageCopies.finish` and `FileReader.finish`, to be written too.
        """
        limits = self._limits.finish()
        self._name_containers()
        until_ns = monotonic_ns() + _LAST_WORD_NS
        for pid in (*self._watched, *self._ticks_before):
            if monotonic_ns() > until_ns:
                break
            known = self._watched.get(pid)
            # Reports leave out a process from before the run that has hardly used the CPU.
            least = known.ticks if known else self._ticks_before[pid] + _LEAST_TICKS
            stat = self._stat(pid)
            if stat and stat.ticks > least:
                self._read(pid)
        rows = [(pid, read_ns, len(text)) for pid, (read_ns, text) in self._texts.items()]
        packed = zlib.compress(b"".join(text for _, text in self._texts.values()), _QUICKLY)
        # If files may not grow so large, the recording cannot have this either.
        try:  # noqa: SIM105 - contextlib takes 2 ms to import
            tell(fd, (rows, packed, self._groups, limits, of_files, self._containers))
        except OSError:
            pass

    def _name_containers(self) -> None:
        """Look up the names of running containers; keep the names of those that have ended."""
        until_ns = monotonic_ns() + _CONTAINERS_NS
        for _, path in control_groups():
            if monotonic_ns() > until_ns:
                break
            if len(path) < _LEAST_CONTAINER_PATH:
                continue
            if self._names is None:
                from prospect.capture.machine.containers import ContainerNames  # noqa: PLC0415 - 7 ms, few systems have any

                self._names = ContainerNames()
            for identity, facts in self._names.of([path.decode(errors="replace")]).items():
                self._containers[identity] = tuple(facts)

    def _may_spend(self) -> bool:
        elapsed_ns = monotonic_ns() - self._began_ns
        return self._spent_ns < _ALLOWANCE_NS + elapsed_ns // _ALLOWED_PART

    def _look_at(self, pid: int, now_ns: int) -> None:
        watched = self._watched.pop(pid)
        # Most processes have ended by now; this is the cheapest check.
        try:
            os.kill(pid, 0)
        except OSError:
            return
        stat = self._stat(pid)
        if stat is None or not self._is_wanted(pid, stat.ppid):
            return
        if not self._family or pid in self._family:
            self._limits.see((pid,))
        is_changed = stat.ticks >= max(1, 2 * watched.ticks) or pid == self._command_pid
        if is_changed and not self._read(pid):
            return
        wait_ns = min(2 * watched.wait_ns, LONGEST_WAIT_NS)
        self._watched[pid] = _Watched(wait_ns, stat.ticks if is_changed else watched.ticks)
        heapq.heappush(self._due, (now_ns + watched.wait_ns, pid))
        # Children of the main thread; a kernel without CONFIG_PROC_CHILDREN has no such file.
        self.see(map(int, read_if_there(f"{self._proc}/{pid}/task/{pid}/children").split()))

    def _is_wanted(self, pid: int, parent_pid: int) -> bool:
        """Return whether a process descends from COMMAND, or there is no COMMAND."""
        if self._command_pid < 0 or pid in self._family:
            return True
        line = [pid]
        while parent_pid > 1 and len(line) < DEEPEST_PARENTS:
            if parent_pid in self._family or parent_pid in self._strangers:
                break
            line.append(parent_pid)
            parent = self._stat(parent_pid)
            parent_pid = parent.ppid if parent else -1
        is_ours = parent_pid in self._family
        (self._family if is_ours else self._strangers).update(line)
        return is_ours

    def _stat(self, pid: int) -> Stat | None:
        """Return the state of a process, None if it has ended; keep its group and session."""
        try:
            stat = parse_stat(read_short(f"{self._proc}/{pid}/stat"))
        except (OSError, ValueError):
            return None
        # They are 0 if it has ended, or is in another pid namespace.
        is_known = min(stat.pgrp, stat.session) > 0
        if is_known and (pid in self._groups or len(self._groups) < MOST_PROCESS_GROUPS):
            self._groups[pid] = stat.pgrp, stat.session, monotonic_ns()
        return stat

    def _read(self, pid: int) -> bool:
        """Keep the map of a process; return False if it has none any more."""
        try:
            text = read_maps(pid, self._proc, MOST_MAP_BYTES)
        except OSError:
            return False
        if not text:
            return False  # it is about to end
        _, before = self._texts.get(pid, (0, b""))
        size = self._bytes + len(text) - len(before)
        if len(text) < MOST_MAP_BYTES and size <= MOST_PACKED_BYTES:
            self._bytes = size
            self._texts[pid] = monotonic_ns(), text
        return True


_LOOK_NS = 1_000_000_000


class CpuStat(NamedTuple):
    """The counters of a group, or the differences of two readings."""

    periods: int
    throttled: int
    throttled_ns: int


class _Hierarchy(NamedTuple):
    """A mounted hierarchy: its root within the file system, and the mount point."""

    root: str
    point: str


class _Group:
    """A control group whose counters are read."""

    def __init__(self, first: CpuStat) -> None:
        self.first = self.last = first
        self.pids: set[int] = set()


class CpuLimits:
    """Reads the counters of the control groups of some processes."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._version_1, self._version_2 = _hierarchies(read_if_there(f"{proc}/self/mountinfo"))
        self._groups: dict[tuple[_Hierarchy, str], _Group | None] = {}
        self._looked_ns = 0

    def see(self, pids: Iterable[int]) -> None:
        """Read the groups that processes are in now, and the parents of these groups."""
        for pid in pids if self._version_1 or self._version_2 else ():
            for hierarchy, path in self._places(read_if_there(f"{self._proc}/{pid}/cgroup")):
                self._see(hierarchy, path, pid)

    def wait_ms(self) -> int | None:
        """Return the time until the next look, None while no group has a limit."""
        if not any(group and group.last.periods for group in self._groups.values()):
            return None
        return max(self._looked_ns + _LOOK_NS - monotonic_ns(), 0) // 1_000_000 + 1

    def look(self) -> None:
        """Read the counters again once a second: a group may be removed before the end."""
        if self.wait_ms() == 1:
            self._read()

    def finish(self) -> list[ThrottledRow]:
        """Return the groups whose limit was enforced meanwhile."""
        self._read()
        found: list[ThrottledRow] = []
        for (_, path), group in self._groups.items():
            if group is None:
                continue
            gained = CpuStat(*(b - a for a, b in zip(group.first, group.last, strict=True)))
            if gained.periods > 0 and min(gained) >= 0:
                periods, throttled, throttled_ns = gained
                found.append((path or "/", periods, throttled, throttled_ns, sorted(group.pids)))
        return found

    def _read(self) -> None:
        self._looked_ns = monotonic_ns()
        for (hierarchy, path), group in self._groups.items():
            if group and (now := cpu_stat(_counters(hierarchy, path))):
                group.last = now

    def _places(self, membership: bytes) -> Iterable[tuple[_Hierarchy, str]]:
        """Yield the hierarchies with a process's limits, and its group in each."""
        for line in _text(membership).splitlines():
            number, controllers, path = (*line.split(":", 2), "", "")[:3]
            if self._version_1 and "cpu" in controllers.split(","):
                yield self._version_1, path
            elif self._version_2 and number == "0" and not controllers:
                yield self._version_2, path

    def _see(self, hierarchy: _Hierarchy, path: str, pid: int) -> None:
        if hierarchy.root != "/":
            path = path.removeprefix(hierarchy.root)
        path = path.rstrip("/")
        if "/.." in path:
            return  # it is outside the namespace: its files are not visible here
        while True:
            if (hierarchy, path) not in self._groups:
                if len(self._groups) >= MOST_LIMITED_GROUPS:
                    return
                first = cpu_stat(_counters(hierarchy, path))
                self._groups[hierarchy, path] = _Group(first) if first else None
            group = self._groups[hierarchy, path]
            if group and len(group.pids) < MOST_LIMITED_PIDS:
                group.pids.add(pid)
            if not path:
                return
            path = path.rpartition("/")[0]


def cpu_stat(text: bytes) -> CpuStat | None:
    """Return the counters in a group's file of either version; None if it has no limit."""
    words = dict(line.split(b" ", 1) for line in text.splitlines() if b" " in line)
    try:
        if b"throttled_usec" in words:
            throttled_ns = 1000 * int(words[b"throttled_usec"])
        else:
            throttled_ns = int(words[b"throttled_time"])
        return CpuStat(int(words[b"nr_periods"]), int(words[b"nr_throttled"]), throttled_ns)
    except (KeyError, ValueError):
        return None


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _counters(hierarchy: _Hierarchy, path: str) -> bytes:
    return read_if_there(f"{hierarchy.point}{path}/cpu.stat")


def _hierarchies(mountinfo: bytes) -> tuple[_Hierarchy | None, _Hierarchy | None]:
    """Return the mounted hierarchy of version 1 with the controller "cpu", and of version 2."""
    version_1 = version_2 = None
    for mount in mounts(mountinfo):
        found = _Hierarchy(_text(mount.root), _text(mount.point))
        if mount.kind == b"cgroup" and b"cpu" in mount.options.split(b","):
            version_1 = version_1 or found
        elif mount.kind == b"cgroup2":
            version_2 = version_2 or found
    return version_1, version_2
