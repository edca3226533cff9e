"""A child process, which a file system may hold up as long as that likes.

The parent learns how the child ended, and what it cost. The parent never waits longer than it says,
and the end of the parent, however that comes, is the child's end too. Nothing ends a process that
waits for a FUSE server which took the question; init takes that one.
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
    from types import TracebackType
    from typing import Any, NoReturn

_KILLED_S = 0.1
_LATE_NS = 2_000_000_000
# since_ns place, bytes of the result
_PAGE = struct.Struct("=QQQ")
# Signals that a terminal or a user sends to the whole process group, and the parent handles.
_OF_THE_PARENT = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)


def tell(fd: int, value: Any) -> int:
    """Leave a value for the parent or the child, in a file in memory that only these two have.

    Args:
        fd: such a file, open for writing.
        value: of what `marshal` knows.

    Returns:
        The bytes it takes.

    Raises:
        OSError: there is no memory, or files may not grow so large (RLIMIT_FSIZE is for those in
            memory too); nothing is left then, rather than a part.
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
    """Return what `tell` left; None if it left nothing."""
    size = os.fstat(fd).st_size
    # The other process's own words, in memory that nobody else has.
    return marshal.loads(os.pread(fd, size, 0)) if size else None  # noqa: S302 - as said


class Progress:
    """Memory that parent and child share: what the child waits for, and since when."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    def at(self, place: int) -> None:
        """Say that files of a place are about to be touched; 0 for none."""
        _PAGE.pack_into(self._page, 0, time.monotonic_ns(), place, 0)

    def finish(self, size_bytes: int) -> None:
        """Say that the result is there."""
        _PAGE.pack_into(self._page, 0, 0, 0, size_bytes)

    @property
    def result_bytes(self) -> int:
        """The size of the result, 0 as long as there is none."""
        return int(_PAGE.unpack_from(self._page)[2])

    @property
    def late_place(self) -> int:
        """The place that has not answered in time, 0 without."""
        since_ns, place, _ = _PAGE.unpack_from(self._page)
        return place if place and time.monotonic_ns() - since_ns > _LATE_NS else 0


class SignalsHeld:
    """Signals wait while this is entered, and reach parent and child of a fork at its end.

    A forked child still has the handlers of its parent, and the pipe into which the interpreter
    writes what arrived: a signal sent to both would be there twice.
    """

    def __enter__(self) -> None:
        """Hold them."""
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let them come."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)


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
        self._lifeline_fd = -1

    def start(self, serve: Callable[[int], None], kept_fds: Iterable[int]) -> None:
        """Fork a child.

        Args:
            serve: runs in the child, which ends with it; given a descriptor that is at its end
                once the child is to stop.
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
        """Start a child that is a program of its own: a module of Prospect, which calls `given`.

        A fork keeps the pages that its parent has then, also those that the parent gives back or
        writes to later. A program has none of them.

        Args:
            kept_fds: as for `start`.
            value: of what `marshal` knows.

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
        self._let_go()
        return True

    def kill(self, wait_s: float = _KILLED_S) -> None:
        """End the child; one that a file system does not let go is left to that."""
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
    import warnings  # noqa: PLC0415 - not where COMMAND would wait for it in vain

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _be_the_child(
    serve: Callable[[int], None], stop_fd: int, lifeline_fd: int, kept_fds: Iterable[int]
) -> NoReturn:
    """Serve, and never return to the parent's program."""
    status = 1
    try:
        # Objects of the parent are not taken apart here: its mappings are not all there.
        gc.freeze()
        for number in _OF_THE_PARENT:
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # Held up in a file system, it must hold nothing that others wait for to be closed.
        null_fd = os.open(os.devnull, os.O_RDWR)
        kept = sorted({stop_fd, lifeline_fd, *kept_fds})
        for standard in {0, 1, 2}.difference(kept):
            os.dup2(null_fd, standard)
        for low, high in zip([2, *kept], [*kept, os.sysconf("SC_OPEN_MAX")], strict=True):
            if max(low, 2) + 1 < high:  # an empty range that ends at 0 would be all there are
                os.closerange(max(low, 2) + 1, high)
        # The lowest numbers that are free: of those from 1024 on select(2) knows nothing.
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
    """Return the descriptor and the value that `Child.start_program` started this program with."""
    stop_fd, value = marshal.loads(bytes.fromhex(sys.argv[1]))  # noqa: S302 - of its parent
    return stop_fd, value


def die_with(lifeline_fd: int) -> None:
    """Let the kernel kill this process when the other end of a pipe is closed.

    PR_SET_PDEATHSIG would not do: taking on other rights clears it.
    """
    fcntl.fcntl(lifeline_fd, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline_fd, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline_fd, fcntl.F_SETFL, fcntl.fcntl(lifeline_fd, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select((lifeline_fd,), (), (), 0)[0]:
        os._exit(1)  # the parent ended before that was set
