"""A child process that opens files, so that a file system that does not answer blocks only it.

Requests come over a socket. The answer is a descriptor and facts of a regular file, or the reason
why there is none. The child takes on the rights of the user who named the file. If the pages of a
file may never come into memory, the child copies the file and sends the copy. `Opener` kills a
child that is late. Source: unix(7), SCM_RIGHTS.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import struct
import time
from _thread import allocate_lock  # as in `budget`
from typing import TYPE_CHECKING

from prospect.files.child import Child, given
from prospect.files.files_limits import (
    ANSWER_S,
    LARGEST_COPY_BYTES,
    LONGEST_REQUEST,
    WHOLE_ANSWER_S,
)
from prospect.files.held_files import is_only_ours
from prospect.files.mounts import is_local
from prospect.files.rights import ROOT_USER, Switch, speaks_for
from prospect.files.walk import PATH_ONLY, walk
from prospect.light import Descriptor
from prospect.profile.naming import NameSource
from prospect.records import NamedTuple

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
OWN_RIGHTS = -1
_REQUEST = struct.Struct("=iqI????")  # user, largest size, bytes of the root, flags
_ANSWER = struct.Struct("=iQQqQQq")  # outcome, or a NameSource, and `FileFacts`
_BUSY, _DONE = -1, 0
_NO_FACTS = (0, 0, 0, 0, 0, 0)
_CHUNK_BYTES = 1 << 22
_SAY_S = 0.2


class UnfitError(Exception):
    """It is not a regular file, or is too big."""


FAILURES = (UnfitError, OSError, ValueError, MemoryError)


class FileFacts(NamedTuple):
    """Facts of an opened file by fstat(2), and the user with whose rights its names are read."""

    device: int
    inode: int
    modified_ns: int
    owner: int
    speaks_for: int
    changed_ns: int


class Request(NamedTuple):
    """A file to open.

    Attributes:
        path: absolute, as seen from the root.
        root: a directory that it is below, such as ``/proc/PID/root``; b"/" for our own.
        uid: whose rights to use, OWN_RIGHTS for ours.
        largest_bytes: refuse a bigger file, unless only root and we can change it.
        is_link: whether the path is a link of /proc, to be followed as it is.
        as_everybody: refuse files that not every user may read.
        follow_last: whether the last name may be a link.
        links_below: whether links below another root are followed, without leaving it.
    """

    path: bytes
    root: bytes
    uid: int
    largest_bytes: int
    is_link: bool = False
    as_everybody: bool = False
    follow_last: bool = True
    links_below: bool = False


class Opener:
    """Starts the child at the first request, and again after a request went unanswered."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._child = Child()
        self._silent: set[tuple[int, bytes]] = set()
        self._turn = allocate_lock()

    def open(self, request: Request) -> tuple[int, FileFacts] | NameSource:
        """Open a regular file for reading, within a few seconds; threads take turns.

        Once a file that a user named below a root has not answered, the others are refused too.
        """
        place = request.uid, request.root
        with self._turn:
            if place in self._silent:
                return NameSource.NO_ANSWER
            if len(request.path) + len(request.root) > LONGEST_REQUEST // 2:
                return NameSource.NO_FILE
            try:
                answer = self._ask(request)
            except OSError:
                answer = None
            if answer is None:
                self._silent.add(place)
                self.close()
                return NameSource.NO_ANSWER
            return answer

    @property
    def pid(self) -> int:
        """The child, 0 if there is none."""
        return self._child.pid

    def start(self) -> None:
        """Start the child, unless it runs, as a program without pages of this process.

        Raises:
            OSError: it cannot be started.
        """
        with self._turn:
            if self._socket is None:
                self._start(is_program=True)

    def close(self) -> None:
        """Close the channel and end the child."""
        if self._socket is None:
            return
        self._socket.close()
        self._socket = None
        self._child.kill()

    def __del__(self) -> None:
        """Close the channel as the interpreter ends; the child then ends by itself."""
        if self._socket is not None:
            self._socket.close()

    def _ask(self, request: Request) -> tuple[int, FileFacts] | NameSource | None:
        from socket import recv_fds  # noqa: PLC0415 - no untrusted file, no socket

        channel = self._socket or self._start()
        head = (request.uid, request.largest_bytes, len(request.root))
        flags = (request.is_link, request.as_everybody, request.follow_last, request.links_below)
        packed = _REQUEST.pack(*head, *flags)
        channel.send(packed + request.root + request.path)
        end_s = time.monotonic() + WHOLE_ANSWER_S
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        while (left_s := min(ANSWER_S, end_s - time.monotonic())) > 0:
            if not poll.poll(left_s * 1e3):
                return None
            message, descriptors, _, _ = recv_fds(channel, _ANSWER.size, 1)
            if len(message) < _ANSWER.size:
                return None
            outcome, *fields = _ANSWER.unpack(message)
            if outcome == _DONE:
                return descriptors[0], FileFacts(*fields)
            if outcome != _BUSY:
                return NameSource(outcome)
        return None

    def _start(self, *, is_program: bool = False) -> socket.socket:
        import socket  # noqa: PLC0415 - no untrusted file, no socket

        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            fd = theirs.fileno()
            if is_program:
                self._child.start_program(__name__, (fd,), fd)
            else:
                self._child.start(lambda _: _serve(theirs), (fd,))
        self._socket = ours
        return ours


