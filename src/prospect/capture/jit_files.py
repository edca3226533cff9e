"""Files in which JITs name their code, held open from their beginning to the recording's end.

Comes in: /tmp, and the /tmp of processes that have another root. Goes out: copies of the map files
``perf-PID.map`` as they stand in the end, and of those jitdump files ``jit-PID.dump`` that nobody
will find later. Programs delete their files, containers vanish with their /tmp, numbers of
processes are used again: what is held open stays readable.

Nothing here happens at a sample: new names are read when the rings are, and every two seconds each
process's /tmp is looked up. Defined by: ``tools/perf/Documentation/jit-interface.txt``.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from typing import Any, NamedTuple

from prospect.capture.inotify import DirectoryWatch
from prospect.capture.procfs import read_if_there

_SWEEP_NS = 2_000_000_000
_MOST_FILES = 256
_MOST_DIRECTORIES = 256
LARGEST_FILE_BYTES = 1 << 26
MOST_BYTES = 1 << 27
_OWN_TMP = b"/tmp"
_PATH_ONLY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class _Directory(NamedTuple):
    """A watched /tmp: a descriptor of it, and whether it is that of the recorder itself."""

    fd: int
    is_own: bool


class _Held(NamedTuple):
    """A file that is held open.

    Attributes:
        fd: readable.
        kind: "map" or "dump".
        own_pid: the number in its name.
        pid: the process's number here, 0 as long as it is not known.
    """

    fd: int
    kind: str
    own_pid: int
    pid: int


class JitFiles:
    """Holds the files of one recording.

    Attributes:
        fd: readable when files have appeared, -1 where the kernel does not tell.
        limits: sentences about what was not kept.
    """

    def __init__(self, proc: str = "/proc", own_tmp: bytes = _OWN_TMP) -> None:
        self._proc = proc
        self._own_tmp = own_tmp
        self._watch = DirectoryWatch()
        self.fd = self._watch.fd
        self._directories: dict[tuple[int, int], _Directory] = {}
        self._numbers: dict[int, tuple[int, int]] = {}
        self._held: dict[tuple[int, int], tuple[tuple[int, int], _Held]] = {}
        self._begun_s = time.time()
        self._swept_ns = 0
        self._left_out = 0
        self.limits: list[str] = []
        self._follow(own_tmp, is_own=True)

    def look(self) -> None:
        """Open what appeared; best after each pass over the rings."""
        appeared, is_all = self._watch.appeared()
        for number, name in appeared:
            key = self._numbers.get(number)
            if key:
                self._hold(key, name)
        now_ns = time.monotonic_ns()
        if not is_all or now_ns - self._swept_ns >= _SWEEP_NS:
            self._swept_ns = now_ns
            self._sweep()

    def collect(self) -> list[dict[str, Any]]:
        """Return copies of the files, for the recording's description; see docs/recording.md."""
        import base64  # noqa: PLC0415 - after the command's end, as the next
        import zlib  # noqa: PLC0415 - likewise

        self._swept_ns = 0
        self.look()
        copies = []
        left = MOST_BYTES
        for key, held in self._held.values():
            status = os.fstat(held.fd)
            directory = self._directories[key]
            # A dump that is still to be found where it was is read there.
            if not held.pid or (held.kind == "dump" and directory.is_own and status.st_nlink):
                continue
            if status.st_size > min(left, LARGEST_FILE_BYTES):
                self._left_out += 1
                continue
            content = _read(held.fd, status.st_size)
            left -= len(content)
            packed = base64.b64encode(zlib.compress(content, 1)).decode("ascii")
            copies.append({"pid": held.pid, "kind": held.kind, "zlib": packed})
        if self._left_out:
            self.limits.append(
                f"{self._left_out} files with names of JIT code were not copied: at most"
                f" {_MOST_FILES} are, of {LARGEST_FILE_BYTES >> 20} MiB each and"
                f" {MOST_BYTES >> 20} MiB together."
            )
        return copies

    def close(self) -> None:
        """Let all files go."""
        self._watch.close()
        for fd in [held.fd for _, held in self._held.values()]:
            os.close(fd)
        for directory in self._directories.values():
            os.close(directory.fd)
        self._held, self._directories = {}, {}

    def _follow(self, path: bytes, *, is_own: bool) -> tuple[int, int] | None:
        """Watch a directory, unless it is watched already; return its identity."""
        try:
            # Below another root a link would lead out of it, wherever its owner likes.
            link = 0 if is_own else os.O_NOFOLLOW
            fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | link)
        except OSError:
            return None
        status = os.fstat(fd)
        key = status.st_dev, status.st_ino
        if key in self._directories or len(self._directories) >= _MOST_DIRECTORIES:
            os.close(fd)
            return key if key in self._directories else None
        self._directories[key] = _Directory(fd, is_own)
        self._numbers[self._watch.add(b"/proc/self/fd/%d" % fd)] = key
        return key

    def _sweep(self) -> None:
        """Look into every directory, and find out whose files are in the others' ones."""
        pids_of: dict[tuple[int, int], list[int]] = {}
        own = next(iter(self._directories), None)
        for pid in map(int, filter(str.isdecimal, os.listdir(self._proc))):
            path = f"{self._proc}/{pid}/root".encode() + self._own_tmp
            try:
                status = os.lstat(path)
            except OSError:
                continue
            key = status.st_dev, status.st_ino
            if key != own and (key in self._directories or self._follow(path, is_own=False)):
                pids_of.setdefault(key, []).append(pid)
        for key, directory in self._directories.items():
            with contextlib.suppress(OSError):
                for name in os.listdir(f"/proc/self/fd/{directory.fd}"):
                    self._hold(key, os.fsencode(name))
        self._name_owners(pids_of)

    def _hold(self, key: tuple[int, int], name: bytes) -> None:
        """Open a file if its name is one that a JIT gives, and if it may be believed."""
        kind, own_pid = _kind_and_pid(name)
        if not kind:
            return
        directory = self._directories[key]
        try:
            found = os.open(name, _PATH_ONLY, dir_fd=directory.fd)
        except OSError:
            return
        try:
            status = os.fstat(found)
            identity = status.st_dev, status.st_ino
            if identity in self._held or not stat.S_ISREG(status.st_mode):
                return
            if directory.is_own and not self._is_believable(status, own_pid):
                return
            if len(self._held) >= _MOST_FILES:
                self._left_out += 1
                return
            fd = os.open(f"/proc/self/fd/{found}", _READ)
        except OSError:
            return
        finally:
            os.close(found)
        pid = own_pid if directory.is_own else 0
        self._held[identity] = key, _Held(fd, kind, own_pid, pid)

    def _name_owners(self, pids_of: dict[tuple[int, int], list[int]]) -> None:
        """Find the processes of files in other roots, where they have other numbers than here."""
        for identity, (key, held) in self._held.items():
            if held.pid:
                continue
            for pid in pids_of.get(key, ()):
                if _innermost_pid(f"{self._proc}/{pid}") == held.own_pid and self._is_believable(
                    os.fstat(held.fd), pid
                ):
                    self._held[identity] = key, held._replace(pid=pid)
                    break

    def _is_believable(self, status: os.stat_result, pid: int) -> bool:
        """Tell whether the process wrote the file: anyone may write to /tmp, under any name.

        Of a process that has ended only its owner's file counts if we are that owner, and if it was
        written to since the recording began: /tmp is full of older ones. A file that is older than
        its process is of another one, which had the same number before.
        """
        directory = f"{self._proc}/{pid}"
        owners, since_s = {0, os.geteuid()}, self._begun_s - 1.0
        with contextlib.suppress(OSError):
            owners.add(os.stat(directory).st_uid)
            since_s = _started_at(directory)
        return status.st_uid in owners and status.st_mtime >= since_s


def _kind_and_pid(name: bytes) -> tuple[str, int]:
    for kind, prefix, suffix in (("map", b"perf-", b".map"), ("dump", b"jit-", b".dump")):
        number = name[len(prefix) : -len(suffix)]
        if name.startswith(prefix) and name.endswith(suffix) and number.isdigit():
            return (kind, int(number)) if len(number) <= 10 else ("", 0)
    return "", 0


def _innermost_pid(directory: str) -> int:
    """Return the number that a process has for itself, 0 where it is gone."""
    for line in read_if_there(f"{directory}/status").splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return 0


def _started_at(directory: str) -> float:
    """Return when a process began, in seconds since the epoch and rounded down; 0.0 if unknown."""
    fields = read_if_there(f"{directory}/stat").rpartition(b")")[2].split()
    if len(fields) < 20:
        return 0.0
    booted_at = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted_at + int(fields[19]) / os.sysconf("SC_CLK_TCK") - 1


def _read(fd: int, size: int) -> bytes:
    parts: list[bytes] = []
    at = 0
    while at < size and (part := os.pread(fd, size - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)
