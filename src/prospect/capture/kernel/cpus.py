"""The CPUs that are online, and those that came or went.

Defined by: ``Documentation/admin-guide/cputopology.rst`` and the list format of
``lib/bitmap-str.c`` (bitmap_parselist).
"""

from __future__ import annotations

import os

from prospect.capture.kernel.procfs import read_if_there
from prospect.errors import CaptureError
from prospect.light import Closing

ONLINE = "/sys/devices/system/cpu/online"
_POSSIBLE = "/sys/devices/system/cpu/possible"
# Counts every message about a device; one that goes and comes back sends two.
_DEVICE_MESSAGES = "/sys/kernel/uevent_seqnum"
# The kernel's largest NR_CPUS is 8192; a number far beyond it is damage, not a machine.
_MOST_CPUS = 1 << 16


def parse_cpu_list(text: bytes) -> tuple[int, ...]:
    """Parse a kernel CPU list such as ``b"0-3,8"``.

    Raises:
        CaptureError: not such a list.
    """
    cpus: list[int] = []
    for part in text.strip().split(b","):
        first, dash, last = part.partition(b"-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise CaptureError(f"{ONLINE} says {text!r}, which is not a list of CPUs")
        begin, end = int(first), int(last) if dash else int(first)
        if not begin <= end < _MOST_CPUS:
            raise CaptureError(f"{ONLINE} says {text!r}, which is not a list of CPUs")
        cpus.extend(range(begin, end + 1))
    return tuple(cpus)


def possible_cpus() -> int:
    """Return how many CPUs may ever be online: one more than the highest number.

    Raises:
        CaptureError: the kernel does not say.
    """
    return max(parse_cpu_list(read_if_there(_POSSIBLE))) + 1


class CpuWatch(Closing):
    """The on-line CPUs, read again at each look through files kept open."""

    def __init__(self, path: str = ONLINE, messages: str = _DEVICE_MESSAGES) -> None:
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise CaptureError(f"cannot read {path}: {error.strerror}; mount /sys") from error
        try:
            self._messages_fd = os.open(messages, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._messages_fd = -1  # a kernel without, or a container that hides it
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
