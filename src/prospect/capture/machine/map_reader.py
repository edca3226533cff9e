"""The whole memory maps of processes, read from /proc while they run.

Comes in: processes that have just mapped code, and those that ran before. Goes out: the newest
text of /proc/PID/maps of each, for the recording's description, and its process group and session
of that time, which no record reports; and how long CPU limits kept the chosen processes from
running (`cpu_limits`).

The kernel could write a record for each mapping of data (``attr.mmap_data``), but none for an
unmapping: a program that maps and unmaps buffers would fill the rings, and what stands at its end
would not be known. So maps are read, and not of everybody: a process that COMMAND started is looked
at 20 ms after it mapped code, then as it grows twice as old, and its map is read if it has used the
CPU since. Its children are watched from then on: those that only fork map no code of their own. All
others are looked at once, at the end. COMMAND aside, looks take no more than 3 ms of processor time
and 0.05 % of the time that goes by.

Defined by: proc(5); ``fs/proc/task_mmu.c`` (Linux 6.18).
"""

from __future__ import annotations

import heapq
import os
import time
import zlib
from contextlib import suppress

from prospect.capture.kernel.procfs import read_if_there, read_maps, read_short
from prospect.capture.machine.cpu_limits import CpuLimits
from prospect.capture.machine.processes import parse_stat
from prospect.files.child import tell
from prospect.light import monotonic_ns
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prospect.capture.machine.processes import Stat

_FIRST_LOOK_NS = 20_000_000
_LONGEST_WAIT_NS = 60_000_000_000
_ALLOWANCE_NS = 3_000_000
_ALLOWED_PART = 2000
_LAST_WORD_NS = 50_000_000
_MOST_PROCESSES = 4096
_MOST_GROUPS = 16 * _MOST_PROCESSES
_LEAST_TICKS = 1
_LONGEST_LINE = 32
# A process of 10,000 mappings; of larger maps none is kept.
_MOST_TEXT_BYTES = 1 << 20
_MOST_BYTES = 1 << 23
_QUICKLY = 1


class MapText(NamedTuple):
    """What /proc/PID/maps said at `read_ns`, in CLOCK_MONOTONIC."""

    pid: int
    read_ns: int
    text: bytes


class _Watched(NamedTuple):
    """A process that is looked at: how long until the next look, and its ticks at the last one."""

    wait_ns: int
    ticks: int


def sooner(one_ms: int | None, other_ms: int | None) -> int | None:
    """Return the shorter wait, of which None is the longest."""
    waits = [wait_ms for wait_ms in (one_ms, other_ms) if wait_ms is not None]
    return min(waits) if waits else None


class MapReader:
    """Reads the maps of processes that come and go."""

    def __init__(
        self, command_pid: int, proc: str = "/proc", attached: tuple[int, ...] = ()
    ) -> None:
        """Prepare.

        Args:
            command_pid: COMMAND, whose map is read whether or not it has used the CPU; -1 for none,
                where whoever maps code is watched.
            proc: where /proc is.
            attached: processes that were attached to; without these and COMMAND, limits of
                all processes are wanted.
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
        self._texts: dict[int, MapText] = {}
        self._groups: dict[int, tuple[int, int, int]] = {}
        self._bytes = 0
        self._spent_ns = 0
        self._began_ns = monotonic_ns()

    def see(self, pids: Iterable[int]) -> None:
        """Watch processes from now on: they map code, or are asked for by name."""
        now_ns = monotonic_ns()
        pids = set(pids)
        # COMMAND and its scripts may join another group before they execute the next program.
        self._limits.see(pids & self._family)
        for pid in pids:
            if pid in self._watched or pid <= 0 or len(self._watched) >= _MOST_PROCESSES:
                continue
            self._watched[pid] = _Watched(_FIRST_LOOK_NS, 0)
            is_command = pid == self._command_pid
            heapq.heappush(self._due, (now_ns + (0 if is_command else _FIRST_LOOK_NS), pid))

    def see_before(self, ticks: Mapping[int, int]) -> None:
        """Keep what CPU time processes had used as recording began, in ticks, for the end."""
        self._ticks_before = ticks
        if not self._family:
            self._limits.see(ticks)

    def wait_ms(self) -> int | None:
        """Return how long until there is something to look at, None without."""
        wait_ms = None
        if self._due:
            wait_ns = self._due[0][0] - monotonic_ns()
            least_ns = 0 if self._may_spend() else _FIRST_LOOK_NS
            wait_ms = max(wait_ns, least_ns) // 1_000_000 + 1
        return sooner(wait_ms, self._limits.wait_ms())

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

    def finish(self, fd: int) -> None:
        """Look at all that still run a last time; write what `document_in` reads."""
        limits = self._limits.finish()
        until_ns = monotonic_ns() + _LAST_WORD_NS
        for pid in (*self._watched, *self._ticks_before):
            if monotonic_ns() > until_ns:
                break
            known = self._watched.get(pid)
            # Of a process from before what a report leaves out is not worth its map.
            least = known.ticks if known else self._ticks_before[pid] + _LEAST_TICKS
            stat = self._stat(pid)
            if stat and stat.ticks > least:
                self._read(pid)
        texts = self._texts.values()
        rows = [(one.pid, one.read_ns, len(one.text)) for one in texts]
        packed = zlib.compress(b"".join(one.text for one in texts), _QUICKLY)
        # Where files may not grow so large, the recording, which would hold it, cannot either.
        with suppress(OSError):
            tell(fd, (rows, packed, self._groups, limits))

    def _may_spend(self) -> bool:
        elapsed_ns = monotonic_ns() - self._began_ns
        return self._spent_ns < _ALLOWANCE_NS + elapsed_ns // _ALLOWED_PART

    def _look_at(self, pid: int, now_ns: int) -> None:
        watched = self._watched.pop(pid)
        # Most have ended by now; this is the cheapest way to see it.
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
        wait_ns = min(2 * watched.wait_ns, _LONGEST_WAIT_NS)
        self._watched[pid] = _Watched(wait_ns, stat.ticks if is_changed else watched.ticks)
        heapq.heappush(self._due, (now_ns + watched.wait_ns, pid))
        # Those of the main thread; a kernel without CONFIG_PROC_CHILDREN has no such file.
        self.see(map(int, read_if_there(f"{self._proc}/{pid}/task/{pid}/children").split()))

    def _is_wanted(self, pid: int, parent_pid: int) -> bool:
        """Return whether COMMAND is among a process's parents."""
        if self._command_pid < 0 or pid in self._family:
            return True
        line = [pid]
        while parent_pid > 1 and len(line) < _LONGEST_LINE:
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
        # Unknown if it has ended, or is in another pid namespace.
        is_known = min(stat.pgrp, stat.session) > 0
        if is_known and (pid in self._groups or len(self._groups) < _MOST_GROUPS):
            self._groups[pid] = stat.pgrp, stat.session, monotonic_ns()
        return stat

    def _read(self, pid: int) -> bool:
        """Keep the map of a process; return whether it is there."""
        try:
            text = read_maps(pid, self._proc, _MOST_TEXT_BYTES)
        except OSError:
            return False
        if not text:
            return False  # it is about to end
        before = self._texts.get(pid)
        size = self._bytes + len(text) - (len(before.text) if before else 0)
        if len(text) < _MOST_TEXT_BYTES and size <= _MOST_BYTES:
            self._bytes = size
            self._texts[pid] = MapText(pid, monotonic_ns(), text)
        return True
