"""Copies of mapped files that may be gone when a report looks for names.

A file is copied when it is first mapped if it is unlinked, on another root or mount namespace than
the recorder's, in a directory for temporary files, on a removable file system, or newer than the
recording. It is not held open, because an open file keeps its file system from being unmounted.
Only the sections for names and call chains of a large file are copied. `served_files` copies files
on FUSE file systems.

Any other file may be removed, replaced or renamed during the recording. It is held open if it is on
the file system of ``/`` or ``/usr``, which nobody can unmount, and copied once it has no name or
another file is at its path. A file on another file system is copied if there is much room.

Defined by: the gABI, "Sections"; proc(5).
"""

from __future__ import annotations

import os
import stat
import struct
import time
from resource import RLIMIT_NOFILE, getrlimit

from prospect.capture.capture_limits import (
    HELD_LOOK_S,
    LARGEST_COPY_BYTES,
    LARGEST_ELSEWHERE_BYTES,
    LARGEST_SPARSE_BYTES,
    LARGEST_STRINGS_BYTES,
    LARGEST_WHOLE_BYTES,
    MOST_COPIED_BYTES,
    MOST_COPIES,
    MOST_HELD_FILES,
    MOST_MAPPED_FILES,
    MOST_OTHERS_BYTES,
    MOST_RANGES,
    MOST_SECTIONS,
    MOST_UNLIKELY_BYTES,
)
from prospect.capture.kernel.procfs import read_if_there, stat_fields
from prospect.capture.machine.mapping_records import DELETED
from prospect.files.mounts import has_other_root, mounts
from prospect.files.rights import is_trusted
from prospect.records import NamedTuple, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from prospect.capture.machine.mapping_records import MappingRecord

    File = tuple[int, int, int]
    Range = tuple[int, int]


# The resolution of file systems' times.
_CLOCK_STEP_NS = 10_000_000
_TEMPORARY = (b"/tmp/", b"/var/tmp/", b"/dev/shm/", b"/run/")
_LASTING = ("/", "/usr")
_PASSING_TYPES = frozenset({b"tmpfs", b"overlay", b"squashfs", b"iso9660", b"ramfs"})
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

_ELF64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
_HEADER = struct.Struct("<40xQ10xHHH")  # e_shoff, e_shentsize, e_shnum, e_shstrndx
_SECTION = struct.Struct("<II16xQQ")  # sh_name, sh_type, sh_offset, sh_size
_SHT_NOBITS = 8
# The sections for names and call chains.
_NAMING = frozenset(
    {
        *(b".symtab", b".strtab", b".dynsym", b".dynstr", b".shstrtab", b".gnu.hash", b".hash"),
        *(b".dynamic", b".eh_frame", b".eh_frame_hdr", b".sframe", b".gnu_debugdata"),
        *(b".gnu_debuglink", b".gopclntab", b".data.rel.ro.gopclntab", b".go.buildinfo"),
        *(b".note.gnu.build-id", b".note.go.buildid", b".note.gnu.property"),
        *(b".plt", b".plt.sec", b".plt.got", b".iplt", b".rela.plt", b".rela.dyn"),
    }
)


