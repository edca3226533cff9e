"""Which paths are on a file system that another user's program serves, by /proc/PID/mountinfo.

Each access to a FUSE file system waits for the program that serves it, which need not ever answer;
the wait cannot be cut short once the program took the question. Source: proc_pid_mountinfo(5);
``fs/fuse/inode.c`` fuse_show_options() and ``fs/fuse/dir.c`` fuse_allow_current_process() (Linux
6.18): a server in another user namespace is never asked on behalf of a process outside of it.
"""

from __future__ import annotations

import os
import re

from prospect.files.named_files import read_system_file

_OCTAL = re.compile(rb"\\([0-7]{3})")
_FUSE = re.compile(rb"fuse(blk)?(\..*)?", re.DOTALL)
_OWN = "self"


class ServedMounts:
    """Looks mount tables up, each once: a report takes its view of them as it begins."""

    def __init__(self) -> None:
        self._points: dict[str, tuple[bytes, ...]] = {}

    def hold(self, path: bytes, pid: int | None = None) -> bool:
        """Return whether a path is on a FUSE file system of a user other than this one and root.

        Args:
            path: absolute, as seen by the process.
            pid: whose root and mounts it is in; None for this process's.
        """
        who = _OWN if pid is None else str(pid)
        if who not in self._points:
            text = read_system_file(f"/proc/{who}/mountinfo")
            self._points[who] = served_mount_points(text, os.geteuid())
        return any(path == point or path.startswith(point + b"/") for point in self._points[who])


def served_mount_points(mountinfo: bytes, user: int) -> tuple[bytes, ...]:
    """Return where FUSE file systems that neither root nor `user` serves are mounted.

    Mounts over or below them are not distinguished: they are out of reach, or have them on their
    way.
    """
    points = []
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(b" - ")
        words, source = fields.split(), rest.split()
        if len(words) < 5 or len(source) < 3 or not _FUSE.fullmatch(source[0]):
            continue
        served = re.search(rb"(?:^|,)user_id=([0-9]{1,10})(?:,|$)", source[-1])
        if served is None or int(served[1]) not in (0, user):
            point = _OCTAL.sub(lambda octal: bytes([int(octal[1], 8) & 255]), words[4])
            points.append(point.rstrip(b"/"))
    return tuple(points)
