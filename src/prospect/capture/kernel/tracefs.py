"""Where the kernel lists its tracepoints: tracefs where it is mounted, or a mount of our own.

Comes in: nothing. Goes out: a directory that can be read. A mount of our own stands in no
directory: it is a file descriptor, nobody else sees it, and it goes with the process.

Defined by: ``Documentation/trace/events.rst``; fsopen(2), fsconfig(2), fsmount(2) (Linux 5.2).
"""

from __future__ import annotations

import ctypes
import functools
import os

from prospect.errors import CaptureError

_MOUNTS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
# System calls since Linux 5.0 have the same numbers on all machines.
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_FSOPEN_CLOEXEC = _FSMOUNT_CLOEXEC = 1
_FSCONFIG_CMD_CREATE = 6
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV, _MOUNT_ATTR_NOEXEC = 1, 2, 4, 8
_MOUNT_ATTRS = _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV | _MOUNT_ATTR_NOEXEC


def tracing_directory() -> str:
    """Return the directory of tracefs.

    Raises:
        CaptureError: this user cannot read it, or it is not mounted and cannot be; says what to do.
    """
    for mount in _MOUNTS:
        if os.access(f"{mount}/events", os.R_OK | os.X_OK):
            return mount
    if os.path.isdir(_MOUNTS[0]) and not os.access(_MOUNTS[0], os.R_OK | os.X_OK):
        raise CaptureError(f"tracepoints are listed in {_MOUNTS[0]}, which only root may read here")
    try:
        return f"/proc/self/fd/{_own_mount()}"
    except OSError as error:
        raise CaptureError(
            f"tracepoints need tracefs: run as root: mount -t tracefs nodev {_MOUNTS[0]}"
        ) from error


@functools.cache
def _own_mount() -> int:
    """Mount tracefs for this process alone; return the file descriptor of its root.

    Raises:
        OSError: the kernel refused, as it does without CAP_SYS_ADMIN.
    """
    context = _call(_FSOPEN, b"tracefs", _FSOPEN_CLOEXEC)
    try:
        # Read-only is this mount alone: the file system itself is one for the whole machine.
        _call(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        return _call(_FSMOUNT, context, _FSMOUNT_CLOEXEC, _MOUNT_ATTRS)
    finally:
        os.close(context)


def _call(number: int, *arguments: bytes | int | None) -> int:
    """Make a system call.

    Raises:
        OSError: what the kernel answered.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    words = (
        ctypes.c_long(one) if isinstance(one, int) else ctypes.c_char_p(one) for one in arguments
    )
    result: int = libc.syscall(ctypes.c_long(number), *words)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
