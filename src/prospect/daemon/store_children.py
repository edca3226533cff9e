"""Work on a daemon's store that child processes do, one at a time, while the daemon goes on.

The child runs `store_work`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from prospect.daemon.daemon_limits import KILLED_S, MOST_SAID
from prospect.daemon.store_work import HAS_MORE, MERGE, NO_SPACE, WRITE
from prospect.errors import StoreError
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
        pid_fd: becomes readable as it ends.
        own_bytes: the most memory that it had, without pages of files; known once it has ended.
    """

    own_bytes = 0

    def __init__(self, work: str, store: StoreDirectory, data: bytes) -> None:
        """Start it.

        Args:
            work: the name of what it does in `store_work`.
            store: the child inherits its descriptor.
            data: its standard input; by a file in memory, so that nobody waits for a pipe.

        Raises:
            StoreError: it cannot be started.
        """
        end_fd, self._lifeline = os.pipe2(os.O_CLOEXEC)
        arguments = (work, str(store.descriptor), str(end_fd))
        try:
            memory = os.memfd_create("window", os.MFD_CLOEXEC)
            with os.fdopen(memory, "w+b") as file:
                file.write(data)
                file.flush()
                file.seek(0)
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-m", _PROGRAM, *arguments],
                    stdin=file,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(store.descriptor, end_fd),
                    start_new_session=True,  # Ctrl-C is the daemon's to see
                )
            self.pid_fd = os.pidfd_open(self._process.pid)
        except OSError as error:
            os.close(self._lifeline)
            raise StoreError(f"no process can be started: {error.strerror}") from None
        finally:
            os.close(end_fd)

    def ended(self) -> tuple[int, str]:
        """Return its exit status and the line that it says; waits for its end."""
        out, _ = self._process.communicate()
        os.close(self.pid_fd)
        os.close(self._lifeline)
        size, _, line = out[:MOST_SAID].decode(errors="backslashreplace").partition("\n")
        self.own_bytes = int(size) if size.isascii() and size.isdigit() else 0
        return self._process.returncode, line.strip().partition("\n")[0]

    def kill(self) -> None:
        """End it; one that a file system does not let go is left to that."""
        self._process.kill()

    def give_up(self) -> None:
        """End it; wait for that only if no file system holds it."""
        self.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=KILLED_S)
        os.close(self.pid_fd)
        os.close(self._lifeline)


class Encoder(StoreChild):
    """A child that writes a window."""

    def __init__(self, store: StoreDirectory, data: bytes) -> None:
        """Start it on a packed window; raises as `StoreChild`."""
        super().__init__(WRITE, store, data)

    def end(self) -> Outcome:
        """Return how it ended; waits for that."""
        status, said = self.ended()
        if status and not said:
            said = f"the process that writes ended with status {status}"
        return Outcome(said if status else "", status == NO_SPACE)


class Merger(StoreChild):
    """A child that makes one hour or day of windows."""

    def __init__(self, store: StoreDirectory, now_s: int) -> None:
        """Start it on what is over at a time, in seconds since 1970; raises as `StoreChild`."""
        super().__init__(MERGE, store, str(now_s).encode())

    def end(self) -> tuple[str, bool]:
        """Return what it says, "" if all is well, and whether it made one; waits for its end."""
        status, said = self.ended()
        if status in (0, HAS_MORE):
            return "", status == HAS_MORE
        return said or f"the process that merges ended with status {status}", False
