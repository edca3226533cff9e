"""The bytes of an open file, which nobody can truncate under the reader.

Touching a mapping beyond the end of its file raises SIGBUS, which no Python program survives. So a
file is mapped only if nobody can truncate it meanwhile: only its owner and root may write to it,
its file system is served by the kernel, and a read lease makes a process that writes or truncates
it wait until the mapping is gone. All other files are read into memory.

Source: fcntl(2), "Leases": a writer waits at most /proc/sys/fs/lease-break-time, 45 s by default;
``fs/locks.c`` (Linux 6.18) for who may have one. The lease lasts as long as the mapping, because
`mmap.mmap` keeps a duplicate of the descriptor, and as long as a child's copy of the mapping. So
forked children get no copy (madvise(2), MADV_DONTFORK), unless `lend` gives them one.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from typing import TYPE_CHECKING

from prospect.files.budget import CostlyError
from prospect.files.mounts import is_local
from prospect.light import signal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prospect.files.budget import HeldMemory


MAPPED_FROM_BYTES = 1 << 16
_OTHERS_MAY_WRITE = 0o022


class _FileMapping(mmap.mmap):
    """A mapping of a file's own pages: released pages are read again when they are needed."""


def is_only_ours(status: os.stat_result) -> bool:
    """Return whether nobody but this user and root can change a file."""
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & _OTHERS_MAY_WRITE


def hold_contents(
    descriptor: int, *, may_map: bool = True, account: HeldMemory | None = None
) -> memoryview:
    """Return the bytes of a regular file: mapped if that is safe, else read.

    A file that is truncated while it is read yields the bytes that were read.

    Args:
        descriptor: open for reading; the caller may close it at once.
        may_map: whether only this process uses the descriptor's open file description, which gets
            the lease.
        account: counts memory that is not mapped from the file.

    Raises:
        CostlyError: too little is left of the account.
        OSError: it cannot be read.
        MemoryError: it cannot be mapped, and is bigger than this machine's memory.
    """
    status = os.fstat(descriptor)
    size = status.st_size
    if may_map and size >= MAPPED_FROM_BYTES and is_only_ours(status) and is_local(status.st_dev):
        # A PCI device's memory in /sys can be mapped, with effects on the device, but not read.
        os.pread(descriptor, 16, 0)
        if not status.st_nlink or _lease(descriptor):
            # Somebody may have truncated it before the lease.
            size = os.fstat(descriptor).st_size
            if size:
                mapping = _FileMapping(descriptor, size, access=mmap.ACCESS_READ)
                mapping.madvise(mmap.MADV_DONTFORK)
                return memoryview(mapping)
    if size > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        raise MemoryError
    if not size:
        return memoryview(b"")
    # Untouched memory costs nothing: holes of a sparse file stay holes.
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    extents = list(data_extents(descriptor, size))
    if account and not account.hold(memory, sum(end - begin for begin, end in extents)):
        raise CostlyError
    buffer = memoryview(memory)
    filled = 0
    for begin, end in extents:
        filled = begin
        while filled < end and (count := os.preadv(descriptor, [buffer[filled:end]], filled)):
            filled += count
    # A file that was truncated meanwhile has its present size.
    return buffer[: max(filled, min(size, os.fstat(descriptor).st_size))].toreadonly()


def lend(contents: memoryview, *, to_children: bool) -> None:
    """Let children forked from now on have these bytes, or not.

    A child that has not got them must not touch them.
    """
    if isinstance(contents.obj, _FileMapping):
        contents.obj.madvise(mmap.MADV_DOFORK if to_children else mmap.MADV_DONTFORK)


def releaser(contents: memoryview, offset: int) -> Callable[[int], None] | None:
    """Return a function that drops pages which were read from this process's memory.

    Args:
        contents: from `hold_contents`.
        offset: from here on, the caller reads it once, from front to back.

    Returns:
        A function of the number of bytes read since `offset`; None if `contents` is not mapped.
    """
    mapping = contents.obj
    if not isinstance(mapping, _FileMapping):
        return None
    done = -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE

    def release(used: int) -> None:
        nonlocal done
        end = (offset + used) // mmap.PAGESIZE * mmap.PAGESIZE
        if end > done:
            mapping.madvise(mmap.MADV_DONTNEED, done, end - done)
            done = end

    return release


def data_extents(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each run of data in a file; holes between them read as zeros.

    A file system without holes has one extent. Source: lseek(2), SEEK_DATA.
    """
    end = 0
    while end < size:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
            end = min(os.lseek(descriptor, begin, os.SEEK_HOLE), size)
        except OSError as error:
            if error.errno != errno.ENXIO:  # no data after it
                yield end, size
            return
        if begin >= end:
            return
        yield begin, end


def _lease(descriptor: int) -> bool:
    """Make writers wait; False if the file is open for writing or cannot be leased."""
    try:
        # The kernel notifies the holder by SIGIO, which ends a program that does not expect it.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError:
        return False
    return True


def lock(descriptor: int) -> bool:
    """Take the lock on an open file; return False if another process has it.

    Raises:
        OSError: the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
