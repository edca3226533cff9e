"""The socket for requests to a daemon: in its store, for its user and root only.

A request is a line of JSON, and so is the answer. The kernel tells each side the other's pid and
user.

Source: unix(7), SO_PEERCRED.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from prospect.capture.kernel.procfs import stat_fields
from prospect.daemon.daemon_limits import (
    ANSWER_S,
    ARRIVAL_S,
    LONGEST_LOOK_S,
    MOST_ANSWER_BYTES,
    MOST_CLIENTS_WAITING,
    MOST_REQUEST_BYTES,
    STATUS_S,
)
from prospect.errors import StoreError
from prospect.light import Closing

if TYPE_CHECKING:
    from prospect.store.directory import StoreDirectory

NAME = "control"
# Requests; "session" has a name after it.
COMMANDS = ("status", "stop", "start", "dump", "reset", "session")
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


class ControlSocket(Closing):
    """The socket on which a daemon listens."""

    def __init__(self, store: StoreDirectory) -> None:
        """Begin to listen; the caller has the store's lock.

        Raises:
            StoreError: the file system has no sockets.
        """
        self._store = store
        try:
            self._listen()
        except OSError as error:
            raise StoreError(f"{store.path}: cannot listen: {error.strerror}") from None

    def _listen(self) -> None:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        # The path of a socket has at most 107 bytes; that of a store may be longer.
        before = os.umask(0o177)
        try:
            with suppress(FileNotFoundError):
                os.unlink(NAME, dir_fd=self._store.descriptor)
            made.bind(self._store.root + NAME)
            made.listen(MOST_CLIENTS_WAITING)
            self._inode = self._inode_there()
        except BaseException:
            made.close()
            raise
        finally:
            os.umask(before)
        self._socket = made

    def keep(self) -> None:
        """Listen on a new socket if somebody removed or replaced this one's file."""
        try:
            if self._inode_there() == self._inode:
                return
        except FileNotFoundError:
            pass
        except OSError:
            return
        before = self._socket
        with suppress(OSError):  # a full disk, or a removed store: the next call tries again
            self._listen()
            before.close()

    def _inode_there(self) -> int:
        return os.stat(NAME, dir_fd=self._store.descriptor, follow_symlinks=False).st_ino

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._socket.fileno()

    def accept(self) -> Request | None:
        """Return the request of a client with the right to make it; None for others."""
        try:
            connection, _ = self._socket.accept()
        except OSError:
            return None
        request = Request(connection)
        try:
            connection.settimeout(ARRIVAL_S)
            _, user = _peer_of(connection)
            if user not in (0, os.geteuid()):
                request.answer({"error": f"user {user} may not control this daemon"})
                return None
            request.words = _words(_line(connection, MOST_REQUEST_BYTES))
        except (OSError, ValueError, RecursionError):
            connection.close()
            return None
        return request

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
        with suppress(OSError):
            os.unlink(NAME, dir_fd=self._store.descriptor)


class Request:
    """A request of a client that waits for the answer.

    Attributes:
        words: such as ``["session", "before"]``.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.words: list[str] = []

    def answer(self, reply: dict[str, Any]) -> None:
        """Answer, if the client still waits."""
        with suppress(OSError):
            self._connection.settimeout(ARRIVAL_S)
            self._connection.sendall(json.dumps(reply).encode() + b"\n")
        self._connection.close()


class NoAnswerError(StoreError):
    """A daemon writes to the store, but does not answer now."""


def ask(store: StoreDirectory, words: list[str]) -> dict[str, Any]:
    """Return the answer of the daemon that writes to a store.

    Raises:
        NoAnswerError: it is stopped, or too busy to give its status at once.
        StoreError: there is no daemon, or it refuses.
    """
    is_status = words == ["status"]
    try:
        there = os.stat(NAME, dir_fd=store.descriptor, follow_symlinks=False)
        owner = os.fstat(store.descriptor).st_uid
        if not stat.S_ISSOCK(there.st_mode) or there.st_uid not in (0, owner):
            raise StoreError(
                f"{store.path}/{NAME} is not the socket of a Prospect daemon: remove it, and start"
                " the daemon again"
            )
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
            connection.settimeout(STATUS_S if is_status else ANSWER_S)
            connection.connect(store.root + NAME)
            pid, user = _peer_of(connection)
            if user not in (0, owner):
                raise StoreError(f"{store.path}: user {user} answers, who does not own this store")
            if is_stopped(pid):
                raise NoAnswerError(
                    f"{store.path}: the daemon is stopped; kill -CONT {pid} resumes it"
                )
            with suppress(BrokenPipeError):  # a refusal may come before all is sent
                connection.sendall(json.dumps(words).encode() + b"\n")
            answer = json.loads(_line(connection, MOST_ANSWER_BYTES))
    except (FileNotFoundError, ConnectionRefusedError):
        if store.is_locked():
            raise NoAnswerError(
                f"{store.path}: a daemon writes to this store, but its socket '{NAME}' was removed:"
                f" it makes another within {LONGEST_LOOK_S:g} s"
            ) from None
        raise StoreError(
            f"{store.path}: no daemon writes to this store; start one: prospect daemon"
            f" {store.option}"
        ) from None
    except (TimeoutError, BlockingIOError):
        raise NoAnswerError(
            f"{store.path}: the daemon is busy and does not answer; ask again"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StoreError(f"{store.path}: the daemon does not answer: {reason}") from None
    if not isinstance(answer, dict):
        raise StoreError(f"{store.path}: the daemon's answer cannot be understood")
    if "error" in answer:
        raise StoreError(str(answer["error"]))
    return answer


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped, such as by SIGSTOP; see proc_pid_stat(5)."""
    return stat_fields(f"/proc/{pid}")[:1] == [b"T"]


def _peer_of(connection: socket.socket) -> tuple[int, int]:
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(peer)
    return int(pid), int(user)


def _line(connection: socket.socket, most_bytes: int) -> bytes:
    got = b""
    while not got.endswith(b"\n"):
        piece = connection.recv(min(most_bytes - len(got), 1 << 16))
        if not piece:
            raise ValueError("it ended early")
        got += piece
        if len(got) >= most_bytes:
            raise ValueError("it is too long")
    return got


def _words(line: bytes) -> list[str]:
    found = json.loads(line)
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise ValueError("no words")
    return found
