"""Running processes instead of COMMAND, with `Command`'s interface for the drain loop.

The interval ends with the last of these processes, or after a time. Without either, only a signal
ends it.

Defined by: pidfd_open(2), which also distinguishes a process from a later one with the same pid.
"""

from __future__ import annotations

import errno
import os
import select

from prospect.capture.kernel.procfs import read_file, read_if_there
from prospect.capture.loop.command import Ended
from prospect.capture.machine.process_snapshot import parse_stat
from prospect.errors import CaptureError
from prospect.light import Closing, monotonic_ns

_NOBODY = -1
_NS_PER_S = 1_000_000_000
_OVER = Ended(0, 0.0, 0.0, 0)


class Attached(Closing):
    """Processes that run already, or none.

    Attributes:
        pid: of no process.
        pidfd: readable once one of them has ended.
        exec_fd: -1, because nothing is executed.
        until_ns: the end of the time, in CLOCK_MONOTONIC; 0 for never.
    """

    pid = _NOBODY
    exec_fd = -1

    def __init__(self, pids: tuple[int, ...], for_s: float | None) -> None:
        """Find the processes.

        Raises:
            CaptureError: one of them does not exist, or is a kernel thread.
        """
        self.until_ns = 0
        self._for_s = for_s
        self._waits_for_ends = bool(pids)
        self._running: set[int] = set()
        self._ends = select.epoll()
        self.pidfd = self._ends.fileno()
        try:
            for pid in pids:
                fd = _opened(pid)
                self._running.add(fd)
                self._ends.register(fd, select.EPOLLIN)
        except BaseException:
            self.close()
            raise

    def release(self) -> None:
        """Start the time."""
        if self._for_s is not None:
            self.until_ns = monotonic_ns() + round(self._for_s * _NS_PER_S)

    def let_start(self) -> None:
        """Do nothing: they run already."""

    def check_exec(self) -> None:
        """Do nothing: they execute nothing."""

    def reap(self) -> Ended | None:
        """Return status 0 once all of them have ended or the time is over, None until then."""
        for fd, _ in self._ends.poll(0):
            self._ends.unregister(fd)
            self._running.discard(fd)
            os.close(fd)
        if self._waits_for_ends and not self._running:
            return _OVER
        return _OVER if 0 < self.until_ns <= monotonic_ns() else None

    def close(self) -> None:
        """Close all descriptors; the processes continue."""
        while self._running:
            os.close(self._running.pop())
        self._ends.close()
        self.pidfd = -1


def _opened(pid: int) -> int:
    try:
        fd = os.pidfd_open(pid)
    except (OSError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_PROCESS:
            raise
        raise CaptureError(_absence(pid)) from error
    try:
        stat = parse_stat(read_file(f"/proc/{pid}/stat"))
    except (OSError, ValueError) as error:
        os.close(fd)
        raise CaptureError(_absence(pid)) from error
    if stat.is_kernel_thread:
        os.close(fd)
        name = os.fsdecode(stat.comm)
        raise CaptureError(
            f"process {pid} ({name}) is a thread of the kernel: prospect -Vk --for 10 shows"
            " what the kernel does (-p)"
        )
    return fd


# For a thread that leads no process: EINVAL, since Linux 6.9 ENOENT.
_NO_PROCESS = (errno.ESRCH, errno.EINVAL, errno.ENOENT)


def _absence(pid: int) -> str:
    for line in read_if_there(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"Tgid:"):
            owner = int(line.split()[1])
            if owner != pid:
                return f"{pid} is a thread of process {owner}: give that one (-p {owner})"
    return f"there is no process {pid} (-p)"
