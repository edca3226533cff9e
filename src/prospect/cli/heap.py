"""Let the C library keep the memory that large arrays give back, for the next ones.

Every stage of a report makes and drops columns of many megabytes. By default glibc takes each from
the kernel and returns it at once, and the kernel clears every page anew: half of all page faults
of a report on ten million samples, and a tenth of its time.

Defined by: mallopt(3), M_TRIM_THRESHOLD and M_MMAP_THRESHOLD.
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_NEVER_BYTES = 1 << 30


def keep_freed_memory() -> bool:
    """Keep what is freed until the process ends; return whether the C library knows how."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # musl
        return False
    settings = (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD)
    return all(mallopt(setting, _NEVER_BYTES) == 1 for setting in settings)
