"""A child process of the recorder, which may be held up by a file system as long as that likes.

Comes in: what the child is to do until it is told to end. Goes out: how it ended, and what it cost.
The recorder itself waits for it at the end only, and never longer than it says.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_KILLED_S = 0.1


class Child:
    """A child that runs until `stop`.

    Attributes:
        pid: 0 before the start and after the end.
        status: how it ended, as `os.waitstatus_to_exitcode` says it.
        used_s: its user and system time, once it has ended.
    """

    def __init__(self) -> None:
        self.pid = 0
        self.status = 0
        self.used_s = (0.0, 0.0)
        self._control_fd = -1

    def start(self, serve: Callable[[int], None], kept_fds: Iterable[int]) -> None:
        """Fork a child.

        Args:
            serve: runs in the child, which ends with it; given a descriptor that is at its end
                once the child is to stop.
            kept_fds: the descriptors that the child keeps.

        Raises:
            OSError: there can be no child.
        """
        stop_fd, self._control_fd = os.pipe2(os.O_CLOEXEC)
        try:
            self.pid = os.fork()
            if not self.pid:
                _be_the_child(serve, stop_fd, {stop_fd, *kept_fds})
        finally:
            os.close(stop_fd)

    def stop(self) -> None:
        """Tell the child to come to its end."""
        if self._control_fd >= 0:
            os.close(self._control_fd)
            self._control_fd = -1

    def reap(self, seconds: float) -> bool:
        """Wait for the child's end that long; return whether it has ended."""
        until = time.monotonic() + seconds
        while self.pid:
            try:
                pid, status, used = os.wait4(self.pid, os.WNOHANG)
            except ChildProcessError:
                break
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
                self.used_s = (used.ru_utime, used.ru_stime)
                break
            if time.monotonic() >= until:
                return False
            select.select((), (), (), 0.002)
        self.pid = 0
        return True

    def kill(self, wait_s: float = _KILLED_S) -> None:
        """End the child; one that a file system does not let go is left to that."""
        self.stop()
        if self.pid and not self.reap(0.0):
            os.kill(self.pid, signal.SIGKILL)
            self.reap(wait_s)


def _be_the_child(serve: Callable[[int], None], stop_fd: int, kept: set[int]) -> NoReturn:
    """Serve, and never return to the recorder's program."""
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        with contextlib.suppress(ValueError):
            signal.set_wakeup_fd(-1)
        # Held up in a file system, it must hold nothing that others wait for to be closed.
        for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
            if fd not in kept:
                with contextlib.suppress(OSError):
                    os.close(fd)
        serve(stop_fd)
        status = 0
    finally:
        os._exit(status)
