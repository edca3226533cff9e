"""The process that reads the build ids of mapped files, as soon as they are mapped, and whole maps.

A file is identified by the device and inode of its MMAP2 record. It is opened where the process has
it mapped (``/proc/PID/map_files``, for root), as the process's executable, or at its path, for
other users below the process's root too, if device and inode are the recorded ones there. It is
read once, and again if its size, or its time of modification or change, is another when it is
mapped again. A file on a FUSE file system, whose server could make the reader wait for ever, is
read by a child (`served_files`) if it would be copied.

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
from prospect.capture.machine.map_reader import MapReader, sooner
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

# How long mappings gather before they are looked at: a build makes thousands a second.
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
    """A file as it was when it was last looked at.

    Attributes:
        row: in the results.
        identity: size, times of modification and change; on FUSE also the path: the next file
            system that is mounted may get the same number, and give its files the same inodes.
        build_id: b"" for none.
        until_ns: when it was looked at.
    """

    row: int
    identity: Identity
    build_id: bytes
    until_ns: int


class _OnFuse(Record, frozen=False):
    """A file on a FUSE file system, by one of its paths.

    Attributes:
        mappings: since it was asked for, until the answer.
        is_awaited: whether there is no answer yet.
        answered_s: when the last answer came.
        failures: answers without content.
    """

    mappings: list[MappingRecord]
    is_awaited: bool = False
    answered_s: float = 0.0
    failures: int = 0


class Watched(NamedTuple):
    """The processes whose maps are read, and a reader of news that Python runs.

    Attributes:
        command_pid: COMMAND, -1 for none.
        is_chosen: whether only some tasks are followed.
        python_fd: a pipe's end that takes a byte once Python runs, -1 for none.
        attached: processes that were attached to.
        jvms_fd: a pipe's end that takes the processes that map HotSpot, -1 for none.
        copies_fd: a file that takes copies of files that will be gone, -1 for none.
        begun_ns: when the recording began, since the epoch.
        of_all: whether those of every process are copied, not of COMMAND and `attached` only.
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
        before_fds: a pipe that says how long the list of files mapped before is, and
            where that list is; what is read of maps is written there.
        watched: whose maps are read.
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
        wait_ms = sooner(maps.wait_ms(), python.wait_ms())
        ready = _ready(poll, sooner(wait_ms, served.wait_ms() if served else None), before_fd)
        is_over = stop_fd in ready
        sent = _sent_before(before_fd, before) if before_fd in ready else None
        mappings = list(drained(rings.values(), found))
        # First: until what reads its frames is loaded, Python has none.
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
    """Wait; return which descriptors are ready. Those whose CPU or process is gone are forgotten.

    Args:
        poll: knows the descriptors.
        wait_ms: how long at most, None for ever.
        once_fd: one that is ready once.
    """
    ready = poll.poll(wait_ms)
    for fd, what in ready:
        if what & ~select.POLLIN or fd == once_fd:
            poll.unregister(fd)
    return {fd for fd, _ in ready}


def _sent_before(
    before_fd: int, before: int
) -> tuple[list[tuple[Any, ...]], dict[int, int], list[int], list[int]]:
    """Return what the recorder found; nothing if it ended before it sent that."""
    os.read(before_fd, NUMBER_BYTES)
    nothing: tuple[Any, ...] = [], {}, [], []
    sent: tuple[list[tuple[Any, ...]], dict[int, int], list[int], list[int]]
    sent = told(before) or nothing
    os.ftruncate(before, 0)
    return sent


def _mapped_before(rows: Iterable[tuple[Any, ...]]) -> Iterator[MappingRecord]:
    """Give the mappings that the recorder found."""
    for major, minor, inode, pid, *fields in rows:
        one = Map(*fields)
        yield MappingRecord(
            (major, minor, inode), pid, one.start, one.start + one.length, one.name, 0, 0
        )


class FileReader:
    """Knows the files that were mapped so far."""

    def __init__(
        self,
        found: ReadFiles,
        copies: ImageCopies | None = None,
        served: ServedFiles | None = None,
    ) -> None:
        """Know none.

        Args:
            copies: takes files that may be gone, None for none.
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
        """Look at the files of some mappings, each once: the newest is likeliest to be there."""
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
        """Take the last answers about files on FUSE file systems; return the children that read."""
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
        """Return the status of the file at a path of our root, None for none."""
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
            # A user can set back the time of modification of a file.
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
        """Note what a file holds now; return whether that is new."""
        known = self._versions.get(mapping.file)
        now_ns = monotonic_ns()
        is_same = known is not None and known.identity == identity
        # It may have been renamed or unlinked, or its mode changed.
        is_same |= bool(build_id) and known is not None and known.build_id == build_id
        if known and is_same:
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
        """Have a file on a FUSE file system read; return False if it is none or will not be."""
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
        """Take what was read of files on FUSE file systems; have others read."""
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
        """Note what a file on a FUSE file system holds, and keep a copy of it if that is new.

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
        """Return since when a file has held what it holds.

        A file that was seen before with other contents shows it not by its time of modification,
        which `cp -p` sets, but its time of change, which nobody can set.
        """
        _, modified_ns, changed_ns, _ = identity
        if known:
            return max(known.until_ns, min(changed_ns - self._since_epoch_ns, now_ns))
        since_ns = modified_ns - self._since_epoch_ns
        return since_ns if 0 < since_ns <= now_ns else 0


class Mounts:
    """Opens mapped files, on file systems that cannot hold the reader up."""

    def __init__(self) -> None:
        # (major, minor) → when it was last seen to be that of a file system without a server
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
        """Return the places to look at, and whether each is a path, which can name any file."""
        yield from ((link, False) for link in mapped_links(mapping))
        if mapping.path.startswith(b"/") and not self.are_served(mapping.path):
            yield mapping.path, True
        # Users have no map_files. Their own processes cannot lead them to what others serve.
        if os.geteuid() and mapping.path.startswith(b"/"):
            path = mapping.path.removesuffix(DELETED)
            if not self.are_served(path, mapping.pid):
                yield b"/proc/%d/root%b" % (mapping.pid, path), True

    def are_served(self, path: bytes, who: int | str = "self") -> bool:
        """Return whether a path, as a process sees it, is on a FUSE file system."""
        now = time.monotonic()
        if now - self._looked_s > _FRESH_S:
            self._looked_s = now
            self._served.clear()
        if who not in self._served:
            found = (one for one in _mounts_with(b" - fuse", who) if one.served_by is not None)
            self._served[who] = tuple(one.point.rstrip(b"/") + b"/" for one in found)
        return (path + b"/").startswith(self._served[who])

    def server_of(self, mapping: MappingRecord) -> int | None:
        """Return whose program serves the FUSE file system of a mapping, None if it is no FUSE.

        The table of another process numbers users as a namespace does: EVERYBODY then.
        """
        for who in ("self", mapping.pid):
            for one in _mounts_with(b" %d:%d " % mapping.file[:2], who):
                if one.served_by is not None:
                    return one.served_by if who == "self" else EVERYBODY
        return None

    def _is_plain(self, mapping: MappingRecord) -> bool:
        """Return whether the file system of a mapping is known not to be FUSE.

        A device without its own number may be another file system's a moment later, and one
        that is mounted nowhere any more says nothing of itself.
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
    """Return the mounts whose lines in a process's table have a text; others are not parsed."""
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
    # One page has all of it, of nearly every file.
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
    """Return what a file holds at a place, of its beginning if that goes so far."""
    end = at + size
    return beginning[at:end] if end <= len(beginning) else os.pread(fd, size, at)
