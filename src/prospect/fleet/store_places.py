"""Names of places of stores: a directory, its URL, or a prefix of an S3 bucket.

A URL is shown in messages and lists of processes: one that carries a password is refused, and
neither it nor what could be a part of it is repeated.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import unquote, urlsplit

from prospect.errors import StoreError
from prospect.records import NamedTuple

FILE, S3 = "file", "s3"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_USER = re.compile(r"(?<=://)[^/\s]*@")
_QUERY = re.compile(r"(?<=://)([^\s?#]*)[?#]\S*")


class Place(NamedTuple):
    """Where stores are.

    Attributes:
        scheme: `FILE` or `S3`.
        bucket: of S3, else "".
        path: of a directory; in a bucket the prefix, without a slash at its ends.
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
    """Read what somebody names.

    Raises:
        StoreError: it is a URL of something else, or one that carries credentials.
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
    """Refuse a URL with a user, a password, or a query, which may hold such things.

    Raises:
        StoreError: it has one; does not repeat it.
    """
    rest = url.partition("://")[2]
    if "@" in rest.partition("/")[0] or "?" in rest or "#" in rest:
        raise StoreError(
            "a URL with a user, a password or a query is refused, because others see command lines;"
            " credentials come from the environment, from files or from the instance:"
            " docs/fleet.md says which"
        )


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine, by its address or the name localhost."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def without_credentials(text: str) -> str:
    """Return text without what URLs in it may carry of users, passwords and queries.

    >>> without_credentials("s3://me:secret@b/p: no, http://h/x?key=1")
    's3://...@b/p: no, http://h/x?...'
    """
    return _QUERY.sub(r"\1?...", _USER.sub("...@", text))


def _is_part(part: str) -> bool:
    return part not in ("", ".", "..") and part.isprintable() and "\\" not in part
