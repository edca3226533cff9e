"""A FUSE file system whose server never answers, as any user may have one."""

import ctypes
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

MNT_DETACH = 2
FUSE_PATH = "/dev/fuse"


@contextmanager
def silent_mount(point: Path, user: int = 65534):
    """Mount it; whoever looks into it waits until the block ends.

    Args:
        point: an empty directory.
        user: who is said to serve it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        server = os.open(FUSE_PATH, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        pytest.skip("no /dev/fuse")
    options = f"fd={server},rootmode=40000,user_id={user},group_id={user},allow_other"
    if libc.mount(b"silent", os.fsencode(point), b"fuse", 0, options.encode()):
        os.close(server)
        pytest.skip("FUSE cannot be mounted here")
    try:
        yield point
    finally:
        # All who wait are answered with an error as the connection ends.
        os.close(server)
        libc.umount2(os.fsencode(point), MNT_DETACH)
