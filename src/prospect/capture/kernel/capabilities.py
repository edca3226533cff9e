"""Rights of a root process, and how it gives up the rest for good.

Defined by: capabilities(7), capget(2), ``include/uapi/linux/capability.h``; prctl(2),
PR_CAPBSET_DROP and PR_SET_NO_NEW_PRIVS.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_VERSION_3 = 0x20080522
_WORD_BITS = 32
_LAST = "/proc/sys/kernel/cap_last_cap"


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
    """Give up all capabilities but some, here and in what this process starts, for good.

    Only the calling thread: no other may have been started. No program that it starts
    gains rights by its owner or its file.

    Args:
        wanted: numbers of capabilities; those that the process does not have stay away.

    Raises:
        OSError: the kernel refused; nothing that depends on it may go on.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _call(libc.prctl, _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    header, sets = _Header(_VERSION_3, 0), (_Sets * 2)()
    _call(libc.capget, ctypes.byref(header), sets)
    if not any(one.permitted for one in sets):
        return
    # To drop from the bounding set takes CAP_SETPCAP, which goes last.
    for number in range(last_capability() + 1):
        if number not in wanted:
            libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # a service manager may have done it
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for place, one in enumerate(sets):
        first = place * _WORD_BITS
        mask = sum(1 << (number - first) for number in wanted if 0 <= number - first < _WORD_BITS)
        one.permitted &= mask
        one.effective &= mask
        one.inheritable = 0
    _call(libc.capset, ctypes.byref(header), sets)


def _call(function: ctypes._NamedFuncPointer, *arguments: object) -> None:
    if function(*arguments) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
