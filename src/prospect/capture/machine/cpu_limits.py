"""How long CPU limits of control groups kept processes from running.

A group has so much CPU time in each period (cpu.max, cpu.cfs_quota_us). A process whose group has
used it up waits though CPUs may be idle; the scheduler reports it as runnable. The counters of a
group and of its parents are read when a process is first seen in it, and again until the end.

Defined by: cgroups(7); ``cpu.stat`` in ``Documentation/admin-guide/cgroup-v2.rst`` and
``Documentation/scheduler/sched-bwc.rst`` (Linux 6.18): version 1 counts throttled_time in ns,
version 2 throttled_usec.
"""

from __future__ import annotations

from prospect.capture.kernel.procfs import read_if_there
from prospect.files.mounts import mounts
from prospect.light import monotonic_ns
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    # path, periods, throttled periods, ns, some pids: a row of `throttled` in docs/recording.md
    ThrottledRow = tuple[str, int, int, int, list[int]]

_MOST_GROUPS = 1000
_MOST_PIDS = 64
_LOOK_NS = 1_000_000_000


class CpuStat(NamedTuple):
    """The counters of a group, or what they gained."""

    periods: int
    throttled: int
    throttled_ns: int


class _Hierarchy(NamedTuple):
    """A mounted hierarchy: its root within the file system, and the mount point."""

    root: str
    point: str


class _Group:
    """A group that is followed."""

    def __init__(self, first: CpuStat) -> None:
        self.first = self.last = first
        self.pids: set[int] = set()


class CpuLimits:
    """Follows the groups of some processes.

    Args:
        proc: where /proc is.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._version_1, self._version_2 = _hierarchies(read_if_there(f"{proc}/self/mountinfo"))
        self._groups: dict[tuple[_Hierarchy, str], _Group | None] = {}
        self._looked_ns = 0

    def see(self, pids: Iterable[int]) -> None:
        """Follow the groups that processes are in now, and the parents of these groups."""
        if not (self._version_1 or self._version_2):
            return
        for pid in pids:
            for hierarchy, path in self._places(read_if_there(f"{self._proc}/{pid}/cgroup")):
                self._see(hierarchy, path, pid)

    def wait_ms(self) -> int | None:
        """Return how long until the next look, None while no group has a limit."""
        if not any(group and group.last.periods for group in self._groups.values()):
            return None
        return max(self._looked_ns + _LOOK_NS - monotonic_ns(), 0) // 1_000_000 + 1

    def look(self) -> None:
        """Read the counters again once a second: a group may be removed before the end."""
        if self.wait_ms() == 1:
            self._read()

    def finish(self) -> list[ThrottledRow]:
        """Return the groups that a limit was enforced on meanwhile."""
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
        """Yield the hierarchies that a process's limits are in, and its group there."""
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
                if len(self._groups) >= _MOST_GROUPS:
                    return
                first = cpu_stat(_counters(hierarchy, path))
                self._groups[hierarchy, path] = _Group(first) if first else None
            group = self._groups[hierarchy, path]
            if group and len(group.pids) < _MOST_PIDS:
                group.pids.add(pid)
            if not path:
                return
            path = path.rpartition("/")[0]


def cpu_stat(text: bytes) -> CpuStat | None:
    """Return the counters that a file of either version has; None of a group without limits."""
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
    """Return where version 1 has its controller "cpu", and where version 2 is."""
    version_1 = version_2 = None
    for mount in mounts(mountinfo):
        found = _Hierarchy(_text(mount.root), _text(mount.point))
        if mount.kind == b"cgroup" and b"cpu" in mount.options.split(b","):
            version_1 = version_1 or found
        elif mount.kind == b"cgroup2":
            version_2 = version_2 or found
    return version_1, version_2
