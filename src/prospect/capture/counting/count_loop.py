"""The wait of a counting run: until the command, the processes or a signal end it.

Comes in: counters, a command or processes, signals. Goes out: how long it took, and on the way a
call at the end of each interval.
"""

from __future__ import annotations

import math
import select
import time
from typing import TYPE_CHECKING

from prospect.capture.loop.end_request import EndRequest
from prospect.light import monotonic_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prospect.capture.counting.counters import CounterSet
    from prospect.capture.loop.command import Command
    from prospect.capture.loop.signals import SignalWatch

# How often the command is looked at where the kernel has no pidfd.
_NO_PIDFD_S = 0.01


class CountLoop:
    """One run, from the start of the counters to their end."""

    def __init__(
        self,
        counters: CounterSet,
        command: Command | None,
        signals: SignalWatch,
        pidfds: Sequence[int],
    ) -> None:
        self._counters = counters
        self._command = command
        self._signals = signals
        self._has_processes = bool(pidfds)
        self._running = set(pidfds)
        self._begin_s = 0.0
        self._end_request = EndRequest(signals, command)

    @property
    def interrupted_by(self) -> int:
        """The first signal that was to end it, 0 without."""
        return self._end_request.interrupted_by

    def run(self, interval_s: float, on_interval: Callable[[float], None]) -> float:
        """Count; return how many seconds it took.

        Args:
            interval_s: how often `on_interval` is called, 0 for never.
            on_interval: is given the seconds since the start.

        Raises:
            CommandError: the command could not be executed.
        """
        poll = self._registered()
        self._counters.enable()
        self._begin_s = time.monotonic()
        if self._command:
            self._command.release()
        due = 1
        while not self._is_over():
            now_s = time.monotonic() - self._begin_s
            if interval_s and now_s >= due * interval_s:
                on_interval(now_s)
                # An interval that was missed makes the one before longer.
                due = int(now_s / interval_s) + 1
            until_s = due * interval_s if interval_s else math.inf
            for fd, _ in poll.poll(self._timeout_ms(until_s)):
                self._handle(fd, poll)
        self._counters.disable()
        return time.monotonic() - self._begin_s

    def _registered(self) -> select.poll:
        poll = select.poll()
        fds = [self._signals.fd, *self._running]
        if self._command:
            fds += [self._command.exec_fd, self._command.pidfd]
        for fd in fds:
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        return poll

    def _handle(self, fd: int, poll: select.poll) -> None:
        if self._command and fd == self._command.exec_fd:
            poll.unregister(fd)
            self._command.check_exec()
        elif fd == self._signals.fd:
            self._end_request.obey()
        elif fd in self._running:
            poll.unregister(fd)
            self._running.discard(fd)

    def _is_over(self) -> bool:
        if self._end_request.is_over(monotonic_ns()):
            return True
        command = self._command
        if not command:
            return self._has_processes and not self._running
        ended = bool(command.reap())
        if ended and command.exec_fd >= 0:
            command.check_exec()
        return ended

    def _timeout_ms(self, until_s: float) -> int | None:
        give_up_s = self._end_request.give_up_ns / 1e9 or math.inf
        wait_s = min(self._begin_s + until_s, give_up_s) - time.monotonic()
        if self._command and self._command.pidfd < 0:
            wait_s = min(wait_s, _NO_PIDFD_S)
        return None if wait_s == math.inf else max(0, math.ceil(wait_s * 1000))
