"""Which CPUs are on line, and which came or went.

Comes in: /sys/devices/system/cpu/online. Goes out: CPU numbers.

Defined by: ``Documentation/admin-guide/cputopology.rst`` and the list format of
``lib/bitmap-str.c`` (bitmap_parselist).
"""

from __future__ import annotations

import os

from prospect.errors import CaptureError

ONLINE = "/sys/devices/system/cpu/online"
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


class CpuWatch:
    """The on-line CPUs, read again at each look through one file kept open."""

    def __init__(self, path: str = ONLINE) -> None:
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise CaptureError(f"cannot read {path}: {error.strerror}; mount /sys") from error
        self._text = b""
        self.online: tuple[int, ...] = ()
        self.look()

    def look(self) -> bool:
        """Read the list again; return whether it changed."""
        text = os.pread(self._fd, 1 << 16, 0)
        if text == self._text:
            return False
        self._text, self.online = text, parse_cpu_list(text)
        return True

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)
