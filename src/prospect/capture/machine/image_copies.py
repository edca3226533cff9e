"""Copies of mapped files that will not be there when names are asked for.

A file is copied when it is first mapped if it is unlinked, on another root or mount namespace than
ours, in a directory for temporary files, on a file system that is mounted for a while, or newer
than the recording. A copy, not a descriptor: an open file keeps its file system from being
unmounted. Of a large file only what names and call chains are read of is copied. Files on FUSE file
systems are copied, too, by `served_files`.

Any other file may be removed, replaced or renamed while the recording goes on. It is held open if
it is on the file system of ``/`` or ``/usr``, which nobody can unmount, and copied once it has no
name or another file is at its path. A file on another file system is copied if there is much room.

Defined by: proc(5).
"""

from __future__ import annotations

import os
import stat
import time
from resource import RLIMIT_NOFILE, getrlimit

from prospect.capture.capture_limits import (
    HELD_LOOK_S,
    LARGEST_ELSEWHERE_BYTES,
    LARGEST_WHOLE_BYTES,
    MOST_COPIED_BYTES,
    MOST_COPIES,
    MOST_HELD_FILES,
    MOST_MAPPED_FILES,
    MOST_OTHERS_BYTES,
    MOST_RANGES,
    MOST_UNLIKELY_BYTES,
)
from prospect.capture.kernel.procfs import read_if_there
from prospect.capture.machine.mapping_records import DELETED
from prospect.files.mounts import mounts
from prospect.files.rights import is_trusted
from prospect.records import NamedTuple, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from prospect.capture.machine.mapping_records import MappingRecord
    from prospect.capture.machine.served_files import ServedFile

    File = tuple[int, int, int]
    Range = tuple[int, int]


# File systems take their times from a clock of this resolution.
_CLOCK_STEP_NS = 10_000_000
_TEMPORARY = (b"/tmp/", b"/var/tmp/", b"/dev/shm/", b"/run/")
_LASTING = ("/", "/usr")
_PASSING_TYPES = frozenset({b"tmpfs", b"overlay", b"squashfs", b"iso9660", b"ramfs"})
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class ImageCopy(NamedTuple):
    """A copy of a file, in pieces that follow each other from `at` on in the file of all copies.

    Attributes:
        file: major and minor number of the device, and inode, as mappings have them.
        build_id: b"" for none.
        path: as mapped.
        pieces: (offset in the file, length).
        at: where the first piece is.
        ranges: where it was mapped.
        modified_ns: when the file was modified, since the epoch.
    """

    file: File
    build_id: bytes
    path: bytes
    size: int
    pieces: list[Range]
    at: int
    ranges: list[Range]
    modified_ns: int


class Copied(Record, frozen=False):
    """A file while the recording goes on: copied, held open, or neither for lack of room.

    Attributes:
        facts: without pieces as long as there is no copy.
        ranges: where it was mapped.
        owner: the user whose share of the room it takes.
        largest_whole_bytes: the size up to which it is copied whole.
        is_served: whether it is on a FUSE file system.
        held_fd: -1 if it is not held open.
        is_left_out: whether there was no room for a copy, or for one more file held open.
    """

    facts: ImageCopy
    ranges: dict[Range, None]
    owner: int
    largest_whole_bytes: int = LARGEST_WHOLE_BYTES
    is_served: bool = False
    held_fd: int = -1
    is_left_out: bool = False


