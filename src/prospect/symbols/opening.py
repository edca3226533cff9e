"""Open a file that others may control, and read it without being held up or killed.

Comes in: a path of a recording, of a process or of a directory that anyone can write to. Goes out:
the bytes of a regular file, or the reason why there are none. A FIFO is not waited for, a device
is not even opened (opening a watchdog restarts the machine), how bytes are taken of a file that
may be cut short meanwhile is `held_files`' business.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from prospect.held_files import hold_contents, is_only_ours
from prospect.profile.naming import NameSource

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST_READ_BYTES = 1 << 31

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_PATH = os.O_PATH | os.O_CLOEXEC


class OpenFile(NamedTuple):
    """A regular file's bytes and identity.

    Attributes:
        path: where it was opened.
        data: its bytes; while this lives, whoever wants to change a mapped file waits.
        device, inode: as in `os.stat_result`.
        modified_ns: since the epoch.
        owner: user id.
    """

    path: bytes
    data: memoryview
    device: int
    inode: int
    modified_ns: int
    owner: int


def open_file(
    path: bytes, *, follow: bool = True, largest_bytes: int = LARGEST_READ_BYTES
) -> OpenFile | NameSource:
    """Open a regular file and take its bytes.

    Args:
        path: any bytes.
        follow: whether its last component may be a symbolic link.
        largest_bytes: refuse a bigger file, unless only root and we can change it.

    Returns:
        The file, or NO_FILE, NO_PERMISSION, or NO_ELF for what is no regular file or is too big.
    """
    try:
        descriptor = os.open(path, _PATH | (0 if follow else os.O_NOFOLLOW))
    except (OSError, ValueError) as error:
        return _refusal(error)
    return _take(descriptor, path, largest_bytes)


def open_below(
    root: bytes, path: bytes, *, largest_bytes: int = LARGEST_READ_BYTES
) -> OpenFile | NameSource:
    """Open an absolute path below another root, following no symbolic link on the way.

    The kernel's names of mappings hold no links, and a link that a container put there later
    would lead out of its root.

    Args:
        root: directory, e.g. ``/proc/PID/root``.
        path: absolute path as seen from there.
        largest_bytes: see `open_file`.
    """
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if b".." in parts or not parts:
        return NameSource.NO_FILE
    try:
        directory = os.open(root, _PATH | os.O_DIRECTORY)
        try:
            for part in parts[:-1]:
                inner = os.open(part, _PATH | os.O_NOFOLLOW | os.O_DIRECTORY, dir_fd=directory)
                os.close(directory)
                directory = inner
            descriptor = os.open(parts[-1], _PATH | os.O_NOFOLLOW, dir_fd=directory)
        finally:
            os.close(directory)
    except (OSError, ValueError) as error:
        return _refusal(error)
    return _take(descriptor, path, largest_bytes)


def read_system_file(path: str, largest_bytes: int = 1 << 26) -> bytes:
    """Read a file of /proc or /sys, whose size is not known beforehand; empty if there is none."""
    try:
        descriptor = os.open(path, _READ)
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


def _refusal(error: OSError | ValueError) -> NameSource:
    return NameSource.NO_PERMISSION if isinstance(error, PermissionError) else NameSource.NO_FILE


def _take(descriptor: int, path: bytes, largest_bytes: int) -> OpenFile | NameSource:
    """Read or map what an O_PATH descriptor stands for, and close it."""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return NameSource.NO_ELF
        if status.st_size > largest_bytes and not is_only_ours(status):
            return NameSource.NO_ELF
        readable = os.open(f"/proc/self/fd/{descriptor}", _READ)
        try:
            data = hold_contents(readable)
        finally:
            os.close(readable)
    except (OSError, ValueError, MemoryError) as error:
        return NameSource.NO_ELF if isinstance(error, MemoryError) else _refusal(error)
    finally:
        os.close(descriptor)
    return OpenFile(
        path=path,
        data=data,
        device=status.st_dev,
        inode=status.st_ino,
        modified_ns=status.st_mtime_ns,
        owner=status.st_uid,
    )
