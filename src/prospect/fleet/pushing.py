"""Send a profile to a server: an OpenTelemetry collector, Pyroscope or Parca.

A collector gets OTLP/HTTP with Protocol Buffers: a request is the output of `render.otlp`, as
``ExportProfilesServiceRequest`` has the layout of ``ProfilesData``. Pyroscope and Parca get JSON
with labels and a pprof profile in base64. A request is tried twice at most, within a time bound.
Redirections are not followed. Messages repeat nothing of an answer but the number of refused
profiles.

Source: OpenTelemetry Protocol Specification 1.5, "OTLP/HTTP"; `fleet.store_places` has the others'.
"""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import os
import re
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING
from urllib.parse import unquote

from prospect.columns.protobuf_fields import fields
from prospect.errors import PushError, RecordingError
from prospect.fleet.fleet_limits import MOST_ANSWER_BYTES, PUSH_PAUSE_S, PUSH_S, STEP_S
from prospect.fleet.store_places import OTLP, PYROSCOPE, endpoint_of, is_loopback
from prospect.render.otlp import OtlpRenderer
from prospect.render.pprof import PprofRenderer
from prospect.version import __version__

if TYPE_CHECKING:
    from prospect.fleet.store_places import Backend, Endpoint
    from prospect.options import Detail
    from prospect.profile.model import Profile


# A second try may succeed after these.
_PASSING = (429, 502, 503, 504)
_TOKEN = re.compile(r"[A-Za-z0-9_.-]+")
_WELL_PACKED = 6


class _RefusedError(Exception):
    """The reason of a failed try, and whether another one may succeed."""

    def __init__(self, reason: str, *, may_pass: bool) -> None:
        super().__init__(reason)
        self.may_pass = may_pass


def document_for(url: str, profile: Profile, detail: Detail, *, inline: bool = False) -> bytes:
    """Return the body of a request that sends a profile to `url`; raises as the renderers."""
    backend = endpoint_of(url).backend
    out = BytesIO()
    renderer = OtlpRenderer if backend is OTLP else PprofRenderer
    renderer(detail=detail, inline=inline).render(profile, out)
    if backend is OTLP:
        return out.getvalue()
    run = profile.run
    named = {
        "__name__": "process_cpu",
        "service_name": os.path.basename(run.command[0]) if run.command else "machine",
        "instance": run.hostname,
        "job": "prospect",
    }
    pairs = [{"name": name, "value": value} for name, value in named.items() if value]
    series = {
        "labels": pairs if backend is PYROSCOPE else {"labels": pairs},
        "samples": [{"rawProfile": base64.b64encode(out.getvalue()).decode("ascii")}],
    }
    return json.dumps({"series": [series]}).encode()


def push(url: str, document: bytes) -> None:
    """Send the result of `document_for`, in `PUSH_S` at most.

    Raises:
        PushError: the server does not take it.
    """
    endpoint = endpoint_of(url)
    failure: list[str] = ["it does not answer in time"]

    def work() -> None:
        failure[:] = _tried(endpoint, gzip.compress(document, _WELL_PACKED))

    # A collector may answer a byte at a time. Nobody waits for such a thread.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PUSH_S)
    if failure:
        raise PushError(f"{url}: the collector does not have the profile: {failure[0]}")


def _tried(endpoint: Endpoint, body: bytes) -> list[str]:
    """Try twice; return the reason of the failure, an empty list for success."""
    for is_last in (False, True):
        try:
            _post(endpoint, body)
        except _RefusedError as error:
            if is_last or not error.may_pass:
                return [str(error)]
            threading.Event().wait(PUSH_PAUSE_S)
        else:
            break
    return []


def _post(endpoint: Endpoint, body: bytes) -> None:
    headers = {
        **_own_headers(endpoint.backend),
        "Content-Type": endpoint.backend.media_type,
        "Content-Encoding": "gzip",
        "User-Agent": f"prospect/{__version__}",
    }
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler({} if is_loopback(endpoint.url) else None),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
    ):
        opener.add_handler(handler)
    request = urllib.request.Request(endpoint.url, body, headers)  # noqa: S310 - http handlers only
    try:
        with opener.open(request, timeout=STEP_S) as response:
            answer = response.read(MOST_ANSWER_BYTES)
    except urllib.error.HTTPError as error:
        reason = _reason(endpoint.backend, error.code)
        error.close()
        raise _RefusedError(reason, may_pass=error.code in _PASSING) from None
    except TimeoutError:
        raise _RefusedError("it does not answer in time", may_pass=True) from None
    except (OSError, http.client.HTTPException) as error:
        cause = getattr(error, "reason", None) or error
        if isinstance(cause, TimeoutError):
            raise _RefusedError("it does not answer in time", may_pass=True) from None
        text = getattr(cause, "strerror", None) or type(cause).__name__
        raise _RefusedError(f"it cannot be reached: {text}", may_pass=True) from None
    if endpoint.backend is OTLP and (rejected := _rejected(answer)):
        raise _RefusedError(f"it refuses {rejected} of its profiles", may_pass=False)


def _reason(backend: Backend, status: int) -> str:
    match status:
        case 401:
            return f"it does not know the credentials of {backend.variables[0].format('HEADERS')}"
        case 403:
            return "it refuses access"
        case 404:
            return f"it takes no profiles at {backend.path}"
    return f"it answers with status {status}"


def _own_headers(backend: Backend) -> dict[str, str]:
    """Return the headers that the environment adds, credentials among them."""
    found: dict[str, str] = {}
    for name in backend.variables:
        for pair in os.environ.get(name.format("HEADERS"), "").split(","):
            key, _, value = pair.partition("=")
            key, value = key.strip(), unquote(value.strip())
            if _TOKEN.fullmatch(key) and value.isascii() and value.isprintable():
                found[key] = value
    return found


def _rejected(answer: bytes) -> int:
    """Return the number of profiles that an ``ExportProfilesServiceResponse`` refuses."""
    with suppress(RecordingError):
        for number, _, _, part in fields(answer):
            if number == 1:  # partial_success
                return sum(value for inner, _, value, _ in fields(part) if inner == 1)
    return 0
