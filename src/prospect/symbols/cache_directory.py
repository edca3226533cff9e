"""The directory in which what costs time to make or to fetch is kept between runs.

In and out: files of bytes by name; what is in them is for others to know. The directory belongs to
the user alone, and so does every file in it: another user's, or one that others can write to, is
as good as absent. Files are put in place whole, never written there, so that programs may share
the directory, and it may be deleted at any time.
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
    from collections.abc import Iterable, Iterator, Mapping

PART_SUFFIX = ".part"

_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# A file's time says when it was last used, no more exactly than this.
_DAY_NS = 86400 * 10**9
# A file still being written after this was left by a program that was killed.
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
    """A directory of kept files; it is made when the first of them is stored.

    `above` is the cache's directory that it is in; None for the cache's own.
    """

    path: str | os.PathLike[str]
    above: CacheDirectory | None = None

    @classmethod
    def of_user(cls, environment: Mapping[str, str] = os.environ) -> CacheDirectory | None:
        """Return the user's own, None if it is switched off or has no place."""
        path = cache_path(environment)
        return cls(path) if path else None

    def within(self, name: str) -> CacheDirectory:
        """Return a directory in this one."""
        return CacheDirectory(os.path.join(self.path, name), self)

    def map(self, name: str, least_bytes: int) -> memoryview | None:
        """Map a file; None if it is not there, not ours alone, or too small to be one.

        Args:
            least_bytes: at least 1.
        """
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
        """Return the path of a file and note that it was used; None if it is not there or ours."""
        with suppress(OSError), self.opened() as directory:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if is_own(status, stat.S_IFREG):
                if time.time_ns() - status.st_mtime_ns > _DAY_NS:
                    os.utime(name, dir_fd=directory, follow_symlinks=False)
                return os.fsencode(os.path.join(self.path, name))
        return None

    def age_s(self, name: str) -> float | None:
        """Return the seconds since a file was put there or used; None if it is not there."""
        with suppress(OSError), self.opened() as directory:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if is_own(status, stat.S_IFREG):
                return (time.time_ns() - status.st_mtime_ns) / 1e9
        return None

    def put(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Write a file; do nothing if that is not possible."""
        with suppress(OSError):
            self.make()
            with (
                self.opened() as directory,
                new_file(directory, name) as descriptor,
                os.fdopen(descriptor, "wb", closefd=False) as file,
            ):
                file.writelines(pieces)

    def files(self) -> list[KeptFile]:
        """Return what is kept, the file that was used longest ago first."""
        found = []
        with suppress(OSError), self.opened() as directory, os.scandir(directory) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # another run has removed it
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        found.append(KeptFile(entry.name, status.st_size, status.st_mtime_ns))
        return sorted(found, key=lambda file: (file.used_ns, file.name))

    def evict(self, suffixes: Iterable[str], most_bytes: int) -> None:
        """Remove the files of these kinds that were used longest ago until the others fit."""
        files, kinds = self.files(), set(suffixes)
        stale = time.time_ns() - _LONGEST_WRITING_NS
        unfinished = [f for f in files if f.suffix == PART_SUFFIX and f.used_ns < stale]
        files = [file for file in files if file.suffix in kinds]
        excess = sum(file.size_bytes for file in files) - most_bytes
        for file in files:
            if excess <= 0:
                break
            excess -= file.size_bytes
            unfinished.append(file)
        if unfinished:
            self.remove(file.name for file in unfinished)

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
        """Make the directory, unless what it would lie in belongs to someone else (sudo's HOME).

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
    """Return a name that no file has, for one that is being written."""
    return f"{os.urandom(8).hex()}{PART_SUFFIX}"


@contextmanager
def new_file(
    directory: int, name: str, part: str = "", *, may_replace: bool = True
) -> Iterator[int]:
    """Open a file to be written under another name; put it in place where the block succeeds.

    Args:
        directory: descriptor.
        name: what it is to be called.
        part: what it is called until then, if that matters; a name that no file has.
        may_replace: whether it replaces a file of this name.

    Raises:
        OSError: it cannot be made or put in place.
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
    """Give a file that is written its name.

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
