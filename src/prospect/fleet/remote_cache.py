"""The cache of files of buckets on this machine; the least recently used ones go first."""

from __future__ import annotations

import os
import shutil
import stat
import time
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING

from prospect.errors import StoreError
from prospect.files.budget import size_in_bytes
from prospect.files.user_cache import cache_path, is_own
from prospect.fleet.fleet_limits import CACHE_BYTES
from prospect.records import NamedTuple
from prospect.symbols.cache_directory import CacheDirectory

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

VARIABLE = "PROSPECT_FLEET_CACHE"
_NAME = "buckets"
# Another command may use files that were used within this time.
_IN_USE_S = 300.0


class KeptObject(NamedTuple):
    """A file: its path, its size, and the time of its last use, in seconds since 1970."""

    path: str
    size_bytes: int
    used_s: float


def directory_for(url: str) -> str:
    """Return the directory for files of a bucket, "" if this user keeps none.

    Its name is a digest of the bucket's.
    """
    cache = CacheDirectory.of_user()
    if cache is None:
        return ""
    path = os.path.join(base(), blake2b(url.encode(), digest_size=8).hexdigest())
    try:
        cache.make()
        for each in (base(), path):
            with suppress(FileExistsError):
                os.mkdir(each, 0o700)
            if not is_own(os.lstat(each), stat.S_IFDIR):
                return ""
    except OSError:
        return ""
    return path


def base(environment: Mapping[str, str] = os.environ) -> str:
    """Return the directory of all buckets' files, "" if this user keeps none."""
    cache = cache_path(environment)
    return os.path.join(cache, _NAME) if cache else ""


def most_bytes(environment: Mapping[str, str] = os.environ) -> int:
    """Return the size limit of the cache.

    Raises:
        StoreError: the variable is invalid.
    """
    text = environment.get(VARIABLE, "")
    try:
        return size_in_bytes(text) if text else CACHE_BYTES
    except ValueError:
        raise StoreError(f"{VARIABLE}={text}: give a size, as 20G") from None


def kept(directory: str) -> Iterator[KeptObject]:
    """Yield all files below a directory, without following links."""
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            with suppress(OSError):
                status = os.lstat(path)
                if stat.S_ISREG(status.st_mode):
                    yield KeptObject(path, status.st_size, status.st_mtime)


def make_room(directory: str, wanted: Collection[str], new_bytes: int) -> None:
    """Remove the least recently used files until `new_bytes` more fit.

    Raises:
        StoreError: they do not fit.
    """
    most = most_bytes()
    files = sorted(kept(directory), key=lambda one: one.used_s)
    excess = sum(one.size_bytes for one in files) + new_bytes - most
    in_use = time.time() - _IN_USE_S
    for one in files:
        if excess <= 0:
            return
        if one.used_s < in_use and one.path not in wanted:
            with suppress(OSError):
                os.unlink(one.path)
                excess -= one.size_bytes
    if excess > 0:
        raise StoreError(
            f"{new_bytes / 1e6:.0f} MB do not fit into the {most / 1e6:.0f} MB of the local cache,"
            f" which other queries use: choose less, by host: and since:, or set {VARIABLE}"
        )


def clear() -> None:
    """Remove the whole cache."""
    shutil.rmtree(base(), ignore_errors=True)
