"""The process that reads the build ids of mapped files, as soon as they are mapped, and whole maps.

Device and inode of its MMAP2 record identify a file. The reader opens it through the mapping
(``/proc/PID/map_files``, for root), as the process's executable, or at its path, for other users
also below the process's root, if device and inode there are the recorded ones. It reads the file
once, and again if size, modification time or change time differ when the file is mapped again. A
FUSE file system's server could block the reader for ever: a child (`served_files`) reads files from
there that are to be copied.

Defined by: proc(5); ``include/uapi/linux/perf_event.h`` (Linux 6.18); the gABI, "Note Section".
"""

from __future__ import annotations

import os
import select
import stat
import struct
import time

from prospect.capture.capture_limits import (
    MOST_FILE_SEGMENTS,
    MOST_MAPPED_FILES,
    MOST_NOTES_BYTES,
    MOST_RANGES,
    MOST_SERVED_TRIES,
    SERVED_AGAIN_S,
    SERVED_LAST_WORD_S,
)
from prospect.capture.kernel.procfs import read_if_there
from prospect.capture.machine.kernel_maps import gnu_build_id
from prospect.capture.machine.map_reader import MapReader, shortest_wait
from prospect.capture.machine.mapping_records import DELETED, MappingRecord, drained, mapped_links
from prospect.capture.machine.read_files import NUMBER_BYTES, ReadFile
from prospect.capture.machine.runtime_processes import FirstRuntime, JvmNews
from prospect.capture.machine.synthesis import Map
from prospect.files.child import told
from prospect.files.mounts import Mount, mounts
from prospect.files.rights import EVERYBODY
from prospect.light import monotonic_ns
from prospect.records import NamedTuple, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from prospect.capture.kernel.rings import Ring
    from prospect.capture.machine.image_copies import ImageCopies
    from prospect.capture.machine.read_files import ReadFiles
    from prospect.capture.machine.served_files import ServedFile, ServedFiles

    File = tuple[int, int, int]
    Identity = tuple[int, int, int, bytes]

# The time in which mappings gather before a look: a build makes thousands a second.
_GATHER_S = 0.02
_FRESH_S = 1.0
_PATH_ONLY = os.O_PATH | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

_PAGE_BYTES = 4096
_PT_NOTE = 4
_ELF64, _ELF32 = 2, 1
_LITTLE_ENDIAN = 1
# e_phoff and e_phentsize, e_phnum: offset and form, by class
_HEADER_FIELDS = {_ELF64: (32, "Q", 54), _ELF32: (28, "I", 42)}
# p_type, p_offset and p_filesz, by class
_SEGMENTS = {_ELF64: struct.Struct("<I4xQ16xQ16x"), _ELF32: struct.Struct("<II8xI12x")}


class _Version(NamedTuple):
    """A file as it was at the last look.

    Attributes:
        row: in the results.
        identity: size, times of modification and change; on FUSE also the path, because the next
            file system may get the same device number, and its files the same inodes.
        build_id: b"" for none.
        until_ns: the time of the look.
    """

    row: int
    identity: Identity
    build_id: bytes
    until_ns: int


class _OnFuse(Record, frozen=False):
    """A file on a FUSE file system, by one of its paths.

    Attributes:
        mappings: those between the question and its answer.
        is_awaited: whether a question has no answer yet.
        answered_s: the time of the last answer.
        failures: the number of answers without content.
    """

    mappings: list[MappingRecord]
    is_awaited: bool = False
    answered_s: float = 0.0
    failures: int = 0


class Watched(NamedTuple):
    """The processes whose maps and files are read, and descriptors that take the results.

    Attributes:
        command_pid: COMMAND, -1 for none.
        is_chosen: whether the recording follows only some tasks.
        python_fd: a pipe's end that takes a byte once Python runs, -1 for none.
        attached: processes that the recording attached to.
        jvms_fd: a pipe's end that takes the processes that map HotSpot, -1 for none.
        copies_fd: takes copies of files that may be gone later, -1 to copy none.
        begun_ns: the start of the recording, since the epoch.
        of_all: whether files of every process are copied, not of COMMAND and `attached` only.
    """

    command_pid: int
    is_chosen: bool
    python_fd: int = -1
    attached: tuple[int, ...] = ()
    jvms_fd: int = -1
    copies_fd: int = -1
    begun_ns: int = 0
    of_all: bool = True


