"""Reads the interpreters in mapped files, in a process that a file system may hold up.

Other users own the files. So the process reads them with normal priority, whatever the watcher's
is, and the watcher waits a bounded time for an answer. It abandons a reader that is held up, and
starts another one.
"""

from __future__ import annotations

import marshal
import os
import select
import time

from prospect.capture.capture_limits import (
    FILE_ANSWER_S,
    MOST_MESSAGE,
    MOST_READ_USERS,
    MOST_USER_FILES,
    MOST_WAITS,
)
from prospect.capture.kernel.procfs import read_if_there
from prospect.capture.machine.mapped_file_reader import Mounts
from prospect.capture.machine.mapping_records import MappingRecord
from prospect.capture.runtimes.elf_lookup import Segment
from prospect.capture.runtimes.known_runtimes import read_image
from prospect.capture.runtimes.runtime import Image, Unknown
from prospect.files.child import Child
from prospect.light import Closing
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from prospect.capture.v8.function_records import FunctionRecords

    Identity = tuple[int, int, int]

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
# The first word of a question that is not about a mapping.
_FUNCTIONS = "functions"


class Answer(NamedTuple):
    """The content of a mapped file.

    Attributes:
        image: the interpreter; None if there is none.
        used_s: the CPU time to find it.
        is_missing: whether the file could not be opened, or costs too much to read.
        is_held_up: whether its file system did not answer in time.
    """

    image: Image | Unknown | None = None
    used_s: float = 0.0
    is_missing: bool = False
    is_held_up: bool = False


class ImageReader(Closing):
    """Asks the process that reads, and starts another one if it is held up."""

    def __init__(self, started: Callable[[int], None]) -> None:
        """Prepare; `started` gets the process id of each reader."""
        self._started = started
        self._child = Child()
        self._ask_fd = self._answer_fd = -1

    def read(self, mapping: MappingRecord, uid: int) -> Answer:
        """Return the runtime in the file of a mapping, which a process of a user made.

        Raises:
            OSError: no process can be started.
        """
        found, is_held_up = self._ask((mapping, uid))
        if found is None:
            return Answer(is_missing=not is_held_up, is_held_up=is_held_up)
        image, *rest = found
        return Answer(_from_plain(image), *rest)

    def functions(self, *question: Any) -> tuple[int, Sequence[bytes], Sequence[int], float] | None:
        """Return the result of `function_records.FunctionRecords.of` and the CPU time for it.

        None if the reader failed or was held up.

        Raises:
            OSError: no process can be started.
        """
        found: tuple[int, Sequence[bytes], Sequence[int], float] | None
        found, _ = self._ask((_FUNCTIONS, question))
        return found

    def _ask(self, question: tuple[Any, ...]) -> tuple[Any, bool]:
        """Return the answer to a question, or None and whether the reader is held up."""
        if self._ask_fd < 0:
            self.start()
        is_held_up = True
        try:
            os.write(self._ask_fd, marshal.dumps(_as_plain(question)))
            if self._has_answered() and (data := os.read(self._answer_fd, MOST_MESSAGE)):
                return marshal.loads(data), False  # noqa: S302 - by a fork of this process
        except OSError:
            is_held_up = False
        self.close()
        return None, is_held_up

    def _has_answered(self) -> bool:
        """Wait for the answer, longer if the reader only waits for a CPU."""
        for _ in range(MOST_WAITS):
            if select.select((self._answer_fd,), (), (), FILE_ANSWER_S)[0]:
                return True
            stat = read_if_there(f"/proc/{self._child.pid}/stat")
            if not stat.rpartition(b") ")[2].startswith(b"R"):
                return False
        return False

    @property
    def used_s(self) -> tuple[float, float]:
        """User and system time of the last process that has ended."""
        return self._child.used_s

    def close(self) -> None:
        """End the reader; one that waits in the kernel ends once it returns from there."""
        for fd in (self._ask_fd, self._answer_fd):
            if fd >= 0:
                os.close(fd)
        self._ask_fd = self._answer_fd = -1
        self._child.kill(0.0)

    def start(self) -> None:
        """Start the process, before the first question or after one without an answer.

        Raises:
            OSError: it cannot be started.
        """
        asked_fd, self._ask_fd = os.pipe2(os.O_CLOEXEC)
        self._answer_fd, answer_fd = os.pipe2(os.O_CLOEXEC)
        try:
            self._child = Child()
            self._child.start(
                lambda stop_fd: _answer(asked_fd, answer_fd, stop_fd), (asked_fd, answer_fd)
            )
        except OSError:
            self.close()
            raise
        finally:
            os.close(asked_fd)
            os.close(answer_fd)
        self._started(self._child.pid)


def _answer(asked_fd: int, answer_fd: int, stop_fd: int) -> None:
    """Answer until the watcher has ended."""
    os.setpriority(os.PRIO_PROCESS, 0, max(0, os.getpriority(os.PRIO_PROCESS, 0)))
    files = _Files()
    functions: FunctionRecords | None = None
    while True:
        ready = select.select((asked_fd, stop_fd), (), ())[0]
        if stop_fd in ready or not (data := os.read(asked_fd, MOST_MESSAGE)):
            return
        question = marshal.loads(data)  # noqa: S302 - by the process that forked this one
        begun_s = time.process_time()
        if question[0] == _FUNCTIONS:
            if functions is None:
                from prospect.capture.v8.function_records import FunctionRecords  # noqa: PLC0415 - once V8 is met

                functions = FunctionRecords()
            found = functions.of(*question[1])
            used_s = time.process_time() - begun_s
            os.write(answer_fd, marshal.dumps((*found, used_s)))
            continue
        mapping, uid = question
        answer = files.read(MappingRecord(*mapping), uid)
        answer = answer._replace(used_s=time.process_time() - begun_s)
        os.write(answer_fd, marshal.dumps(_as_plain(answer)))


def _as_plain(value: Any) -> Any:
    """Return plain tuples instead of named ones, which `marshal` cannot write."""
    return tuple(map(_as_plain, value)) if isinstance(value, tuple) else value


def _from_plain(found: tuple[Any, ...] | None) -> Image | Unknown | None:
    """Return the named tuple that `_as_plain` made plain."""
    if not found:
        return None
    if len(found) == len(Unknown._fields):
        return Unknown(*found)
    image = Image(*found)
    return image._replace(segments=tuple(Segment(*one) for one in image.segments))


class _Files:
    """Remembers files by the user whose process mapped them, so that users evict only their own."""

    def __init__(self) -> None:
        self._mounts = Mounts()
        self._known: dict[int, dict[tuple[int, int, int, bytes], tuple[Identity, Answer]]] = {}

    def read(self, mapping: MappingRecord, uid: int) -> Answer:
        """Return the content of a file, read again only if it has changed."""
        path_fd = self._mounts.open_mapped(mapping)
        if path_fd < 0:
            return Answer(is_missing=True)
        try:
            status = os.fstat(path_fd)
            identity = status.st_size, status.st_mtime_ns, status.st_ctime_ns
            name = mapping.path.rpartition(b"/")[2]
            mine = self._known.pop(uid, {})
            self._known[uid] = mine
            _make_room(self._known, MOST_READ_USERS)
            known = mine.pop((*mapping.file, name), None)
            if known is None or known[0] != identity:
                known = identity, _read(path_fd, name)
            mine[(*mapping.file, name)] = known
            _make_room(mine, MOST_USER_FILES)
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