def _serve(channel: socket.socket) -> None:
    """Answer until the other end is closed."""
    switch = Switch()
    while request := channel.recv(LONGEST_REQUEST):
        _answer(channel, request, switch)


def _answer(channel: socket.socket, request: bytes, switch: Switch) -> None:
    uid, largest_bytes, root_bytes, *flags = _REQUEST.unpack_from(request)
    names = request[_REQUEST.size :]
    from socket import send_fds  # noqa: PLC0415 - no untrusted file, no socket

    wanted = Request(names[root_bytes:], names[:root_bytes], uid, largest_bytes, *flags)
    try:
        descriptor, facts = _open(wanted, switch)
        try:
            if not is_local(facts.device):
                _copy(channel, descriptor, largest_bytes)
            send_fds(channel, [_ANSWER.pack(_DONE, *facts)], [descriptor])
        finally:
            # Before the refusal is sent: closing may wait for the file's server, or fail.
            os.close(descriptor)
    except FAILURES as error:
        channel.send(_ANSWER.pack(refusal_of(error), *_NO_FACTS))


def _open(wanted: Request, switch: Switch) -> tuple[int, FileFacts]:
    """Open a file with the rights of the user who names it."""
    # With our rights: the user may not even be allowed to see the root.
    root_fd = os.open(wanted.root, PATH_ONLY | os.O_DIRECTORY) if wanted.root != b"/" else -1
    root = b"/proc/self/fd/%d" % root_fd if root_fd >= 0 else wanted.root
    try:
        if wanted.uid != OWN_RIGHTS:
            switch.take_on(wanted.uid)
        place = os.open(wanted.path, PATH_ONLY) if wanted.is_link else walk_to(wanted, root)
        return open_place(place, wanted.largest_bytes)
    finally:
        switch.lay_down()
        if root_fd >= 0:
            os.close(root_fd)


def walk_to(wanted: Request, root: bytes, may_wait: Callable[[int], bool] | None = None) -> int:
    """Walk to a wanted file; see `walk`."""
    owner = os.geteuid() if wanted.uid == OWN_RIGHTS else wanted.uid
    return walk(
        wanted.path,
        {ROOT_USER, owner},
        root=root,
        may_wait=may_wait,
        follow_last=wanted.follow_last,
        as_everybody=wanted.as_everybody,
        links_below=wanted.links_below,
    )


def refusal_of(error: Exception) -> NameSource:
    """Return the reason that an exception of `walk_to`, `open_place` or of reading gives."""
    is_link = isinstance(error, OSError) and error.errno == errno.ELOOP
    if is_link or isinstance(error, (UnfitError, MemoryError)):
        return NameSource.NO_ELF
    return NameSource.NO_PERMISSION if isinstance(error, PermissionError) else NameSource.NO_FILE


def open_place(place: int, largest_bytes: int) -> tuple[int, FileFacts]:
    """Open the regular file that an O_PATH descriptor refers to; close that descriptor.

    Never opens a device: opening a watchdog starts it.

    Raises:
        UnfitError: it is not a regular file, or is too big.
        OSError: it may not be read.
    """
    try:
        status = os.fstat(place)
        is_big = status.st_size > largest_bytes and not is_only_ours(status)
        if is_big or not stat.S_ISREG(status.st_mode):
            raise UnfitError
        descriptor = os.open(f"/proc/self/fd/{place}", READ)
    finally:
        os.close(place)
    return descriptor, FileFacts(
        device=status.st_dev,
        inode=status.st_ino,
        modified_ns=status.st_mtime_ns,
        owner=status.st_uid,
        speaks_for=speaks_for(status),
        changed_ns=status.st_ctime_ns,
    )


def _copy(channel: socket.socket, descriptor: int, largest_bytes: int) -> None:
    """Copy a file into memory; its descriptor then refers to the copy.

    Messages to the other end show that the copy makes progress.
    """
    with Descriptor(os.memfd_create("copy", os.MFD_CLOEXEC)) as memory:
        size, said_s = 0, time.monotonic()
        while chunk := os.read(descriptor, _CHUNK_BYTES):
            size += len(chunk)
            if size > min(largest_bytes, LARGEST_COPY_BYTES):
                raise UnfitError
            os.write(memory, chunk)
            if time.monotonic() - said_s > _SAY_S:
                channel.send(_ANSWER.pack(_BUSY, *_NO_FACTS))
                said_s = time.monotonic()
        os.dup2(memory, descriptor, inheritable=False)


if __name__ == "__main__":  # see `Opener.start`
    from socket import socket as _socket

    _serve(_socket(fileno=given()[1]))
