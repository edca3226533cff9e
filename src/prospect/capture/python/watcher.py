"""The process that attaches the walker, and tells it of interpreters as processes map them.

Comes in: events by CPU, rings with MMAP2 records, /proc. Goes out: entries of the walker's map. It
is a child, as it opens files that others have mapped, and as loading takes longer than whoever
waits for COMMAND's start should.

Defined by: proc(5), /proc/pid/maps and map_files; perf_event_open(2).
"""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING

from prospect.capture.kernel import bpf
from prospect.capture.kernel.procfs import read_if_there
from prospect.capture.machine.mapped_file_reader import MappingRecord, Mounts, drained
from prospect.capture.python import image_entry
from prospect.capture.python.interpreters import may_be_python, read_image

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prospect.capture.kernel.rings import Ring
    from prospect.capture.python.interpreters import Image
    from prospect.capture.python.walk_state import WalkState

# A program's own file is mapped before the kernel's books of its memory are whole.
_AGAIN_S = 0.003
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_MOST_FILES = 1 << 12
_PATH_FIELD = 5  # of a line of /proc/pid/maps


def serve(
    stop_fd: int,
    rings: Mapping[int, Ring],
    attach: Callable[[], int],
    state: WalkState,
) -> None:
    """Serve until `stop_fd` is at its end.

    Args:
        stop_fd: a pipe's end.
        rings: by the descriptor of their event.
        attach: attaches the walker, and returns the map that it is told by.
        state: takes what becomes of it.
    """
    try:
        images = attach()
    except OSError as error:
        state.fail(error.errno or 0)
        return
    except ValueError:
        state.fail(0)
        return
    state.attached()
    watcher = _Watcher(images, state)
    for mapping in _mapped_before():
        watcher.see(mapping)
    poll = select.poll()
    for fd in (stop_fd, *rings):
        poll.register(fd, select.POLLIN)
    while True:
        for fd, what in poll.poll(watcher.wait_ms()):
            if fd == stop_fd:
                return
            if what & ~select.POLLIN:
                poll.unregister(fd)  # its CPU is gone
        for mapping in drained(rings.values()):
            watcher.see(mapping)
        watcher.look_again()


class _Watcher:
    """Knows the files seen so far."""

    def __init__(self, images: int, state: WalkState) -> None:
        self._map = images
        self._state = state
        self._mounts = Mounts()
        self._files: dict[tuple[int, int, int, bytes], Image | None] = {}
        self._numbers: dict[bytes, int] = {}
        self._again: list[tuple[float, MappingRecord, bytes]] = []

    def see(self, mapping: MappingRecord) -> None:
        """Tell the walker of a mapping, if it is one of CPython."""
        if may_be_python(mapping.path):
            key = self._tell(mapping)
            if mapping.time_ns:
                self._again.append((time.monotonic() + _AGAIN_S, mapping, key))

    def look_again(self) -> None:
        """Look again at processes that were new."""
        now = time.monotonic()
        while self._again and self._again[0][0] <= now:
            _, mapping, key = self._again.pop(0)
            if image_entry.image_key(read_if_there(f"/proc/{mapping.pid}/stat")) != key:
                self._tell(mapping)

    def wait_ms(self) -> int | None:
        """Return when `look_again` has something to do, None for never."""
        if not self._again:
            return None
        return max(0, int((self._again[0][0] - time.monotonic()) * 1000)) + 1

    def _tell(self, mapping: MappingRecord) -> bytes:
        """Write the entry; return the key that the process had."""
        key = image_entry.image_key(read_if_there(f"/proc/{mapping.pid}/stat"))
        image = self._image(mapping) if key else None
        found = image and image.placed(mapping.start, mapping.offset)
        if not found:
            return key
        number = self._numbers.setdefault(key, len(self._numbers) + 1)
        try:
            bpf.write_entry(self._map, key, image_entry.encode(number, found))
            self._state.told()
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


def _mapped_before() -> Iterator[MappingRecord]:
    """Give the mappings of CPython of all processes."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
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
                pid=int(entry),
                start=start,
                end=end,
                path=fields[_PATH_FIELD],
                time_ns=0,
                offset=int(fields[2], 16),
            )
