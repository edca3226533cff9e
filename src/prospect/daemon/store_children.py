"""Work on a daemon's store that child processes do, one at a time, while the daemon goes on.

The child runs `store_work`.
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
    """How a child ended: what it says, "" if all is well, and whether the disk is full."""

    complaint: str
    is_full: bool


class StoreChild:
    """A child at work on a store.

    Attributes:
        answer_fd: becomes readable when it has answered, or has ended.
        own_bytes: the most memory that it had, without pages of files, as of its last answer.
    """

    own_bytes = 0

    def __init__(self, work: str, store: StoreDirectory, data: bytes) -> None:
        """Start it.

        Args:
            work: the name of what it does in `store_work`.
            store: the child inherits its descriptor.
            data: its order; by a file in memory, so that nobody waits for a pipe.

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
                start_new_session=True,  # Ctrl-C is the daemon's to see
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
        """Return its status and the line that it says; waits for that.

        The status of one that has ended without an answer is that of its end, and not 0.
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
        """Return the same, and end it."""
        answered = self.answer()
        self.end()
        return answered

    def end(self) -> None:
        """End it once it has answered; wait for that."""
        self._process.communicate()
        self._close()

    def kill(self) -> None:
        """End it; one that a file system does not let go is left to that."""
        self._process.kill()

    def give_up(self) -> None:
        """End it; wait for that only if no file system holds it."""
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
        goes_on: whether it can write another one, as its last answer says.
    """

    goes_on = False

    def __init__(self, store: StoreDirectory, data: bytes) -> None:
        """Start it on a packed window; raises as `StoreChild`."""
        super().__init__(WRITE, store, data)

    def outcome(self) -> Outcome:
        """Return what became of the window; waits for that."""
        status, said = self.answer()
        self.goes_on = not status
        if status and not said:
            said = f"the process that writes ended with status {status}"
        return Outcome(said if status else "", status == NO_SPACE)


class Merger(StoreChild):
    """A child that makes one hour or day of windows."""

    def __init__(self, store: StoreDirectory, now_s: int) -> None:
        """Start it on what is over at a time, in seconds since 1970; raises as `StoreChild`."""
        super().__init__(MERGE, store, str(now_s).encode())

    def outcome(self) -> tuple[str, bool]:
        """Return what it says, "" if all is well, and whether it made one; waits for its end."""
        status, said = self.ended()
        if status in (0, HAS_MORE):
            return "", status == HAS_MORE
        return said or f"the process that merges ended with status {status}", False
