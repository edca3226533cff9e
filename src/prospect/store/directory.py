"""The directory of a store: its owner, its files, and how files get into it.

A store belongs to one user, and nobody else may read or write it: it shows what the whole machine
did. All files are opened relative to the descriptor of the directory, so a replaced path changes
nothing, and no link below it is followed. A file is written under a temporary name, synced, and
renamed.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from _blake2 import blake2b  # hashlib has the same, and loads OpenSSL: 6 ms
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from prospect.errors import StoreError
from prospect.files.held_files import lock
from prospect.files.user_cache import is_own
from prospect.light import Closing, Descriptor
from prospect.store.segments import DAY, HOUR, KINDS, MINUTE, Segment, segment_of
from prospect.store.store_limits import MOST_FILES, MOST_FORMAT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

VERSION = 1
FORMAT = "format.json"
PART_SUFFIX = ".part"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PRIVATE_FILE, _PRIVATE_DIRECTORY = 0o600, 0o700
_MACHINE_ID = "/etc/machine-id"
DEPTHS = {MINUTE: 2, HOUR: 1, DAY: 1}
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class StoreDirectory(Closing):
    """An open store.

    Attributes:
        path: as the user named it.
        made_at: when it was made, in seconds since 1970.
        made_on: a digest of the machine that made it, "" if unknown.
        reads_all: whether to read all of a segment first, so that all damage shows. See
            `hosts.asked`.
        refused: why files of a remote store do not count, by path.
        exhausting: why hosts are left out whose files used all memory, by name.
    """

    reads_all = False

    def __init__(self, path: str, *, create: bool = False, target: str = "") -> None:
        """Open a store.

        Args:
            create: whether to make one if there is none, or an empty directory.
            target: the other machine whose usual store it is, "" for none.

        Raises:
            StoreError: there is none, it is no store or a newer one, or other users may access it.
        """
        self.path = path
        self._target = target
        self.refused: dict[str, str] = {}
        self.exhausting: dict[str, str] = {}
        self.made_on = ""
        self.descriptor = self._lock = -1
        try:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(path, _PRIVATE_DIRECTORY)
            # The last part of the path may be a link that somebody else has put there.
            self.descriptor = os.open(path, _DIRECTORY)
            self._check_owner()
            self.made_at = self._open_format(create=create)
        except FileNotFoundError:
            self.close()
            raise StoreError(f"{path}: no store; prospect daemon {self.option} makes one") from None
        except NotADirectoryError:
            self.close()
            raise StoreError(f"{path}: a store is a directory, and no link to one") from None
        except (OSError, ValueError) as error:
            self.close()
            reason = getattr(error, "strerror", None) or str(error)
            raise StoreError(f"{path}: the store cannot be used: {reason}") from None
        except BaseException:
            self.close()
            raise

    @property
    def root(self) -> str:
        """A path of the opened directory, even if its own path leads elsewhere now."""
        return f"/proc/self/fd/{self.descriptor}/"

    @property
    def why_empty(self) -> str:
        """The sentence for a store without segments."""
        return "nothing is in this store yet"

    def lock(self) -> None:
        """Become its only writer, until it is closed.

        Raises:
            StoreError: another process is its writer.
        """
        try:
            self._lock = os.open(FORMAT, os.O_RDWR | _FILE, dir_fd=self.descriptor)
            is_ours = lock(self._lock)
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be written: {error.strerror}") from None
        if not is_ours:
            raise StoreError(
                f"{self.path}: another process writes to this store; prospect control status"
                f" --store {self.path} asks it"
            )

    def is_locked(self) -> bool:
        """Whether another process is its writer."""
        try:
            descriptor = os.open(FORMAT, os.O_RDONLY | _FILE, dir_fd=self.descriptor)
        except OSError:
            return False
        try:
            return not lock(descriptor)
        except OSError:
            return False
        finally:
            os.close(descriptor)

    @property
    def option(self) -> str:
        """The option that selects it on a command line."""
        return f"--target {self._target}" if self._target else f"--store {self.path}"

    def is_in_place(self) -> bool:
        """Whether its path still leads to it."""
        try:
            there = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return False
        here = os.fstat(self.descriptor)
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def segments(self) -> list[Segment]:
        """Return all finished segments, in no order.

        Raises:
            StoreError: the directory cannot be read.
        """
        try:
            return [
                found
                for tier, depth in DEPTHS.items()
                for name in self.names(tier, depth)
                if (found := segment_of(tier, name.rpartition("/")[2]))
                and f"{found.directory}/" == name.rpartition("/")[0] + "/"
            ]
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be read: {error.strerror}") from None

    def size_bytes(self, segment: Segment) -> int:
        """Return the bytes of a segment's files."""
        total = 0
        for kind in KINDS:
            with suppress(OSError):
                total += os.stat(
                    segment.path(kind), dir_fd=self.descriptor, follow_symlinks=False
                ).st_size
        return total

    def bring(self, paths: Sequence[str]) -> None:
        """Copy files to this machine, if the store is remote.

        Raises:
            StoreError: they are not available.
        """

    def write(self, path: str, put: Callable[[str], None], *, sync: bool = True) -> None:
        """Write a file under a temporary name, and rename it.

        `put` writes the file of the path that it gets. The file survives a power cut if `sync`.

        Raises:
            OSError: it cannot be written; nothing has changed then.
        """
        with self.scratch(path) as part:
            put(self.root + part)
            with Descriptor(
                os.open(part, os.O_RDONLY | _FILE, dir_fd=self.descriptor)
            ) as descriptor:
                os.fchmod(descriptor, _PRIVATE_FILE)
                if sync:
                    os.fsync(descriptor)
            self._rename(part, path, sync=sync)

    @contextmanager
    def scratch(self, path: str) -> Iterator[str]:
        """Yield a temporary path next to another, below the store. Remove the file afterwards."""
        self._make_directories(os.path.dirname(path))
        part = f"{path}.{os.urandom(8).hex()}{PART_SUFFIX}"
        try:
            yield part
        finally:
            with suppress(OSError):
                os.unlink(part, dir_fd=self.descriptor)

    def write_bytes(self, path: str, content: bytes, *, sync: bool = True) -> None:
        """Write a small file, as `write`."""

        def put(part: str) -> None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
            with os.fdopen(os.open(part, flags, _PRIVATE_FILE), "wb") as file:
                file.write(content)

        self.write(path, put, sync=sync)

    def move(self, path: str, to: str) -> None:
        """Give a file another path.

        Raises:
            OSError: that cannot be done.
        """
        self._make_directories(os.path.dirname(to))
        self._rename(path, to)

    def read_bytes(self, path: str, most_bytes: int) -> bytes:
        """Return the beginning of a file that belongs to this user.

        Raises:
            OSError: there is none.
        """
        with Descriptor(os.open(path, os.O_RDONLY | _FILE, dir_fd=self.descriptor)) as descriptor:
            status = os.fstat(descriptor)
            if not is_own(status, stat.S_IFREG):
                raise PermissionError(errno.EPERM, "it belongs to someone else")
            return os.read(descriptor, min(most_bytes, status.st_size))

    def has_ours(self, path: str, most_bytes: int = 1 << 62) -> bool:
        """Whether the path is a private regular file of this user, and not too large."""
        with suppress(OSError):
            status = os.stat(path, dir_fd=self.descriptor, follow_symlinks=False)
            return is_own(status, stat.S_IFREG) and status.st_size <= most_bytes
        return False

    def close(self) -> None:
        """Close it, and release the lock."""
        for descriptor in (self._lock, self.descriptor):
            if descriptor >= 0:
                os.close(descriptor)
        self.descriptor = self._lock = -1

    def _check_owner(self) -> None:
        status = os.fstat(self.descriptor)
        if not is_own(status, stat.S_IFDIR):
            raise StoreError(
                f"{self.path}: the store belongs to user {status.st_uid}, or others may write to"
                f" it: chown it, and chmod 700 {self.path}"
            )

    def _open_format(self, *, create: bool) -> float:
        try:
            text = self.read_bytes(FORMAT, MOST_FORMAT_BYTES)
        except FileNotFoundError:
            if not create:
                raise
            with os.scandir(self.descriptor) as entries:
                if next(entries, None) is not None:
                    raise StoreError(
                        f"{self.path}: neither a store nor empty; give another directory"
                    ) from None
            if os.fstat(self.descriptor).st_mode & _OTHERS:
                os.fchmod(self.descriptor, _PRIVATE_DIRECTORY)
            made_now = {"version": VERSION, "made": time.time(), "made_on": this_machine()}
            text = json.dumps(made_now).encode()
            self.write_bytes(FORMAT, text)
        try:
            marker = json.loads(text)
        except (ValueError, RecursionError):
            marker = None
        version = marker.get("version") if isinstance(marker, dict) else None
        if not isinstance(version, int):
            raise StoreError(f"{self.path}: {FORMAT} is damaged; it has no version")
        if version > VERSION:
            raise StoreError(
                f"{self.path}: a store of version {version}; this Prospect knows {VERSION}:"
                " update it, or give another directory"
            )
        self.made_on = str(marker.get("made_on", ""))
        made = marker.get("made")
        try:
            return float(made) if isinstance(made, (int, float)) else 0.0
        except OverflowError:  # whole numbers of any length are JSON
            return 0.0

    def _make_directories(self, path: str) -> None:
        made = ""
        for part in path.split("/") if path else ():
            made = f"{made}/{part}".lstrip("/")
            with suppress(FileExistsError):
                os.mkdir(made, _PRIVATE_DIRECTORY, dir_fd=self.descriptor)
                self._sync(os.path.dirname(made))

    def _rename(self, part: str, path: str, *, sync: bool = True) -> None:
        os.rename(part, path, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        if sync:
            self._sync(os.path.dirname(path))

    def _sync(self, directory: str) -> None:
        with Descriptor(
            os.open(directory or ".", _DIRECTORY, dir_fd=self.descriptor)
        ) as descriptor:
            os.fsync(descriptor)

    def names(self, directory: str, depth: int) -> Iterator[str]:
        """Yield the paths of the files `depth` directories below one."""
        try:
            descriptor = os.open(directory, _DIRECTORY, dir_fd=self.descriptor)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):  # a link, which no store has
                return
            raise
        with Descriptor(descriptor), os.scandir(descriptor) as entries:
            names = [entry.name for _, entry in zip(range(MOST_FILES), entries, strict=False)]
        for name in names:
            path = f"{directory}/{name}"
            if depth:
                yield from self.names(path, depth - 1)
            elif self.has_ours(path):
                yield path


def this_machine() -> str:
    """Return a digest of this machine's id, "" for none. machine-id(5) asks not to show the id."""
    with suppress(OSError), open(_MACHINE_ID, "rb") as file:
        return blake2b(file.read(64), digest_size=8).hexdigest()
    return ""
