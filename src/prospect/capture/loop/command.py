"""Forks COMMAND early, executes it when the events are ready, and waits for its end.

It starts on `release`, exactly as under /usr/bin/time: same terminal, directory, environment,
files, limits and signal dispositions. The recorder passes the first signal that ends a run (Ctrl-C,
SIGTERM) on to it; the second one ends the wait (`EndRequest`).

SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGALRM and SIGXCPU arrive as their numbers in a pipe, which the
recorder's loop polls (`SignalWatch`). The recorder ignores other signals that end a process by
default.

Defined by: execvp(3), for the search and for scripts without an interpreter line; the shell's
exit statuses (POSIX.1-2024, XCU 2.8.2).
"""

from __future__ import annotations

import errno
import os
import select

from prospect import started
from prospect.errors import CommandError, UsageError
from prospect.files.child import SignalsHeld
from prospect.light import Closing, Descriptor, monotonic_ns, signal
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

_NOT_FOUND = 127
_NOT_RUNNABLE = 126
_SIGNALLED = 128
_ERRNO_BYTES = 4
_STARTING_MS = 10
# The time in which a command should end after a signal that the recorder passed on.
_GRACE_NS = 2_000_000_000
# An alarm from before the recorder's exec, and a limit on CPU time, end a run too.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU)
# SIGQUIT is for the command only: a Java machine prints its threads on Ctrl-\ and goes on.
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
# The interpreter ignores these; COMMAND must inherit them as they were before.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def _note(_number: int, _frame: object) -> None:
    """Do nothing: the interpreter writes the number into the wake-up pipe."""


class SignalWatch(Closing):
    """Catches signals that would end the recorder, until `close`.

    A signal that was ignored before (nohup, a background job) stays ignored. Outside the main
    thread, in which Python can set no handler, it catches nothing and `fd` is -1.
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
            # The kernel would discard the command's exit status.
            self._ignores_children = True
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def arrived(self) -> list[int]:
        """Return the signals that have arrived since the last call."""
        try:
            return [number for number in os.read(self.fd, 256) if number in self._old]
        except BlockingIOError:
            return []

    def reset_in_child(self) -> None:
        """Give a forked child the dispositions with which the recorder was started."""
        if self.fd >= 0:
            signal.set_wakeup_fd(-1)
        for number in (*self._old, *self._ignored):
            signal.signal(number, signal.SIG_DFL)
        for number in _IGNORED_BY_PYTHON:
            if number not in started.ignored_signals:
                signal.signal(number, signal.SIG_DFL)
        self._restore_children()

    def close(self) -> None:
        """Restore the old handlers."""
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
    """Return whether a terminal sends Ctrl-C to this process group, and so to the command too."""
    try:
        with Descriptor(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)) as fd:
            return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


class Ended(NamedTuple):
    """The end of the command: the shell's exit status, and resources used, with its children's."""

    exit_status: int
    user_s: float
    system_s: float
    max_rss_kib: int


class Command(Closing):
    """The child process.

    Attributes:
        until_ns: 0, because its time is not limited.
        pid: known before it is executed.
        pidfd: readable once it has ended; -1 if the kernel has none (before Linux 5.3).
        exec_fd: gives end of file once it is executed, or an errno if that fails.
    """

    until_ns = 0

    def __init__(self, command: Sequence[str | bytes], signals: SignalWatch) -> None:
        """Fork; the child waits for `release`.

        Raises:
            UsageError: no command, or a word of it contains a NUL.
            CommandError: the system cannot fork.
        """
        words = [os.fsencode(word) for word in command]
        if not words or not words[0] or any(b"\0" in word for word in words):
            raise UsageError("give a command whose words have no NUL characters")
        self._name = os.fsdecode(words[0])
        go_fd, self._go_fd = os.pipe2(os.O_CLOEXEC)
        self.exec_fd, exec_fd = os.pipe2(os.O_CLOEXEC)
        try:
            with SignalsHeld():
                self.pid = os.fork()
                if self.pid == 0:
                    signals.reset_in_child()
        except OSError as error:
            raise CommandError(
                f"cannot start a process: {error.strerror}", _NOT_RUNNABLE
            ) from error
        if self.pid == 0:
            self._be_the_command(words, go_fd, exec_fd)
        os.close(go_fd)
        os.close(exec_fd)
        self.pidfd = _pidfd_open(self.pid)
        self._ended: Ended | None = None

    def release(self) -> None:
        """Let the child execute the command."""
        os.write(self._go_fd, b"!")
        os.close(self._go_fd)
        self._go_fd = -1

    def let_start(self) -> None:
        """Sleep until it is executed, but not for long: other work takes a CPU from it."""
        poll = select.poll()
        poll.register(self.exec_fd, select.POLLIN)
        poll.poll(_STARTING_MS)

    def check_exec(self) -> None:
        """Read `exec_fd`, once it is readable, and close it.

        Raises:
            CommandError: the command could not be executed.
        """
        answer = os.read(self.exec_fd, _ERRNO_BYTES)
        os.close(self.exec_fd)
        self.exec_fd = -1
        if len(answer) < _ERRNO_BYTES:
            return
        self.reap(block=True)  # it ends after it has written the errno
        code = int.from_bytes(answer, "little")
        if code in (errno.ENOENT, errno.ENOTDIR):
            raise CommandError(f"{self._name}: command not found", _NOT_FOUND)
        raise CommandError(f"{self._name}: cannot run it: {os.strerror(code)}", _NOT_RUNNABLE)

    def send(self, number: int) -> None:
        """Send it a signal, unless it has ended and its pid may be another process's."""
        if not self._ended:
            os.kill(self.pid, number)

    def reap(self, *, block: bool = False) -> Ended | None:
        """Return its end, None while it runs.

        The status is 0 if the recorder cannot get it, because SIGCHLD is ignored.
        """
        if not self._ended:
            try:
                pid, status, used = os.wait4(self.pid, 0 if block else os.WNOHANG)
            except ChildProcessError:
                self._ended = Ended(0, 0.0, 0.0, 0)
            else:
                if pid:
                    code = os.waitstatus_to_exitcode(status)
                    exit_status = code if code >= 0 else _SIGNALLED - code
                    self._ended = Ended(exit_status, used.ru_utime, used.ru_stime, used.ru_maxrss)
        return self._ended

    def close(self) -> None:
        """Close all descriptors: a child that was never released ends, others continue."""
        held = self._go_fd >= 0
        for fd in (self._go_fd, self.exec_fd, self.pidfd):
            if fd >= 0:
                os.close(fd)
        self._go_fd = self.exec_fd = self.pidfd = -1
        self.reap(block=held)

    def _be_the_command(self, words: list[bytes], go_fd: int, exec_fd: int) -> NoReturn:
        """Wait for `release`, then become the command; never returns to the recorder."""
        try:
            # Keep no writing end of the pipe, so that the recorder's death ends the wait too.
            os.close(self._go_fd)
            if os.read(go_fd, 1):
                os.write(exec_fd, _execute(words).to_bytes(_ERRNO_BYTES, "little"))
        finally:
            os._exit(_NOT_FOUND)


