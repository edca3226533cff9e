"""Files that this machine lacks, from debug-file servers.

The servers are those of DEBUGINFOD_URLS. The files with the most hits are requested first, and go
into the cache. All requests together have a time limit: they run in threads, which are abandoned
when the time is over. A server that fails is not asked again.

The protocol is that of debuginfod(8), "WEBAPI": GET PREFIX/buildid/BUILDID/debuginfo, or
/executable. Servers are not trusted: time and bytes are counted here as they arrive, and redirects
are limited. This module is imported only when a server is asked.
"""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from enum import Enum
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit, urlunsplit

from prospect.symbols.cache_directory import new_file, part_name
from prospect.symbols.images.debug_files import (
    ABSENT_SUFFIX,
    DEBUG_INFO,
    DOWNLOAD_SUFFIXES,
    EXECUTABLE,
    kept_name,
)
from prospect.symbols.images.image_files import open_image, same_build_id
from prospect.symbols.symbols_limits import (
    ABSENT_FOR_S,
    CONNECT_S,
    LARGEST_DOWNLOAD_BYTES,
    MOST_DOWNLOADS,
    MOST_REDIRECTS,
)
from prospect.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prospect.symbols.cache_directory import CacheDirectory
    from prospect.symbols.naming_options import DebugServers
    from prospect.symbols.objects import Wanted


_PROGRESS_S = 0.1
# As elfutils: a server is too slow if it has not sent this much in `DebugServers.prompt_s`.
_PROMPT_BYTES = 100 << 10
_CHUNK_BYTES = 1 << 16


class Outcome(Enum):
    """The result of a request; the text says why an object has no names."""

    FOUND = ""
    ABSENT = "no debug-file server has it"
    TOO_BIG = "its debug file is larger than is fetched"
    FAILED = "no debug-file server could be asked for it"
    LATE = "its debug file did not arrive in time"


# debuginfod(8) answers 406 to a file that is larger than X-DEBUGINFOD-MAXSIZE.
_ANSWERS = {404: Outcome.ABSENT, 410: Outcome.ABSENT, 406: Outcome.TOO_BIG}


def fetch_all(
    wanted: Sequence[Wanted],
    servers: DebugServers,
    kept: CacheDirectory,
    announce: Callable[[str], None] | None,
) -> tuple[dict[bytes, Outcome], list[str]]:
    """Request files until all are here or the time is over.

    Args:
        wanted: the files in the order of requests; each build id once.
        kept: the cache, which gets the files.
        announce: called several times a second with the progress; None to say nothing.

    Returns:
        The result for each build id, and sentences about servers that failed.
    """
    run = _Run(wanted, servers, kept)
    deadline = time.monotonic() + servers.budget_s
    try:
        run.start()
        while (left_s := deadline - time.monotonic()) > 0:
            if announce:
                announce(run.progress(left_s))
            if run.finished.wait(min(left_s, _PROGRESS_S)):
                break
    finally:
        answers = run.stop()
    kept.evict(DOWNLOAD_SUFFIXES, LARGEST_DOWNLOAD_BYTES)
    return answers


