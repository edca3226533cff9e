"""Reads the kernel's text files below /proc and /sys, and the CPUs that are online.

Defined by: for CPUs, ``Documentation/admin-guide/cputopology.rst`` and the list format of
``lib/bitmap-str.c`` (bitmap_parselist).
"""

from __future__ import annotations

import os

from prospect.errors import CaptureError
from prospect.light import Closing

_CHUNK_BYTES = 1 << 16
_SHORT_BYTES = 1 << 12
ONLINE = "/sys/devices/system/cpu/online"
_POSSIBLE = "/sys/devices/system/cpu/possible"
# Counts every message about a device; one that goes and comes back sends two.
_DEVICE_MESSAGES = "/sys/kernel/uevent_seqnum"
# The kernel's largest NR_CPUS is 8192; a number far beyond it is damage, not a machine.
_MOST_CPUS = 1 << 16


def read_file(path: str, most_bytes: int = 1 << 30) -> bytes:
    """Return a file's content, at most about `most_bytes` of it.

    Raises:
        OSError: as open() and read() say.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        size = 0
        while size < most_bytes and (part := os.read(fd, _CHUNK_BYTES)):
            parts.append(part)
            size += len(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def read_short(path: str) -> bytes:
    """Return a file's content of less than a page, which the kernel gives at once.

    Raises:
        OSError: as open() and read() say.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _SHORT_BYTES)
    finally:
        os.close(fd)


def read_if_there(path: str, most_bytes: int = 1 << 30) -> bytes:
    """Return a file's content, empty if it cannot be read."""
    try:
        return read_file(path, most_bytes)
    except OSError:
        return b""


def names_in(directory: str) -> list[str]:
    """Return the names in a directory, none if it cannot be read."""
    try:
        return os.listdir(directory)
    except OSError:
        return []


def stat_fields(directory: str) -> list[bytes]:
    """Return the fields of a process's file "stat" from the third one on, none if it has ended.

    Args:
        directory: /proc/PID, or that of a thread.
    """
    return read_if_there(f"{directory}/stat").rpartition(b")")[2].split()


def living_thread(pid: int, proc: str = "/proc") -> int:
    """Return the process, or one of its threads if its main thread has ended.

    The files maps, exe and map_files of a main thread that has ended are empty. A thread has the
    same ones, and is found below /proc by its own number.
    """
    tids = [tid for tid in names_in(f"{proc}/{pid}/task") if tid.isdecimal() and tid != str(pid)]
    if tids and _has_ended(f"{proc}/{pid}"):
        for tid in tids:
            # Looked up below its process: by now the number may be that of another thread.
            if not _has_ended(f"{proc}/{pid}/task/{tid}"):
                return int(tid)
    return pid


def _has_ended(directory: str) -> bool:
    return stat_fields(directory)[:1] in ([b"Z"], [b"X"], [])


def read_maps(pid: int, proc: str = "/proc", most_bytes: int = 1 << 30) -> bytes:
    """Return /proc/PID/maps, also of a process whose main thread has ended.

    Raises:
        OSError: as open() and read() say.
    """
    try:
        text = read_file(f"{proc}/{pid}/maps", most_bytes)
    except PermissionError:
        raise
    except OSError:
        # A process without memory is an error on some kernels, an empty file on others.
        if living_thread(pid, proc) == pid:
            raise
        text = b""
    if not text and (thread := living_thread(pid, proc)) != pid:
        return read_file(f"{proc}/{pid}/task/{thread}/maps", most_bytes)
    return text


def read_setting(path: str) -> int | None:
    """Return the number in a file below /proc/sys, None if there is none."""
    try:
        return int(read_file(path))
    except (OSError, ValueError):
        return None


def read_cpu_times(path: str = "/proc/stat") -> dict[str, list[int]]:
    """Return the kernel's own accounting: ``cpu`` and each ``cpuN`` → its first 8 counters.

    They are user, nice, system, idle, iowait, irq, softirq, steal, in ticks of SC_CLK_TCK.
    """
    times: dict[str, list[int]] = {}
    for line in read_if_there(path).splitlines():
        if not line.startswith(b"cpu"):
            break
        fields = line.split()
        times[os.fsdecode(fields[0])] = [int(field) for field in fields[1:9]]
    return times


def list_pids(proc: str = "/proc") -> list[int]:
    """Return the processes that run, in any order.

    Raises:
        OSError: there is no such directory.
    """
    return [int(name) for name in os.listdir(proc) if name.isdecimal()]


def parse_cpu_list(text: bytes) -> tuple[int, ...]:
    """Parse a kernel CPU list such as ``b"0-3,8"``.

    Raises:
        CaptureError: not such a list.
    """
    cpus: list[int] = []
    for part in text.strip().split(b","):
        first, dash, last = part.partition(b"-")
        last = last if dash else first
        is_range = first.isdigit() and last.isdigit()
        if not is_range or not int(first) <= int(last) < _MOST_CPUS:
            raise CaptureError(f"{ONLINE} says {text!r}, which is not a list of CPUs")
        cpus.extend(range(int(first), int(last) + 1))
    return tuple(cpus)


def possible_cpus() -> int:
    """Return how many CPUs may ever be online: the highest number plus one.

    Raises:
        CaptureError: the kernel does not say.
    """
    return max(parse_cpu_list(read_if_there(_POSSIBLE))) + 1


class CpuWatch(Closing):
    """The online CPUs. The files that list them stay open, and are read again at each look."""

    def __init__(self, path: str = ONLINE, messages: str = _DEVICE_MESSAGES) -> None:
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise CaptureError(f"cannot read {path}: {error.strerror}; mount /sys") from error
        try:
            self._messages_fd = os.open(messages, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._messages_fd = -1  # the kernel has no such file, or the container hides it
        self._text = self._messages = b""
        self.online: tuple[int, ...] = ()
        self.look()

    def look(self) -> bool:
        """Read the list again; return whether a CPU may have come or gone since the last look."""
        text = os.pread(self._fd, 1 << 16, 0)
        messages = os.pread(self._messages_fd, 64, 0) if self._messages_fd >= 0 else b""
        if (text, messages) == (self._text, self._messages):
            return False
        self._messages = messages
        self._text, self.online = text, parse_cpu_list(text)
        return True

    def close(self) -> None:
        """Let go of the files."""
        for fd in (self._fd, self._messages_fd):
            if fd >= 0:
                os.close(fd)
