"""A debug-file server: what it has of a build id → a file.

The protocol is that of debuginfod(8), "WEBAPI": GET PREFIX/buildid/BUILDID/debuginfo, or
/executable. A server is somebody else's program: what it may cost in time and bytes is counted here
as it arrives, whatever it says of itself, and where it may send us on to is limited. Imported only
when a server is asked.
"""

from __future__ import annotations

import http.client
import ipaddress
import os
import socket
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit

from prospect.records import Record
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

CONNECT_S = 5.0
"""How long a server may take to accept a connection."""

FOUND = "found"
ABSENT = "absent"
TOO_BIG = "too big"

# As elfutils: a server that has not sent this much in the time it is given is too slow.
_PROMPT_BYTES = 100 << 10
_CHUNK_BYTES = 1 << 16
_MOST_REDIRECTS = 5
# debuginfod(8) answers 406 to a file that is larger than X-DEBUGINFOD-MAXSIZE.
_ANSWERS = {404: ABSENT, 410: ABSENT, 406: TOO_BIG}


class ServerError(Exception):
    """A server is of no use; the text says why, as the end of a sentence."""


class KeepingError(Exception):
    """The answer cannot be written; the text says why."""


class Patience(Record):
    """Bounds on the cost of one file.

    Attributes:
        prompt_s: within this the answer, and its first 100 KiB, must be there.
        whole_s: within this the whole file must be there.
        most_bytes: how large it may be.
    """

    prompt_s: float
    whole_s: float
    most_bytes: int


class DebugServer:
    """A server by the prefix of its addresses; fit to be used by several threads."""

    def __init__(self, prefix: str, hosts: frozenset[str]) -> None:
        """Begin.

        Args:
            prefix: of its addresses.
            hosts: those that a person named; it may send us on to these, and to public addresses.
        """
        self._prefix = prefix.rstrip("/")
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.UnknownHandler(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            _Redirects(hosts),
            _HttpHandler(hosts),
            _HttpsHandler(hosts),
        ):
            self._opener.add_handler(handler)

    def fetch(
        self,
        build_id: bytes,
        kind: str,
        descriptor: int,
        patience: Patience,
        wants: Callable[[int], bool],
    ) -> str:
        """Fetch a file.

        Args:
            build_id: of the image.
            kind: ``debuginfo`` or ``executable``.
            descriptor: where to write it.
            patience: what it may cost.
            wants: called with how many bytes arrived; returns whether to go on.

        Returns:
            FOUND, ABSENT, or TOO_BIG, which is also where `wants` says no.

        Raises:
            ServerError: the server cannot be reached, is too slow, or does not keep to HTTP.
            KeepingError: the file cannot be written.
        """
        address = f"{self._prefix}/buildid/{build_id.hex()}/{kind}"
        headers = {
            "User-Agent": f"prospect/{__version__}",
            "Accept-Encoding": "identity",
            "X-DEBUGINFOD-MAXSIZE": str(patience.most_bytes),
        }
        begun = time.monotonic()
        try:
            request = urllib.request.Request(address, headers=headers)  # noqa: S310 - http handlers only
            with self._opener.open(request, timeout=patience.prompt_s) as response:
                return _receive(response, descriptor, patience, wants, begun)
        except urllib.error.HTTPError as error:
            with error:
                if error.code in _ANSWERS:
                    return _ANSWERS[error.code]
            raise ServerError(f"it answered with HTTP status {error.code}") from None
        except urllib.error.URLError as error:
            raise ServerError(_reason(error.reason)) from None
        except (http.client.HTTPException, OSError, ValueError) as error:
            raise ServerError(_reason(error)) from None


