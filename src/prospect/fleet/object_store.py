"""Objects of an S3 bucket: the only module that imports obstore.

What a server answers is content of others: messages say what kind of failure it was, and repeat
nothing of an answer, in which a server may quote keys and what was signed.
"""

from __future__ import annotations

import re
import shlex
import sys
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING

from prospect.errors import StoreError
from prospect.fleet.credentials import endpoint_of, settings_of_files
from prospect.fleet.places import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from prospect.fleet.places import Place

CONNECT_S, SILENT_S, WHOLE_S = 5.0, 20.0, 300.0
"""How long may pass until a connection, between two pieces of an answer, and for all of it."""

_DISTRIBUTION = "prospect-profiler[fleet]"
_RETRIES = 2
_CHUNK_BYTES = 1 << 20
_STATUS = re.compile(r"status code: (\d{3})")
# What obstore's text has, and what it means; the first that fits counts.
_REASONS = (
    ("/latest/api/token", "no credentials were found in the environment, files or the instance"),
    ("/latest/meta-data", "the instance has no credentials"),
    ("invalid path", "a name in it leads nowhere"),
    ("nvalid list response", "its answer means nothing"),
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


class ObjectStore:
    """Objects below a prefix of a bucket.

    Attributes:
        url: what it is called in messages.
    """

    def __init__(self, place: Place) -> None:
        """Begin; nothing is asked yet.

        Raises:
            StoreError: obstore is not installed, or the settings mean nothing.
        """
        require_obstore(place)
        import obstore  # noqa: PLC0415 - only where there is a bucket
        from obstore.store import S3Store  # noqa: PLC0415 - only where there is a bucket

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
        try:
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
        except Exception as error:  # noqa: BLE001 - obstore's have no common class
            raise self._told(error) from None

    def put(self, path: str, content: bytes) -> None:
        """Store an object, in place of one of its name.

        Raises:
            StoreError: the server does not take it.
        """
        try:
            self._obstore.put(self._store, path, content, use_multipart=False)
        except Exception as error:  # noqa: BLE001 - obstore's have no common class
            raise self._told(error) from None

    def size(self, path: str) -> int:
        """Return the bytes of an object, -1 for none, -2 where it may not be asked.

        Raises:
            StoreError: the server does not answer.
        """
        try:
            return int(self._obstore.head(self._store, path)["size"])
        except FileNotFoundError:
            return -1
        except (
            self._obstore.exceptions.PermissionDeniedError,
            self._obstore.exceptions.UnauthenticatedError,
        ):
            return -2  # of who may only write
        except Exception as error:  # noqa: BLE001 - obstore's have no common class
            raise self._told(error) from None

    def listed(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield the paths and sizes of all objects below a directory.

        Raises:
            StoreError: the server does not answer, or its answer means nothing.
        """
        try:
            for chunk in self._obstore.list(self._store, prefix=prefix or None):
                for one in chunk:
                    yield one["path"], int(one["size"])
        except Exception as error:  # noqa: BLE001 - obstore's have no common class
            raise self._told(error) from None

    def directories(self, prefix: str) -> list[str]:
        """Return the paths of the directories that lie directly below one.

        Raises:
            StoreError: as `listed`.
        """
        try:
            found = self._obstore.list_with_delimiter(self._store, prefix=prefix or None)
            return list(found["common_prefixes"])
        except Exception as error:  # noqa: BLE001 - obstore's have no common class
            raise self._told(error) from None

    def fetch(self, path: str, write: Callable[[bytes], object]) -> None:
        """Read an object, piece by piece.

        Raises:
            StoreError: the server does not answer.
            OSError: as `write` does.
        """
        for piece in self._pieces(path):
            write(piece)

    def close(self) -> None:
        """Do nothing: connections end with the process."""

    def _pieces(self, path: str) -> Iterator[bytes]:
        try:
            for piece in self._obstore.get(self._store, path).stream(_CHUNK_BYTES):
                yield bytes(piece)
        except Exception as error:  # noqa: BLE001 - obstore's have no common class
            raise self._told(error) from None

    def _told(self, error: Exception) -> StoreError:
        return StoreError(f"{self.url}: {_reason(error)}")


def require_obstore(place: Place) -> None:
    """Say how obstore is installed where it is not, without loading it.

    Raises:
        StoreError: it is not.
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
    if isinstance(error, FileNotFoundError):
        return "a listed file is gone"
    if found := _STATUS.search(text):
        return _STATUSES.get(found[1], f"it answers with status {found[1]}")
    return next((reason for words, reason in _REASONS if words in text), "it cannot be used")