def serve(
    rings: Mapping[int, Ring],
    stop_fd: int,
    found: ReadFiles,
    before_fds: tuple[int, int],
    watched: Watched,
) -> None:
    """Read until `stop_fd` is at its end.

    Args:
        rings: by the descriptor of their event.
        stop_fd: a pipe's end.
        before_fds: a pipe that is readable once there is a list of files mapped before, and the
            file with that list, which also takes the maps.
    """
    family = tuple(filter(lambda pid: pid > 0, (watched.command_pid, *watched.attached)))
    family = () if watched.of_all else family
    copies = served = None
    if watched.copies_fd >= 0:
        from prospect.capture.machine.image_copies import ImageCopies  # noqa: PLC0415 - not on a target
        from prospect.capture.machine.served_files import ServedFiles  # noqa: PLC0415 - not on a target

        copies = ImageCopies(watched.copies_fd, watched.begun_ns, watched.attached, family)
        served = ServedFiles()
    reader = FileReader(found, copies, served)
    maps = MapReader(watched.command_pid, attached=watched.attached)
    python = FirstRuntime(watched.python_fd)
    jvms = JvmNews(watched.jvms_fd)
    before_fd, before = before_fds
    poll = select.poll()
    for fd in (stop_fd, before_fd, *((served.fd,) if served else ()), *rings):
        poll.register(fd, select.POLLIN)
    is_over = False
    while not is_over:
        served_ms = served.wait_ms() if served else None
        wait_ms = shortest_wait(maps.wait_ms(), python.wait_ms(), served_ms)
        ready = _ready(poll, wait_ms, before_fd)
        is_over = stop_fd in ready
        sent = _sent_before(before_fd, before) if before_fd in ready else None
        mappings = list(drained(rings.values(), found))
        # First, because Python frames are missing until their reader is loaded.
        if sent:
            python.see_before(sent[2])
        python.look(mappings, is_all=not found.counts().lost)
        jvms.look(mappings)
        if sent:
            files, ticks, _, before_jvms = sent
            jvms.see_before(before_jvms)
            reader.look(_mapped_before(files))
            maps.see_before(ticks)
            if watched.is_chosen:
                maps.see(ticks)
        reader.look(iter(mappings))
        maps.see({mapping.pid for mapping in mappings})
        maps.look()
        if not is_over:
            is_over = bool(select.select((stop_fd,), (), (), _GATHER_S)[0])
    reader.look(drained(rings.values(), found))
    child_pids = reader.finish()
    kept, left_out = copies.finish(reader.status_at) if copies else ([], 0)
    maps.finish(before, (kept, left_out, child_pids))


def _ready(poll: select.poll, wait_ms: int | None, once_fd: int) -> set[int]:
    """Wait; return the ready descriptors, and unregister those whose CPU or process is gone.

    Args:
        wait_ms: None for ever.
        once_fd: is unregistered once it is ready.
    """
    ready = poll.poll(wait_ms)
    for fd, what in ready:
        if what & ~select.POLLIN or fd == once_fd:
            poll.unregister(fd)
    return {fd for fd, _ in ready}


def _sent_before(
    before_fd: int, before: int
) -> tuple[list[tuple[Any, ...]], dict[int, int], list[int], list[int]]:
    """Return the arguments of `MappedFiles.look_at`; nothing if the recorder ended before."""
    os.read(before_fd, NUMBER_BYTES)
    files, ticks, pythons, jvms = told(before) or ([], {}, [], [])
    os.ftruncate(before, 0)
    return files, ticks, pythons, jvms


def _mapped_before(rows: Iterable[tuple[Any, ...]]) -> Iterator[MappingRecord]:
    for major, minor, inode, pid, *fields in rows:
        one = Map(*fields)
        end = one.start + one.length
        yield MappingRecord((major, minor, inode), pid, one.start, end, one.name, 0)


