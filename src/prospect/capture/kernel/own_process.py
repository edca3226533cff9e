"""Requests of this process to the kernel: to drop rights for good, and to get a CPU soon.

Defined by: capabilities(7), capget(2), ``include/uapi/linux/capability.h``; prctl(2),
PR_CAPBSET_DROP and PR_SET_NO_NEW_PRIVS; sched_setattr(2);
``Documentation/scheduler/sched-eevdf.rst``: among tasks of one priority, the one that asks for a
shorter slice comes first. Linux 6.12 is the first that lets a task ask for one.
"""

from __future__ import annotations

import ctypes
import os
import struct

from prospect.capture.kernel.perf_syscalls import checked, libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_VERSION_3 = 0x20080522
_WORD_BITS = 32
_LAST = "/proc/sys/kernel/cap_last_cap"
# sched_getattr follows.
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
# struct sched_attr: size, policy, flags, nice, priority, runtime (the slice), and four more.
_ATTR = struct.Struct("=IIQiIQQQII")
_NORMAL_POLICY = 0
SHORTEST_SLICE_NS = 100_000
_FIRST_PRIORITY = -20


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def last_capability() -> int:
    """Return the highest number that this kernel knows; -1 if it does not say."""
    try:
        with open(_LAST, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return -1


def keep_only(wanted: Collection[int]) -> None:
    """Give up all capabilities but some, here and in children, for good.

    This affects the calling thread alone: there must be no other yet. No program that it starts
    gains rights by its owner or its file.

    Args:
        wanted: numbers of capabilities; the process does not gain those that it lacks.

    Raises:
        OSError: the kernel refused; the caller must not go on.
    """
    checked(libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    header, sets = _Header(_VERSION_3, 0), (_Sets * 2)()
    checked(libc().capget(ctypes.byref(header), sets))
    if not any(one.permitted for one in sets):
        return
    # Dropping from the bounding set takes CAP_SETPCAP, which is given up last.
    for number in range(last_capability() + 1):
        if number not in wanted:
            libc().prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # a service manager may have done it
    libc().prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for place, one in enumerate(sets):
        first = place * _WORD_BITS
        mask = sum(1 << (number - first) for number in wanted if 0 <= number - first < _WORD_BITS)
        one.permitted &= mask
        one.effective &= mask
        one.inheritable = 0
    checked(libc().capset(ctypes.byref(header), sets))


def come_first() -> None:
    """Give this process the highest priority, if it may have it."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, _FIRST_PRIORITY)
    except OSError:
        return


def ask_for_slice(slice_ns: int) -> None:
    """Set the scheduler's time slice of this process, 0 for the default, if the kernel allows it.

    This gives it neither more CPU time nor another priority.
    """
    number = _SCHED_SETATTR.get(os.uname().machine)
    if number is None or os.sched_getscheduler(0) != _NORMAL_POLICY:
        return
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    attr = _ATTR.pack(_ATTR.size, _NORMAL_POLICY, 0, nice, 0, slice_ns, 0, 0, 0, 0)
    buffer = ctypes.create_string_buffer(attr, len(attr))
    libc().syscall(ctypes.c_long(number), ctypes.c_long(0), buffer, ctypes.c_ulong(0))
