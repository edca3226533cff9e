"""The process that attaches the walker, and registers interpreters as processes map them.

Loading the walker costs more than all else of a short recording. So it waits for the first process
that maps CPython, or for one that did before and begins to use the CPU.

Comes in: events by CPU, rings with MMAP2 records, /proc. Goes out: entries of the walker's map. It
is a child, as it opens files that others have mapped, and as loading takes longer than whoever
waits for COMMAND's start should.

Defined by: proc(5), /proc/pid/maps and map_files; perf_event_open(2).
"""

from __future__ import annotations

import errno
import math
import os
import select
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from prospect.abi.python_frames import SENT_AGAIN_S
from prospect.capture.kernel import bpf
from prospect.capture.kernel.procfs import read_if_there
from prospect.capture.machine.mapped_file_reader import MappingRecord, Mounts, drained
from prospect.capture.python import image_entry
from prospect.capture.python.interpreters import may_be_python, read_image
from prospect.capture.python.tracers import MOST_SHARE, WATCHED_S, Tracers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prospect.capture.kernel.rings import Ring
    from prospect.capture.python.attaching import Walker
    from prospect.capture.python.interpreters import Image
    from prospect.capture.python.walk_state import WalkState

# A program's own file is mapped before the kernel's description of its memory is whole.
_AGAIN_S = 0.003
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_MOST_FILES = 1 << 12
_MOST_NUMBERS = 1 << 14
_SOON_MS = 30
_LATER_MS = 250
_IDLE_MS = 2000
_LONGEST_MS = 3_600_000
_TRACERS_S = 1.0
_SOON_S, _LATER_S = 1, 60
_PATH_FIELD = 5  # of a line of /proc/pid/maps


def serve(
    stop_fd: int,
    rings: Mapping[int, Ring],
    attach: Callable[[], Walker],
    state: WalkState,
    *,
    beside_others: bool,
) -> None:
    """Serve until `stop_fd` is at its end.

    Args:
        stop_fd: a pipe's end.
        rings: by the descriptor of their event.
        attach: attaches the walker.
        state: takes what becomes of it.
        beside_others: whether the walker is to stay where other tracers' programs cost samples.
    """
    poll = select.poll()
    for fd in (stop_fd, *rings):
        poll.register(fd, select.POLLIN)
    found = _first_python(poll, stop_fd, rings)
    if not found:
        return
    tracers = _Beside(state, endures=beside_others)
    try:
        if tracers.are_too_much():
            state.fail(errno.EBUSY)
            return
        walker = attach()
    except OSError as error:
        state.fail(error.errno or 0)
        return
    except ValueError:
        state.fail(0)
        return
    state.attached()
    watcher = _Watcher(walker, state)
    for mapping in found:
        watcher.see(mapping)
    while _goes_on(poll, stop_fd, min(watcher.wait_ms(), tracers.wait_ms())):
        for mapping in drained(rings.values()):
            watcher.see(mapping)
        watcher.look_again()
        if tracers.have_grown() and walker.links:
            walker.detach()
            state.detached()
            return


def _first_python(
    poll: select.poll, stop_fd: int, rings: Mapping[int, Ring]
) -> list[MappingRecord]:
    """Wait until Python runs; return all that map CPython, none where the end came first."""
    before = _Before(_mapped_before())
    first: list[MappingRecord] = []
    while not first and not before.has_run():
        if not _goes_on(poll, stop_fd, before.wait_ms()):
            return []
        first = [one for one in drained(rings.values()) if may_be_python(one.path)]
    return [*before.mappings, *first]


def _goes_on(poll: select.poll, stop_fd: int, wait_ms: int | None) -> bool:
    """Wait for something to happen; return whether it is not the end."""
    for fd, what in poll.poll(wait_ms):
        if fd == stop_fd:
            return False
        if what & ~select.POLLIN:
            poll.unregister(fd)  # its CPU is gone
    return True