class FileReader:
    """Reads each mapped file once."""

    def __init__(
        self, found: ReadFiles, copies: ImageCopies | None = None, served: ServedFiles | None = None
    ) -> None:
        """Prepare.

        Args:
            copies: takes files that may be gone later, None for none.
            served: reads files on FUSE file systems, None to leave these out.
        """
        self._found = found
        self._copies = copies
        self._versions: dict[File, _Version] = {}
        self._since_epoch_ns = time.time_ns() - monotonic_ns()
        self._mounts = Mounts()
        self._served = served
        self._asked: dict[tuple[File, bytes], _OnFuse] = {}

    def look(self, mappings: Iterator[MappingRecord]) -> None:
        """Look at each file of some mappings once, by the newest: that most likely still exists."""
        newest: dict[File, MappingRecord] = {}
        first_ns: dict[File, int] = {}
        ranges = []
        for mapping in mappings:
            newest[mapping.file] = mapping
            first_ns.setdefault(mapping.file, mapping.time_ns)
            ranges.append(mapping)
        for file, mapping in newest.items():
            self._look_at(mapping, first_ns[file])
        if self._copies:
            self._copies.see(ranges)
        if self._served:
            for mapping in ranges if self._asked else ():
                asked = self._asked.get((mapping.file, mapping.path))
                if asked and asked.is_awaited and len(asked.mappings) < MOST_RANGES:
                    asked.mappings.append(mapping)
            self._take_served(self._served)

    def finish(self) -> list[int]:
        """Take the last answers about files on FUSE file systems; return the reading children."""
        if not self._served:
            return []
        until_s = time.monotonic() + SERVED_LAST_WORD_S
        while self._served.is_busy and (left_s := until_s - time.monotonic()) > 0:
            select.select((self._served.fd,), (), (), left_s)
            self._take_served(self._served)
        self._served.close()
        self._found.count(late=sum(one.is_awaited for one in self._asked.values()))
        return self._served.pids

    def status_at(self, path: bytes) -> os.stat_result | None:
        """Return the status of the file at a path of the reader's root, None for none."""
        try:
            return None if self._mounts.are_served(path) else os.stat(path)
        except (OSError, ValueError):
            return None

    def _look_at(self, mapping: MappingRecord, first_ns: int) -> None:
        fd = self._mounts.open_mapped(mapping)
        if fd < 0:
            if not (self._served and self._ask(mapping, first_ns, self._served)):
                self._found.count(late=1)
            return
        try:
            status = os.fstat(fd)
            # A user can set back a file's modification time, not its change time.
            identity = status.st_size, status.st_mtime_ns, status.st_ctime_ns, b""
            known = self._versions.get(mapping.file)
            build_id = b""
            if known and known.identity == identity:
                build_id = known.build_id
            elif stat.S_ISREG(status.st_mode):
                build_id = _read_build_id(fd)
            is_new = self._note(mapping, first_ns, identity, build_id)
            if self._copies:
                self._copies.consider(mapping, fd, build_id, is_new=is_new)
        except OSError:
            self._found.count(late=1)
        finally:
            os.close(fd)

    def _note(
        self, mapping: MappingRecord, first_ns: int, identity: Identity, build_id: bytes
    ) -> bool:
        """Note the content of a file; return whether that is new."""
        known = self._versions.get(mapping.file)
        now_ns = monotonic_ns()
        # With the same build id, it was renamed or unlinked, or its mode changed.
        if known and (known.identity == identity or (build_id and known.build_id == build_id)):
            self._found.extend(known.row, now_ns)
            self._versions[mapping.file] = known._replace(identity=identity, until_ns=now_ns)
            return False
        since_ns = self._valid_since(identity, known, now_ns)
        if 0 < first_ns < since_ns:
            self._found.count(late=1)
        path = mapping.path.removesuffix(DELETED)
        row = self._found.add(ReadFile(*mapping.file, since_ns, now_ns, build_id, path))
        if row >= 0:
            self._versions[mapping.file] = _Version(row, identity, build_id, now_ns)
        return True

    def _ask(self, mapping: MappingRecord, first_ns: int, served: ServedFiles) -> bool:
        """Have a file read if it is on a FUSE file system; return False if it will not be."""
        key = mapping.file, mapping.path
        file = self._asked.get(key) or _OnFuse([])
        if file.is_awaited:
            return True
        known = self._versions.get(mapping.file)
        if known and known.identity[3] != mapping.path:
            known = None
        if time.monotonic() - file.answered_s < SERVED_AGAIN_S:
            if known:
                self._note(mapping, first_ns, known.identity, known.build_id)
                return True
            if file.failures >= MOST_SERVED_TRIES:
                return False
        served_by = self._mounts.server_of(mapping)
        if served_by is None or not (self._copies and self._copies.is_wanted(mapping)):
            return False
        if key not in self._asked and len(self._asked) >= MOST_MAPPED_FILES:
            return False
        self._asked[key] = file
        largest = self._copies.largest_whole_bytes(mapping.pid)
        facts = known.identity[:3] if known else ()
        file.is_awaited = served.ask(mapping, first_ns, served_by, largest, facts)
        return file.is_awaited

    def _take_served(self, served: ServedFiles) -> None:
        """Take answers about files on FUSE file systems; start reading others."""
        for one in served.answers():
            mapping = one.asked.mapping
            file = self._asked[mapping.file, mapping.path]
            file.is_awaited, file.answered_s = False, time.monotonic()
            try:
                self._note_served(one)
            except OSError:
                file.failures += 1
                self._found.count(late=1)
            if self._copies:
                self._copies.see(file.mappings)
            file.mappings.clear()
        served.start()

    def _note_served(self, one: ServedFile) -> None:
        """Note the content of a file on a FUSE file system, and keep a copy if it is new.

        Raises:
            OSError: it was not read, or there is no memory.
        """
        answer, mapping = one.answer, one.asked.mapping
        if answer is None:
            raise FileNotFoundError
        known = self._versions.get(mapping.file)
        identity = answer.size, answer.modified_ns, answer.changed_ns, mapping.path
        if one.is_copied:
            build_id = _read_build_id(one.fd)
        elif known and known.identity == identity:
            build_id = known.build_id
        else:
            raise FileNotFoundError  # a file at another path was read meanwhile
        if self._note(mapping, one.asked.first_ns, identity, build_id) and self._copies:
            self._copies.add_served(one.as_copied(answer, build_id), one.fd)

    def _valid_since(self, identity: Identity, known: _Version | None, now_ns: int) -> int:
        """Return the time since which a file has its content.

        For a file that had other content before, this takes the change time, which nobody can set,
        because `cp -p` sets the modification time.
        """
        _, modified_ns, changed_ns, _ = identity
        if known:
            return max(known.until_ns, min(changed_ns - self._since_epoch_ns, now_ns))
        since_ns = modified_ns - self._since_epoch_ns
        return since_ns if 0 < since_ns <= now_ns else 0


