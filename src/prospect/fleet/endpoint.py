"""The address of an OpenTelemetry collector. Cheap to import: options are read with it.

Source: as `fleet.otlp`.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from prospect.errors import PushError, StoreError
from prospect.fleet.places import is_loopback, refuse_credentials

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PATH = "/v1development/profiles"
VARIABLES = ("OTEL_EXPORTER_OTLP_{}", "OTEL_EXPORTER_OTLP_PROFILES_{}")


def endpoint_of(url: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return where profiles go, of what somebody names as a collector.

    Raises:
        PushError: it is no such URL, carries credentials, or would carry profiles in the clear.
    """
    try:
        refuse_credentials(url)
    except StoreError as error:
        raise PushError(str(error)) from None
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or not url.isprintable() or " " in url:
        raise PushError("give the URL of a collector, as https://collector:4318")
    if parts.scheme == "http" and not is_loopback(url):
        said = [environment.get(name.format("INSECURE"), "") for name in VARIABLES]
        if "true" not in (one.lower() for one in said):
            raise PushError(
                "http:// is for this machine alone, because anybody on the way can read"
                " profiles: give"
                " https://, or set OTEL_EXPORTER_OTLP_INSECURE=true"
            )
    base = url.rstrip("/")
    return base if base.endswith(PATH) else base + PATH
