"""Child processes that work on a daemon's store, one at a time, while the daemon samples.

A child runs `store_work`.
"""

from __future__ import annotations

import os
import select
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from prospect.daemon.daemon_limits import KILLED_S
from prospect.daemon.store_work import HAS_MORE, MERGE, NO_SPACE, WRITE
from prospect.errors import StoreError
from prospect.files.child import program_line
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from prospect.store.directory import StoreDirectory

_PROGRAM = "prospect.daemon.store_work"


class Outcome(NamedTuple):
    """The end of a child: its message, "" on success, and whether the disk is full."""

    complaint: str
    is_full: bool


class StoreChild:
    """A child at work on a store.

    Attributes:
        answer_fd: becomes readable when it has answered, or has ended.
        own_bytes: its peak memory, without pages of files, at its last answer.
    """

    own_bytes = 0

    def __init__(self, work: str, store: StoreDirectory, data: bytes) -> None:
        """Start it.

        Args:
            work: the name of its work in `store_work`.
            store: the child inherits its descriptor.
            data: its order, which it gets in a file in memory, so that no pipe blocks.

        Raises:
            StoreError: it cannot be started.
        """
        end_fd, self._lifeline = os.pipe2(os.O_CLOEXEC)
        try:
            self._memory = os.fdopen(os.memfd_create("order", os.MFD_CLOEXEC), "r+b", buffering=0)
            self._order(data)
            descriptors = (store.descriptor, end_fd, self._memory.fileno())
            self._process = subprocess.Popen(
                program_line(_PROGRAM, work, *map(str, descriptors)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,  # the daemon handles Ctrl-C
                bufsize=0,
            )
        except OSError as error:
            os.close(self._lifeline)
            raise StoreError(f"no process can be started: {error.strerror}") from None
        finally:
            os.close(end_fd)
        self.pid = self._process.pid
        self.answer_fd = self._process.stdout.fileno() if self._process.stdout else -1

    def _order(self, data: bytes) -> None:
        self._memory.truncate(0)
        self._memory.seek(0)
        left = memoryview(data)
        while left:
            left = left[self._memory.write(left) :]

    def again(self, data: bytes) -> None:
        """Give it another order, once it has answered; raises StoreError if it has ended."""
        try:
            self._order(data)
            if self._process.stdin:
                self._process.stdin.write(b"\0")
        except OSError as error:
            raise StoreError(f"the process that writes has ended: {error.strerror}") from None

    def answer(self) -> tuple[int, str]:
        """Wait for its answer; return the status and the line in it.

        If it ends without an answer, the status is that of its end, but not 0.
        """
        said = os.read(self.answer_fd, select.PIPE_BUF).decode(errors="backslashreplace")
        status, _, rest = said.partition(" ")
        own_bytes, _, line = rest.partition(" ")
        if not (status.isdecimal() and own_bytes.isdecimal()):
            self.end()
            return self._process.returncode or -1, ""
        self.own_bytes = int(own_bytes)
        return int(status), line.strip()

    def ended(self) -> tuple[int, str]:
        """Return its answer, and end it."""
        answered = self.answer()
        self.end()
        return answered

    def end(self) -> None:
        """End it after its answer, and wait for its end."""
        self._process.communicate()
        self._close()

    def kill(self) -> None:
        """Kill it, without waiting for its end."""
        self._process.kill()

    def give_up(self) -> None:
        """Kill it; abandon it if a file system blocks it."""
        self.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=KILLED_S)
        self._close()

    def _close(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._memory.close()
            self._lifeline = -1


class Encoder(StoreChild):
    """A child that writes windows.

    Attributes:
        goes_on: whether it can write another one, according to its last answer.
    """

    goes_on = False

    def __init__(self, store: StoreDirectory, data: bytes) -> None:
        """Start it on a packed window; raises as `StoreChild`."""
        super().__init__(WRITE, store, data)

    def outcome(self) -> Outcome:
        """Wait for the answer, and return it."""
        status, said = self.answer()
        self.goes_on = not status
        if status and not said:
            said = f"the process that writes ended with status {status}"
        return Outcome(said if status else "", status == NO_SPACE)


class Merger(StoreChild):
    """A child that merges windows into one hour or day."""

    def __init__(self, store: StoreDirectory, now_s: int) -> None:
        """Start it on hours and days that end before `now_s`; raises as `StoreChild`."""
        super().__init__(MERGE, store, str(now_s).encode())

    def outcome(self) -> tuple[str, bool]:
        """Wait for its end; return its message, "" on success, and whether it made one."""
        status, said = self.ended()
        if status in (0, HAS_MORE):
            return "", status == HAS_MORE
        return said or f"the process that merges ended with status {status}", False