class Mounts:
    """Opens mapped files on file systems that cannot block the reader."""

    def __init__(self) -> None:
        # (major, minor) → the last time when it was that of a file system without a server
        self._plain: dict[tuple[int, int], float] = {}
        # st_dev of files by the device of their mappings: btrfs and overlayfs have two.
        self._devices: dict[tuple[int, int], set[int]] = {}
        # by process
        self._served: dict[int | str, tuple[bytes, ...]] = {}
        self._looked_s = 0.0
        fd = os.memfd_create("device", os.MFD_CLOEXEC)
        memory = os.fstat(fd).st_dev
        os.close(fd)
        self._memory = os.major(memory), os.minor(memory)

    def open_mapped(self, mapping: MappingRecord) -> int:
        """Return an O_PATH descriptor of the mapped file, -1 if it is not available."""
        major, minor, inode = mapping.file
        if not self._is_plain(mapping):
            return -1
        devices = self._devices.get((major, minor))
        if devices is None:
            devices = self._devices[major, minor] = {os.makedev(major, minor)}
        for link, is_path in self._places(mapping):
            fd = -1
            try:
                fd = os.open(link, _PATH_ONLY)
                status = os.fstat(fd)
            except (OSError, ValueError):
                status = None
            if status and status.st_ino == inode and (status.st_dev in devices or not is_path):
                devices.add(status.st_dev)
                return fd
            if fd >= 0:
                os.close(fd)
        return -1

    def _places(self, mapping: MappingRecord) -> Iterator[tuple[bytes, bool]]:
        """Yield the places to look at, and whether each is a path, which can name any file."""
        yield from ((link, False) for link in mapped_links(mapping))
        if not mapping.path.startswith(b"/"):
            return
        if not self.are_served(mapping.path):
            yield mapping.path, True
        # Users may not read map_files; their own processes lead to no other user's server.
        path = mapping.path.removesuffix(DELETED)
        if os.geteuid() and not self.are_served(path, mapping.pid):
            yield b"/proc/%d/root%b" % (mapping.pid, path), True

    def are_served(self, path: bytes, who: int | str = "self") -> bool:
        """Return whether a path is on a FUSE file system in the eyes of a process."""
        now = time.monotonic()
        if now - self._looked_s > _FRESH_S:
            self._looked_s = now
            self._served.clear()
        if who not in self._served:
            found = (one for one in _mounts_with(b" - fuse", who) if one.served_by is not None)
            self._served[who] = tuple(one.point.rstrip(b"/") + b"/" for one in found)
        return (path + b"/").startswith(self._served[who])

    def server_of(self, mapping: MappingRecord) -> int | None:
        """Return the user who serves the FUSE file system of a mapping, None if it is not FUSE.

        It is EVERYBODY if only the table of another process has the mount: a user namespace may
        number users in there.
        """
        for who in ("self", mapping.pid):
            for one in _mounts_with(b" %d:%d " % mapping.file[:2], who):
                if one.served_by is not None:
                    return one.served_by if who == "self" else EVERYBODY
        return None

    def _is_plain(self, mapping: MappingRecord) -> bool:
        """Return whether the file system of a mapping is known not to be FUSE.

        A device number of major 0 may be another file system's a moment later. A file system that
        is not mounted any more is unknown.
        """
        device = mapping.file[:2]
        now = time.monotonic()
        if now - self._plain.get(device, -_FRESH_S) < (_FRESH_S if not device[0] else float("inf")):
            return True
        is_known = bool(device[0]) or device == self._memory
        for who in (mapping.pid, "self"):
            for one in _mounts_with(b" %d:%d " % device, who):
                if one.served_by is not None:
                    return False
                is_known = True
        if is_known:
            self._plain[device] = now
        return is_known


