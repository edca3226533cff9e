"""Parse names of places: a directory of stores, its URL, a prefix of an S3 bucket, or a collector.

Messages and lists of processes show URLs. So a URL with a password is refused, and the refusal does
not repeat it. Option parsing imports this module, so it is cheap to import.

Source: "OpenTelemetry Protocol Exporter", the variables OTEL_EXPORTER_OTLP_HEADERS and _INSECURE
and their forms for profiles, whose path has their state of development; Pyroscope's server API,
``push.v1.PusherService/Push`` as a Connect request; Parca's ``ProfileStoreService.WriteRaw``
(``parca/profilestore/v1alpha1/profilestore.proto``), which its gateway has below ``/api``.
"""

from __future__ import annotations

import ipaddress
import os
import re
from urllib.parse import unquote, urlsplit

from prospect.errors import PushError, StoreError
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FILE, S3 = "file", "s3"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_USER = re.compile(r"(?<=://)[^/\s]*@")
_QUERY = re.compile(r"(?<=://)([^\s?#]*)[?#]\S*")


class Place(NamedTuple):
    """A place of stores.

    Attributes:
        scheme: `FILE` or `S3`.
        bucket: the bucket of S3, else "".
        path: the directory, or the prefix in a bucket, without a slash at its ends.
    """

    scheme: str
    bucket: str
    path: str

    @property
    def url(self) -> str:
        """Its name in messages."""
        if self.scheme == FILE:
            return self.path
        return f"{S3}://{self.bucket}/{self.path}".rstrip("/")


def place_of(name: str) -> Place:
    """Parse the name of a place of stores.

    Raises:
        StoreError: it is a URL of something else, or has credentials.
    """
    scheme, colon, rest = name.partition("://")
    if not colon or "/" in scheme:
        return Place(FILE, "", name)
    refuse_credentials(name)
    if scheme == FILE and rest.startswith("/"):
        return Place(FILE, "", unquote(rest))
    bucket, _, prefix = rest.partition("/")
    parts = prefix.strip("/").split("/") if prefix.strip("/") else []
    if scheme != S3:
        raise StoreError(f"{name}: give a directory, or a URL as file:///srv/profiles or s3://B/P")
    if not _BUCKET.fullmatch(bucket) or not all(map(_is_part, parts)):
        raise StoreError(f"{name}: give a bucket and a prefix, as s3://profiles/fleet")
    return Place(S3, bucket, "/".join(parts))


def refuse_credentials(url: str) -> None:
    """Refuse a URL with a user, a password, or a query, which may have credentials.

    Raises:
        StoreError: it has one; the message does not repeat it.
    """
    rest = url.partition("://")[2]
    if "@" in rest.partition("/")[0] or "?" in rest or "#" in rest:
        raise StoreError(
            "a URL with a user, a password or a query is refused, because others see command lines;"
            " credentials come from the environment, from files or from the instance: see"
            " docs/fleet.md"
        )


def is_loopback(url: str) -> bool:
    """Whether a URL is of this machine, by its address or the name localhost."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def without_credentials(text: str) -> str:
    """Return text without the users, passwords and queries of URLs in it.

    >>> without_credentials("s3://me:secret@b/p: no, http://h/x?key=1")
    's3://...@b/p: no, http://h/x?...'
    """
    return _QUERY.sub(r"\1?...", _USER.sub("...@", text))


def _is_part(part: str) -> bool:
    return part not in ("", ".", "..") and part.isprintable() and "\\" not in part


class Backend(NamedTuple):
    """A kind of server that takes profiles.

    Attributes:
        scheme: the prefix of its URLs before "http"; "" for none.
        path: the path of its URL that takes profiles.
        variables: of the environment, with "{}" for "HEADERS" or "INSECURE"; later ones win.
    """

    scheme: str
    path: str
    variables: tuple[str, ...]
    media_type: str


_OWN_VARIABLES = ("PROSPECT_PUSH_{}",)
OTLP = Backend(
    "",
    "/v1development/profiles",
    ("OTEL_EXPORTER_OTLP_{}", "OTEL_EXPORTER_OTLP_PROFILES_{}"),
    "application/x-protobuf",
)
PYROSCOPE = Backend("pyroscope+", "/push.v1.PusherService/Push", _OWN_VARIABLES, "application/json")
PARCA = Backend("parca+", "/api/profiles/writeraw", _OWN_VARIABLES, "application/json")
_BACKENDS = (PYROSCOPE, PARCA, OTLP)  # the one without its own scheme last


class Endpoint(NamedTuple):
    """A server that takes profiles, and its URL."""

    backend: Backend
    url: str


def endpoint_of(url: str, environment: Mapping[str, str] = os.environ) -> Endpoint:
    """Parse the URL of a server that takes profiles.

    Raises:
        PushError: it is no such URL, has credentials, or would send profiles unencrypted.
    """
    try:
        refuse_credentials(url)
    except StoreError as error:
        raise PushError(str(error)) from None
    backend = next(one for one in _BACKENDS if url.startswith(one.scheme))
    address = url.removeprefix(backend.scheme)
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or not url.isprintable() or " " in url:
        raise PushError(
            "give the URL of a collector, as https://collector:4318, pyroscope+https://HOST:4040"
            " or parca+https://HOST:7070"
        )
    if parts.scheme == "http" and not is_loopback(address):
        said = [environment.get(name.format("INSECURE"), "") for name in backend.variables]
        if "true" not in (one.lower() for one in said):
            raise PushError(
                "http:// is for this machine alone, because anybody on the way can read profiles:"
                f" give https://, or set {backend.variables[0].format('INSECURE')}=true"
            )
    base = address.rstrip("/")
    return Endpoint(backend, base if base.endswith(backend.path) else base + backend.path)
