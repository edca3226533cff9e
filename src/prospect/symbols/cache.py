"""Symbol tables kept on disk between runs, so that an image is parsed once.

In and out: a `SymbolTable` under a key that says which bytes it was made of, never by path. An
entry is a header, the table's columns as they stand in memory, and its text; loading maps it.
Entries lie in a directory that belongs to the user alone and are never written in place. What
cannot be read or written, or is of another user, is as good as absent: the cache only saves time.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
import struct
import zlib
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from prospect.symbols.table import SymbolTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from prospect.elf.image import ElfImage

MOST_BYTES = 1 << 30
OFF_VARIABLE = "PROSPECT_NO_CACHE"

_MAGIC = b"PROSPST\x01"
_SUFFIX = ".symbols"
# Magic, digest of the key, numbers of rows, of aliases and of bytes of text, which columns; then a
# CRC-32 of what precedes it.
_HEADER = struct.Struct("<8s16sQQQI")
_CHECKSUM = struct.Struct("<I")
_HEADER_BYTES = _HEADER.size + _CHECKSUM.size
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ROW_COLUMNS = ("start", "end", "name_start", "name_length", "next_name_start")
_ALIAS_COLUMNS = ("alias_row", "alias_name_start", "alias_name_length")
_BYTE_COLUMNS = ("is_global", "source")
_DTYPES = {"start": np.uint64, "end": np.uint64, "is_global": np.bool_, "source": np.uint8}
_COLUMNS = _ROW_COLUMNS + _ALIAS_COLUMNS + _BYTE_COLUMNS


class FileIdentity(NamedTuple):
    """Which file an image was read from, as `os.stat_result` has it."""

    device: int
    inode: int
    modified_ns: int
    owner: int


def cache_key(file: FileIdentity, image: ElfImage, debug_image: ElfImage | None) -> str | None:
    """Name the bytes that a table is made of.

    The build id stands for them, else the file; sizes beside it tell a stripped file from the
    whole one, and the owner keeps a forged build id out of the tables of everybody else's files.

    Returns:
        The key, None where nothing identifies the debug file.
    """
    if image.build_id:
        key = f"{image.build_id.hex()}-{len(image.data):x}-{file.owner}"
    else:
        key = f"{file.device:x}-{file.inode:x}-{file.modified_ns:x}-{len(image.data):x}"
    if debug_image is None:
        return key
    if debug_image.build_id is None:
        return None
    return f"{key}+{debug_image.build_id.hex()}-{len(debug_image.data):x}"


@dataclass(frozen=True)
class SymbolCache:
    """A directory of entries.

    Attributes:
        directory: made when the first entry is stored.
        most_bytes: the oldest entries are removed beyond this.
    """

    directory: Path
    most_bytes: int = MOST_BYTES

    @classmethod
    def of_user(cls, environment: Mapping[str, str] = os.environ) -> SymbolCache | None:
        """Return the user's own cache, None where it is switched off or has no place."""
        if environment.get(OFF_VARIABLE):
            return None
        base = Path(environment.get("XDG_CACHE_HOME", ""))
        if not base.is_absolute():
            base = Path(environment.get("HOME", ""), ".cache")
        return cls(base / "prospect") if base.is_absolute() else None

    def load(self, key: str) -> SymbolTable | None:
        """Return the table stored under a key, None if there is none that can be trusted."""
        try:
            with self._opened() as directory:
                descriptor = os.open(_entry_name(key), os.O_RDONLY | _FILE, dir_fd=directory)
                try:
                    status = os.fstat(descriptor)
                    if not _is_own(status, stat.S_IFREG) or status.st_size < _HEADER_BYTES:
                        return None
                    content = mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
                finally:
                    os.close(descriptor)
        except (OSError, ValueError):
            return None
        return _decode(key, memoryview(content))

    def store(self, key: str, table: SymbolTable) -> None:
        """Keep a table under a key; do nothing where that is not possible."""
        if len(table.strings) + 64 * len(table) > self.most_bytes // 4:
            return
        with suppress(OSError):
            self._make()
            with self._opened() as directory:
                _write(directory, key, table)
                _evict(directory, self.most_bytes)

    def _make(self) -> None:
        """Make the directory, unless what it would lie in belongs to someone else (sudo's HOME)."""
        home = self.directory.parent
        if not home.exists() and home.parent.stat().st_uid == os.geteuid():
            home.mkdir(0o700, exist_ok=True)
        if home.stat().st_uid == os.geteuid():
            self.directory.mkdir(0o700, exist_ok=True)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        directory = os.open(self.directory, flags)
        try:
            if not _is_own(os.fstat(directory), stat.S_IFDIR):
                raise PermissionError(f"{self.directory} belongs to someone else")
            yield directory
        finally:
            os.close(directory)


