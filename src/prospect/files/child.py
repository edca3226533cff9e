"""A child process, which a file system may block for any time.

The parent learns how the child ended and which CPU time it used. It never waits longer than its
time-out. When the parent ends, for whatever reason, the kernel kills the child. A process that
waits for a FUSE server which has read the request cannot be killed; init inherits it.
Source: ``fs/fuse/dev.c`` (Linux 6.18), request_wait_answer(); fcntl(2), F_SETSIG.
"""

from __future__ import annotations

import fcntl
import gc
import marshal
import mmap
import os
import select
import struct
import sys
import time

from prospect.light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NoReturn

_KILLED_S = 0.1
_LATE_NS = 2_000_000_000
# since_ns place, bytes of the result
_PAGE = struct.Struct("=QQQ")
# Signals that a terminal or a user sends to the whole process group, and the parent handles.
_OF_THE_PARENT = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)


def tell(fd: int, value: Any) -> int:
    """Write a value to a file in memory that only parent and child have; return its bytes.

    Args:
        value: of types that `marshal` knows.

    Raises:
        OSError: there is no memory, or files may not grow so large (RLIMIT_FSIZE limits files in
            memory too). The file is empty then.
    """
    words = marshal.dumps(value)
    try:
        os.ftruncate(fd, len(words))
        at = 0
        while at < len(words):
            at += os.pwrite(fd, words[at:], at)
    except OSError:
        os.ftruncate(fd, 0)
        raise
    return len(words)


def told(fd: int) -> Any:
    """Return the value that `tell` wrote, None if there is none."""
    size = os.fstat(fd).st_size
    return marshal.loads(os.pread(fd, size, 0)) if size else None  # noqa: S302 - see `tell`


class Progress:
    """Memory that parent and child share: the place that the child waits for, and since when."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    def at(self, place: int) -> None:
        """Record that the child is about to touch files of a place; 0 for none."""
        _PAGE.pack_into(self._page, 0, time.monotonic_ns(), place, 0)

    def finish(self, size_bytes: int) -> None:
        """Record that the result is written."""
        _PAGE.pack_into(self._page, 0, 0, 0, size_bytes)

    @property
    def result_bytes(self) -> int:
        """The size of the result, 0 until it is written."""
        return int(_PAGE.unpack_from(self._page)[2])

    @property
    def late_place(self) -> int:
        """The place that has not answered in time, 0 for none."""
        since_ns, place, _ = _PAGE.unpack_from(self._page)
        return place if place and time.monotonic_ns() - since_ns > _LATE_NS else 0


class SignalsHeld:
    """Blocks all signals around a fork.

    A forked child has its parent's handlers, and the pipe into which the interpreter writes the
    numbers of signals: a signal sent to both processes would arrive twice in the parent.
    """

    def __enter__(self) -> None:
        """Block them."""
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

    def __exit__(self, *_: object) -> None:
        """Let them come."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)


