"""The process that holds files in which JITs name their code open until the recording ends.

At the end it copies the map files ``perf-PID.map`` of /tmp, and of the /tmp of processes that have
another root, and those jitdump files ``jit-PID.dump`` that a report cannot find later. Programs
delete their files, containers vanish with their /tmp, and pids are reused; an open file stays
readable.

The holder opens new names as they appear, and looks up each process's /tmp every two seconds. It
opens the /tmp of another root again each time: an open directory keeps a file system from being
unmounted. Before it touches files of a place, it writes the place into `Progress`: the recorder
gives up a holder that is held up.

Defined by: ``tools/perf/Documentation/jit-interface.txt``; openat2(2); inotify(7),
``include/uapi/linux/inotify.h``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import stat
import struct
import time

from prospect.capture.capture_limits import (
    LARGEST_JIT_FILE_BYTES,
    MOST_DIRECTORIES,
    MOST_JIT_BYTES,
    MOST_JIT_FILES,
    MOST_MOUNT_BYTES,
    MOST_NAME_READS,
)
from prospect.capture.kernel.perf_syscalls import checked, libc
from prospect.capture.kernel.procfs import list_pids, names_in, read_if_there, stat_fields
from prospect.files.child import Progress, tell
from prospect.files.mounts import waiting_points
from prospect.light import Descriptor, monotonic_ns
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from typing import Any

_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_IN_Q_OVERFLOW = 0x4000
_IN_ONLYDIR = 0x01000000
# i32 wd, u32 mask, u32 cookie, u32 bytes of the name that follows, padded with zeros
_EVENT = struct.Struct("=iIII")
_EVENTS_BYTES = 1 << 16
_SWEEP_S = 2.0
# The pause after each look at new files: builds make thousands a second.
_PAUSE_S = 0.25
_OWN_PLACE = 1
_READ_BYTES = 1 << 20
_PATH_ONLY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_SYS_OPENAT2 = 437
_RESOLVE_NO_XDEV = 1
_OPEN_HOW = struct.Struct("=QQQ")


class DirectoryWatch:
    """Watches directories; if the kernel refuses, it never reports anything.

    Attributes:
        fd: readable when a file has appeared, -1 if the kernel refuses.
    """

    def __init__(self) -> None:
        self._add = libc().inotify_add_watch
        self._add.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
        self.fd = libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)  # IN_NONBLOCK | IN_CLOEXEC

    def add(self, path: bytes) -> int:
        """Watch a directory; return its number, the same by any name, or -1 on failure."""
        if self.fd < 0:
            return -1
        return int(self._add(self.fd, path, _IN_CREATE | _IN_MOVED_TO | _IN_ONLYDIR))

    def appeared(self) -> tuple[list[tuple[int, bytes]], bool]:
        """Return (directory, name) of new files since the last call, and whether that is all."""
        found: list[tuple[int, bytes]] = []
        is_all = True
        for _ in range(MOST_NAME_READS if self.fd >= 0 else 0):
            try:
                content = os.read(self.fd, _EVENTS_BYTES)
            except OSError:
                break
            at = 0
            while at < len(content):
                number, mask, _, length = _EVENT.unpack_from(content, at)
                at += _EVENT.size
                is_all &= not mask & _IN_Q_OVERFLOW
                found.append((number, content[at : at + length].rstrip(b"\0")))
                at += length
        return found, is_all

    def close(self) -> None:
        """Stop watching."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def serve(
    stop_fd: int, result_fd: int, progress: Progress, silent: AbstractSet[int], own_tmp: bytes
) -> None:
    """Hold files until `stop_fd` is at its end; then write their contents, marshalled.

    Args:
        stop_fd: a pipe's end.
        result_fd: an empty file.
        progress: takes the place that is being touched, and at the end the size of the result.
        silent: places to leave alone, because an earlier holder was held up there.
        own_tmp: the directory for files of processes that have the recorder's root.
    """
    holder = JitFileHolder(progress, silent, own_tmp=own_tmp)
    watched = [fd for fd in (stop_fd, holder.fd) if fd >= 0]
    is_over = False
    while not is_over:
        holder.look()
        ready, _, _ = select.select(watched, (), (), _SWEEP_S)
        is_over = stop_fd in ready
        if ready and not is_over:
            holder.look()
            is_over = bool(select.select((stop_fd,), (), (), _PAUSE_S)[0])
    copies = holder.collect()
    import resource  # noqa: PLC0415 - at the end

    used = resource.getrusage(resource.RUSAGE_SELF)
    used_s = used.ru_utime, used.ru_stime
    progress.finish(tell(result_fd, {"copies": copies, "limits": holder.limits, "used_s": used_s}))


