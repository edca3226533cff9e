"""A FUSE file system whose server never answers, as any user may have one; others alike.

Another one serves a program, as an AppImage does, and may fall silent.
"""

import ctypes
import errno
import os
import select
import struct
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

MNT_DETACH = 2
FUSE_PATH = "/dev/fuse"
# include/uapi/linux/fuse.h: fuse_in_header's length, operation, number and node; fuse_out_header;
# fuse_init_out of protocol 7.31, fuse_attr_out of a directory, fuse_statfs_out; empty: not known.
_IN_HEADER = struct.Struct("=IIQQ")
_OUT_HEADER = struct.Struct("=IiQ")
_INIT_OUT = struct.Struct("=IIIIHHIIHH32x")
_FUSE_LOOKUP, _FUSE_GETATTR, _FUSE_OPEN, _FUSE_READ, _FUSE_STATFS = 1, 3, 14, 15, 17
_FUSE_GETXATTR, _FUSE_FLUSH, _FUSE_INIT, _FUSE_OPENDIR = 22, 25, 26, 27
_ANSWERS = {
    _FUSE_INIT: _INIT_OUT.pack(7, 31, 0, 0, 0, 0, 1 << 16, 1, 0, 0),
    _FUSE_GETATTR: struct.pack("=16x6Q3I7I", 1, *[0] * 8, 0o40755, 2, 0, 0, 0, 512, 0),
    _FUSE_STATFS: bytes(80),
    _FUSE_GETXATTR: b"",
    _FUSE_OPENDIR: b"",
    _FUSE_FLUSH: b"",
}
# A file, whatever its name, which is found and opened once: fuse_entry_out, fuse_open_out.
_FILE_ATTR = (2, 1 << 20, *[0] * 7, 0o100755, 1, *[0] * 5)
_FILE_ANSWERS = {
    _FUSE_LOOKUP: struct.pack("=4Q2I6Q10I", 2, 0, 60, 60, 0, 0, *_FILE_ATTR),
    _FUSE_OPEN: struct.pack("=QII", 1, 0, 0),
}


@contextmanager
def silent_mount(point: Path, user: int = 65534, *, takes: bool = False, has_file: bool = False):
    """Mount it; whoever looks into it waits until the block ends.

    Args:
        point: an empty directory.
        user: who is said to serve it.
        takes: whether the server takes the questions that it does not answer: who waits for such
            an answer cannot even be killed.
        has_file: whether there is a file that can be opened once, by whatever name, and not be
            read; with `takes`.
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
    taker = threading.Thread(
        target=_take, args=(server, ended, dict(_FILE_ANSWERS) if has_file else {})
    )
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


@contextmanager
def serving_mount(
    point: Path, content: bytes, user: int = 0, *, size: int | None = None, opens: int = 1 << 30
):
    """Mount one that has a program by whatever name, which its user alone can run.

    Args:
        point: an empty directory.
        content: of the program.
        user: who is said to serve it.
        size: that the program is said to have.
        opens: how often it can be opened; whoever opens it once more waits for ever.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    server = os.open(FUSE_PATH, os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={server},rootmode=40000,user_id={user},group_id={user}"
    if libc.mount(b"serving", os.fsencode(point), b"fuse", 0, options.encode()):
        os.close(server)
        pytest.skip("FUSE cannot be mounted here")
    ended = threading.Event()
    taker = threading.Thread(target=serve_program, args=(server, ended, content, size, opens))
    taker.start()
    try:
        yield point
    finally:
        ended.set()
        taker.join()
        os.close(server)
        libc.umount2(os.fsencode(point), MNT_DETACH)


def serve_program(server, ended, content, size=None, opens=1 << 30):
    """Answer about a program until that is to end, or the file system is unmounted."""
    attr = (2, len(content) if size is None else size, *[0] * 7, 0o100755, 1, *[0] * 5)
    answers = _ANSWERS | {
        _FUSE_LOOKUP: struct.pack("=4Q2I6Q10I", 2, 0, 60, 60, 0, 0, *attr),
        _FUSE_OPEN: struct.pack("=QII", 1, 0, 0),
    }
    while not ended.is_set():
        if not select.select((server,), (), (), 0.02)[0]:
            continue
        try:
            request = os.read(server, 1 << 20)
        except OSError:
            return
        _, operation, number, node = _IN_HEADER.unpack_from(request)
        answer = answers.get(operation, b"")
        if operation == _FUSE_GETATTR and node != 1:
            answer = struct.pack("=Q2I6Q10I", 60, 0, 0, *attr)
        elif operation == _FUSE_READ:
            offset, length = struct.unpack_from("=8xQI", request, 40)
            answer = content[offset : offset + length]
        elif operation == _FUSE_OPEN:
            opens -= 1
            if opens < 0:
                continue
        _send(server, number, answer, is_known=bool(answer) or operation == _FUSE_READ)


@contextmanager
def silent_autofs(point: Path):
    """Mount an autofs whose daemon never mounts what it is asked for.

    Args:
        point: an empty directory.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    questions, told = os.pipe()
    # Whoever is in the daemon's group of processes does not wait.
    daemon = subprocess.Popen(["sleep", "600"], start_new_session=True)
    options = f"fd={told},pgrp={daemon.pid},minproto=5,maxproto=5,indirect"
    is_mounted = not libc.mount(b"silent", os.fsencode(point), b"autofs", 0, options.encode())
    try:
        if not is_mounted:
            pytest.skip("no autofs can be mounted here")
        yield point
    finally:
        # All who wait are answered with an error as nobody reads their questions.
        os.close(questions)
        if is_mounted:
            libc.umount2(os.fsencode(point), MNT_DETACH)
        os.close(told)
        daemon.kill()
        daemon.wait()


def _take(server, ended, once):
    """Greet the kernel, tell it of the root directory, and take all other questions unanswered.

    Args:
        server: the descriptor.
        ended: is set when that is to end.
        once: answers to questions of a kind that are given once.
    """
    while not ended.is_set():
        if not select.select((server,), (), (), 0.02)[0]:
            continue
        _, operation, number, node = _IN_HEADER.unpack_from(os.read(server, 1 << 20))
        is_of_root = operation == _FUSE_GETATTR and node == 1
        answer = _ANSWERS.get(operation) if operation != _FUSE_GETATTR or is_of_root else None
        answer = once.pop(operation, answer)
        if answer is not None:
            _send(server, number, answer, is_known=bool(answer))


def _send(server, number, answer, *, is_known):
    error = 0 if is_known else -errno.ENOSYS
    os.write(server, _OUT_HEADER.pack(_OUT_HEADER.size + len(answer), error, number) + answer)


@contextmanager
def overlay_mount(point: Path, *layers: Path):
    """Mount an overlay of directories, which nobody can write to."""
    libc = ctypes.CDLL(None, use_errno=True)
    options = "lowerdir=" + ":".join(map(str, layers))
    if libc.mount(b"overlay", os.fsencode(point), b"overlay", 0, options.encode()):
        pytest.skip(f"no overlay can be mounted here: {os.strerror(ctypes.get_errno())}")
    try:
        yield point
    finally:
        libc.umount2(os.fsencode(point), MNT_DETACH)