class Child:
    """A child that runs until `stop`.

    Attributes:
        pid: 0 before the start and after the end.
        status: how it ended, as `os.waitstatus_to_exitcode` returns it.
        used_s: its user and system time, once it has ended.
    """

    def __init__(self) -> None:
        self.pid = 0
        self.status = 0
        self.used_s = (0.0, 0.0)
        self._control_fd = -1
        self._lifeline_fd = -1

    def start(self, serve: Callable[[int], None], kept_fds: Iterable[int]) -> None:
        """Fork a child.

        Args:
            serve: runs in the child, which ends when it returns. It gets a descriptor that is at
                end of file once the child is to stop.
            kept_fds: the descriptors that the child keeps.

        Raises:
            OSError: there can be no child.
        """
        self._let_go()
        stop_fd = lifeline_fd = -1
        try:
            stop_fd, self._control_fd = os.pipe2(os.O_CLOEXEC)
            lifeline_fd, self._lifeline_fd = os.pipe2(os.O_CLOEXEC)
            with SignalsHeld():
                self.pid = _fork()
                if not self.pid:
                    _be_the_child(serve, stop_fd, lifeline_fd, kept_fds)
        except OSError:
            self._let_go()
            raise
        finally:
            for fd in (stop_fd, lifeline_fd):
                if fd >= 0:
                    os.close(fd)

    def start_program(self, module: str, kept_fds: Sequence[int], value: Any) -> None:
        """Start a module of Prospect as a program, which calls `given`.

        A forked child keeps its parent's pages, even those that the parent frees or changes later.
        A program has none of them.

        Args:
            kept_fds: as for `start`.
            value: of types that `marshal` knows.

        Raises:
            OSError: there can be no child.
        """

        def serve(stop_fd: int) -> None:
            for fd in (stop_fd, *kept_fds):
                os.set_inheritable(fd, True)
            line = program_line(module, marshal.dumps((stop_fd, value)).hex())
            os.execv(line[0], line)  # noqa: S606 - this interpreter, without a shell

        self.start(serve, kept_fds)

    def stop(self) -> None:
        """Ask the child to end."""
        if self._control_fd >= 0:
            os.close(self._control_fd)
            self._control_fd = -1

    def reap(self, seconds: float) -> bool:
        """Wait up to a time for the child's end; return whether it has ended."""
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
        self._let_go()
        return True

    def kill(self, wait_s: float = _KILLED_S) -> None:
        """Kill the child; leave one that a file system blocks to init."""
        self.stop()
        if self.pid and not self.reap(0.0):
            os.kill(self.pid, signal.SIGKILL)
            self.reap(wait_s)
        self._let_go()

    def _let_go(self) -> None:
        self.stop()
        if self._lifeline_fd >= 0:
            os.close(self._lifeline_fd)
            self._lifeline_fd = -1


def _fork() -> int:
    """Fork, without the warning of CPython 3.12: the child takes no locks of other threads."""
    if sys.version_info < (3, 12):
        return os.fork()
    import warnings  # noqa: PLC0415 - needed from CPython 3.12 on

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _be_the_child(
    serve: Callable[[int], None], stop_fd: int, lifeline_fd: int, kept_fds: Iterable[int]
) -> NoReturn:
    """Serve, and never return to the parent's program."""
    status = 1
    try:
        # Not all of the parent's mappings are here, so its objects must not be finalized.
        gc.freeze()
        for number in _OF_THE_PARENT:
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # A child that a file system blocks must not keep open what others wait to see closed.
        null_fd = os.open(os.devnull, os.O_RDWR)
        kept = sorted({stop_fd, lifeline_fd, *kept_fds})
        for standard in {0, 1, 2}.difference(kept):
            os.dup2(null_fd, standard)
        for low, high in zip([2, *kept], [*kept, os.sysconf("SC_OPEN_MAX")], strict=True):
            if max(low, 2) + 1 < high:  # closerange(3, 0) would close all
                os.closerange(max(low, 2) + 1, high)
        # The lowest free numbers: select(2) cannot wait for descriptors from 1024 on.
        stop_fd, lifeline_fd = os.dup(stop_fd), os.dup(lifeline_fd)
        die_with(lifeline_fd)
        serve(stop_fd)
        status = 0
    finally:
        os._exit(status)


def program_line(module: str, *words: str) -> list[str]:
    """Return the command line that runs a module of Prospect as a program."""
    return [sys.executable, "-I", "-m", module, *words]


def given() -> tuple[int, Any]:
    """Return the stop descriptor and the value that `Child.start_program` passed."""
    stop_fd, value = marshal.loads(bytes.fromhex(sys.argv[1]))  # noqa: S302 - of its parent
    return stop_fd, value


def die_with(lifeline_fd: int) -> None:
    """Let the kernel kill this process when the other end of a pipe is closed.

    PR_SET_PDEATHSIG does not suffice: a change of user clears it.
    """
    fcntl.fcntl(lifeline_fd, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline_fd, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline_fd, fcntl.F_SETFL, fcntl.fcntl(lifeline_fd, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select((lifeline_fd,), (), (), 0)[0]:
        os._exit(1)  # the parent ended before that was set
