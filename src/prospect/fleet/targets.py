"""Destinations of finished segments: a directory, or a prefix of an S3 bucket."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Protocol

from prospect.errors import StoreError
from prospect.fleet.store_places import FILE, place_of
from prospect.store.directory import StoreDirectory


class Target(Protocol):
    """A place that takes files by path; messages call it `url`."""

    url: str

    def put(self, path: str, content: bytes) -> None:
        """Store a file, whole or not at all, and replace one of the same name.

        Raises:
            StoreError: the target does not take it.
        """

    def size(self, path: str) -> int:
        """Return the bytes of a file, -1 for none, -2 for a user who may only write.

        Raises:
            StoreError: the target does not answer.
        """

    def close(self) -> None:
        """Close it."""


class TargetDirectory(StoreDirectory):
    """A directory that many hosts send to; it belongs to the sender, and follows no links.

    It is never made: it may be on a file system that is not mounted.
    """

    def __init__(self, path: str) -> None:
        """Open it.

        Raises:
            StoreError: it is not there, or others can write to it.
        """
        self.url = path
        if not os.path.isdir(path):
            raise StoreError(f"{path}: no such directory; make it, or mount it")
        super().__init__(path)

    def put(self, path: str, content: bytes) -> None:
        """See `Target`."""
        try:
            self.write_bytes(path, content)
        except OSError as error:
            raise StoreError(f"{self.url}: {error.strerror}") from None

    def size(self, path: str) -> int:
        """Return the bytes of a file, -1 for none."""
        with suppress(OSError):
            return os.stat(path, dir_fd=self.descriptor, follow_symlinks=False).st_size
        return -1

    def _open_format(self, *, create: bool) -> float:
        del create  # stores of many hosts have no version
        return 0.0


def check_target(url: str) -> None:
    """Check the name of a target, without a request to it.

    Raises:
        StoreError: it is no such place, or a package for it is not installed.
    """
    place = place_of(url)
    if place.scheme != FILE:
        from prospect.fleet.object_store import require_obstore  # noqa: PLC0415 - as below

        require_obstore(place)


def target_of(url: str) -> Target:
    """Open a target by its name.

    Raises:
        StoreError: it is no such place, or cannot be used.
    """
    place = place_of(url)
    if place.scheme == FILE:
        return TargetDirectory(place.path)
    from prospect.fleet.object_store import ObjectStore  # noqa: PLC0415 - obstore, only for S3

    return ObjectStore(place)