def _is_own(status: os.stat_result, kind: int) -> bool:
    """Whether we own something of this kind that nobody else can write to."""
    return (
        stat.S_IFMT(status.st_mode) == kind
        and status.st_uid == os.geteuid()
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def _entry_name(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest() + _SUFFIX


def _write(directory: int, key: str, table: SymbolTable) -> None:
    """Write an entry under another name, then put it in place whole."""
    name = f"{os.urandom(8).hex()}.part"
    descriptor = os.open(
        name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o600, dir_fd=directory
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(_encode(key, table))
        os.rename(name, _entry_name(key), src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=directory)
        raise


def _evict(directory: int, most_bytes: int) -> None:
    """Remove the oldest files until what is left fits."""
    files = []
    with os.scandir(directory) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                files.append((status.st_mtime_ns, status.st_size, entry.name))
    excess = sum(size for _, size, _ in files) - most_bytes
    for _, size, name in sorted(files):
        if excess <= 0:
            break
        os.unlink(name, dir_fd=directory)
        excess -= size


def _encode(key: str, table: SymbolTable) -> Iterator[bytes | memoryview]:
    columns: list[NDArray[np.generic] | None] = [getattr(table, name) for name in _COLUMNS]
    present = sum(1 << bit for bit, column in enumerate(columns) if column is not None)
    digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
    header = _HEADER.pack(
        _MAGIC, digest, len(table), len(table.alias_row), len(table.strings), present
    )
    yield header
    yield _CHECKSUM.pack(zlib.crc32(header))
    for name, column in zip(_COLUMNS, columns, strict=True):
        if column is not None:
            yield np.ascontiguousarray(column, _DTYPES.get(name, np.int64)).tobytes()
    yield table.strings


def _decode(key: str, content: memoryview) -> SymbolTable | None:
    """Take the columns of an entry; None if it is damaged, of another key or of another version."""
    magic, digest, rows, aliases, text_bytes, present = _HEADER.unpack_from(content)
    checksum = _CHECKSUM.unpack_from(content, _HEADER.size)[0]
    if magic != _MAGIC or checksum != zlib.crc32(content[: _HEADER.size]):
        return None
    if digest != hashlib.blake2b(key.encode(), digest_size=16).digest():
        return None
    sizes = {
        name: (aliases if name in _ALIAS_COLUMNS else rows) * _dtype(name).itemsize
        for bit, name in enumerate(_COLUMNS)
        if present >> bit & 1
    }
    if _HEADER_BYTES + sum(sizes.values()) + text_bytes != len(content):
        return None
    columns: dict[str, Any] = dict.fromkeys(_COLUMNS)
    position = _HEADER_BYTES
    for name, size in sizes.items():
        columns[name] = np.frombuffer(content[position : position + size], _dtype(name))
        position += size
    return SymbolTable(strings=content[position:], **columns)


def _dtype(name: str) -> np.dtype[np.generic]:
    return np.dtype(_DTYPES.get(name, np.int64))