class _RefusedError(Exception):
    """The server's answer must not be kept."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.name)
        self.outcome = outcome


class _Run:
    """The state that the threads of one `fetch_all` share."""

    def __init__(
        self, wanted: Sequence[Wanted], servers: DebugServers, kept: CacheDirectory
    ) -> None:
        self.finished = threading.Event()
        self._wanted = wanted
        self._queue: Iterator[Wanted] = iter(wanted)
        self._limits = servers
        hosts = frozenset(map(host_of, servers.urls))
        self._servers = {url: DebugServer(url, hosts) for url in servers.urls}
        self._kept = kept
        self._lock = threading.Lock()
        self._threads = min(MOST_DOWNLOADS, len(wanted))
        self._is_stopped = False
        self._received_bytes = 0
        self._parts: set[str] = set()
        self._failures: dict[str, str] = {}
        self._unwritable = ""
        self._outcomes: dict[bytes, Outcome] = {}

    def start(self) -> None:
        """Make the cache's directory and start the threads."""
        try:
            self._kept.make()
        except OSError as error:
            self._unwritable = error.strerror or str(error)
        for _ in range(self._threads):
            threading.Thread(target=self._work, daemon=True).start()

    def stop(self) -> tuple[dict[bytes, Outcome], list[str]]:
        """End all requests, remove unfinished files, and return the result of `fetch_all`."""
        with self._lock:
            self._is_stopped = True
            unasked = Outcome.FAILED if self._unwritable else Outcome.LATE
            outcomes = {
                one.build_id: self._outcomes.get(one.build_id, unasked) for one in self._wanted
            }
            notes = [
                f"The debug-file server {_without_password(url)} was given up: {reason}."
                for url, reason in self._failures.items()
            ]
            parts = list(self._parts)
        self._kept.remove(parts)
        if self._unwritable:
            notes.append(
                f"{self._kept.path} cannot be written, so nothing is fetched from debug-file "
                f"servers: {self._unwritable}."
            )
        late = sum(outcome is Outcome.LATE for outcome in outcomes.values())
        if late:
            notes.append(
                f"The debug-file servers were given {self._limits.budget_s:g} s, in which they did "
                f"not answer for {late} of {len(outcomes)} objects; --debuginfod SEC gives them "
                "longer."
            )
        return outcomes, notes

    def progress(self, left_s: float) -> str:
        """Return a line about the progress."""
        return (
            f"asking debug-file servers: {len(self._outcomes)} of {len(self._wanted)} objects, "
            f"{self._received_bytes / 1e6:.0f} MB; {left_s:.0f} s left ..."
        )

    def _work(self) -> None:
        try:
            while one := self._next():
                outcome = self._serve(one)
                with self._lock:
                    if not self._is_stopped:
                        self._outcomes[one.build_id] = outcome
        finally:
            with self._lock:
                self._threads -= 1
                if not self._threads:
                    self.finished.set()

    def _next(self) -> Wanted | None:
        with self._lock:
            if self._is_stopped or self._unwritable:
                return None
            return next(self._queue, None)

    def _serve(self, one: Wanted) -> Outcome:
        if one.needs_image:
            outcome = self._obtain(one.build_id, EXECUTABLE)
            if outcome is not Outcome.FOUND or self._has_symbols(one.build_id):
                return outcome
        return self._obtain(one.build_id, DEBUG_INFO)

    def _has_symbols(self, build_id: bytes) -> bool:
        path = self._kept.use(kept_name(build_id, EXECUTABLE))
        found = open_image(path) if path else None
        return found is not None and found.image.find_section(b".symtab") >= 0

    def _obtain(self, build_id: bytes, kind: str) -> Outcome:
        """Find a file in the cache, else ask one server after another."""
        if self._kept.use(kept_name(build_id, kind)):
            return Outcome.FOUND
        marker = self._absent_name(build_id, kind)
        age_s = self._kept.age_s(marker)
        if age_s is not None and age_s < ABSENT_FOR_S:
            return Outcome.ABSENT
        outcomes = []
        for url, server in self._servers.items():
            if url not in self._failures and not self._is_stopped:
                outcome = self._ask(url, server, build_id, kind)
                if outcome is Outcome.FOUND:
                    return outcome
                outcomes.append(outcome)
        if outcomes == [Outcome.ABSENT] * len(self._servers):
            self._kept.put(marker, ())
            return Outcome.ABSENT
        if self._is_stopped:
            return Outcome.LATE
        return Outcome.TOO_BIG if Outcome.TOO_BIG in outcomes else Outcome.FAILED

    def _ask(self, url: str, server: DebugServer, build_id: bytes, kind: str) -> Outcome:
        part = part_name()
        with self._lock:
            self._parts.add(part)
        try:
            self._fetch(server, build_id, kind, part)
        except _RefusedError as refusal:
            return refusal.outcome
        except ServerError as failure:
            with self._lock:
                self._failures.setdefault(url, str(failure))
            return Outcome.FAILED
        except (KeepingError, OSError) as error:
            self._unwritable = getattr(error, "strerror", "") or str(error)
            return Outcome.FAILED
        finally:
            with self._lock:
                self._parts.discard(part)
        return Outcome.FOUND

    def _fetch(self, server: DebugServer, build_id: bytes, kind: str, part: str) -> None:
        """Fetch a file into the cache, if it has the build id."""
        with (
            self._kept.opened() as directory,
            new_file(directory, kept_name(build_id, kind), part) as descriptor,
        ):
            answer = server.fetch(build_id, kind, descriptor, self._limits, self._wants)
            if answer is not Outcome.FOUND:
                raise _RefusedError(answer)
            found = open_image(b"/proc/self/fd/%d" % descriptor)
            if found is None or not same_build_id(build_id, found.image.build_id):
                raise ServerError("it sent another file than was asked for")

    def _wants(self, arrived_bytes: int) -> bool:
        """Count bytes that arrive; return whether there is time and room for more."""
        with self._lock:
            self._received_bytes += arrived_bytes
            return not self._is_stopped and self._received_bytes <= LARGEST_DOWNLOAD_BYTES

    def _absent_name(self, build_id: bytes, kind: str) -> str:
        """Name the marker that these servers have no such file; others may have it."""
        servers = hashlib.blake2b(" ".join(self._servers).encode(), digest_size=8).hexdigest()
        return f"{build_id.hex()}-{kind}-{servers}{ABSENT_SUFFIX}"