def _candidates(name: bytes) -> list[bytes]:
    """Return the files to try, as execvp(3) does."""
    if not name or b"/" in name:
        return [name]
    path = os.environb.get(b"PATH", os.fsencode(os.defpath))
    return [os.path.join(directory or b".", name) for directory in path.split(b":")]


def _execute(words: list[bytes]) -> int:
    """Try to become each candidate in turn; return the most telling errno."""
    result = errno.ENOENT
    for file in _candidates(words[0]):
        try:
            os.execv(file, words)  # noqa: S606 - a profiled command gets no shell
        except OSError as error:
            code = error.errno or errno.EIO
        if code == errno.ENOEXEC:
            try:
                os.execv(b"/bin/sh", [b"/bin/sh", file, *words[1:]])  # noqa: S606 - as execvp(3)
            except OSError:
                return code
        if code not in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
            return code
        if code == errno.EACCES:
            result = code
    return result


def _pidfd_open(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


class EndRequest:
    """Passes the first signal on to the command; the second one ends the wait at once.

    Without a command the first one does.

    Attributes:
        interrupted_by: the first signal that ends the run, 0 for none.
        give_up_ns: the end of the wait for the command, in CLOCK_MONOTONIC; 0 until known.
    """

    def __init__(self, signals: SignalWatch, command: Command | None) -> None:
        self.interrupted_by = 0
        self.give_up_ns = 0
        self._signals = signals
        self._command = command

    def obey(self) -> None:
        """Handle the signals that have arrived."""
        for number in self._signals.arrived():
            if number not in ENDING:
                continue
            if self.interrupted_by or not self._command:
                self.interrupted_by = self.interrupted_by or number
                self.give_up_ns = monotonic_ns()
                continue
            self.interrupted_by = number
            self.give_up_ns = monotonic_ns() + _GRACE_NS
            if number != signal.SIGINT or not terminal_signals_group():
                self._command.send(number)

    def is_over(self, now_ns: int) -> bool:
        """Return whether the wait for the command is over."""
        return 0 < self.give_up_ns <= now_ns
