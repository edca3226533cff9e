"""What somebody names as a store → the store: a daemon's own, or those of many hosts."""

from __future__ import annotations

from urllib.parse import unquote

from prospect.errors import StoreError
from prospect.store.directory import StoreDirectory
from prospect.store.hosts import HostsDirectory, has_hosts


def opened(name: str) -> StoreDirectory:
    """Open a store to read it.

    Args:
        name: a directory, or its URL.

    Raises:
        StoreError: there is none, or it cannot be used.
    """
    path = directory_of(name)
    return HostsDirectory(path) if has_hosts(path) else StoreDirectory(path)


def directory_of(name: str) -> str:
    """Return the directory that a name means.

    Raises:
        StoreError: it is a URL of something else.
    """
    scheme, colon, rest = name.partition("://")
    if not colon or "/" in scheme:
        return name
    if scheme != "file" or not rest.startswith("/"):
        raise StoreError(f"{name}: give a directory, or its URL as file:///srv/profiles")
    return unquote(rest)
