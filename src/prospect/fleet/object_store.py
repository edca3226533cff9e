"""Objects of an S3 bucket: the only module that imports obstore.

A server's answer is untrusted: messages name the kind of failure and repeat nothing of the answer,
which may quote keys and signed data.

obstore gets keys from the environment, web identities, containers and the instance's metadata, but
reads no files. This module reads the files of the AWS command line after the environment, as the
AWS SDKs do. It ignores settings that need other programs, roles or single sign-on.
Source: AWS SDKs and Tools Reference Guide, "Shared config and credentials files".
"""

from __future__ import annotations

import configparser
import os
import re
import shlex
import sys
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING

from prospect.errors import StoreError
from prospect.fleet.fleet_limits import CONNECT_S, MOST_CREDENTIAL_BYTES, SILENT_S, WHOLE_S
from prospect.fleet.store_places import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from prospect.fleet.store_places import Place

_DISTRIBUTION = "prospect-profiler[fleet]"
_RETRIES = 2
_CHUNK_BYTES = 1 << 20
_STATUS = re.compile(r"status code: (\d{3})")
# Parts of obstore's text, and their meaning; the first match counts.
_REASONS = (
    ("/latest/api/token", "no credentials were found in the environment, files or the instance"),
    ("/latest/meta-data", "the instance has no credentials"),
    ("invalid path", "a name in it is invalid"),
    ("nvalid list response", "its answer is invalid"),
    ("BadScheme", "http:// is for loopback alone: give https://, or set AWS_ALLOW_HTTP=true"),
    ("Timeout", "it does not answer in time"),
    ("Interrupted", "its answer ended early"),
    ("Connect", "it cannot be reached"),
)
_STATUSES = {
    "401": "it does not know these credentials",
    "403": "it refuses access",
    "404": "there is no such bucket",
    "503": "it is too busy, or full",
    "507": "it is full",
}
_IN_ENVIRONMENT = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


class ObjectStore:
    """Objects below a prefix of a bucket; messages call it `url`."""

    def __init__(self, place: Place) -> None:
        """Configure the client, without a request.

        Raises:
            StoreError: obstore is not installed, or the settings are invalid.
        """
        require_obstore(place)
        import obstore  # noqa: PLC0415 - only if there is a bucket
        from obstore.store import S3Store  # noqa: PLC0415 - only if there is a bucket

        self.url = place.url
        self._obstore = obstore
        settings: dict[str, Any] = settings_of_files()
        endpoint = settings.get("aws_endpoint") or endpoint_of()
        options: dict[str, Any] = {
            "connect_timeout": timedelta(seconds=CONNECT_S),
            "read_timeout": timedelta(seconds=SILENT_S),
            "timeout": timedelta(seconds=WHOLE_S),
        }
        if is_loopback(endpoint):
            options["allow_http"] = True
        with self._translated_errors():
            self._store = S3Store(
                place.bucket,
                prefix=place.path or None,
                config=settings,
                client_options=options,
                retry_config={
                    "max_retries": _RETRIES,
                    "retry_timeout": timedelta(seconds=CONNECT_S + SILENT_S),
                },
            )

    def put(self, path: str, content: bytes) -> None:
        """See `targets.Target`."""
        with self._translated_errors():
            self._obstore.put(self._store, path, content, use_multipart=False)

    def size(self, path: str) -> int:
        """See `targets.Target`."""
        with self._translated_errors():
            try:
                return int(self._obstore.head(self._store, path)["size"])
            except FileNotFoundError:
                return -1
            except (
                self._obstore.exceptions.PermissionDeniedError,
                self._obstore.exceptions.UnauthenticatedError,
            ):
                return -2

    def listed(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield the paths and sizes of all objects below a directory.

        Raises:
            StoreError: the server does not answer, or its answer is invalid.
        """
        with self._translated_errors():
            for chunk in self._obstore.list(self._store, prefix=prefix or None):
                for one in chunk:
                    yield one["path"], int(one["size"])

    def directories(self) -> list[str]:
        """Return the names of the directories directly below the prefix.

        Raises:
            StoreError: as `listed`.
        """
        with self._translated_errors():
            found = self._obstore.list_with_delimiter(self._store, prefix=None)
            return list(found["common_prefixes"])

    def pieces(self, path: str) -> Iterator[bytes]:
        """Yield the content of an object, piece by piece.

        Raises:
            StoreError: the server does not answer.
        """
        with self._translated_errors():
            for piece in self._obstore.get(self._store, path).stream(_CHUNK_BYTES):
                yield bytes(piece)

    def close(self) -> None:
        """Do nothing: connections end with the process."""

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - obstore's have no common class
            raise StoreError(f"{self.url}: {_reason(error)}") from None


def require_obstore(place: Place) -> None:
    """Check that obstore is installed, without loading it.

    Raises:
        StoreError: it is not; says how to install it.
    """
    if find_spec("obstore") is None:
        raise StoreError(
            f"{place.url}: S3 needs obstore:"
            f" {shlex.quote(sys.executable)} -m pip install '{_DISTRIBUTION}'"
        )


def _reason(error: Exception) -> str:
    text = str(error)
    for words, reason in _REASONS[:2]:
        if words in text:
            return reason
    if isinstance(error, FileNotFoundError) and "<Code>NoSuchBucket<" not in text:
        return "a listed file is gone"
    if found := _STATUS.search(text):
        return _STATUSES.get(found[1], f"it answers with status {found[1]}")
    return next((reason for words, reason in _REASONS if words in text), "it cannot be used")


def settings_of_files(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return settings of an S3 client from files, as far as the environment lacks them.

    Missing and invalid files have none.
    """
    profile = environment.get("AWS_PROFILE") or "default"
    home = os.path.expanduser("~/.aws/")
    keys = _section(environment.get("AWS_SHARED_CREDENTIALS_FILE") or home + "credentials", profile)
    in_config = profile if profile == "default" else f"profile {profile}"
    config = _section(environment.get("AWS_CONFIG_FILE") or home + "config", in_config)
    found: dict[str, str] = {}
    if not any(environment.get(name) for name in _IN_ENVIRONMENT):
        source = keys if _KEYS[0] in keys else config
        found |= {name: source[name] for name in _KEYS if source.get(name)}
        if len(found) < 2:
            found = {}
    if config.get("region") and not any(environment.get(name) for name in _REGIONS):
        found["aws_region"] = config["region"]
    if config.get("endpoint_url") and not endpoint_of(environment):
        found["aws_endpoint"] = config["endpoint_url"]
    return found


def endpoint_of(environment: Mapping[str, str] = os.environ) -> str:
    """Return the URL of the S3 server that the environment names, "" for Amazon's."""
    return next((environment[name] for name in _ENDPOINTS if environment.get(name)), "")


def _section(path: str, name: str) -> dict[str, str]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_string(file.read(MOST_CREDENTIAL_BYTES))
        return dict(parser.items(name))
    except (OSError, ValueError, configparser.Error):
        return {}