def _receive(
    response: http.client.HTTPResponse,
    descriptor: int,
    patience: Patience,
    wants: Callable[[int], bool],
    begun: float,
) -> str:
    """Write an answer's body; see `DebugServer.fetch`."""
    if response.getheader("Content-Encoding", "identity") != "identity":
        raise ServerError("it compresses a file that was requested uncompressed")
    received = 0
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        while chunk := response.read1(_CHUNK_BYTES):
            received += len(chunk)
            elapsed_s = time.monotonic() - begun
            if received > patience.most_bytes or not wants(len(chunk)):
                return TOO_BIG
            if elapsed_s > patience.prompt_s and received < _PROMPT_BYTES:
                raise ServerError(f"it sent {received} bytes in {elapsed_s:.0f} s")
            if elapsed_s > patience.whole_s:
                raise ServerError(f"a file took longer than {patience.whole_s:.0f} s")
            _write(file, chunk)
    if response.length:
        raise ServerError("it broke off in the middle of a file")
    return FOUND


def _write(file: BinaryIO, chunk: bytes) -> None:
    try:
        file.write(chunk)
        file.flush()
    except OSError as error:
        raise KeepingError(error.strerror or str(error)) from None


def _reason(error: BaseException | str) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows few redirections, to the public web only, and never from encrypted to open."""

    max_redirections = _MOST_REDIRECTS
    max_repeats = 2

    def __init__(self, hosts: frozenset[str]) -> None:
        self._hosts = hosts

    def redirect_request(  # noqa: PLR0913, PLR0917 - as the base class has it
        self,
        req: urllib.request.Request,
        fp: object,
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the next request; None is an HTTPError of this status."""
        scheme = urlsplit(newurl).scheme
        if scheme != "https" and (scheme != "http" or req.type != "http"):
            return None
        host = host_of(newurl)
        if host not in self._hosts:
            for address in _addresses(host):
                _check_public(address)
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]  # as it came


class _HttpConnection(http.client.HTTPConnection):
    """Waits less long for a connection than for an answer."""

    def connect(self) -> None:
        """Connect within CONNECT_S."""
        patience_s = self.timeout
        self.timeout = min(patience_s or CONNECT_S, CONNECT_S)
        super().connect()
        self.sock.settimeout(patience_s)


class _HttpsConnection(http.client.HTTPSConnection):
    """The same, encrypted; the server's certificate is checked."""

    def connect(self) -> None:
        """Connect, and agree on a key, within CONNECT_S each."""
        patience_s = self.timeout
        self.timeout = min(patience_s or CONNECT_S, CONNECT_S)
        super().connect()
        self.sock.settimeout(patience_s)


class _PublicHttpConnection(_HttpConnection):
    """The same to a public address: a name may stand for another one than a moment ago."""

    def connect(self) -> None:
        """Connect; say nothing to an address that is not public."""
        super().connect()
        _check_public(self.sock.getpeername()[0])


class _PublicHttpsConnection(_HttpsConnection):
    """The same, encrypted."""

    def connect(self) -> None:
        """Connect; ask nothing of an address that is not public."""
        super().connect()
        _check_public(self.sock.getpeername()[0])


class _HttpHandler(urllib.request.HTTPHandler):
    def __init__(self, hosts: frozenset[str]) -> None:
        super().__init__()
        self._hosts = hosts

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        is_named = _is_named(req, self._hosts)
        return self.do_open(_HttpConnection if is_named else _PublicHttpConnection, req)


class _HttpsHandler(urllib.request.HTTPSHandler):
    def __init__(self, hosts: frozenset[str]) -> None:
        super().__init__()
        self._hosts = hosts

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        is_named = _is_named(req, self._hosts)
        return self.do_open(_HttpsConnection if is_named else _PublicHttpsConnection, req)


def host_of(url: str) -> str:
    """Return the host that an address names, "" where it names none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_named(request: urllib.request.Request, hosts: frozenset[str]) -> bool:
    """Say whether a person named the host that is connected to; a proxy is one, too."""
    return request.has_proxy() or host_of(request.full_url) in hosts


def _addresses(host: str) -> list[str]:
    """Return the addresses of a host, none where only a proxy may know them."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(address[0]) for *_, address in found]


def _check_public(text: str) -> None:
    """Raise URLError where an address is of this machine or its own network."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if not address.is_global or address.is_multicast:
        raise urllib.error.URLError(f"it sent us on to {text}, which is not a public address")
