"""Copies mapped files from a FUSE file system to files in memory, in a child process.

A FUSE file system admits only its own user or, if mounted with ``allow_other``, processes in the
user namespace that mounted it, or below. So the child takes on the rights of the process that
mapped the files before it reads them. Before that, it opens paths (O_PATH) by links that lead to
the files, which asks no server.

The server may give other bytes each time. The child reads from it only to select the pieces to
copy, within bounds; the recorder reads everything else from the copy.

Defined by: ``fs/fuse/dir.c``, fuse_allow_current_process() (Linux 6.18); proc(5); setns(2);
user_namespaces(7).
"""

from __future__ import annotations

import itertools
import os
import stat
import struct

from prospect.capture.capture_limits import MOST_SERVED_BYTES
from prospect.capture.kernel.procfs import read_file
from prospect.capture.machine.image_copies import copy_piece, pieces_of
from prospect.capture.machine.mapping_records import DELETED, mapped_links
from prospect.light import Descriptor
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prospect.capture.machine.mapping_records import MappingRecord

_PATH_ONLY = os.O_PATH | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_CLONE_NEWUSER = 0x10000000
ANSWER = struct.Struct("=IHHQqq")


class Outcome:
    """The results about a file; END is the child's last answer."""

    FAILED, UNCHANGED, COPIED, END = range(4)


class Asked(NamedTuple):
    """A file that is to be read.

    Attributes:
        first_ns: the time of the first mapping since the last look.
        served_by: the user whose program serves it.
        largest_whole_bytes: a larger file is copied in part.
        known: size and times, as in `Answer`, of the latest copy; () for none.
    """

    mapping: MappingRecord
    first_ns: int
    served_by: int
    largest_whole_bytes: int
    known: tuple[int, ...] = ()

    @property
    def device(self) -> tuple[int, int]:
        """Major and minor number of the file system."""
        return self.mapping.file[:2]


class Answer(NamedTuple):
    """An answer of a child, as `ANSWER` packs it."""

    child: int
    row: int
    outcome: int
    size: int = 0
    modified_ns: int = 0
    changed_ns: int = 0


def copy_files(number: int, batch: Sequence[Asked], fds: Sequence[int], answer_fd: int) -> None:
    """Copy files and answer about each, up to MOST_SERVED_BYTES.

    Args:
        number: of this child.
        batch: files of one process and one file system.
        fds: files in memory that take the pieces, each at its place in the file.
        answer_fd: a pipe.
    """
    os.chdir("/")  # a blocked child must not keep a file system mounted
    opened = [list(_opened(mapped_links(asked.mapping))) for asked in batch]
    left = MOST_SERVED_BYTES
    try:
        take_on_rights_of(batch[0].mapping.pid)
        for row, (asked, path_fds, copy_fd) in enumerate(zip(batch, opened, fds, strict=True)):
            answer, left = _copy(asked, path_fds, copy_fd, left)
            if left < 0:
                break
            os.write(answer_fd, ANSWER.pack(*answer._replace(child=number, row=row)))
    except (OSError, struct.error):
        pass  # the process has ended, or the times of a file do not fit into an answer
    os.write(answer_fd, ANSWER.pack(*Answer(number, 0, Outcome.END)))


def take_on_rights_of(pid: int) -> None:
    """Take the user, the groups and the user namespace of a process.

    Raises:
        OSError: this process may not, or that one has ended.
    """
    uid, gid, groups = _ids_of(pid)
    # Before joining the namespace, which may forbid this. Only root may set groups.
    if not os.geteuid() and set(groups) != set(os.getgroups()):
        os.setgroups(groups)
    namespace = f"/proc/{pid}/ns/user"
    if os.readlink(namespace) != os.readlink("/proc/self/ns/user"):
        from prospect.capture.kernel import perf_syscalls  # noqa: PLC0415 - for containers without root

        with Descriptor(os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)) as fd:
            perf_syscalls.checked(perf_syscalls.libc().setns(fd, _CLONE_NEWUSER))
        uid, gid, _ = _ids_of(pid)  # as that namespace numbers them
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _ids_of(pid: int) -> tuple[int, int, list[int]]:
    """Return the effective user and group of a process, and its other groups.

    Raises:
        OSError: it has ended.
    """
    lines = read_file(f"/proc/{pid}/status").splitlines()
    fields = {name: words.split() for name, _, words in (line.partition(b":") for line in lines)}
    return int(fields[b"Uid"][1]), int(fields[b"Gid"][1]), [*map(int, fields[b"Groups"])]


def _copy(asked: Asked, path_fds: Sequence[int], copy_fd: int, left: int) -> tuple[Answer, int]:
    """Copy a file if `left` bytes suffice; return the answer, and the rest, < 0 without a copy."""
    fd = -1
    try:
        fd = _open_mapped(asked.mapping, path_fds)
        status = os.fstat(fd)
        facts = status.st_size, status.st_mtime_ns, status.st_ctime_ns
        if facts == asked.known:
            return Answer(0, 0, Outcome.UNCHANGED, *facts), left
        pieces = pieces_of(fd, status.st_size, asked.largest_whole_bytes)
        left -= sum(length for _, length in pieces)
        os.ftruncate(copy_fd, status.st_size)
        for offset, length in pieces if left >= 0 else ():
            os.lseek(copy_fd, offset, os.SEEK_SET)
            copy_piece(copy_fd, fd, offset, length)
        return Answer(0, 0, Outcome.COPIED, *facts), left
    except OSError:
        return Answer(0, 0, Outcome.FAILED), left
    finally:
        for one in (fd, copy_fd, *path_fds):
            if one >= 0:
                os.close(one)


def _open_mapped(mapping: MappingRecord, path_fds: Iterable[int]) -> int:
    """Open a mapped file by one of its opened paths, or by its name.

    Raises:
        OSError: it is not there, or cannot be read.
    """
    major, minor, inode = mapping.file
    path = mapping.path.removesuffix(DELETED)
    names = (path, b"/proc/%d/root%b" % (mapping.pid, path)) if path.startswith(b"/") else ()
    for path_fd in itertools.chain(path_fds, _opened(names)):
        status = os.fstat(path_fd)
        if (status.st_dev, status.st_ino) == (os.makedev(major, minor), inode):
            if not stat.S_ISREG(status.st_mode):
                break
            return os.open(f"/proc/self/fd/{path_fd}", _READ)
    raise FileNotFoundError


def _opened(names: Iterable[bytes]) -> Iterator[int]:
    """Open the paths (O_PATH) of existing files."""
    for name in names:
        try:
            fd = os.open(name, _PATH_ONLY)
        except (OSError, ValueError):
            continue
        yield fd
