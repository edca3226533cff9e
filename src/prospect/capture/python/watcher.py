"""The process that attaches the walker, and registers interpreters as processes map them.

Loading the walker costs more than all else of a short recording: `first_python` waits until there
is something to read.

Comes in: events by CPU, rings with MMAP2 records, /proc. Goes out: entries of the walker's map. It
is a child, as it opens files that others have mapped, and as loading takes longer than whoever
waits for COMMAND's start should.

Defined by: proc(5), /proc/pid/maps and map_files; perf_event_open(2).
"""

from __future__ import annotations

import errno
import math
import os
import time
from contextlib import suppress

from prospect.abi.python_frames import SENT_AGAIN_S
from prospect.capture.kernel import bpf
from prospect.capture.kernel.procfs import read_if_there
from prospect.capture.machine.mapped_file_reader import Mounts
from prospect.capture.machine.mapping_records import MappingRecord, drained
from prospect.capture.machine.python_processes import PYTHON, image_key, may_be_python
from prospect.capture.python import image_entry
from prospect.capture.python.first_python import goes_on, polled
from prospect.capture.python.interpreters import read_image
from prospect.capture.python.pace import Pace
from prospect.capture.python.tracers import MOST_SHARE, WATCHED_S, Tracers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prospect.capture.kernel.rings import Ring
    from prospect.capture.python.attaching import Walker
    from prospect.capture.python.interpreters import Image
    from prospect.capture.python.walk_state import WalkState

# A program's own file is mapped before the kernel's description of its memory is whole.
_AGAIN_S = 0.003
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_MOST_FILES = 1 << 12
_MOST_NUMBERS = 1 << 14
_LONGEST_MS = 3_600_000
_TRACERS_S = 1.0


def serve(  # noqa: PLR0913 - what a child gets
    stop_fd: int,
    rings: Mapping[int, Ring],
    attach: Callable[[], Walker],
    state: WalkState,
    found: list[MappingRecord],
    *,
    beside_others: bool,
    share: float,
) -> None:
    """Serve until `stop_fd` is at its end.

    Args:
        stop_fd: a pipe's end.
        rings: by the descriptor of their event.
        attach: attaches the walker.
        state: takes what becomes of it.
        found: mappings of CPython that there are.
        beside_others: whether the walker is to stay where other tracers' programs cost samples.
        share: of all CPUs that looking at new mappings may take.
    """
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
    poll, pace = polled(stop_fd, rings), Pace(share)
    while goes_on(poll, stop_fd, min(watcher.wait_ms(), tracers.wait_ms()), pace):
        for mapping in drained(rings.values(), of_names_with=PYTHON):
            watcher.see(mapping)
        watcher.look_again()
        if tracers.have_grown() and walker.links:
            walker.detach()
            state.detached()
            return


class _Beside:
    """Looks from time to time what other tracers' programs cost."""

    def __init__(self, state: WalkState, *, endures: bool) -> None:
        self._state = state
        self._endures = endures
        self._tracers = Tracers()
        self._at = time.monotonic() + _TRACERS_S

    def are_too_much(self) -> bool:
        """Return whether they cost too much now; where there are any, that takes a moment."""
        if self._endures or not self._tracers.begin():
            return False
        time.sleep(WATCHED_S)
        return self._tracers.share() > MOST_SHARE

    def have_grown(self) -> bool:
        """Return whether they cost too much, if it is time to look."""
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
            if image_key(read_if_there(f"/proc/{mapping.pid}/stat")) != key:
                self._tell(mapping)

    def wait_ms(self) -> int:
        """Return when `look_again` has something to do."""
        due = min([self._forget_at, *(when for when, _, _ in self._again[:1])])
        return max(0, int((due - time.monotonic()) * 1000)) + 1

    def _tell(self, mapping: MappingRecord) -> bytes:
        """Write the entry; return the key that the process had."""
        key = image_key(read_if_there(f"/proc/{mapping.pid}/stat"))
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