class _Before:
    """The processes that had mapped CPython before, as long as none of them has run.

    Attributes:
        mappings: theirs.
    """

    def __init__(self, mappings: Iterator[MappingRecord]) -> None:
        self.mappings = list(mappings)
        recorder = os.getppid()
        # Forks of it are the recorder too, COMMAND among them as long as it has executed nothing.
        own = _key(recorder)
        pids = {mapping.pid for mapping in self.mappings if _key(mapping.pid) != own}
        self._used = {pid: self._ticks(pid) for pid in pids}
        self._has_begun = any(self._stat(pid)[1:2] == [b"%d" % recorder] for pid in pids)
        self._known = _pids()
        self._begun = time.monotonic()

    def has_run(self) -> bool:
        """Return whether one of them has used the CPU since, or forked; or is COMMAND."""
        if self._has_begun or not self._used:
            return self._has_begun
        new = (pids := _pids()) - self._known
        self._known = pids
        parents = {int(fields[1]) for pid in new if len(fields := self._stat(pid)) > 1}
        return not parents.isdisjoint(self._used) or any(
            self._ticks(pid) > used for pid, used in self._used.items()
        )

    def wait_ms(self) -> int | None:
        """Return when to look again: soon at first; None where there is none to look at."""
        if not self._used:
            return None
        since_s = time.monotonic() - self._begun
        if since_s < _LATER_S:
            return _SOON_MS if since_s < _SOON_S else _LATER_MS
        return _IDLE_MS

    def _ticks(self, pid: int) -> int:
        """Return the clock ticks that a process has used; fields 14 and 15 of proc(5)'s stat."""
        return sum(map(int, self._stat(pid)[11:13]))

    @staticmethod
    def _stat(pid: int) -> list[bytes]:
        """Return the fields from the third one on."""
        return read_if_there(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _key(pid: int) -> bytes:
    return image_entry.image_key(read_if_there(f"/proc/{pid}/stat"))


class _Beside:
    """Looks from time to time what other tracers' programs cost."""

    def __init__(self, state: WalkState, *, endures: bool) -> None:
        self._state = state
        self._endures = endures
        self._tracers = Tracers()
        self._at = time.monotonic() + _TRACERS_S

    def are_too_much(self) -> bool:
        """Tell whether they cost too much now; where there are any, that takes a moment."""
        if self._endures or not self._tracers.begin():
            return False
        time.sleep(WATCHED_S)
        return self._tracers.share() > MOST_SHARE

    def have_grown(self) -> bool:
        """Tell whether they cost too much, if it is time to look."""
        if time.monotonic() < self._at:
            return False
        share = 0.0
        self._at = time.monotonic() + _TRACERS_S
        try:
            if self._tracers.is_measuring:
                share = self._tracers.share()
            elif self._tracers.begin():
                self._at = time.monotonic() + WATCHED_S
        except OSError:
            self._at = math.inf  # nobody can say
        self._state.beside(share)
        return share > MOST_SHARE and not self._endures

    def wait_ms(self) -> int:
        """Return when it is time to look."""
        if self._at == math.inf:
            return _LONGEST_MS
        return max(0, int((self._at - time.monotonic()) * 1000)) + 1


class _Watcher:
    """Knows the files seen so far, and when names are to be sent again."""

    def __init__(self, walker: Walker, state: WalkState) -> None:
        self._walker = walker
        self._forget_at = time.monotonic() + SENT_AGAIN_S
        self._state = state
        self._mounts = Mounts()
        self._files: dict[tuple[int, int, int, bytes], Image | None] = {}
        self._numbers: dict[bytes, int] = {}
        self._met = 0
        self._again: list[tuple[float, MappingRecord, bytes]] = []

    def see(self, mapping: MappingRecord) -> None:
        """Register a mapping with the walker, if it is one of CPython."""
        if may_be_python(mapping.path):
            key = self._tell(mapping)
            if mapping.time_ns:
                self._again.append((time.monotonic() + _AGAIN_S, mapping, key))

    def look_again(self) -> None:
        """Look again at processes that were new, and let names be sent again in their time."""
        now = time.monotonic()
        if now >= self._forget_at:
            self._forget_at = now + SENT_AGAIN_S
            with suppress(OSError):
                self._walker.forget_names()
        while self._again and self._again[0][0] <= now:
            _, mapping, key = self._again.pop(0)
            if image_entry.image_key(read_if_there(f"/proc/{mapping.pid}/stat")) != key:
                self._tell(mapping)

    def wait_ms(self) -> int:
        """Return when `look_again` has something to do."""
        due = min([self._forget_at, *(when for when, _, _ in self._again[:1])])
        return max(0, int((due - time.monotonic()) * 1000)) + 1

    def _tell(self, mapping: MappingRecord) -> bytes:
        """Write the entry; return the key that the process had."""
        key = image_entry.image_key(read_if_there(f"/proc/{mapping.pid}/stat"))
        image = self._image(mapping) if key else None
        found = image and image.placed(mapping.start, mapping.offset)
        if not found:
            return key
        if key not in self._numbers:
            self._met += 1
            if len(self._numbers) >= _MOST_NUMBERS:
                del self._numbers[next(iter(self._numbers))]
        number = self._numbers.setdefault(key, self._met)
        try:
            bpf.write_entry(self._walker.images, key, image_entry.encode(number, found))
            self._state.registered()
        except OSError:
            self._state.missed()
        return key

    def _image(self, mapping: MappingRecord) -> Image | None:
        name = mapping.path.rpartition(b"/")[2]
        known = (*mapping.file, name)
        if known not in self._files:
            if len(self._files) >= _MOST_FILES:
                self._files.clear()
            self._files[known] = self._read(mapping, name)
        return self._files[known]

    def _read(self, mapping: MappingRecord, name: bytes) -> Image | None:
        path_fd = self._mounts.open_mapped(mapping)
        if path_fd < 0:
            self._state.missed()
            return None
        try:
            fd = os.open(f"/proc/self/fd/{path_fd}", _READ)
        except OSError:
            self._state.missed()
            return None
        finally:
            os.close(path_fd)
        try:
            image = read_image(fd, name)
        finally:
            os.close(fd)
        return image


def _pids() -> set[int]:
    return {int(entry) for entry in os.listdir("/proc") if entry.isdigit()}


def _mapped_before() -> Iterator[MappingRecord]:
    """Give the mappings of CPython of all processes."""
    for entry in sorted(_pids()):
        for line in read_if_there(f"/proc/{entry}/maps").splitlines():
            fields = line.split(None, 5)
            if (
                len(fields) <= _PATH_FIELD
                or b"x" not in fields[1]
                or not may_be_python(fields[_PATH_FIELD])
            ):
                continue
            start, end = (int(number, 16) for number in fields[0].split(b"-"))
            major, minor = (int(number, 16) for number in fields[3].split(b":"))
            yield MappingRecord(
                file=(major, minor, int(fields[4])),
                pid=entry,
                start=start,
                end=end,
                path=fields[_PATH_FIELD],
                time_ns=0,
                offset=int(fields[2], 16),
            )
