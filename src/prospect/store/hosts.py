"""Read the stores of many hosts below one directory as one store, which is read-only.

    DIRECTORY/host=web-17/…                the store of a host, as its daemon keeps it
    DIRECTORY/host=web-17/store=ID/…       a store that was sent: names of files have digests

A host may have several stores: a daemon that starts on an empty directory makes a new one.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import closing, suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from prospect.errors import StoreError
from prospect.files.user_cache import is_own
from prospect.store.directory import DEPTHS, StoreDirectory
from prospect.store.engine import Engine, EngineError, OutOfMemoryError
from prospect.store.segment_reading import files, heaviest, host_of
from prospect.store.segments import HOST_PREFIX, KINDS, SAMPLES, SUFFIX, Segment, segment_of
from prospect.store.store_limits import MOST_EXHAUSTING, MOST_HOSTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    _Answer = TypeVar("_Answer")

STORE_PREFIX = "store="
# The directory of sums of all hosts; see `fleet.keeping`.
FLEET = "fleet"
DIGEST_DIGITS = 32
_DIGEST = re.compile(rf"\.([0-9a-f]{{{DIGEST_DIGITS}}})$")
_EXHAUSTING = "its files take all the memory there is, far more than those of other hosts"
# DuckDB takes these for patterns in a path, and would read other hosts' files.
_PATTERN = re.compile(r"[\[*?]")


class HostsDirectory(StoreDirectory):
    """Open stores of many hosts.

    Attributes:
        left_out: segments that do not count, because sums of all hosts include them.
    """

    left_out: frozenset[Segment] = frozenset()

    def __init__(self, path: str) -> None:
        """Open a directory of stores.

        Raises:
            StoreError: there is none, or other users may access it.
        """
        self._listed: list[Segment] | None = None
        super().__init__(path)

    def segments(self) -> list[Segment]:
        """Return the segments of all hosts, as they were at the first call.

        Raises:
            StoreError: a directory cannot be read.
        """
        if self._listed is None:
            try:
                self._listed = [
                    one
                    for place in self._places()
                    for tier, depth in DEPTHS.items()
                    for one in segments_of_names(place, tier, self.names(f"{place}/{tier}", depth))
                ]
            except OSError as error:
                raise StoreError(f"{self.path}: cannot be read: {error.strerror}") from None
        if not self.left_out:
            return self._listed
        return [one for one in self._listed if one not in self.left_out]

    @property
    def why_empty(self) -> str:
        """The sentence for a store without segments."""
        if self.kept_files():
            return (
                "only sums of all hosts are kept, of whole days, by service and function:"
                " prospect fleet top reads them"
            )
        return super().why_empty

    def kept_files(self) -> list[str]:
        """Return the paths of this user's files of sums of all hosts.

        Raises:
            StoreError: the directory cannot be read.
        """
        try:
            return sorted(self.names(FLEET, 1))
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be read: {error.strerror}") from None

    def remove_kept(self, path: str) -> None:
        """Remove the files of sums whose names begin with `path`; that of the parts first."""
        for kind in ("parts", "hosts", "functions"):
            with suppress(FileNotFoundError):
                os.unlink(f"{path}.{kind}{SUFFIX}", dir_fd=self.descriptor)

    def open_lock(self, path: str) -> int:
        """Open an empty file, and create it if there is none.

        Raises:
            OSError: it cannot be opened.
        """
        self._make_directories(os.path.dirname(path))
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(path, flags, 0o600, dir_fd=self.descriptor)

    def _places(self) -> list[str]:
        """Return the directories of stores below this one.

        Raises:
            StoreError: the name of one is a pattern.
        """
        found = []
        for host in self._directories(""):
            if host.startswith(HOST_PREFIX):
                found.append(host)
                stores = self._directories(host)
                found += [f"{host}/{one}" for one in stores if one.startswith(STORE_PREFIX)]
        if wrong := next(filter(_PATTERN.search, found), ""):
            raise StoreError(f"{self.path}: {wrong} is a pattern: rename it {quote(wrong, '/=')}")
        return found

    def _directories(self, path: str) -> list[str]:
        with os.scandir(self.root + path) as entries:
            return sorted(
                entry.name
                for _, entry in zip(range(MOST_HOSTS), entries, strict=False)
                if entry.is_dir(follow_symlinks=False)
                and is_own(entry.stat(follow_symlinks=False), stat.S_IFDIR)
            )

    def _open_format(self, *, create: bool) -> float:
        del create
        if not any(map(_is_of_hosts, self._directories(""))):
            raise StoreError(f"{self.path}: no store, and no stores of hosts, {HOST_PREFIX}NAME")
        return 0.0


def has_hosts(path: str) -> bool:
    """Whether a directory has stores of hosts, by its names."""
    try:
        with os.scandir(path) as entries:
            names = [entry.name for _, entry in zip(range(MOST_HOSTS), entries, strict=False)]
    except OSError:
        return False
    return "format.json" not in names and any(map(_is_of_hosts, names))


def _is_of_hosts(name: str) -> bool:
    return name.startswith(HOST_PREFIX) or name == FLEET


def segments_of_names(place: str, tier: str, names: Iterable[str]) -> list[Segment]:
    """Return the segments of files.

    The names are paths below the directory of all stores. Some have digests.
    """
    plain: list[tuple[str, str]] = []
    digests: dict[tuple[str, str, str], str] = {}
    for path in names:
        directory, _, name = path.rpartition("/")
        stem = name.removesuffix(SUFFIX)
        found = _DIGEST.search(stem)
        if name == stem:
            continue
        if not found:
            plain.append((directory, name))
            continue
        stem, _, kind = stem[: found.start()].rpartition(".")
        # If a segment has two files of a kind, either is good.
        digests.setdefault((directory, stem, kind), found[1])
    segments: list[tuple[str, Segment | None, tuple[str, ...]]] = [
        (directory, segment_of(tier, name), ()) for directory, name in plain
    ]
    for directory, stem, kind in digests:
        if kind == SAMPLES:
            one = segment_of(tier, f"{stem}.{SAMPLES}{SUFFIX}")
            of_kinds = tuple(digests.get((directory, stem, each), "") for each in KINDS)
            segments.append((directory, one, of_kinds))
    placed = [
        (directory, one._replace(place=place, digests=of_kinds))
        for directory, one, of_kinds in segments
        if one
    ]
    return [one for directory, one in placed if one.directory == directory]


def _heaviest(store: StoreDirectory) -> str:
    """Return the host whose files are far larger than those of the others; "" for none."""
    of_host: dict[str, list[Segment]] = {}
    for one in store.segments():
        if one.place and host_of(one) not in store.exhausting:
            of_host.setdefault(host_of(one), []).append(one)
    with closing(Engine(store)) as engine:
        return heaviest(
            engine,
            {
                host: {kind: files(store, segments, kind) for kind in KINDS}
                for host, segments in of_host.items()
            },
        )


def asked(store: StoreDirectory, question: Callable[[StoreDirectory], _Answer]) -> _Answer:
    """Answer a question about a store. Leave out damaged files, and hosts that exhaust the memory.

    Raises:
        StoreError: the question raises it.
    """
    try:
        return question(store)
    except (StoreError, EngineError) as error:
        reason = error if isinstance(error, EngineError) else error.__context__
        if isinstance(reason, OutOfMemoryError):
            host = _heaviest(store) if len(store.exhausting) < MOST_EXHAUSTING else ""
            if not host:
                raise
            store.exhausting[host] = _EXHAUSTING
            return asked(store, question)
        if store.reads_all or not isinstance(reason, EngineError):
            raise
    # Read everything first, so that the damaged file is found.
    store.reads_all = True
    return question(store)
