"""Read the stores of many hosts in a bucket through a directory on this machine.

A file is fetched when a query needs it. The contents of a bucket are untrusted: only names that a
store can have count, and only files whose content matches the digest in their name.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import TYPE_CHECKING
from urllib.parse import unquote

from prospect.errors import StoreError
from prospect.fleet.fleet_limits import LARGEST_OBJECT_BYTES, MOST_OBJECTS
from prospect.fleet.object_store import ObjectStore
from prospect.fleet.remote_cache import base, directory_for, make_room
from prospect.store.hosts import DIGEST_DIGITS, HostsDirectory, segments_of_names
from prospect.store.segments import HOST_PREFIX, KINDS, TIERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.fleet.store_places import Place
    from prospect.store.segments import Segment

_THREADS = 16
_HOST = re.compile(rf"{HOST_PREFIX}[A-Za-z0-9_.~%-]{{1,255}}")
_PATH = re.compile(
    rf"({_HOST.pattern}(?:/store=[A-Za-z0-9]{{1,64}})?)/({'|'.join(TIERS)})"
    r"/date=[0-9-]{10}(?:/hour=[0-9]{2})?/[A-Za-z0-9_.-]{1,200}"
)
_DIGEST = re.compile(rf"\.([0-9a-f]{{{DIGEST_DIGITS}}})\.[a-z]+$")


class _OtherContentError(Exception):
    """The content has another size than was listed, or another digest than its name."""


class RemoteDirectory(HostsDirectory):
    """Open stores of many hosts in a bucket."""

    def __init__(self, place: Place, hosts: Sequence[str] = ()) -> None:
        """Open a prefix of a bucket, without a request.

        `hosts` are patterns of the wanted hosts; without a match all hosts are.

        Raises:
            StoreError: obstore is not installed, or files cannot be kept on this machine.
        """
        self._objects = ObjectStore(place)
        self._hosts = tuple(hosts)
        self._sizes: dict[str, int] = {}
        directory = directory_for(place.url)
        self._temporary = "" if directory else tempfile.mkdtemp(prefix="prospect-")
        self._directory = directory or self._temporary
        super().__init__(self._directory)
        self.path = place.url

    def segments(self) -> list[Segment]:
        """Return the segments of all hosts, as they were at the first call.

        Raises:
            StoreError: the bucket cannot be listed.
        """
        if self._listed is None:
            self._sizes = self._all_sizes()
            groups: dict[tuple[str, str], list[str]] = {}
            for path in self._sizes:
                if found := _PATH.fullmatch(path):
                    groups.setdefault((found[1], found[2]), []).append(path)
            self._listed = [
                one
                for (place, tier), names in groups.items()
                for one in segments_of_names(place, tier, sorted(names))
            ]
        return self._listed

    def size_bytes(self, segment: Segment) -> int:
        """Return the bytes of a segment's files, as they were listed."""
        return sum(self._sizes.get(segment.path(kind), 0) for kind in KINDS)

    def bring(self, paths: Sequence[str]) -> None:
        """Fetch files that are not here yet.

        Raises:
            StoreError: the bucket cannot be read, or the files do not fit into the cache.
        """
        missing = []
        for path in dict.fromkeys(paths):
            if path in self._sizes and path not in self.refused:
                if self._is_here(path):
                    with suppress(OSError):
                        os.utime(path, dir_fd=self.descriptor, follow_symlinks=False)
                else:
                    missing.append(path)
        if not missing:
            return
        wanted = {os.path.join(self._directory, path) for path in paths}
        size = sum(self._sizes[path] for path in missing)
        make_room(self._temporary or base(), wanted, size)
        with ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(self._fetch, missing):
                pass

    def close(self) -> None:
        """Close it, and remove a temporary directory."""
        super().close()
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _open_format(self, *, create: bool) -> float:
        del create
        return 0.0

    def _all_sizes(self) -> dict[str, int]:
        hosts = [one for one in self._objects.directories() if _HOST.fullmatch(one)]
        if not hosts:
            raise StoreError(f"{self.path}: no stores of hosts, {HOST_PREFIX}NAME")
        wanted = [
            one
            for one in hosts
            if any(fnmatchcase(unquote(one.removeprefix(HOST_PREFIX)), p) for p in self._hosts)
        ]
        sizes: dict[str, int] = {}
        with ThreadPoolExecutor(_THREADS) as pool:
            for found in pool.map(self._sizes_below, wanted or hosts):
                sizes |= found
                if len(sizes) > MOST_OBJECTS:
                    raise StoreError(f"{self.path}: too many objects; choose by host:")
        return sizes

    def _sizes_below(self, host: str) -> dict[str, int]:
        found = {}
        for path, size in self._objects.listed(host):
            found[path] = size
            if len(found) > MOST_OBJECTS:
                break
        return found

    def _is_here(self, path: str) -> bool:
        if not self.has_ours(path):
            return False
        status = os.stat(path, dir_fd=self.descriptor, follow_symlinks=False)
        return status.st_size == self._sizes[path]

    def _fetch(self, path: str) -> None:
        try:
            self.write(path, lambda part: self._receive(path, part), sync=False)
        except _OtherContentError as error:
            self.refused[path] = str(error)
        except OSError as error:
            raise StoreError(
                f"{self._directory}: fetched files cannot be kept: {error.strerror}"
            ) from None

    def _receive(self, path: str, part: str) -> None:
        size, digest = self._sizes[path], blake2b(digest_size=DIGEST_DIGITS // 2)
        if size > LARGEST_OBJECT_BYTES:
            raise _OtherContentError("it is too large")
        count = 0
        with open(part, "xb") as file:
            for piece in self._objects.pieces(path):
                count += len(piece)
                if count > size:
                    raise _OtherContentError("it is larger than was listed")
                digest.update(piece)
                file.write(piece)
        if count < size:
            raise _OtherContentError("it is smaller than was listed")
        named = _DIGEST.search(path)
        if named and named[1] != digest.hexdigest():
            raise _OtherContentError("its content does not match its name")
