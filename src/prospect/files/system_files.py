"""Files of /proc and /sys, and the paths that other users' programs serve.

Each access to a FUSE file system waits for its server, which may never answer. Nothing can cut the
wait short once the server has read the request. Source: ``fs/fuse/dir.c``
fuse_allow_current_process() (Linux 6.18): the kernel does not ask a server in another user
namespace on behalf of a process outside of it.
"""

from __future__ import annotations

import os

from prospect.files.mounts import mounts
from prospect.files.opener import READ


def read_system_file(path: str, largest_bytes: int = 1 << 26) -> bytes:
    """Read a file of /proc or /sys, whose size is not known beforehand; empty if there is none."""
    try:
        descriptor = os.open(path, READ)
    except OSError:
        return b""
    chunks = []
    try:
        # A big buffer costs more than the reading: seq_file hands out about a page at a time.
        while largest_bytes > 0 and (chunk := os.read(descriptor, min(largest_bytes, 1 << 16))):
            largest_bytes -= len(chunk)
            chunks.append(chunk)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    return b"".join(chunks)


class ServedMounts:
    """Mount tables of processes, each read once per report."""

    def __init__(self) -> None:
        self._points: dict[str, tuple[bytes, ...]] = {}

    def hold(self, path: bytes, pid: int | None = None) -> bool:
        """Return whether a path is on a FUSE file system of a user other than this one and root.

        Args:
            path: absolute, as seen by the process.
            pid: whose root and mounts it is in; None for this process's.
        """
        who = "self" if pid is None else str(pid)
        if who not in self._points:
            text = read_system_file(f"/proc/{who}/mountinfo")
            self._points[who] = served_mount_points(text, os.geteuid())
        return any(path == point or path.startswith(point + b"/") for point in self._points[who])


def served_mount_points(mountinfo: bytes, user: int) -> tuple[bytes, ...]:
    """Return where FUSE file systems that neither root nor `user` serves are mounted.

    Mounts over or below them count as theirs: they are out of reach, or can only be reached through
    the FUSE mount.
    """
    return tuple(
        one.point.rstrip(b"/") for one in mounts(mountinfo) if one.served_by not in (None, 0, user)
    )
