"""A child process that opens files, so that what does not answer holds up nobody else.

Requests come over a socket; the answer is a descriptor and facts of a regular file, or the reason
why there is none. The child takes on the rights of the user whose names are looked up. It copies a
file whose pages need not ever come into memory, and hands the copy over. A child that is late is
killed and left to itself.
Source: unix(7), SCM_RIGHTS.
"""

from __future__ import annotations

import enum
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
from prospect.records import NamedTuple

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
OWN_RIGHTS = -1
_REQUEST = struct.Struct("=iqI????")  # user, largest size, bytes of the root, flags
_ANSWER = struct.Struct("=iQQqQQq")  # outcome, and `FileFacts`
_BUSY, _DONE = -1, 0
_NO_FACTS = (0, 0, 0, 0, 0, 0)
_CHUNK_BYTES = 1 << 22
_SAY_S = 0.2


class Refusal(enum.IntEnum):
    """Why a file was not opened."""

    MISSING = 1
    FORBIDDEN = 2
    UNFIT = 3  # no regular file, or too big
    SILENT = 4  # its file system did not answer in time
    COSTLY = 5  # too little is left of the memory that untrusted files may take


class UnfitError(Exception):
    """It is not a regular file, or is too big."""


FAILURES = (UnfitError, OSError, ValueError, MemoryError)


class FileFacts(NamedTuple):
    """Facts of an opened file by fstat(2), and with whose rights files that it names are read."""

    device: int
    inode: int
    modified_ns: int
    owner: int
    speaks_for: int
    changed_ns: int


class Request(NamedTuple):
    """A file that is to be opened.

    Attributes:
        path: absolute, as seen from the root.
        root: a directory that it is below, such as ``/proc/PID/root``; b"/" for our own.
        uid: with whose rights, OWN_RIGHTS for ours.
        largest_bytes: a bigger file is opened only if nobody but root and we can change it.
        is_link: whether the path is a link of /proc, which is to be followed as it is.
        as_everybody: whether only what every user may read is opened.
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
    """Asks a child, which is started at the first question and again after one went unanswered."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._child = Child()
        self._silent: set[tuple[int, bytes]] = set()
        self._turn = allocate_lock()

    def open(self, request: Request) -> tuple[int, FileFacts] | Refusal:
        """Open a regular file for reading, within some seconds.

        If a user's names have led to files that do not answer, no more of them are looked up there.
        Threads take turns.
        """
        with self._turn:
            return self._open(request)

    def _open(self, request: Request) -> tuple[int, FileFacts] | Refusal:
        place = request.uid, request.root
        if place in self._silent or len(request.path) + len(request.root) > LONGEST_REQUEST // 2:
            return Refusal.SILENT if place in self._silent else Refusal.MISSING
        try:
            answer = self._ask(request)
        except OSError:
            answer = None
        if answer is None:
            self._silent.add(place)
            self.close()
            return Refusal.SILENT
        return answer

    @property
    def pid(self) -> int:
        """The child, 0 if there is none."""
        return self._child.pid

    def start(self) -> None:
        """Start the child, unless it is there, as a program without pages of this process.

        Raises:
            OSError: it cannot be started.
        """
        with self._turn:
            if self._socket is None:
                self._start(is_program=True)

    def close(self) -> None:
        """Let the child go."""
        if self._socket is None:
            return
        self._socket.close()
        self._socket = None
        self._child.stop()
        self._child.kill()

    def __del__(self) -> None:
        """Close the channel, as the interpreter ends: the child ends by that, in its own time."""
        if self._socket is not None:
            self._socket.close()

    def _ask(self, request: Request) -> tuple[int, FileFacts] | Refusal | None:
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
                return Refusal(outcome)
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
            # Before a refusal: a server that keeps this waiting, or fails it, is the file's own.
            os.close(descriptor)
    except FAILURES as error:
        channel.send(_ANSWER.pack(refusal_of(error), *_NO_FACTS))


def _open(wanted: Request, switch: Switch) -> tuple[int, FileFacts]:
    """Open a file with the rights of the user who names it."""
    # The root is ours to name: the user may not even be allowed to see it.
    root = wanted.root if wanted.root == b"/" else b"/proc/self/fd/%d" % _directory(wanted.root)
    try:
        try:
            if wanted.uid != OWN_RIGHTS:
                switch.take_on(wanted.uid)
            find = _followed if wanted.is_link else walk_to
            return open_place(find(wanted, root), wanted.largest_bytes)
        finally:
            switch.lay_down()
    finally:
        if root != b"/":
            os.close(int(root.rpartition(b"/")[2]))


def _followed(wanted: Request, _: bytes) -> int:
    return os.open(wanted.path, PATH_ONLY)


def walk_to(wanted: Request, root: bytes, may_wait: Callable[[int], bool] | None = None) -> int:
    """Walk to what is wanted; see `walk`."""
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


def refusal_of(error: Exception) -> Refusal:
    """Return what an exception of `walk_to`, `open_place` or of reading means."""
    is_link = isinstance(error, OSError) and error.errno == errno.ELOOP
    if is_link or isinstance(error, (UnfitError, MemoryError)):
        return Refusal.UNFIT
    return Refusal.FORBIDDEN if isinstance(error, PermissionError) else Refusal.MISSING


def _directory(root: bytes) -> int:
    return os.open(root, PATH_ONLY | os.O_DIRECTORY)


def open_place(place: int, largest_bytes: int) -> tuple[int, FileFacts]:
    """Open the file that a descriptor of a path refers to, if it is one; close the descriptor.

    A device is not even opened: that alone starts a watchdog.

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

    Now and then a word to the other end shows that this goes on.
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


if __name__ == "__main__":  # `Opener.start` says when
    from socket import socket as _socket

    _serve(_socket(fileno=given()[1]))
