"""The process that reads the build ids of mapped files, as soon as they are mapped, and whole maps.

A file is identified by the device and inode of its MMAP2 record. It is opened where the process has
it mapped (``/proc/PID/map_files``, for root), as the process's executable, or at its path, for
other users below the process's root too, if device and inode are the recorded ones there. It is
read once, and again if its size, or its time of modification or change, is another when it is
mapped again. No file on a FUSE file system is opened: its server could make the reader wait for
ever.

Defined by: proc(5); ``include/uapi/linux/perf_event.h`` (Linux 6.18); the gABI, "Note Section".
"""

from __future__ import annotations

import os
import select
import stat
import struct
import time

from prospect.capture.capture_limits import MOST_FILE_SEGMENTS, MOST_NOTES_BYTES
from prospect.capture.kernel.procfs import living_thread, read_if_there
from prospect.capture.machine.image_copies import DELETED, ImageCopies
from prospect.capture.machine.kernel_maps import gnu_build_id
from prospect.capture.machine.map_reader import MapReader, sooner
from prospect.capture.machine.mapping_records import MappingRecord, drained
from prospect.capture.machine.read_files import NUMBER_BYTES, ReadFile
from prospect.capture.machine.runtime_processes import FirstRuntime, JvmNews
from prospect.capture.machine.synthesis import Map
from prospect.files.child import told
from prospect.light import monotonic_ns
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from prospect.capture.kernel.rings import Ring
    from prospect.capture.machine.read_files import ReadFiles

    File = tuple[int, int, int]

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
    """A file as it was when it was last looked at: a row, and what identifies it."""

    row: int
    identity: tuple[int, int, int]
    build_id: bytes
    until_ns: int


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
        found: takes what is read.
        before_fds: a pipe that says how long the list of files mapped before is, and
            where that list is; what is read of maps is written there.
        watched: whose maps are read.
    """
    family = tuple(filter(lambda pid: pid > 0, (watched.command_pid, *watched.attached)))
    family = () if watched.of_all else family
    copies = ImageCopies(watched.copies_fd, watched.begun_ns, watched.attached, family)
    reader = FileReader(found, copies)
    maps = MapReader(watched.command_pid, attached=watched.attached)
    python = FirstRuntime(watched.python_fd)
    jvms = JvmNews(watched.jvms_fd)
    before_fd, before = before_fds
    poll = select.poll()
    for fd in (stop_fd, before_fd, *rings):
        poll.register(fd, select.POLLIN)
    is_over = False
    while not is_over:
        ready = _ready(poll, sooner(maps.wait_ms(), python.wait_ms()), before_fd)
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
    maps.finish(before, copies.finish(reader.status_at))


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

    def __init__(self, found: ReadFiles, copies: ImageCopies | None = None) -> None:
        """Know none."""
        self._found = found
        self._copies = copies or ImageCopies()
        self._versions: dict[File, _Version] = {}
        self._since_epoch_ns = time.time_ns() - monotonic_ns()
        self._mounts = Mounts()

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
        self._copies.see(ranges)

    def status_at(self, path: bytes) -> os.stat_result | None:
        """Return the status of the file at a path of our root, None for none."""
        try:
            return None if self._mounts.are_served(path) else os.stat(path)
        except (OSError, ValueError):
            return None

    def _look_at(self, mapping: MappingRecord, first_ns: int) -> None:
        fd = self._mounts.open_mapped(mapping)
        if fd < 0:
            self._found.count(late=1)
            return
        try:
            status = os.fstat(fd)
            known = self._versions.get(mapping.file)
            # A user can set back the time of modification of a file.
            identity = status.st_size, status.st_mtime_ns, status.st_ctime_ns
            now_ns = monotonic_ns()
            is_same = known is not None and known.identity == identity
            build_id = b""
            if not is_same and stat.S_ISREG(status.st_mode):
                build_id = _read_build_id(fd)
                # It may have been renamed or unlinked, or its mode changed.
                is_same = bool(build_id) and known is not None and known.build_id == build_id
            if known and is_same:
                self._found.extend(known.row, now_ns)
                self._versions[mapping.file] = known._replace(identity=identity, until_ns=now_ns)
                self._copies.consider(mapping, fd, known.build_id, is_new=False)
                return
            since_ns = self._valid_since(status, known, now_ns)
            if 0 < first_ns < since_ns:
                self._found.count(late=1)
            path = mapping.path.removesuffix(DELETED)
            row = self._found.add(ReadFile(*mapping.file, since_ns, now_ns, build_id, path))
            if row >= 0:
                self._versions[mapping.file] = _Version(row, identity, build_id, now_ns)
            self._copies.consider(mapping, fd, build_id, is_new=True)
        except OSError:
            self._found.count(late=1)
        finally:
            os.close(fd)

    def _valid_since(self, status: os.stat_result, known: _Version | None, now_ns: int) -> int:
        """Return since when a file has held what it holds.

        A file that was seen before with other contents shows it not by its time of modification,
        which `cp -p` sets, but its time of change, which nobody can set.
        """
        if known:
            changed_ns = status.st_ctime_ns - self._since_epoch_ns
            return max(known.until_ns, min(changed_ns, now_ns))
        modified_ns = status.st_mtime_ns - self._since_epoch_ns
        return modified_ns if 0 < modified_ns <= now_ns else 0


class Mounts:
    """Opens mapped files, on file systems that cannot hold the reader up."""

    def __init__(self) -> None:
        # (major, minor) → when it was last seen to be that of a file system without a server
        self._plain: dict[tuple[int, int], float] = {}
        # st_dev of files by the device of their mappings: btrfs and overlayfs have two.
        self._devices: dict[tuple[int, int], set[int]] = {}
        self._own_served: tuple[bytes, ...] = ()
        self._own_looked = 0.0
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
            try:
                fd = os.open(link, _PATH_ONLY)
            except (OSError, ValueError):
                continue
            status = os.fstat(fd)
            if status.st_ino == inode and (status.st_dev in devices or not is_path):
                devices.add(status.st_dev)
                return fd
            os.close(fd)
        return -1

    def _places(self, mapping: MappingRecord) -> Iterator[tuple[bytes, bool]]:
        """Return the places to look at, and whether each is a path, which can name any file."""
        yield b"/proc/%d/map_files/%x-%x" % (mapping.pid, mapping.start, mapping.end), False
        yield b"/proc/%d/exe" % mapping.pid, False
        if (thread := living_thread(mapping.pid)) != mapping.pid:
            yield b"/proc/%d/map_files/%x-%x" % (thread, mapping.start, mapping.end), False
        if mapping.path.startswith(b"/") and not self.are_served(mapping.path):
            yield mapping.path, True
        # Users have no map_files. Their own processes cannot lead them to what others serve.
        if os.geteuid() and mapping.path.startswith(b"/"):
            path = mapping.path.removesuffix(DELETED)
            points = [point for _, point in _served_mounts(f"/proc/{mapping.pid}/mountinfo")]
            if not any(path.startswith(point.rstrip(b"/") + b"/") for point in points):
                yield b"/proc/%d/root%b" % (mapping.pid, path), True

    def are_served(self, path: bytes) -> bool:
        """Return whether a path of our root is on a FUSE file system."""
        now = time.monotonic()
        if now - self._own_looked > _FRESH_S:
            mounts = _served_mounts("/proc/self/mountinfo")
            self._own_looked, self._own_served = now, tuple(point for _, point in mounts)
        served = self._own_served
        return any(path == point or path.startswith(point + b"/") for point in served)

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
        for who in (str(mapping.pid), "self"):
            for line in read_if_there(f"/proc/{who}/mountinfo").splitlines():
                if line.split(b" ", 3)[2] == b"%d:%d" % device:
                    if _is_fuse(line):
                        return False
                    is_known = True
        if is_known:
            self._plain[device] = now
        return is_known


def _served_mounts(path: str) -> list[tuple[bytes, bytes]]:
    """Return device and mount point of FUSE file systems."""
    lines = (line for line in read_if_there(path).splitlines() if _is_fuse(line))
    fields = (line.split(b" ") for line in lines)
    return [(words[2], _unescaped(words[4])) for words in fields]


def _is_fuse(mountinfo_line: bytes) -> bool:
    return mountinfo_line.partition(b" - ")[2].startswith(b"fuse")


def _unescaped(text: bytes) -> bytes:
    for octal, byte in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        text = text.replace(octal, byte)
    return text


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
