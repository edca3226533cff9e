"""Connections to the server → which of them is given up where there are too many.

Comes in: accepted sockets of the loopback interface, and word that a request arrived. Goes out: the
one that has to go. Any user of the machine may connect and say nothing. So of those from which no
request has come, the oldest one goes of the user who has most of them.
Source: ``get_tcp4_sock`` (``net/ipv4/tcp_ipv4.c``, Linux 6.18) for the columns of /proc/net/tcp.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from pathlib import Path

# A client may have an IPv6 socket for an IPv4 address.
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LOCAL, _REMOTE, _UID = 1, 2, 7
_NOBODY = -1


class Waiting:
    """Connections from which no request has come yet, the oldest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, tuple[int, int]] = {}

    def add(self, connection: socket.socket) -> None:
        """Begin to wait for a request."""
        with self._lock, contextlib.suppress(OSError):  # it may be gone by now
            ports = connection.getpeername()[1], connection.getsockname()[1]
            self._connections[connection] = ports

    def remove(self, connection: socket.socket) -> None:
        """Take note that a request came, or that none will."""
        with self._lock:
            self._connections.pop(connection, None)

    def drop_one(self) -> bool:
        """Let a connection end, whose reader finds no more to read; return whether there is one."""
        with self._lock:
            if not self._connections:
                return False
            users = _users()
            user_of = {one: users.get(ports, _NOBODY) for one, ports in self._connections.items()}
            ((user, _),) = Counter(user_of.values()).most_common(1)
            oldest = next(one for one, its_user in user_of.items() if its_user == user)
            del self._connections[oldest]
            with contextlib.suppress(OSError):  # the other end went away
                oldest.shutdown(socket.SHUT_RDWR)
        return True


def _users() -> dict[tuple[int, int], int]:
    """Return the user of each socket on this machine by its own port and the other end's."""
    users = {}
    for table in _TABLES:
        with contextlib.suppress(OSError):  # without IPv6 there is no second one
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                columns = line.split()
                own, other = (int(columns[at].rpartition(":")[2], 16) for at in (_LOCAL, _REMOTE))
                users[own, other] = int(columns[_UID])
    return users
