"""How soon this process gets a CPU when it wakes.

Defined by: sched_setattr(2); ``Documentation/scheduler/sched-eevdf.rst``: among tasks of one
priority, the one that asks for a shorter slice comes first. Linux 6.12 is the first that lets a
task ask for one.
"""

from __future__ import annotations

import ctypes
import os
import struct

# sched_getattr follows.
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
# struct sched_attr: size, policy, flags, nice, priority, runtime (the slice), and four more.
_ATTR = struct.Struct("=IIQiIQQQII")
_NORMAL_POLICY = 0
SHORTEST_SLICE_NS = 100_000
_FIRST_PRIORITY = -20


def come_first() -> None:
    """Let this process come before others on a busy machine, if it may."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, _FIRST_PRIORITY)
    except OSError:
        return


def ask_for_slice(slice_ns: int) -> None:
    """Let this process have CPUs for so long at once, 0 for the usual; nothing if that cannot be.

    It asks for no more CPU time, nor for another priority.
    """
    number = _SCHED_SETATTR.get(os.uname().machine)
    if number is None or os.sched_getscheduler(0) != _NORMAL_POLICY:
        return
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    attr = _ATTR.pack(_ATTR.size, _NORMAL_POLICY, 0, nice, 0, slice_ns, 0, 0, 0, 0)
    buffer = ctypes.create_string_buffer(attr, len(attr))
    ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.c_long(0), buffer, ctypes.c_ulong(0))