class ImageCopy(NamedTuple):
    """A copy of a file: concatenated pieces, from `at` on in the file of all copies.

    Attributes:
        file: major and minor number of the device, and inode, as mappings have them.
        build_id: b"" for none.
        path: as mapped.
        pieces: (offset in the file, length).
        ranges: (start, end) addresses of its mappings.
        modified_ns: since the epoch.
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
    """A file during the recording: copied, held open, or neither for lack of room.

    Attributes:
        facts: without pieces as long as there is no copy.
        ranges: (start, end) addresses of its mappings.
        owner: the user whose share of the room a copy takes.
        largest_whole_bytes: a larger file is copied in part.
        is_served: whether it is on a FUSE file system.
        held_fd: -1 if it is not held open.
        is_left_out: whether there was no room for a copy, or for one more open file.
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
        """Prepare.

        Args:
            fd: takes the copies, -1 to copy nothing.
            begun_ns: the start of the recording, since the epoch.
            attached: processes whose files are copied though they were mapped before.
            family: only files of these processes and their descendants are copied; () for all.
        """
        self._fd = fd
        self._attached = frozenset(attached)
        self._family = set(family)
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
        # COMMAND inherits it.
        own = (chosen + b"/",) if chosen.startswith(b"/") else ()
        self._temporary = _TEMPORARY + own

    def see(self, mappings: Iterable[MappingRecord]) -> None:
        """Note addresses of files; copy those held open that were removed meanwhile."""
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
        """Copy a new or changed file if it may be gone later.

        Args:
            path_fd: a descriptor of its path.
            is_new: whether it has not been seen with this content.

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
        facts = facts_of(mapping, build_id, status.st_size, status.st_mtime_ns)
        largest = LARGEST_ELSEWHERE_BYTES if is_elsewhere else LARGEST_WHOLE_BYTES
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
        """Return whether the file of a mapping is to be copied if it may be gone later."""
        return self._fd >= 0 and self._belongs(mapping.pid)

    def largest_whole_bytes(self, pid: int) -> int:
        """Return the size up to which files that a process maps are copied whole."""
        return LARGEST_ELSEWHERE_BYTES if has_other_root(pid) else LARGEST_WHOLE_BYTES

    def add_served(self, copied: Copied, fd: int) -> None:
        """Keep a file from a FUSE file system, of which `fd` is a copy in memory.

        Raises:
            OSError: there is no memory.
        """
        has_room = len(self._copied) < MOST_MAPPED_FILES
        if has_room and self._copy(copied, fd, MOST_COPIED_BYTES):
            self._copied.append(copied)
            self._latest[copied.facts.file] = copied

    def finish(
        self, status_at: Callable[[bytes], os.stat_result | None]
    ) -> tuple[list[tuple[Any, ...]], int]:
        """Return the copies of temporary files and of files that are not at their path any more.

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
        if not self._family:
            return True
        line: list[int] = []
        while pid > 1 and pid not in self._family and pid not in line:
            line.append(pid)
            fields = stat_fields(f"/proc/{pid}")
            pid = int(fields[1]) if len(fields) > 1 else 0
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
        """Return whether a file on the recorder's root may be removed or replaced later."""
        return (
            not status.st_nlink
            or mapping.path.startswith(self._temporary)
            or status.st_ctime_ns > self._begun_ns
            or self._is_passing(mapping.file[:2])
        )

    def _is_passing(self, device: tuple[int, int]) -> bool:
        """Return whether a file system is of a kind that is often mounted for a short time."""
        if device not in self._passing:
            every = mounts(read_if_there("/proc/self/mountinfo"))
            there = [one for one in every if one.device == os.makedev(*device)]
            is_root = any(one.point == b"/" for one in there)
            self._passing[device] = not is_root and any(one.kind in _PASSING_TYPES for one in there)
        return self._passing[device]

    def _take_held(self, held: Copied) -> None:
        """Copy a file that was held open, unless it has changed, and close it."""
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
        """Append a file to the copies if there is room; return False if it has no names.

        Raises:
            OSError: it cannot be read.
        """
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


def facts_of(mapping: MappingRecord, build_id: bytes, size: int, modified_ns: int) -> ImageCopy:
    """Return the facts about a file that is not copied yet."""
    path = mapping.path.removesuffix(DELETED)
    return ImageCopy(mapping.file, build_id, path, size, [], 0, [], modified_ns)


def copy_piece(to_fd: int, from_fd: int, offset: int, length: int) -> None:
    """Copy bytes of a file to the current position of another.

    Raises:
        OSError: they cannot be read or written.
    """
    done = 0
    while done < length:
        count = os.sendfile(to_fd, from_fd, offset + done, length - done)
        if not count:
            raise OSError
        done += count


def pieces_of(fd: int, size: int, largest_whole_bytes: int) -> list[Range]:
    """Return the (offset, length) of the pieces of an ELF file to copy; [] for other files.

    Raises:
        OSError: it cannot be read.
    """
    header = os.pread(fd, 64, 0)
    if len(header) < 64 or header[:4] != b"\x7fELF" or size > LARGEST_SPARSE_BYTES:
        return []
    if size <= largest_whole_bytes:
        return [(0, size)]
    if header[:6] != _ELF64_LITTLE_ENDIAN:
        return [(0, size)] if size <= LARGEST_COPY_BYTES else []
    sections = _sections(fd, header, size)
    naming = _without(size, (one for name, one in sections if name not in _NAMING))
    return naming if sum(length for _, length in naming) <= LARGEST_COPY_BYTES else []


def _sections(fd: int, header: bytes, size: int) -> Iterator[tuple[bytes, Range]]:
    """Yield (name, (begin, end)) of the sections that have bytes in a file."""
    table_at, each, count, names_row = _HEADER.unpack_from(header)
    if each < _SECTION.size or not 0 < count <= MOST_SECTIONS or table_at > size:
        return
    table = os.pread(fd, each * count, table_at)
    rows = [_SECTION.unpack_from(table, at) for at in range(0, len(table) - each + 1, each)]
    if names_row >= len(rows):
        return
    _, _, names_at, names_size = rows[names_row]
    if names_at > size:
        return
    names = os.pread(fd, min(names_size, LARGEST_STRINGS_BYTES), names_at)
    for name_at, kind, begin, length in rows:
        end = min(begin + length, size)
        if kind != _SHT_NOBITS and begin < end:
            yield names[name_at:].split(b"\0", 1)[0], (begin, end)


def _without(size: int, left_out: Iterable[Range]) -> list[Range]:
    pieces = []
    at = 0
    for begin, end in sorted(left_out):
        if begin > at:
            pieces.append((at, begin - at))
        at = max(at, end)
    if at < size:
        pieces.append((at, size - at))
    return pieces
