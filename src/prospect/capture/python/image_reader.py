"""Reads the interpreters in mapped files, in a process that a file system may hold up.

The files are other users'. So they are read with normal priority, whatever the watcher's is, and
the watcher waits for an answer for a bounded time: a reader that is held up is left behind, and
another one takes its place.
"""

from __future__ import annotations

import os
import pickle
import select
import socket
import time

from prospect.capture.machine.mapped_file_reader import Mounts
from prospect.capture.machine.mapping_records import MappingRecord
from prospect.capture.python.interpreters import read_image
from prospect.files.child import Child
from prospect.light import Closing
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from prospect.capture.python.interpreters import Image, Unknown

    Identity = tuple[int, int, int]

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_ANSWER_S = 0.5
_MOST_MESSAGE = 1 << 17
# Files that one reader knows of one user; the oldest go.
_MOST_FILES = 64
_MOST_USERS = 256


class Answer(NamedTuple):
    """What is in a mapped file.

    Attributes:
        image: the interpreter; None if there is none.
        used_s: CPU time that finding it took.
        is_missing: whether the file could not be opened, or would take too much to read.
        is_held_up: whether its file system did not answer in time.
    """

    image: Image | Unknown | None = None
    used_s: float = 0.0
    is_missing: bool = False
    is_held_up: bool = False


class ImageReader(Closing):
    """Asks the process that reads, and starts another one after one that was held up."""

    def __init__(self, started: Callable[[int], None]) -> None:
        """Prepare; `started` is told the process id of each reader."""
        self._started = started
        self._child = Child()
        self._asked: socket.socket | None = None

    def read(self, mapping: MappingRecord, uid: int) -> Answer:
        """Return what is in the file of a mapping, which a process of a user made.

        Raises:
            OSError: no process can be started.
        """
        asked = self._asked or self.start()
        try:
            asked.send(pickle.dumps((tuple(mapping), uid)))
            data = b""
            if select.select((asked,), (), (), _ANSWER_S)[0]:
                data = asked.recv(_MOST_MESSAGE)
            if data:
                # The reader is this program: it has read numbers, and made these objects of them.
                return Answer(*pickle.loads(data))  # noqa: S301 - as said
        except OSError:
            self.close()
            return Answer(is_missing=True)
        self.close()
        return Answer(is_held_up=True)

    def close(self) -> None:
        """Leave nothing behind, but for a reader that waits in the kernel until it may end."""
        if self._asked:
            self._asked.close()
            self._asked = None
        self._child.kill(0.0)

    def start(self) -> socket.socket:
        """Start the process, before the first question or after one without an answer.

        Raises:
            OSError: it cannot be started.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._child = Child()
            self._child.start(lambda stop_fd: _answer(theirs, stop_fd), (theirs.fileno(),))
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._started(self._child.pid)
        self._asked = ours
        return ours


def _answer(asked: socket.socket, stop_fd: int) -> None:
    """Answer until the watcher has ended."""
    os.setpriority(os.PRIO_PROCESS, 0, max(0, os.getpriority(os.PRIO_PROCESS, 0)))
    files = _Files()
    while True:
        ready = select.select((asked.fileno(), stop_fd), (), ())[0]
        if stop_fd in ready or not (data := asked.recv(_MOST_MESSAGE)):
            return
        mapping, uid = pickle.loads(data)  # noqa: S301 - the watcher's
        begun_s = time.process_time()
        answer = files.read(MappingRecord(*mapping), uid)
        answer = answer._replace(used_s=time.process_time() - begun_s)
        asked.send(pickle.dumps(tuple(answer)))


class _Files:
    """Knows what it has read, by the user whose process mapped it: nobody empties others' share."""

    def __init__(self) -> None:
        self._mounts = Mounts()
        self._known: dict[int, dict[tuple[int, int, int, bytes], tuple[Identity, Answer]]] = {}

    def read(self, mapping: MappingRecord, uid: int) -> Answer:
        """Return what is in a file, read again only if it has changed."""
        path_fd = self._mounts.open_mapped(mapping)
        if path_fd < 0:
            return Answer(is_missing=True)
        try:
            status = os.fstat(path_fd)
            identity = status.st_size, status.st_mtime_ns, status.st_ctime_ns
            name = mapping.path.rpartition(b"/")[2]
            mine = self._known.pop(uid, {})
            self._known[uid] = mine
            _make_room(self._known, _MOST_USERS)
            known = mine.pop((*mapping.file, name), None)
            if known is None or known[0] != identity:
                known = identity, _read(path_fd, name)
            mine[(*mapping.file, name)] = known
            _make_room(mine, _MOST_FILES)
            return known[1]
        except OSError:
            return Answer(is_missing=True)
        finally:
            os.close(path_fd)


def _make_room(table: dict[Any, Any], most: int) -> None:
    while len(table) > most:
        del table[next(iter(table))]


def _read(path_fd: int, name: bytes) -> Answer:
    fd = os.open(f"/proc/self/fd/{path_fd}", _READ)
    try:
        return Answer(read_image(fd, name))
    except ValueError:
        return Answer(is_missing=True)
    finally:
        os.close(fd)