class _Directory(NamedTuple):
    """A watched /tmp.

    Attributes:
        fd: a descriptor of the recorder's own /tmp; -1 for another root's, to let it be unmounted.
        place: a mount namespace or _OWN_PLACE.
        path: leads to it while the process in it lives.
    """

    fd: int
    place: int
    path: bytes

    @property
    def is_own(self) -> bool:
        """Whether it is the recorder's."""
        return self.place == _OWN_PLACE


class _Held(NamedTuple):
    """A file that is held open.

    Attributes:
        fd: readable.
        kind: "map" or "dump".
        own_pid: the pid in its name.
        pid: the process's pid in the recorder's namespace, 0 as long as it is unknown.
    """

    fd: int
    kind: str
    own_pid: int
    pid: int


class JitFileHolder:
    """Holds the files of one recording.

    Attributes:
        fd: readable when files have appeared, -1 if the kernel does not report them.
        limits: sentences about files that were not kept.
    """

    def __init__(
        self,
        progress: Progress,
        silent: AbstractSet[int] = frozenset(),
        proc: str = "/proc",
        own_tmp: bytes = b"/tmp",
    ) -> None:
        self._progress = progress
        self._silent = silent
        self._proc = proc
        self._own_tmp = own_tmp
        self._watch = DirectoryWatch()
        self.fd = self._watch.fd
        self._directories: dict[tuple[int, int], _Directory] = {}
        self._numbers: dict[int, tuple[int, int]] = {}
        self._held: dict[tuple[int, int], tuple[tuple[int, int], _Held]] = {}
        self._begun_s = time.time()
        self._swept_s = -_SWEEP_S
        self._left_out = 0
        self.limits: list[str] = []
        if _OWN_PLACE not in silent:
            progress.at(_OWN_PLACE)
            self._follow(own_tmp, _OWN_PLACE)
            progress.at(0)

    def look(self) -> None:
        """Open files that have appeared; from time to time, look into all directories."""
        appeared, is_all = self._watch.appeared()
        for number, name in appeared:
            key = self._numbers.get(number)
            if key:
                self._hold(key, name)
        now_s = time.monotonic()
        if not is_all or now_s - self._swept_s >= _SWEEP_S:
            self._swept_s = now_s
            self._sweep()
        self._progress.at(0)

    def collect(self) -> list[dict[str, Any]]:
        """Return copies of the files, for the recording's description; see docs/recording.md."""
        self._swept_s = -_SWEEP_S
        self.look()
        copies: list[dict[str, Any]] = []
        left = MOST_JIT_BYTES
        clock_ns = time.time_ns() - monotonic_ns()
        for key, held in self._held.values():
            directory = self._directories[key]
            self._progress.at(directory.place)
            status = os.fstat(held.fd)
            # Reports read a dump that is still in its place.
            if not held.pid or (held.kind == "dump" and directory.is_own and status.st_nlink):
                continue
            if status.st_size > min(left, LARGEST_JIT_FILE_BYTES):
                self._left_out += 1
                continue
            content = self._read(held.fd, status.st_size, directory.place)
            self._progress.at(0)
            left -= len(content)
            copy = {"pid": held.pid, "kind": held.kind, "zlib": _packed(content)}
            if held.kind == "map":
                copy["modified_ns"] = max(status.st_mtime_ns - clock_ns, 1)
            copies.append(copy)
        if self._left_out:
            self.limits.append(
                f"Files with names of JIT code that were not copied: {self._left_out}. At most"
                f" {MOST_JIT_FILES} are, of {LARGEST_JIT_FILE_BYTES >> 20} MiB each and"
                f" {MOST_JIT_BYTES >> 20} MiB together."
            )
        return copies

    def close(self) -> None:
        """Close all files."""
        self._watch.close()
        for fd in [held.fd for _, held in self._held.values()]:
            os.close(fd)
        for directory in self._directories.values():
            if directory.is_own:
                os.close(directory.fd)
        self._held, self._directories = {}, {}

    def _follow(self, path: bytes, place: int) -> tuple[int, int] | None:
        """Watch a directory, unless it is watched already; return its identity."""
        try:
            # A link below another root could lead anywhere outside it.
            link = 0 if place == _OWN_PLACE else os.O_NOFOLLOW
            fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | link)
        except OSError:
            return None
        status = os.fstat(fd)
        key = status.st_dev, status.st_ino
        known = self._directories.get(key)
        if known:
            self._directories[key] = known._replace(path=path)
        if known or len(self._directories) >= MOST_DIRECTORIES:
            os.close(fd)
            return key if known else None
        self._numbers[self._watch.add(b"/proc/self/fd/%d" % fd)] = key
        if place != _OWN_PLACE:
            os.close(fd)
            fd = -1
        self._directories[key] = _Directory(fd, place, path)
        return key

    def _enter(self, key: tuple[int, int]) -> int:
        """Return a new descriptor of a watched directory.

        Raises:
            OSError: it is not there any more.
        """
        directory = self._directories[key]
        if directory.is_own:
            return os.dup(directory.fd)
        fd = os.open(directory.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        status = os.fstat(fd)
        if key != (status.st_dev, status.st_ino):
            os.close(fd)
            raise FileNotFoundError
        return fd

    def _sweep(self) -> None:
        """Look into every directory, and find the processes of files in other roots."""
        own = next((key for key, one in self._directories.items() if one.is_own), None)
        pids_of: dict[tuple[int, int], list[int]] = {}
        for (place, _), pids in self._roots().items():
            self._progress.at(place)
            key = self._follow(f"{self._proc}/{pids[0]}/root".encode() + self._own_tmp, place)
            if key and key != own:
                pids_of.setdefault(key, []).extend(pids)
        for key, directory in self._directories.items():
            self._progress.at(directory.place)
            try:
                with Descriptor(self._enter(key)) as fd:
                    names = names_in(f"/proc/self/fd/{fd}")
            except OSError:
                continue
            for name in names:
                self._hold(key, os.fsencode(name))
        self._name_owners(pids_of)

    def _roots(self) -> dict[tuple[int, str], list[int]]:
        """Return {(mount namespace, root): pids} of roots whose /tmp probably does not block.

        The kernel's mount tables say so. They are no promise: a mount may be made the next moment,
        or be below another one.
        """
        waiting: dict[int, frozenset[bytes]] = {}
        found: dict[tuple[int, str], list[int]] = {}
        # Kernel threads have no files of a JIT, and are often more than all other processes.
        kernel_threads = set(read_if_there(f"{self._proc}/2/task/2/children").split())
        if read_if_there(f"{self._proc}/2/comm") != b"kthreadd\n":
            kernel_threads.clear()
        for pid in list_pids(self._proc):
            if b"%d" % pid in kernel_threads:
                continue
            directory = f"{self._proc}/{pid}"
            try:
                place = int(os.readlink(f"{directory}/ns/mnt").strip("mnt:[]"))
                root = os.readlink(f"{directory}/root")
            except (OSError, ValueError):
                continue
            if place not in waiting:
                mounts = read_if_there(f"{directory}/mountinfo", MOST_MOUNT_BYTES)
                waiting[place] = waiting_points(mounts)
            above = os.fsencode(root).rstrip(b"/")
            places = (b"/", above or b"/", above + self._own_tmp)
            if place not in self._silent and waiting[place].isdisjoint(places):
                found.setdefault((place, root), []).append(pid)
        return found

    def _hold(self, key: tuple[int, int], name: bytes) -> None:
        """Open a file if its name is that of a JIT's file, and its owner may have written it."""
        kind, own_pid = _kind_and_pid(name)
        if not kind:
            return
        directory = self._directories[key]
        self._progress.at(directory.place)
        try:
            with Descriptor(self._enter(key)) as entered:
                found = _open_below(entered, name)
            with Descriptor(found):
                status = os.fstat(found)
                identity = status.st_dev, status.st_ino
                if identity in self._held or not stat.S_ISREG(status.st_mode):
                    return
                if directory.is_own and not self._is_believable(status, own_pid):
                    return
                if len(self._held) >= MOST_JIT_FILES:
                    self._left_out += 1
                    return
                fd = os.open(f"/proc/self/fd/{found}", _READ)
        except OSError:
            return
        pid = own_pid if directory.is_own else 0
        self._held[identity] = key, _Held(fd, kind, own_pid, pid)

    def _name_owners(self, pids_of: dict[tuple[int, int], list[int]]) -> None:
        """Find the processes of files in other roots, where they may have other pids."""
        for identity, (key, held) in self._held.items():
            if held.pid:
                continue
            self._progress.at(self._directories[key].place)
            for pid in pids_of.get(key, ()):
                if _innermost_pid(f"{self._proc}/{pid}") == held.own_pid and self._is_believable(
                    os.fstat(held.fd), pid
                ):
                    self._held[identity] = key, held._replace(pid=pid)
                    break

    def _read(self, fd: int, size: int, place: int) -> bytes:
        parts: list[bytes] = []
        at = 0
        while at < size and (part := os.pread(fd, min(size - at, _READ_BYTES), at)):
            self._progress.at(place)
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    def _is_believable(self, status: os.stat_result, pid: int) -> bool:
        """Return whether the process may have written the file: /tmp is open to every user.

        The file of a process that has ended counts only if its owner is the recorder's user, and
        if it was written to since the recording began: /tmp is full of older ones. A file that is
        older than its process is of an earlier process with the same pid.
        """
        directory = f"{self._proc}/{pid}"
        owners, since_s = {0, os.geteuid()}, self._begun_s - 1.0
        try:
            owners.add(os.stat(directory).st_uid)
            since_s = _started_at(directory)
        except OSError:
            pass  # it has ended
        return status.st_uid in owners and status.st_mtime >= since_s


def _packed(content: bytes) -> str:
    import base64  # noqa: PLC0415 - few recordings have such files
    import zlib  # noqa: PLC0415 - few recordings have such files

    return base64.b64encode(zlib.compress(content, 1)).decode("ascii")


def _kind_and_pid(name: bytes) -> tuple[str, int]:
    for kind, prefix, suffix in (("map", b"perf-", b".map"), ("dump", b"jit-", b".dump")):
        number = name[len(prefix) : -len(suffix)]
        if name.startswith(prefix) and name.endswith(suffix) and number.isdigit():
            return (kind, int(number)) if len(number) <= 10 else ("", 0)
    return "", 0


def _innermost_pid(directory: str) -> int:
    """Return the pid of a process in its own namespace, 0 if it has ended."""
    for line in read_if_there(f"{directory}/status").splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return 0


def _started_at(directory: str) -> float:
    """Return the start of a process, in seconds since the epoch, rounded down; 0.0 if unknown."""
    fields = stat_fields(directory)
    if len(fields) < 20:
        return 0.0
    booted_at = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted_at + int(fields[19]) / os.sysconf("SC_CLK_TCK") - 1


def _open_below(directory_fd: int, name: bytes) -> int:
    """Open the path (O_PATH) of a name in a directory, unless a file system is mounted there."""
    how = _OPEN_HOW.pack(_PATH_ONLY, 0, _RESOLVE_NO_XDEV)
    size = ctypes.c_size_t(len(how))
    fd: int = libc().syscall(ctypes.c_long(_SYS_OPENAT2), directory_fd, name, how, size)
    if fd >= 0:
        return fd
    # Linux before 5.6 does not have the call, and some containers forbid it.
    if ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):
        return os.open(name, _PATH_ONLY, dir_fd=directory_fd)
    return checked(fd)
