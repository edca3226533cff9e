"""Files of this machine that hold names, and why one could not be opened, in a report's words.

Files that other files or processes name go through `files.door`; those that a person or Prospect
itself names are opened here as they are.

`ServedMounts` knows which paths another user's program serves. Each access to a FUSE file system
waits for that program, which need not ever answer; the wait cannot be cut short once the program
took the question. Source: ``fs/fuse/dir.c`` fuse_allow_current_process() (Linux 6.18): a server in
another user namespace is never asked on behalf of a process outside of it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prospect.files import untrusted_open
from prospect.files.files_limits import LARGEST_READ_BYTES
from prospect.files.mounts import mounts
from prospect.files.opener import READ, Refusal
from prospect.files.untrusted_open import OWN_ROOT, OpenFile
from prospect.profile.naming import NameSource

if TYPE_CHECKING:
    from collections.abc import Iterator

_REASONS = {
    Refusal.MISSING: NameSource.NO_FILE,
    Refusal.FORBIDDEN: NameSource.NO_PERMISSION,
    Refusal.UNFIT: NameSource.NO_ELF,
    Refusal.SILENT: NameSource.NO_ANSWER,
    Refusal.COSTLY: NameSource.NO_BUDGET,
}


def open_file(path: bytes) -> OpenFile | NameSource:
    """Open a regular file that a person names, or Prospect itself; links are followed.

    Returns:
        The file, or NO_FILE, NO_PERMISSION, or NO_ELF for what is not a regular file.
    """
    return _in_words(untrusted_open.open_chosen(path))


def open_received(path: bytes) -> OpenFile | NameSource:
    """Open a kept copy of a file from elsewhere; see `untrusted_open.open_received`."""
    return _in_words(untrusted_open.open_received(path))


def open_named(  # noqa: PLR0913 - as in `untrusted_open`
    path: bytes,
    named_by: int,
    *,
    root: bytes = OWN_ROOT,
    follow_last: bool = True,
    largest_bytes: int = LARGEST_READ_BYTES,
    is_received: bool = False,
) -> OpenFile | NameSource:
    """Open a regular file that another file or a process names; see `untrusted_open.open_named`."""
    return _in_words(
        untrusted_open.open_named(
            path,
            named_by,
            root=root,
            follow_last=follow_last,
            largest_bytes=largest_bytes,
            is_received=is_received,
        )
    )


def open_link(path: bytes) -> OpenFile | NameSource:
    """Open the file that a link of /proc leads to; see `untrusted_open.open_link`."""
    return _in_words(untrusted_open.open_link(path))


def _in_words(opened: OpenFile | Refusal) -> OpenFile | NameSource:
    return _REASONS[opened] if isinstance(opened, Refusal) else opened


def read_system_file(path: str, largest_bytes: int = 1 << 26) -> bytes:
    """Read a file of /proc or /sys, whose size is not known beforehand; empty if there is none."""
    try:
        descriptor = os.open(path, READ)
    except OSError:
        return b""
    try:
        return b"".join(_chunks(descriptor, largest_bytes))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _chunks(descriptor: int, largest_bytes: int) -> Iterator[bytes]:
    # A big buffer costs more than the reading: seq_file hands out about a page at a time.
    while largest_bytes > 0 and (chunk := os.read(descriptor, min(largest_bytes, 1 << 16))):
        largest_bytes -= len(chunk)
        yield chunk


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
    return tuple(
        one.point.rstrip(b"/") for one in mounts(mountinfo) if one.served_by not in (None, 0, user)
    )