class ImageCopies:
    """Copies files into one file in memory."""

    def __init__(
        self,
        fd: int = -1,
        begun_ns: int = 0,
        attached: tuple[int, ...] = (),
        family: tuple[int, ...] = (),
    ) -> None:
        """Copy nothing yet.

        Args:
            fd: takes the copies, -1 to copy nothing.
            begun_ns: when the recording began, since the epoch.
            attached: processes whose files are copied though they were mapped before.
            family: the processes whose files, and whose descendants', are copied; none for all.
        """
        self._fd = fd
        self._attached = frozenset(attached)
        self._family = set(family) if family else None
        self._begun_ns = begun_ns - _CLOCK_STEP_NS
        self._considered: set[File] = set()
        self._end = 0
        self._of_others = 0
        self._copied: list[Copied] = []
        self._latest: dict[File, Copied] = {}
        self._passing: dict[tuple[int, int], bool] = {}
        self._copies = 0
        self._held = 0
        self._most_held = min(MOST_HELD_FILES, getrlimit(RLIMIT_NOFILE)[0] // 4)
        self._looked_s = time.monotonic()
        self._lasting = {os.stat(path).st_dev for path in _LASTING if os.path.isdir(path)}
        chosen = os.environb.get(b"TMPDIR", b"").rstrip(b"/")
        # As ours: COMMAND inherits it.
        own = (chosen + b"/",) if chosen.startswith(b"/") else ()
        self._temporary = _TEMPORARY + own

    def see(self, mappings: Iterable[MappingRecord]) -> None:
        """Note where files are mapped; copy those held open that were removed meanwhile."""
        for mapping in mappings if self._copied else ():
            copied = self._latest.get(mapping.file)
            if copied and len(copied.ranges) < MOST_RANGES:
                copied.ranges[mapping.start, mapping.end] = None
        now = time.monotonic()
        if self._held and now - self._looked_s > HELD_LOOK_S:
            self._looked_s = now
            for one in self._copied:
                if one.held_fd >= 0 and not os.fstat(one.held_fd).st_nlink:
                    self._take_held(one)

    def consider(
        self, mapping: MappingRecord, path_fd: int, build_id: bytes, *, is_new: bool
    ) -> None:
        """Copy a file that was met first, or has changed, if it will not be there later.

        Args:
            path_fd: a descriptor of its path.
            is_new: whether this content of it is met first.

        Raises:
            OSError: it cannot be read.
        """
        # Programs that ran before will hardly end now.
        was_before = not mapping.time_ns and mapping.pid not in self._attached
        if was_before or (mapping.file in self._considered and not is_new):
            return
        if not self.is_wanted(mapping):
            return
        self._considered.add(mapping.file)
        status = os.fstat(path_fd)
        if not stat.S_ISREG(status.st_mode) or len(self._copied) >= MOST_MAPPED_FILES:
            return
        is_elsewhere = has_other_root(mapping.pid)
        may_go = is_elsewhere or self._may_go(mapping, status)
        facts = _facts(mapping, build_id, status.st_size, status.st_mtime_ns)
        largest = largest_whole_bytes(is_elsewhere=is_elsewhere)
        copied = Copied(facts, {(mapping.start, mapping.end): None}, status.st_uid, largest)
        fd = os.open(f"/proc/self/fd/{path_fd}", _READ)
        try:
            if may_go or status.st_dev not in self._lasting:
                room = MOST_COPIED_BYTES if may_go else MOST_UNLIKELY_BYTES
                if not self._copy(copied, fd, room):
                    return
            elif self._held < self._most_held:
                copied.held_fd, fd = fd, -1
                self._held += 1
            else:
                copied.is_left_out = True
        finally:
            if fd >= 0:
                os.close(fd)
        self._copied.append(copied)
        self._latest[mapping.file] = copied

    def is_wanted(self, mapping: MappingRecord) -> bool:
        """Return whether the file of a mapping is one of those that are copied if needed."""
        return self._fd >= 0 and self._belongs(mapping.pid)

    def add_served(self, served: ServedFile, build_id: bytes) -> None:
        """Copy a file from a FUSE file system, of which there is a copy in memory.

        Raises:
            OSError: there is no memory.
        """
        asked, answer = served.asked, served.answer
        mapping = asked.mapping
        if answer is None or len(self._copied) >= MOST_MAPPED_FILES:
            return
        facts = _facts(mapping, build_id, answer.size, answer.modified_ns)
        ranges: dict[Range, None] = {(mapping.start, mapping.end): None}
        copied = Copied(facts, ranges, asked.served_by, asked.largest_whole_bytes, is_served=True)
        if self._copy(copied, served.fd, MOST_COPIED_BYTES):
            self._copied.append(copied)
            self._latest[mapping.file] = copied

    def finish(
        self, status_at: Callable[[bytes], os.stat_result | None]
    ) -> tuple[list[tuple[Any, ...]], int]:
        """Return the copies of files that are not at their path any more, or are temporary.

        Args:
            status_at: gives the status of the file at a path, None for none.

        Returns:
            The fields of each `ImageCopy`, and how many files were left out.
        """
        gone = [one for one in self._copied if not self._is_there(one, status_at)]
        for one in gone:
            if one.held_fd >= 0:
                self._take_held(one)
        kept = [
            tuple(one.facts._replace(ranges=list(one.ranges))) for one in gone if one.facts.pieces
        ]
        return kept, sum(one.is_left_out for one in gone)

    def _belongs(self, pid: int) -> bool:
        """Return whether a process is of the family, by its living parents."""
        if self._family is None:
            return True
        line: list[int] = []
        while pid > 1 and pid not in self._family and pid not in line:
            line.append(pid)
            words = read_if_there(f"/proc/{pid}/stat").rpartition(b")")[2].split()
            pid = int(words[1]) if len(words) > 1 else 0
        belongs = pid in self._family
        if belongs:
            self._family.update(line)
        return belongs

    def _is_there(
        self, copied: Copied, status_at: Callable[[bytes], os.stat_result | None]
    ) -> bool:
        facts = copied.facts
        if copied.is_served or facts.path.startswith(self._temporary):
            return False
        status = status_at(facts.path)
        if status is None or status.st_ino != facts.file[2]:
            return False
        return (facts.size, facts.modified_ns) == (status.st_size, status.st_mtime_ns)

    def _may_go(self, mapping: MappingRecord, status: os.stat_result) -> bool:
        """Return whether a file of our own root may be gone or another one later."""
        return (
            not status.st_nlink
            or mapping.path.startswith(self._temporary)
            or status.st_ctime_ns > self._begun_ns
            or self._is_passing(mapping.file[:2])
        )

    def _is_passing(self, device: tuple[int, int]) -> bool:
        """Return whether a file system is one that is mounted for a while."""
        if device not in self._passing:
            every = mounts(read_if_there("/proc/self/mountinfo"))
            there = [one for one in every if one.device == os.makedev(*device)]
            is_root = any(one.point == b"/" for one in there)
            self._passing[device] = not is_root and any(one.kind in _PASSING_TYPES for one in there)
        return self._passing[device]

    def _take_held(self, held: Copied) -> None:
        """Copy a file that was held open, unless it was written to, and close it."""
        fd, held.held_fd = held.held_fd, -1
        self._held -= 1
        try:
            status = os.fstat(fd)
            if (held.facts.size, held.facts.modified_ns) == (status.st_size, status.st_mtime_ns):
                self._copy(held, fd, MOST_COPIED_BYTES)
        except OSError:  # it cannot be read
            pass
        finally:
            os.close(fd)

    def _copy(self, copied: Copied, fd: int, most_bytes: int) -> bool:
        """Append a file to the copies if there is room; return whether it has names.

        Raises:
            OSError: it cannot be read.
        """
        from prospect.capture.machine.image_pieces import copy_piece, pieces_of  # noqa: PLC0415 - not on a target

        pieces = pieces_of(fd, copied.facts.size, copied.largest_whole_bytes)
        size = sum(length for _, length in pieces)
        if not pieces:
            return False
        copied.is_left_out = not self._has_room(size, copied.owner, most_bytes)
        if copied.is_left_out:
            return True
        os.lseek(self._fd, self._end, os.SEEK_SET)
        for offset, length in pieces:
            copy_piece(self._fd, fd, offset, length)
        copied.facts = copied.facts._replace(pieces=pieces, at=self._end)
        self._end += size
        self._of_others += 0 if is_trusted(copied.owner) else size
        self._copies += 1
        return True

    def _has_room(self, size: int, owner: int, most_bytes: int) -> bool:
        if self._copies >= MOST_COPIES or self._end + size > most_bytes:
            return False
        return is_trusted(owner) or self._of_others + size <= MOST_OTHERS_BYTES


def _facts(mapping: MappingRecord, build_id: bytes, size: int, modified_ns: int) -> ImageCopy:
    path = mapping.path.removesuffix(DELETED)
    return ImageCopy(mapping.file, build_id, path, size, [], 0, [], modified_ns)


def largest_whole_bytes(*, is_elsewhere: bool) -> int:
    """Return the size up to which files are copied whole, of our own root or another one."""
    return LARGEST_ELSEWHERE_BYTES if is_elsewhere else LARGEST_WHOLE_BYTES


def has_other_root(pid: int) -> bool:
    """Return whether a process has other files than we: another mount namespace or root."""
    own, other = (_link_target(f"/proc/{who}/ns/mnt") for who in ("self", pid))
    if other and own != other:
        return True
    root = _link_target(f"/proc/{pid}/root")
    return bool(root) and root != _link_target("/proc/self/root")


def _link_target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""
