"""A debug-file server: what it has of a build id → a file.

In: an address prefix, a build id, a descriptor to write to. Out: what became of it. The protocol is
that of debuginfod(8), "WEBAPI": GET PREFIX/buildid/BUILDID/debuginfo, or /executable. A server is
somebody else's program: what it may cost in time and bytes is counted here as it arrives, whatever
it says of itself, and where it may send us on to is limited. Imported only when a server is asked.
"""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit

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
    """What arrives cannot be written; the text says why."""


@dataclass(frozen=True)
class Patience:
    """What one file may cost.

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

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.rstrip("/")
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.UnknownHandler(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            _Redirects(),
            _HttpHandler(),
            _HttpsHandler(),
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
            wants: told how many bytes arrived; says whether to go on.

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
        raise ServerError("it compresses what was asked for as it is")
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
    """Follows few redirections, to the web only, and never from encrypted to open."""

    max_redirections = _MOST_REDIRECTS
    max_repeats = 2

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


class _HttpHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_HttpConnection, req)


class _HttpsHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_HttpsConnection, req)
