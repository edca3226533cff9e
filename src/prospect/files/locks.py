"""A lock on an open file that one process holds at a time, and that ends with its descriptor."""

from __future__ import annotations

import fcntl


def lock(descriptor: int) -> bool:
    """Take the lock on an open file; return False if somebody else has it.

    Raises:
        OSError: the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
