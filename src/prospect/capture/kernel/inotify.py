"""Names of files that are made in directories or moved there, as the kernel reports them.

Defined by: inotify(7), ``include/uapi/linux/inotify.h``.
"""

from __future__ import annotations

import ctypes
import os
import struct

_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_IN_Q_OVERFLOW = 0x4000
_IN_ONLYDIR = 0x01000000
_IN_NONBLOCK = os.O_NONBLOCK
_IN_CLOEXEC = os.O_CLOEXEC
# i32 wd, u32 mask, u32 cookie, u32 bytes of the name that follows, padded with zeros
_EVENT = struct.Struct("=iIII")
_READ_BYTES = 1 << 16
# A loop that makes files faster than they are read must not hold the recorder up.
_MOST_READS = 64


class DirectoryWatch:
    """Watches directories; where the kernel does not let it, nothing is ever reported.

    Attributes:
        fd: readable when something has appeared, -1 without.
    """

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._add = libc.inotify_add_watch
        self._add.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
        self.fd = libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)

    def add(self, path: bytes) -> int:
        """Watch a directory; return its number, the same by any name, or -1 if it cannot be."""
        if self.fd < 0:
            return -1
        return int(self._add(self.fd, path, _IN_CREATE | _IN_MOVED_TO | _IN_ONLYDIR))

    def appeared(self) -> tuple[list[tuple[int, bytes]], bool]:
        """Return what appeared since the last call, and whether that is all."""
        found: list[tuple[int, bytes]] = []
        is_all = True
        for _ in range(_MOST_READS if self.fd >= 0 else 0):
            try:
                content = os.read(self.fd, _READ_BYTES)
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
        """Watch nothing any more."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
