"""Waits until Python begins to run: there is nothing to read before, and loading a walker costs.

Comes in: rings with MMAP2 records, /proc. Goes out: the mappings of CPython that there are then.
Most recordings end here, so that nothing is imported that is slow.

Defined by: proc(5).
"""

from __future__ import annotations

import os
import select
import time

from prospect.capture.kernel.procfs import read_if_there
from prospect.capture.machine.mapping_records import MappingRecord, drained
from prospect.capture.python import image_entry
from prospect.capture.python.interpreters import may_be_python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prospect.capture.kernel.rings import Ring

_SOON_MS = 30
_LATER_MS = 250
_IDLE_MS = 2000
_SOON_S, _LATER_S = 1, 60
_PATH_FIELD = 5  # of a line of /proc/pid/maps


def first_python(stop_fd: int, rings: Mapping[int, Ring]) -> list[MappingRecord]:
    """Wait until Python runs.

    Args:
        stop_fd: a pipe's end.
        rings: by the descriptor of their event.

    Returns:
        All mappings of CPython that there are then; none where the pipe's end came first.
    """
    poll = polled(stop_fd, rings)
    before = Before(_mapped_before())
    first: list[MappingRecord] = []
    while not first and not before.has_run():
        if not goes_on(poll, stop_fd, before.wait_ms()):
            return []
        first = [one for one in drained(rings.values()) if may_be_python(one.path)]
    return [*before.mappings, *first]


def polled(stop_fd: int, rings: Mapping[int, Ring]) -> select.poll:
    """Return what waits for the rings and for the end."""
    poll = select.poll()
    for fd in (stop_fd, *rings):
        poll.register(fd, select.POLLIN)
    return poll


def goes_on(poll: select.poll, stop_fd: int, wait_ms: int | None) -> bool:
    """Wait for something to happen; return whether it is not the end."""
    for fd, what in poll.poll(wait_ms):
        if fd == stop_fd:
            return False
        if what & ~select.POLLIN:
            poll.unregister(fd)  # its CPU is gone
    return True


class Before:
    """The processes that had mapped CPython before, as long as none of them has run.

    Attributes:
        mappings: theirs.
    """

    def __init__(self, mappings: Iterator[MappingRecord]) -> None:
        self.mappings = list(mappings)
        recorder = os.getppid()
        # Forks of it are the recorder too, COMMAND among them as long as it has executed nothing.
        own = _key(recorder)
        pids = {mapping.pid for mapping in self.mappings if _key(mapping.pid) != own}
        self._used = {pid: self._ticks(pid) for pid in pids}
        self._has_begun = any(self._stat(pid)[1:2] == [b"%d" % recorder] for pid in pids)
        self._known = _pids()
        self._begun = time.monotonic()

    def has_run(self) -> bool:
        """Return whether one of them has used the CPU since, or forked; or is COMMAND."""
        if self._has_begun or not self._used:
            return self._has_begun
        new = (pids := _pids()) - self._known
        self._known = pids
        parents = {int(fields[1]) for pid in new if len(fields := self._stat(pid)) > 1}
        return not parents.isdisjoint(self._used) or any(
            self._ticks(pid) > used for pid, used in self._used.items()
        )

    def wait_ms(self) -> int | None:
        """Return when to look again: soon at first; None where there is none to look at."""
        if not self._used:
            return None
        since_s = time.monotonic() - self._begun
        if since_s < _LATER_S:
            return _SOON_MS if since_s < _SOON_S else _LATER_MS
        return _IDLE_MS

    def _ticks(self, pid: int) -> int:
        """Return the clock ticks that a process has used; fields 14 and 15 of proc(5)'s stat."""
        return sum(map(int, self._stat(pid)[11:13]))

    @staticmethod
    def _stat(pid: int) -> list[bytes]:
        """Return the fields from the third one on."""
        return read_if_there(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _key(pid: int) -> bytes:
    return image_entry.image_key(read_if_there(f"/proc/{pid}/stat"))


def _pids() -> set[int]:
    return {int(entry) for entry in os.listdir("/proc") if entry.isdigit()}


def _mapped_before() -> Iterator[MappingRecord]:
    """Give the mappings of CPython of all processes."""
    for entry in sorted(_pids()):
        for line in read_if_there(f"/proc/{entry}/maps").splitlines():
            fields = line.split(None, 5)
            if (
                len(fields) <= _PATH_FIELD
                or b"x" not in fields[1]
                or not may_be_python(fields[_PATH_FIELD])
            ):
                continue
            start, end = (int(number, 16) for number in fields[0].split(b"-"))
            major, minor = (int(number, 16) for number in fields[3].split(b":"))
            yield MappingRecord(
                file=(major, minor, int(fields[4])),
                pid=entry,
                start=start,
                end=end,
                path=fields[_PATH_FIELD],
                time_ns=0,
                offset=int(fields[2], 16),
            )
