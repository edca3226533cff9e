"""Work on a daemon's store that child processes do, one at a time, while the daemon goes on.

The child runs `store_work`. It gets a window as bytes: JSON for text, then columns of numbers as
they are in memory, since parent and child are one program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.daemon.daemon_limits import KILLED_S, MOST_SAID
from prospect.daemon.store_work import HAS_MORE, MERGE, NO_SPACE, WRITE
from prospect.errors import StoreError
from prospect.records import NamedTuple
from prospect.store.file_schema import read_head, written_head
from prospect.store.segments import Segment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prospect.store.directory import StoreDirectory
    from prospect.store.engine import Columns
    from prospect.store.file_schema import Head

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


_LENGTH_BYTES = 8


def packed(segment: Segment, head: Head, tables: Mapping[str, Columns]) -> bytes:
    """Return a window as bytes."""
    pieces: list[bytes] = []
    described: dict[str, dict[str, Any]] = {}
    for kind, columns in tables.items():
        described[kind] = {}
        for name, column in columns.items():
            if isinstance(column, np.ndarray):
                pieces.append(np.ascontiguousarray(column).tobytes())
                described[kind][name] = {"type": column.dtype.str, "rows": len(column)}
            else:
                described[kind][name] = {"text": list(column)}
    header = {"segment": list(segment), "head": written_head(head), "tables": described}
    text = json.dumps(header).encode()
    return b"".join((len(text).to_bytes(_LENGTH_BYTES, "little"), text, *pieces))


def unpacked(data: bytes) -> tuple[Segment, Head, dict[str, Columns]]:
    """Return what `packed` was given."""
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    at = _LENGTH_BYTES + length
    header = json.loads(data[_LENGTH_BYTES:at])
    tables: dict[str, Columns] = {}
    for kind, described in header["tables"].items():
        columns: dict[str, Any] = {}
        for name, one in described.items():
            if "text" in one:
                columns[name] = one["text"]
                continue
            columns[name] = np.frombuffer(data, one["type"], one["rows"], at)
            at += columns[name].nbytes
        tables[kind] = columns
    head = read_head(header["head"].encode())
    segment = Segment(*header["segment"])
    return segment._replace(digests=tuple(segment.digests)), head, tables
