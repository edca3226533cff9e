"""Signals sent to the recorder, as bytes in a pipe that its loop polls.

SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGALRM and SIGXCPU arrive as their numbers. Other signals that
end a process by default are ignored.
"""

from __future__ import annotations

import os

from prospect import started
from prospect.light import Closing, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# An alarm that was set before the recorder was executed, and a limit on CPU time, bound a run too.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU)
# SIGQUIT is the command's alone: a Java machine prints its threads on Ctrl-\ and goes on.
_CAUGHT = (*ENDING, signal.SIGQUIT)
_SIGSTKFLT = 16  # include/uapi/asm-generic/signal.h; Python before 3.11 has no name for it
_MEANINGLESS = (
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGIO,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGPWR,
    _SIGSTKFLT,
)
# The interpreter ignores these for itself; COMMAND must inherit them as they were before.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def _note(_number: int, _frame: object) -> None:
    """Do nothing: the interpreter writes the number into the wake-up pipe."""


class SignalWatch(Closing):
    """Catches what would end the recorder, for as long as it is open.

    A signal that was ignored before (nohup, a background job) stays ignored. Outside the main
    thread, where no handler can be set, nothing is caught and `fd` is -1.
    """

    def __init__(self) -> None:
        self.fd = -1
        self._write_fd = -1
        self._old_wakeup_fd = -1
        self._old: dict[int, Callable[..., Any] | int | None] = {}
        self._ignored: list[int] = []
        self._ignores_children = False
        read_fd, write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._old_wakeup_fd = signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
        except ValueError:
            os.close(read_fd)
            os.close(write_fd)
            return
        self.fd, self._write_fd = read_fd, write_fd
        for number in _CAUGHT:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._old[number] = signal.signal(number, _note)
        # A program that uses Prospect as a library keeps its own handlers.
        self._ignored = [one for one in _MEANINGLESS if signal.getsignal(one) is signal.SIG_DFL]
        for meaningless in self._ignored:
            signal.signal(meaningless, signal.SIG_IGN)
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            # The kernel would collect the command's exit status in our place.
            self._ignores_children = True
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def arrived(self) -> list[int]:
        """Return the signals caught since the last call."""
        try:
            return [number for number in os.read(self.fd, 256) if number in self._old]
        except BlockingIOError:
            return []

    def reset_in_child(self) -> None:
        """Give a forked child the dispositions that the recorder was started with."""
        if self.fd >= 0:
            signal.set_wakeup_fd(-1)
        for number in (*self._old, *self._ignored):
            signal.signal(number, signal.SIG_DFL)
        for number in _IGNORED_BY_PYTHON:
            if number not in started.ignored_signals:
                signal.signal(number, signal.SIG_DFL)
        self._restore_children()

    def close(self) -> None:
        """Put the old handlers back."""
        if self.fd < 0:
            return
        for number, handler in self._old.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        for number in self._ignored:
            signal.signal(number, signal.SIG_DFL)
        self._restore_children()
        signal.set_wakeup_fd(self._old_wakeup_fd)
        os.close(self.fd)
        os.close(self._write_fd)
        self.fd = -1

    def _restore_children(self) -> None:
        if self._ignores_children:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def terminal_signals_group() -> bool:
    """Say whether a terminal sends Ctrl-C to this process group, and so to the command as well."""
    try:
        fd = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(fd)
