"""What a window leaves behind in the heap.

Decoding a window makes and drops columns of some megabytes, between which small objects stay; the C
library keeps the pages: 245 MB of them after five windows with copies of stacks, in place of 62.

Source: malloc_trim(3).
"""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Give the kernel what is free of the heap; with another C library than glibc do nothing."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
