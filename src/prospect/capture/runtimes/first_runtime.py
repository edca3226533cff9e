"""Waits until a runtime runs, because loading a walker is costly.

MMAP2 records and /proc show the mappings of runtimes. Most recordings end here, so this imports
nothing slow.

If programs start all the time, there are thousands of mappings a second, each of which would wake
the child. After a look it rests, so that its looks take only their share of the CPUs. Functions of
a program that begins during a rest are missing until the rest is over.

Defined by: proc(5).
"""

from __future__ import annotations

import os
import select
import time

from prospect.capture.kernel.procfs import list_pids, read_maps
from prospect.capture.machine.mapping_records import MappingRecord, drained
from prospect.capture.machine.runtime_processes import WORDS, IdleRuntimes, may_be_runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prospect.capture.kernel.rings import Ring

# Of all CPUs, per sample a second and CPU: the cost of taking the samples.
_SHARE_OF_A_SAMPLE = 10e-6
_LEAST_SHARE, _MOST_SHARE = 0.001, 0.02
_LONGEST_S = 0.1


def share_for(rate_hz: float) -> float:
    """Return the share of the CPUs for looks, at a rate of samples."""
    return min(max(_SHARE_OF_A_SAMPLE * rate_hz, _LEAST_SHARE), _MOST_SHARE)


class Pace:
    """Rests between looks."""

    def __init__(self, share: float) -> None:
        """Prepare; `share` is of all CPUs."""
        self._cpus_share = share * (os.cpu_count() or 1)
        self._looked_s = time.monotonic()
        self._used_s = time.process_time()

    def rest(self, stop_fd: int) -> bool:
        """Rest if it is too early for another look; return whether the end came meanwhile."""
        now_s, used_s = time.monotonic(), time.process_time()
        due_s = self._looked_s + (used_s - self._used_s) / self._cpus_share
        self._looked_s, self._used_s = max(now_s, min(due_s, now_s + _LONGEST_S)), used_s
        rest_s = self._looked_s - now_s
        return rest_s > 0 and bool(select.select((stop_fd,), (), (), rest_s)[0])


_PATH_FIELD = 5  # of a line of /proc/pid/maps


def first_runtime(stop_fd: int, rings: Mapping[int, Ring], share: float) -> list[MappingRecord]:
    """Wait until a runtime runs; looks take a share of all CPUs.

    Returns:
        All mappings of runtimes by then; none if the pipe's end came first.
    """
    poll = polled(stop_fd, rings)
    before = list(runtime_mappings())
    idle = IdleRuntimes({mapping.pid for mapping in before})
    first: list[MappingRecord] = []
    pace = Pace(share)
    while not first and not idle.has_run():
        if not goes_on(poll, stop_fd, idle.wait_ms(), pace):
            return []
        found = drained(rings.values(), of_names_with=WORDS)
        first = [one for one in found if may_be_runtime(one.path)]
    return [*before, *first]


def polled(stop_fd: int, rings: Mapping[int, Ring]) -> select.poll:
    """Return a poll object for the rings and the end."""
    poll = select.poll()
    for fd in (stop_fd, *rings):
        poll.register(fd, select.POLLIN)
    return poll


def goes_on(poll: select.poll, stop_fd: int, wait_ms: int | None, pace: Pace) -> bool:
    """Rest, then wait for an event of `poll`; return False at the end."""
    if pace.rest(stop_fd):
        return False
    for fd, what in poll.poll(wait_ms):
        if fd == stop_fd:
            return False
        if what & ~select.POLLIN:
            poll.unregister(fd)  # its CPU is gone
    return True


def runtime_mappings() -> Iterator[MappingRecord]:
    """Give the mappings of runtimes of all processes."""
    for pid in sorted(list_pids()):
        try:
            yield from mappings_of(pid)
        except OSError:
            continue  # it has ended, or is another user's


def mappings_of(pid: int) -> Iterator[MappingRecord]:
    """Give the mappings of runtimes of a process.

    Raises:
        OSError: it has ended, or is another user's.
    """
    for line in read_maps(pid).splitlines():
        fields = line.split(None, 5)
        if (
            len(fields) <= _PATH_FIELD
            or b"x" not in fields[1]
            or not may_be_runtime(fields[_PATH_FIELD])
        ):
            continue
        start, end = (int(number, 16) for number in fields[0].split(b"-"))
        major, minor = (int(number, 16) for number in fields[3].split(b":"))
        yield MappingRecord(
            file=(major, minor, int(fields[4])),
            pid=pid,
            start=start,
            end=end,
            path=fields[_PATH_FIELD],
            time_ns=0,
            offset=int(fields[2], 16),
        )
