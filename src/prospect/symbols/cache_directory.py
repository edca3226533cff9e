"""The user's cache directory: files that take time to make or to fetch, kept between runs.

The directory and its files belong to the user alone: a file of another user, or one that others can
write to, counts as absent. A file is written under another name and then renamed, so programs can
share the directory, and it may be deleted at any time.
"""

from __future__ import annotations

import mmap
import os
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from prospect.files.user_cache import cache_path, is_own
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

PART_SUFFIX = ".part"

_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# A file's time of change is that of its last use, exact to this.
_DAY_NS = 86400 * 10**9
# A program was killed if it has not finished a file after this.
_LONGEST_WRITING_NS = _DAY_NS


class KeptFile(NamedTuple):
    """One file of the directory; `used_ns` is since the epoch, exact to a day."""

    name: str
    size_bytes: int
    used_ns: int

    @property
    def suffix(self) -> str:
        """From the last dot of its name on."""
        return os.path.splitext(self.name)[1]


class CacheDirectory(Record):
    """The cache, or a directory in it; it is made when the first file is stored.

    `above` is the directory of the cache that contains it; None for the cache itself.
    """

    path: str | os.PathLike[str]
    above: CacheDirectory | None = None

    @classmethod
    def of_user(cls, environment: Mapping[str, str] = os.environ) -> CacheDirectory | None:
        """Return the user's cache, None if it is switched off or there is no place for it."""
        path = cache_path(environment)
        return cls(path) if path else None

    def within(self, name: str) -> CacheDirectory:
        """Return a directory in this one."""
        return CacheDirectory(os.path.join(self.path, name), self)

    def map(self, name: str, least_bytes: int) -> memoryview | None:
        """Map a file; None if it is not there, not ours alone, or below `least_bytes` (from 1)."""
        with suppress(OSError, ValueError), self.opened() as directory:
            descriptor = os.open(name, os.O_RDONLY | _FILE, dir_fd=directory)
            try:
                status = os.fstat(descriptor)
                if is_own(status, stat.S_IFREG) and status.st_size >= least_bytes:
                    if time.time_ns() - status.st_mtime_ns > _DAY_NS:
                        os.utime(descriptor)
                    return memoryview(
                        mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
                    )
            finally:
                os.close(descriptor)
        return None

    def use(self, name: str) -> bytes | None:
        """Return a file's path and note the use; None if it is not there or not ours alone."""
        with suppress(OSError), self.opened() as directory:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if is_own(status, stat.S_IFREG):
                if time.time_ns() - status.st_mtime_ns > _DAY_NS:
                    os.utime(name, dir_fd=directory, follow_symlinks=False)
                return os.fsencode(os.path.join(self.path, name))
        return None

    def age_s(self, name: str) -> float | None:
        """Return the seconds since a file was stored or used; None if it is not there."""
        with suppress(OSError), self.opened() as directory:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if is_own(status, stat.S_IFREG):
                return (time.time_ns() - status.st_mtime_ns) / 1e9
        return None

    def put(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Store a file; do nothing if that is not possible."""
        with suppress(OSError):
            self.make()
            with (
                self.opened() as directory,
                new_file(directory, name) as descriptor,
                os.fdopen(descriptor, "wb", closefd=False) as file,
            ):
                file.writelines(pieces)

    def files(self) -> list[KeptFile]:
        """Return the files, the least recently used first."""
        found = []
        with suppress(OSError), self.opened() as directory, os.scandir(directory) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # another run has removed it
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        found.append(KeptFile(entry.name, status.st_size, status.st_mtime_ns))
        return sorted(found, key=lambda file: (file.used_ns, file.name))

    def evict(self, suffixes: Container[str], most_bytes: int) -> None:
        """Remove the least recently used files of these kinds until the others fit."""
        files = self.files()
        stale = time.time_ns() - _LONGEST_WRITING_NS
        removed = [f.name for f in files if f.suffix == PART_SUFFIX and f.used_ns < stale]
        files = [file for file in files if file.suffix in suffixes]
        excess = sum(file.size_bytes for file in files) - most_bytes
        for file in files:
            if excess <= 0:
                break
            excess -= file.size_bytes
            removed.append(file.name)
        if removed:
            self.remove(removed)

    def remove(self, names: Iterable[str]) -> int:
        """Remove files; return how many were there and could be removed."""
        removed = 0
        with suppress(OSError), self.opened() as directory:
            for name in names:
                with suppress(OSError):
                    os.unlink(name, dir_fd=directory)
                    removed += 1
        return removed

    def make(self) -> None:
        """Make the directory, unless its parent belongs to someone else (sudo's HOME).

        Raises:
            OSError: it cannot be made.
        """
        home = os.path.dirname(self.path)
        if self.above:
            self.above.make()
        elif not os.path.exists(home) and _is_mine(os.path.dirname(home)):
            _make(home)
        if _is_mine(home):
            _make(self.path)

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Open the directory, to work on its files.

        Raises:
            OSError: it is not there, or not ours alone.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        if self.above:
            with self.above.opened() as above:
                directory = os.open(os.path.basename(self.path), flags, dir_fd=above)
        else:
            directory = os.open(self.path, flags)
        try:
            if not is_own(os.fstat(directory), stat.S_IFDIR):
                raise PermissionError(f"{os.fspath(self.path)} belongs to someone else")
            yield directory
        finally:
            os.close(directory)


def _is_mine(directory: str) -> bool:
    return os.stat(directory or ".").st_uid == os.geteuid()


def _make(directory: str | os.PathLike[str]) -> None:
    with suppress(FileExistsError):
        os.mkdir(directory, 0o700)


def part_name() -> str:
    """Return an unused name for a file that is being written."""
    return f"{os.urandom(8).hex()}{PART_SUFFIX}"


@contextmanager
def new_file(
    directory: int, name: str, part: str = "", *, may_replace: bool = True
) -> Iterator[int]:
    """Open a file to be written under another name; rename it to `name` if the block succeeds.

    Args:
        directory: descriptor.
        part: its unused name until then; made up if empty.
        may_replace: whether it replaces a file of this name.

    Raises:
        OSError: it cannot be made or renamed.
    """
    part = part or part_name()
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE
    descriptor = os.open(part, flags, 0o600, dir_fd=directory)
    try:
        yield descriptor
        put_in_place(directory, part, name, may_replace=may_replace)
    except BaseException:
        with suppress(OSError):
            os.unlink(part, dir_fd=directory)
        raise
    finally:
        os.close(descriptor)


def put_in_place(directory: int, part: str, name: str, *, may_replace: bool = True) -> None:
    """Rename a written file to its final name.

    Raises:
        OSError: it cannot be renamed, or a file of this name may not be replaced.
    """
    if may_replace:
        os.rename(part, name, src_dir_fd=directory, dst_dir_fd=directory)
        return
    try:
        os.link(part, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    finally:
        os.unlink(part, dir_fd=directory)