def _mounts_with(text: bytes, who: int | str) -> list[Mount]:
    """Return the mounts whose lines in a process's table contain a text; parse no others."""
    lines = read_if_there(f"/proc/{who}/mountinfo").splitlines()
    return [*mounts(b"\n".join(line for line in lines if text in line))]


def _read_build_id(path_fd: int) -> bytes:
    """Return the GNU build id of a regular file, empty if it has none or is no ELF file."""
    fd = os.open(f"/proc/self/fd/{path_fd}", _READ)
    try:
        return _build_id_of(fd)
    except (struct.error, OverflowError):
        return b""  # it is damaged
    finally:
        os.close(fd)


def _build_id_of(fd: int) -> bytes:
    # In nearly every file, the first page has all that is needed.
    header = os.pread(fd, _PAGE_BYTES, 0)
    if len(header) < 52 or header[:4] != b"\x7fELF" or header[5] != _LITTLE_ENDIAN:
        return b""
    if header[4] not in _HEADER_FIELDS:
        return b""
    table_at, form, counts_at = _HEADER_FIELDS[header[4]]
    (table,) = struct.unpack_from("<" + form, header, table_at)
    each, count = struct.unpack_from("<HH", header, counts_at)
    segment = _SEGMENTS[header[4]]
    if each < segment.size or table > 1 << 62:
        return b""
    segments = _content(fd, header, table, each * min(count, MOST_FILE_SEGMENTS))
    for at in range(0, len(segments) - segment.size + 1, each):
        kind, begin, size = segment.unpack_from(segments, at)
        if kind == _PT_NOTE and begin <= 1 << 62:
            build_id = gnu_build_id(_content(fd, header, begin, min(size, MOST_NOTES_BYTES)))
            if build_id:
                return build_id[:20]
    return b""


def _content(fd: int, beginning: bytes, at: int, size: int) -> bytes:
    """Return bytes of a file, from its beginning if that is long enough."""
    end = at + size
    return beginning[at:end] if end <= len(beginning) else os.pread(fd, size, at)
