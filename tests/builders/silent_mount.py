"""A FUSE file system whose server never answers, as any user may have one."""

import ctypes
import os
import select
import struct
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

MNT_DETACH = 2
FUSE_PATH = "/dev/fuse"
# include/uapi/linux/fuse.h: fuse_in_header's length, operation and number; fuse_out_header, and
# fuse_init_out of protocol 7.31.
_IN_HEADER = struct.Struct("=IIQ")
_OUT_HEADER = struct.Struct("=IiQ")
_INIT_OUT = struct.Struct("=IIIIHHIIHH32x")
_FUSE_INIT = 26


@contextmanager
def silent_mount(point: Path, user: int = 65534, *, takes: bool = False):
    """Mount it; whoever looks into it waits until the block ends.

    Args:
        point: an empty directory.
        user: who is said to serve it.
        takes: whether the server takes the questions that it does not answer: who waits for such
            an answer cannot even be killed.
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
    ended = threading.Event()
    taker = threading.Thread(target=_take, args=(server, ended))
    if takes:
        taker.start()
    try:
        yield point
    finally:
        ended.set()
        if takes:
            taker.join()
        # All who wait are answered with an error as the connection ends.
        os.close(server)
        libc.umount2(os.fsencode(point), MNT_DETACH)


def _take(server, ended):
    """Greet the kernel, take its questions, and answer none."""
    while not ended.is_set():
        if not select.select((server,), (), (), 0.02)[0]:
            continue
        _, operation, number = _IN_HEADER.unpack_from(os.read(server, 1 << 20))
        if operation == _FUSE_INIT:
            answer = _INIT_OUT.pack(7, 31, 0, 0, 0, 0, 1 << 16, 1, 0, 0)
            header = _OUT_HEADER.pack(_OUT_HEADER.size + len(answer), 0, number)
            os.write(server, header + answer)
