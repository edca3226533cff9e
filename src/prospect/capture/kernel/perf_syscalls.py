"""perf_event_open() and the ioctls of its file descriptors; OSError has the kernel's errno.

Defined by: perf_event_open(2); ``arch/x86/entry/syscalls/syscall_64.tbl`` and
``include/uapi/asm-generic/unistd.h`` for the system call's number.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import sys

from prospect.abi import constants as abi
from prospect.errors import CaptureError

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_RLIMIT_NOFILE = 7  # include/uapi/asm-generic/resource.h
_UNKNOWN_FLAG = 1 << 31  # no kernel has a flag of this bit
_REFUSALS_OF_FILTERS = (errno.EPERM, errno.EACCES, errno.ENOSYS)

FILTERED = (
    "a seccomp profile, as containers have, forbids perf_event_open(): start the container with a"
    " profile that permits it (and --cap-add PERFMON), or run prospect outside"
)
"""The reason why an event cannot be opened if `is_filtered`."""


def is_filtered(error_number: int | None) -> bool:
    """Return whether perf_event_open() failed because a seccomp filter refuses each such call.

    Source: SYSCALL_DEFINE5(perf_event_open) in ``kernel/events/core.c``: it refuses unknown flags
    with EINVAL before it checks any right.
    """
    if error_number not in _REFUSALS_OF_FILTERS:
        return False
    if not os.path.exists("/proc/sys/kernel/perf_event_paranoid"):
        return False  # no perf events in this kernel
    try:
        fd = perf_event_open(b"", 0, -1, flags=_UNKNOWN_FLAG)
    except OSError as error:
        return error.errno != errno.EINVAL
    os.close(fd)
    return False


def perf_event_open(
    attr: bytes, pid: int, cpu: int, group_fd: int = -1, flags: int = abi.PERF_FLAG_FD_CLOEXEC
) -> int:
    """Open one event and return its file descriptor, closed on exec.

    Args:
        attr: a packed struct perf_event_attr.
        pid: the task to follow, -1 for all.
        cpu: the CPU to watch, -1 for any.
        group_fd: the event that leads its group, -1 for none.
        flags: PERF_FLAG_*.

    Raises:
        CaptureError: this module does not know the system call's number on this machine.
        OSError: the kernel refused.
    """
    number = _PERF_EVENT_OPEN.get(os.uname().machine)
    if number is None or sys.maxsize < 2**32:
        raise CaptureError(
            f"recording works on 64-bit x86_64 and aarch64, this is {os.uname().machine}:"
            " record elsewhere, any recording can be read here"
        )
    # The kernel writes its own size into the attributes when it refuses theirs (E2BIG).
    buffer = ctypes.create_string_buffer(attr, len(attr))
    fd = libc().syscall(
        ctypes.c_long(number),
        buffer,
        ctypes.c_int(pid),
        ctypes.c_int(cpu),
        ctypes.c_int(group_fd),
        ctypes.c_ulong(flags),
    )
    return checked(fd)


def enable_event(fd: int) -> None:
    """Start the event."""
    fcntl.ioctl(fd, abi.PERF_EVENT_IOC_ENABLE, 0)


def disable_event(fd: int) -> None:
    """Stop the event; its records stay in the ring."""
    fcntl.ioctl(fd, abi.PERF_EVENT_IOC_DISABLE, 0)


def set_period(fd: int, period: int) -> None:
    """Give a running event another period, or another rate in Hz if it has FLAG_FREQ.

    Raises:
        OSError: EINVAL if the rate is above kernel.perf_event_max_sample_rate.
    """
    fcntl.ioctl(fd, abi.PERF_EVENT_IOC_PERIOD, period.to_bytes(8, sys.byteorder))


def share_ring(fd: int, owner_fd: int) -> None:
    """Make the event write into the ring that is mapped at `owner_fd`, an event of its CPU."""
    fcntl.ioctl(fd, abi.PERF_EVENT_IOC_SET_OUTPUT, owner_fd)


def set_filter(fd: int, text: str) -> None:
    """Let a tracepoint's event count only records that match a filter.

    Raises:
        OSError: EINVAL if the kernel does not understand it.
    """
    fcntl.ioctl(fd, abi.PERF_EVENT_IOC_SET_FILTER, os.fsencode(text) + b"\0")


def event_id(fd: int) -> int:
    """Return the id that the event's records carry."""
    buffer = bytearray(8)
    fcntl.ioctl(fd, abi.PERF_EVENT_IOC_ID, buffer)
    return int.from_bytes(buffer, sys.byteorder)


def raise_open_files_limit() -> int | None:
    """Raise the soft limit of open files to the hard one; return the old one, None if equal."""
    soft, hard = _limit_open_files()
    if soft == hard:
        return None
    _limit_open_files((hard, hard))
    return soft


def restore_open_files_limit(soft: int) -> None:
    """Put the soft limit of open files back."""
    _limit_open_files((soft, _limit_open_files()[1]))


def _limit_open_files(new: tuple[int, int] | None = None) -> tuple[int, int]:
    """Return the soft and the hard limit of open files, and set new ones.

    The module `resource` does that too, but a process at its limit cannot open the module's file.
    """
    pair = ctypes.c_ulong * 2
    old = pair()
    checked(libc().prlimit(0, _RLIMIT_NOFILE, pair(*new) if new else None, old))
    return old[0], old[1]


def is_refusal(error: OSError) -> bool:
    """Return whether the kernel refused for lack of privilege."""
    return error.errno in (errno.EACCES, errno.EPERM)


def libc(known: list[ctypes.CDLL] = []) -> ctypes.CDLL:  # noqa: B006 - a memory
    """Return the C library, whose functions leave their errno to `checked`."""
    if not known:
        known.append(ctypes.CDLL(None, use_errno=True))
    return known[0]


def checked(result: int) -> int:
    """Return the result of a function of `libc`.

    Raises:
        OSError: it is negative.
    """
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