def _without_password(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class ServerError(Exception):
    """A server cannot be used; the text says why, as the end of a sentence."""


class KeepingError(Exception):
    """The answer cannot be written; the text says why."""


class DebugServer:
    """A server by the prefix of its addresses; several threads may use it.

    It may redirect to the hosts that a person named, and to public addresses.
    """

    def __init__(self, prefix: str, hosts: frozenset[str]) -> None:
        self._prefix = prefix.rstrip("/")
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.UnknownHandler(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            _Redirects(hosts),
            _Connections(hosts),
        ):
            self._opener.add_handler(handler)

    def fetch(
        self,
        build_id: bytes,
        kind: str,
        descriptor: int,
        limits: DebugServers,
        wants: Callable[[int], bool],
    ) -> Outcome:
        """Fetch a file; return FOUND, ABSENT, or TOO_BIG, also if `wants` returns False.

        Args:
            kind: ``debuginfo`` or ``executable``.
            wants: called with the number of bytes that arrived; returns whether to go on.

        Raises:
            ServerError: the server cannot be reached, is too slow, or does not keep to HTTP.
            KeepingError: the file cannot be written.
        """
        address = f"{self._prefix}/buildid/{build_id.hex()}/{kind}"
        headers = {
            "User-Agent": f"prospect/{__version__}",
            "Accept-Encoding": "identity",
            "X-DEBUGINFOD-MAXSIZE": str(limits.most_bytes),
        }
        begun = time.monotonic()
        try:
            request = urllib.request.Request(address, headers=headers)  # noqa: S310 - http handlers only
            with self._opener.open(request, timeout=limits.prompt_s) as response:
                return _receive(response, descriptor, limits, wants, begun)
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
    limits: DebugServers,
    wants: Callable[[int], bool],
    begun: float,
) -> Outcome:
    """Write the body of an answer; see `DebugServer.fetch`."""
    if response.getheader("Content-Encoding", "identity") != "identity":
        raise ServerError("it compresses a file that was requested uncompressed")
    received = 0
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        while chunk := response.read1(_CHUNK_BYTES):
            received += len(chunk)
            elapsed_s = time.monotonic() - begun
            if received > limits.most_bytes or not wants(len(chunk)):
                return Outcome.TOO_BIG
            if elapsed_s > limits.prompt_s and received < _PROMPT_BYTES:
                raise ServerError(f"it sent {received} bytes in {elapsed_s:.0f} s")
            if elapsed_s > limits.whole_s:
                raise ServerError(f"a file took longer than {limits.whole_s:.0f} s")
            _write(file, chunk)
    if response.length:
        raise ServerError("it broke off in the middle of a file")
    return Outcome.FOUND


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
    """Follows few redirects, to named hosts and public addresses, and never from https to http."""

    max_redirections = MOST_REDIRECTS
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
        """Return the next request; None makes an HTTPError of this status."""
        scheme = urlsplit(newurl).scheme
        if scheme != "https" and (scheme != "http" or req.type != "http"):
            return None
        host = host_of(newurl)
        if host not in self._hosts:
            for address in _addresses(host):
                _check_public(address)
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]  # as it came


class _HttpConnection(http.client.HTTPConnection):
    """Waits at most CONNECT_S for a connection, which is less than for an answer."""

    def connect(self) -> None:
        """Connect within CONNECT_S."""
        patience_s = self.timeout
        self.timeout = min(patience_s or CONNECT_S, CONNECT_S)
        super().connect()
        self.sock.settimeout(patience_s)


class _HttpsConnection(_HttpConnection, http.client.HTTPSConnection):
    """The same, encrypted and with a checked certificate; CONNECT_S includes the handshake."""


class _PublicHttpConnection(_HttpConnection):
    """The same, to public addresses only: the name may have another address by now."""

    def connect(self) -> None:
        """Connect; send nothing to an address that is not public."""
        super().connect()
        _check_public(self.sock.getpeername()[0])


class _PublicHttpsConnection(_PublicHttpConnection, _HttpsConnection):
    """The same, encrypted."""


class _Connections(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Connects to named hosts, and to public addresses of others."""

    def __init__(self, hosts: frozenset[str]) -> None:
        super().__init__()
        self._hosts = hosts

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        is_named = self._is_named(req)
        return self.do_open(_HttpConnection if is_named else _PublicHttpConnection, req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        is_named = self._is_named(req)
        return self.do_open(_HttpsConnection if is_named else _PublicHttpsConnection, req)

    def _is_named(self, request: urllib.request.Request) -> bool:
        # A proxy is a host that a person named, too.
        return request.has_proxy() or host_of(request.full_url) in self._hosts


def host_of(url: str) -> str:
    """Return the host in an address, "" if there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _addresses(host: str) -> list[str]:
    """Return the addresses of a host, none if only a proxy can resolve it."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(address[0]) for *_, address in found]


def _check_public(text: str) -> None:
    """Raise URLError if an address belongs to this machine or its network."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if not address.is_global or address.is_multicast:
        raise urllib.error.URLError(f"it sent us on to {text}, which is not a public address")
