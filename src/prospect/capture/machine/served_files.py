"""Reads mapped files on FUSE file systems, such as an AppImage, in children that may block.

A process that waits for a FUSE server that took its request cannot be killed. So the reader of
mapped files touches no such file: a child (`served_file_copier`) copies files that one process has
mapped from one file system to files in memory. The reader never waits for it. It kills a child that
gives no answer in time, and leaves its file system alone from then on.

Defined by: ``fs/fuse/dev.c``, request_wait_answer() (Linux 6.18); pipe(7), "PIPE_BUF".
"""

from __future__ import annotations

import os
import time

from prospect.capture.capture_limits import (
    MOST_LOST_CHILDREN,
    MOST_SERVED_AT_ONCE,
    MOST_SERVED_CHILDREN,
    MOST_SERVED_WAITING,
    SERVED_ANSWER_S,
)
from prospect.capture.machine.image_copies import Copied, facts_of
from prospect.capture.machine.served_file_copier import ANSWER, Answer, Asked, Outcome, copy_files
from prospect.files.child import Child
from prospect.light import Closing
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prospect.capture.machine.mapping_records import MappingRecord

_ANSWERS_AT_ONCE = 512


class ServedFile(NamedTuple):
    """An answer about a file.

    Attributes:
        answer: None if the child could not read it.
        fd: a file in memory with the copied pieces at their places, open until the next answer.
    """

    asked: Asked
    answer: Answer | None
    fd: int = -1

    @property
    def is_copied(self) -> bool:
        """Whether the file in memory has the file's present content."""
        return self.answer is not None and self.answer.outcome == Outcome.COPIED

    def as_copied(self, answer: Answer, build_id: bytes) -> Copied:
        """Return the facts about a copy of it."""
        mapping = self.asked.mapping
        return Copied(
            facts_of(mapping, build_id, answer.size, answer.modified_ns),
            {(mapping.start, mapping.end): None},
            self.asked.served_by,
            self.asked.largest_whole_bytes,
            is_served=True,
        )


class _Reading:
    """A child that reads files.

    Attributes:
        device: of the file system.
        rows: row → a file that it has not answered about, and the file in memory for it.
        until_s: the time from which on it is late.
        has_answered: whether it has answered about any.
    """

    def __init__(self, child: Child, rows: dict[int, tuple[Asked, int]]) -> None:
        self.child = child
        self.device = next(iter(rows.values()))[0].device
        self.rows = rows
        self.until_s = time.monotonic() + SERVED_ANSWER_S
        self.has_answered = False


class ServedFiles(Closing):
    """Starts the children and takes their answers.

    Attributes:
        fd: readable when there are answers.
        pids: of all children so far.
    """

    def __init__(self) -> None:
        self.fd, self._answer_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.pids: list[int] = []
        self._waiting: list[Asked] = []
        self._readings: dict[int, _Reading] = {}
        self._unread: list[Asked] = []
        self._silent: set[tuple[int, int]] = set()
        self._lost = 0

    def ask(
        self,
        mapping: MappingRecord,
        first_ns: int,
        served_by: int,
        largest_whole_bytes: int,
        known: tuple[int, ...] = (),
    ) -> bool:
        """Have a file read soon; return False if it will not be. Arguments are as in `Asked`."""
        asked = Asked(mapping, first_ns, served_by, largest_whole_bytes, known)
        if self._lost >= MOST_LOST_CHILDREN or asked.device in self._silent:
            return False
        if len(self._waiting) >= MOST_SERVED_WAITING:
            return False
        self._waiting.append(asked)
        return True

    def start(self) -> None:
        """Start children for files that wait, one for each file system."""
        for first in list(self._waiting):
            busy = {reading.device for reading in self._readings.values()}
            if len(busy) >= MOST_SERVED_CHILDREN:
                break
            if first.device not in busy:
                whose = first.mapping.pid, first.device
                same = [one for one in self._waiting if (one.mapping.pid, one.device) == whose]
                self._start(same[:MOST_SERVED_AT_ONCE])

    def wait_ms(self) -> int | None:
        """Return the time until a child may be late, None without children."""
        if not self._readings:
            return None
        until_s = min(reading.until_s for reading in self._readings.values())
        return max(0, int(1000 * (until_s - time.monotonic()))) + 1

    def answers(self) -> Iterator[ServedFile]:
        """Yield the answers since the last call, also about files that could not be read."""
        try:
            data = os.read(self.fd, _ANSWERS_AT_ONCE * ANSWER.size)
        except BlockingIOError:
            data = b""
        for fields in ANSWER.iter_unpack(data):
            answer = Answer(*fields)
            reading = self._readings.get(answer.child)
            if reading and answer.outcome == Outcome.END:
                self._end(answer.child)
            elif reading and answer.row in reading.rows:
                reading.has_answered = True
                reading.until_s = time.monotonic() + SERVED_ANSWER_S
                asked, fd = reading.rows.pop(answer.row)
                try:
                    is_read = answer.outcome != Outcome.FAILED
                    yield ServedFile(asked, answer if is_read else None, fd)
                finally:
                    os.close(fd)
        now = time.monotonic()
        for number, reading in list(self._readings.items()):
            if now > reading.until_s:
                self._give_up(number)
        unread, self._unread = self._unread, []
        yield from (ServedFile(asked, None) for asked in unread)

    @property
    def is_busy(self) -> bool:
        """Whether there are answers to come."""
        return bool(self._waiting or self._readings or self._unread)

    def close(self) -> None:
        """End the children; abandon one that its server blocks."""
        for number in list(self._readings):
            self._give_up(number)
        for fd in (self.fd, self._answer_fd):
            if fd >= 0:
                os.close(fd)
        self.fd = self._answer_fd = -1

    def _start(self, batch: Sequence[Asked]) -> None:
        of_batch = set(map(id, batch))
        self._waiting = [asked for asked in self._waiting if id(asked) not in of_batch]
        number, child, fds = len(self.pids), Child(), []
        try:
            for _ in batch:
                fds.append(os.memfd_create("served-file", os.MFD_CLOEXEC))  # noqa: PERF401 - closed below
            answer_fd = self._answer_fd
            child.start(lambda _: copy_files(number, batch, fds, answer_fd), [answer_fd, *fds])
        except OSError:
            self._unread += batch
            for fd in fds:
                os.close(fd)
            return
        self.pids.append(child.pid)
        self._readings[number] = _Reading(child, dict(enumerate(zip(batch, fds, strict=True))))

    def _end(self, number: int) -> None:
        """End a child that has finished; another reads the files for which it had no room."""
        reading = self._readings.pop(number)
        reading.child.kill()
        rest = self._without_fds(reading)
        if reading.has_answered:
            self._waiting = rest + self._waiting
        else:
            self._unread += rest

    def _give_up(self, number: int) -> None:
        """Kill a child, and abandon it if its server blocks it."""
        reading = self._readings.pop(number)
        reading.child.kill()
        self._lost += bool(reading.child.pid)
        self._silent.add(reading.device)
        self._unread += self._without_fds(reading)

    def _without_fds(self, reading: _Reading) -> list[Asked]:
        """Close the files in memory of a child, and return the files that it has not read."""
        for _, fd in reading.rows.values():
            # A blocked child has it open, and would keep the memory.
            os.ftruncate(fd, 0)
            os.close(fd)
        return [asked for asked, _ in reading.rows.values()]
