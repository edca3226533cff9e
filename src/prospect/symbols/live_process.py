"""Recorded processes that still run on this machine: their root, files, pid and owner.

Defined by proc(5).
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from prospect.files.mounts import has_other_root, link_target
from prospect.files.system_files import read_system_file
from prospect.light import monotonic_offset_ns
from prospect.records import NamedTuple
from prospect.symbols.objects import DELETED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_START_SLACK_SECONDS = 1.0
_TIME_NAMESPACES = (b"time", b"time_for_children")


class LiveProcess(NamedTuple):
    """A recorded process that still runs.

    Attributes:
        pid: its id here; if its main thread has ended, whose files in /proc are then empty, the id
            of another thread.
        own_pid: its id in its own, innermost pid namespace.
        owner: its effective user id.
        started_at: seconds since the epoch.
        has_other_root: whether it has another mount namespace or root directory than we.
    """

    pid: int
    own_pid: int
    owner: int
    started_at: float
    has_other_root: bool

    @property
    def root(self) -> bytes:
        """Its root directory, as a path of ours."""
        return b"/proc/%d/root" % self.pid


def live_process(pid: int, recorded_until: float) -> LiveProcess | None:
    """Look up a process; None if it has ended.

    Args:
        pid: no process with files has an id of 0 or below.
        recorded_until: seconds since the epoch, 0 for unknown. A process that started later
            reuses the id.
    """
    if pid <= 0:
        return None
    thread, status, began_at = pid, _status(pid), started_at(pid)
    if not status or (recorded_until and began_at > recorded_until + _START_SLACK_SECONDS):
        return None
    if status.get(b"State", b"")[:1] == b"Z":
        thread = _living_thread(pid)
    inner = status.get(b"NSpid", b"").split()
    users = status.get(b"Uid", b"").split()
    return LiveProcess(
        pid=thread,
        own_pid=int(inner[-1]) if inner else pid,
        owner=int(users[1]) if len(users) > 1 else -1,
        started_at=began_at,
        has_other_root=has_other_root(thread),
    )


def live_processes(pids: Iterable[int], recorded_until: float) -> Iterator[LiveProcess]:
    """Yield those processes that still run, as `live_process`."""
    for pid in pids:
        process = live_process(pid, recorded_until)
        if process:
            yield process


def mapped_file_links(process: LiveProcess, path: bytes) -> Iterator[bytes]:
    """Yield links to the file that a process has mapped under a name, deleted or not, best first.

    They are paths in /proc that open the file itself; opening them may need privileges.
    """
    escaped = path.replace(b"\n", rb"\012")
    names = {escaped, escaped.removesuffix(DELETED), escaped + DELETED}
    if link_target(b"/proc/%d/exe" % process.pid) in {path, path + DELETED}:
        yield b"/proc/%d/exe" % process.pid
    for line in read_system_file(f"/proc/{process.pid}/maps").splitlines():
        # start-end perms offset device inode, blanks, name
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[5] in names:
            start, _, end = fields[0].partition(b"-")
            yield b"/proc/%d/map_files/%x-%x" % (process.pid, int(start, 16), int(end, 16))
            return


def _living_thread(pid: int) -> int:
    """Return a thread of a process that still runs, the process itself if there is none."""
    try:
        tids = [int(name) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208 - as proc(5)
    except OSError:
        return pid
    states = {tid: _status(tid).get(b"State", b"Z")[:1] for tid in tids}
    return next((tid for tid, state in states.items() if state not in {b"Z", b"X"}), pid)


def _status(pid: int) -> dict[bytes, bytes]:
    lines = read_system_file(f"/proc/{pid}/status").splitlines()
    pairs = (line.partition(b":") for line in lines)
    return {name: value.strip() for name, _, value in pairs}


def started_at(pid: int) -> float:
    """Return when a process that runs began, in seconds since the epoch; 0.0 if none does."""
    # The comm in parentheses may hold anything; only numbers follow the last parenthesis.
    fields = read_system_file(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) < 20:
        return 0.0
    booted_at = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted_at + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def monotonic_shift_ns(pid: int) -> int:
    """Return how far CLOCK_MONOTONIC of a running process is ahead of the kernel's.

    Defined by time_namespaces(7). The file describes the children of the process, so it is used
    only if they are in the same namespace.
    """
    spaces = {link_target(b"/proc/%d/ns/%b" % (pid, kind)) for kind in _TIME_NAMESPACES}
    if len(spaces) != 1:
        return 0
    return monotonic_offset_ns(read_system_file(f"/proc/{pid}/timens_offsets"))
