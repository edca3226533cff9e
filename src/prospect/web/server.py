"""A site on a port of the loopback interface, until somebody ends it: answers to GET and HEAD.

The standard library's server is enough for one person's browser. Other users of the machine can
connect, too, so there are bounds on the number of connections, the size of a request, and the times
to send one and to read the answer. If there are too many connections, the user with most
connections without a request loses the oldest of these.
Source: RFC 9112, 3 (request line) and 9.6 (one request a connection); ``get_tcp4_sock``
(``net/ipv4/tcp_ipv4.c``, Linux 6.18) for the columns of /proc/net/tcp.

Any user can read command lines in /proc. So the desktop's browser gets a file that only this user
can read, which leads on to the address with its token. Jupyter Server opens its pages in the same
way.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import socketserver
import sys
import tempfile
import threading
import time
import webbrowser
from collections import Counter
from contextlib import contextmanager
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prospect.web.site import HEADERS, Answer
from prospect.web.web_limits import (
    ARRIVAL_S,
    DROPPED_S,
    LARGEST_HEAD_BYTES,
    MOST_CONNECTIONS,
    MOST_QUEUED,
    TAKING_S,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.web.site import GuardedSite


_ADDRESS = "127.0.0.1"
_END_OF_HEAD = b"\r\n\r\n"
_TOO_MANY = b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\n\r\n"
_TOO_LARGE = b"HTTP/1.0 431 Request Header Fields Too Large\r\n\r\n"
# A client may have an IPv6 socket for an IPv4 address.
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LOCAL, _REMOTE, _UID = 1, 2, 7
_NOBODY = -1

_PAGE = """<!DOCTYPE html>
<meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={address}">
<title>Prospect</title>
"""


class LoopbackServer(ThreadingHTTPServer):
    """Serves a site to this machine alone.

    Args:
        port: 0 for any that is free.

    Raises:
        OSError: the port is not available.
    """

    daemon_threads = True
    request_queue_size = MOST_QUEUED
    allow_reuse_port = False  # of two servers on one port, either would get a request
    block_on_close = False  # nobody waits for a browser

    def __init__(self, site: GuardedSite, port: int) -> None:
        self.site = site
        self.waiting = Waiting()
        self._free = threading.Semaphore(MOST_CONNECTIONS)
        super().__init__((_ADDRESS, port), _Handler)

    def server_bind(self) -> None:
        """Bind, without asking a name server for the name of 127.0.0.1 as the base class does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = _ADDRESS, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection; if there are too many, end one that is silent."""
        if self._free.acquire(blocking=False) or (
            self.waiting.drop_one() and self._free.acquire(timeout=DROPPED_S)
        ):
            self.waiting.add(request)
            try:
                super().process_request(request, client_address)
            except (RuntimeError, MemoryError):  # no further thread can start
                self.waiting.remove(request)
                self._free.release()
            else:
                return
        with contextlib.suppress(OSError):
            request.settimeout(0)
            request.send(_TOO_MANY)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.waiting.remove(request)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of a browser that goes away; all others are bugs of this program."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Reads one request and answers it."""

    server: LoopbackServer

    def version_string(self) -> str:
        """Return the name without a version."""
        return "prospect"

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BytesIO(_head(self.connection))
        self.server.waiting.remove(self.connection)
        self.connection.settimeout(TAKING_S)

    def do_GET(self) -> None:
        self._give(self.server.site.answer(self.path, self.headers), has_body=True)

    def do_HEAD(self) -> None:
        self._give(self.server.site.answer(self.path, self.headers), has_body=False)

    def _give(self, answer: Answer, *, has_body: bool) -> None:
        self.send_response(answer.status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", answer.media_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if has_body:
            self.wfile.write(answer.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002 - nothing of a bad request comes back
        """Answer other requests than GET and HEAD."""
        self.close_connection = True
        self._give(Answer(code), has_body=False)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its names
        """Log nothing: requests contain the token."""


def _head(connection: socket.socket) -> bytes:
    """Return a request's head; nothing if it is too large, or takes too long."""
    deadline = time.monotonic() + ARRIVAL_S
    head = b""
    try:
        while _END_OF_HEAD not in head:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            piece = connection.recv(LARGEST_HEAD_BYTES)
            head += piece
            if not piece or len(head) > LARGEST_HEAD_BYTES:
                if piece:
                    connection.send(_TOO_LARGE)
                return b""
    except OSError:
        return b""
    return head


class Waiting:
    """Connections without a request so far, the oldest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, tuple[int, int]] = {}

    def add(self, connection: socket.socket) -> None:
        """Begin to wait for a request."""
        with self._lock, contextlib.suppress(OSError):  # it may be gone by now
            ports = connection.getpeername()[1], connection.getsockname()[1]
            self._connections[connection] = ports

    def remove(self, connection: socket.socket) -> None:
        """Stop waiting: a request came, or the connection ended."""
        with self._lock:
            self._connections.pop(connection, None)

    def drop_one(self) -> bool:
        """Shut a connection down, so that its reader ends; return whether there was one."""
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


@contextmanager
def opened_in_browser(address: str) -> Iterator[bool]:
    """Open an address in the browser; its file is removed when the block ends.

    Yields:
        Whether there is a browser.

    Raises:
        OSError: there is no room for the file.
    """
    # In this user's own directory, which others cannot enter.
    descriptor, name = tempfile.mkstemp(
        prefix="prospect-", suffix=".html", dir=os.environ.get("XDG_RUNTIME_DIR") or None
    )
    path = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(_PAGE.format(address=escape(address)))
        yield webbrowser.open(path.as_uri())
    finally:
        path.unlink(missing_ok=True)
