"""Tells which processes are JVMs, by the name of a mapped file; nothing here is slow to import."""

from __future__ import annotations

import os
import struct

from prospect.capture.kernel.procfs import list_pids, read_if_there, read_maps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from prospect.capture.machine.mapping_records import MappingRecord

JVM = b"/libjvm.so"
PID = struct.Struct("=I")
# A JVM has a dozen threads before it runs a program.
_LEAST_THREADS = 8
_THREADS_FIELD = 17  # of /proc/pid/stat, counted from the third
_MOST_MAPS_BYTES = 8 << 20
_DELETED = b" (deleted)"


def is_jvm(path: bytes) -> bool:
    """Whether the name of a mapped file is that of HotSpot's library."""
    return path.removesuffix(_DELETED).endswith(JVM)


class JvmNews:
    """Sends the processes that map a JVM to the reader of their functions."""

    def __init__(self, news_fd: int) -> None:
        """Prepare; `news_fd` is a pipe's end that does not block, -1 if nobody wants to know."""
        self._fd = news_fd

    def see_before(self, pids: Iterable[int]) -> None:
        """Send processes that had mapped one before."""
        for pid in pids:
            self._send(pid)

    def look(self, mappings: Iterable[MappingRecord]) -> None:
        """Look at new mappings."""
        if self._fd >= 0:
            for pid in {one.pid for one in mappings if is_jvm(one.path)}:
                self._send(pid)

    def _send(self, pid: int) -> None:
        if self._fd < 0:
            return
        try:
            os.write(self._fd, PID.pack(pid))
        except BlockingIOError:
            return  # the reader looks through /proc as well
        except OSError:
            self._fd = -1  # it has ended


def jvm_base(pid: int) -> int:
    """Return where a process has mapped a JVM's library, 0 without."""
    try:
        text = read_maps(pid, most_bytes=_MOST_MAPS_BYTES)
    except OSError:
        return 0
    at = text.find(JVM)
    if at < 0:
        return 0
    # The first of its mappings has the headers.
    for line in text[text.rfind(b"\n", 0, at) + 1 :].splitlines():
        if is_jvm(line):
            begin, _, _ = line.partition(b"-")
            fields = line.split(None, 5)
            return int(begin, 16) if fields[2].strip(b"0") == b"" else 0
    return 0


class NewProcesses:
    """Finds processes that may be JVMs, each once it has as many threads as a JVM has."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def look(self) -> list[int]:
        """Return processes that have come since."""
        pids = set(list_pids())
        self._seen &= pids
        found = [pid for pid in pids - self._seen if _threads(pid) >= _LEAST_THREADS]
        self._seen.update(found)
        return found


def _threads(pid: int) -> int:
    fields = read_if_there(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(fields[_THREADS_FIELD]) if len(fields) > _THREADS_FIELD else 0
