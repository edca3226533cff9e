"""Addresses of what takes profiles. Cheap to import: options are read with it.

Source: "OpenTelemetry Protocol Exporter", the variables OTEL_EXPORTER_OTLP_HEADERS and _INSECURE
and their forms for profiles, whose path is of their state of development; Pyroscope's server API,
``push.v1.PusherService/Push`` as a Connect request; Parca's ``ProfileStoreService.WriteRaw``
(``parca/profilestore/v1alpha1/profilestore.proto``), which its gateway has below ``/api``.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from prospect.errors import PushError, StoreError
from prospect.fleet.store_places import is_loopback, refuse_credentials
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Backend(NamedTuple):
    """A kind of server that takes profiles.

    Attributes:
        scheme: what its URLs have in front of "http"; "" for none.
        path: where it takes them.
        variables: of the environment, with "HEADERS" and "INSECURE" in their place; later ones win.
        media_type: of a request.
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
    """Where profiles go."""

    backend: Backend
    url: str


def endpoint_of(url: str, environment: Mapping[str, str] = os.environ) -> Endpoint:
    """Return where profiles go, of the URL that a person gives.

    Raises:
        PushError: it is no such URL, carries credentials, or would carry profiles in the clear.
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
