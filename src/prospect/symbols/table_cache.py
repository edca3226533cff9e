"""Symbol tables, line tables and call-frame rows kept on disk, so that an image is parsed once.

The key of a table identifies the bytes that it was made of, never their path. An entry is a header,
the table's columns as in memory, and its text; it is loaded by mapping. Line tables and call-frame
rows are bytes, whose formats their callers know. Files that cannot be read or written count as
absent: the cache only saves time.
"""

from __future__ import annotations

import os
import struct
import zlib
from _blake2 import blake2b  # hashlib has the same, and loads OpenSSL: 6 ms
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.files.rights import EVERYBODY
from prospect.records import NamedTuple, Record
from prospect.symbols.cache_directory import CacheDirectory
from prospect.symbols.symbols_limits import MOST_TABLE_BYTES
from prospect.symbols.table import SymbolTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from prospect.elf.image import ElfImage

SYMBOLS_SUFFIX = ".symbols"
LINES_SUFFIX = ".lines"
FRAMES_SUFFIX = ".frames"

# The last byte changes with the format of an entry and with the rules by which names are found.
_MAGIC = b"PROSPST\x05"
# Magic, digest of the key, numbers of rows, of aliases and of bytes of text, which columns; then a
# CRC-32 of what precedes it.
_HEADER = struct.Struct("<8s16sQQQI")
_CHECKSUM = struct.Struct("<I")
_HEADER_BYTES = _HEADER.size + _CHECKSUM.size
_ROW_COLUMNS = (
    *("start", "end", "name_start", "name_length"),
    *("next_name_start", "fn_number", "fn_count"),
)
_ALIAS_COLUMNS = ("alias_row", "alias_name_start", "alias_name_length")
_BYTE_COLUMNS = ("is_global", "source")
_DTYPES = {"start": np.uint64, "end": np.uint64, "is_global": np.bool_, "source": np.uint8}
# Header: magic, digest of the key, number of bytes; then the CRC-32, and padding.
_BYTES_MAGIC = {LINES_SUFFIX: b"PROSPLN\x01", FRAMES_SUFFIX: b"PROSPFR\x03"}
_BYTES_HEADER = struct.Struct("<8s16sQ")
_BYTES_HEADER_BYTES = 40
_COLUMNS = _ROW_COLUMNS + _ALIAS_COLUMNS + _BYTE_COLUMNS


class FileIdentity(NamedTuple):
    """The file that an image was read from, by fields of `os.stat_result`."""

    device: int
    inode: int
    modified_ns: int
    owner: int


def cache_key(*files: tuple[FileIdentity, ElfImage]) -> str | None:
    """Return a key for the bytes of an image and its debug file; None if one has no identity."""
    keys = [_key_of(file, image) for file, image in files]
    return "+".join(filter(None, keys)) if all(keys) else None


def _key_of(file: FileIdentity, image: ElfImage) -> str:
    """Return a key for the bytes of one file; "" if nothing identifies it.

    It has the build id, the size, which distinguishes a stripped file from the whole one, and the
    owner, so that a forged build id affects no other user's files. A file of EVERYBODY may come
    from anyone, so only device, inode and time identify it.
    """
    if image.build_id and file.owner != EVERYBODY:
        return f"{image.build_id.hex()}-{len(image.data):x}-{file.owner}"
    if file.device < 0:
        return ""
    return f"{file.device:x}-{file.inode:x}-{file.modified_ns:x}-{len(image.data):x}"


class SymbolCache(Record):
    """A directory of entries; beyond `most_bytes` it removes the least recently used ones."""

    directory: str | os.PathLike[str]
    most_bytes: int = MOST_TABLE_BYTES

    @classmethod
    def of_user(cls, environment: Mapping[str, str] = os.environ) -> SymbolCache | None:
        """Return the user's cache, None if it is switched off or there is no place for it."""
        kept = CacheDirectory.of_user(environment)
        return cls(kept.path) if kept else None

    def load(self, key: str) -> SymbolTable | None:
        """Return the table stored under a key, None if there is no intact one."""
        content = CacheDirectory(self.directory).map(_entry_name(key), _HEADER_BYTES)
        return _decode(key, content) if content else None

    def store(self, key: str, table: SymbolTable) -> None:
        """Store a table under a key; do nothing if that is not possible."""
        if len(table.strings) + 64 * len(table) <= self.most_bytes // 4:
            self._put(_entry_name(key), _encode(key, table))

    def load_bytes(self, key: str, suffix: str) -> memoryview | None:
        """Return the line table or call-frame rows stored under a key, None if not intact.

        `suffix` is LINES_SUFFIX or FRAMES_SUFFIX.
        """
        name = _entry_name(key, suffix)
        content = CacheDirectory(self.directory).map(name, _BYTES_HEADER_BYTES)
        if not content or content[:_BYTES_HEADER_BYTES] != _bytes_header(
            key, suffix, len(content) - _BYTES_HEADER_BYTES
        ):
            return None
        return content[_BYTES_HEADER_BYTES:]

    def store_bytes(self, key: str, suffix: str, content: bytes | memoryview) -> None:
        """Store what `load_bytes` loads; do nothing if that is not possible."""
        if len(content) <= self.most_bytes // 4:
            pieces = (_bytes_header(key, suffix, len(content)), content)
            self._put(_entry_name(key, suffix), pieces)

    def _put(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        kept = CacheDirectory(self.directory)
        kept.put(name, pieces)
        kept.evict((SYMBOLS_SUFFIX, LINES_SUFFIX, FRAMES_SUFFIX), self.most_bytes)


def kept_table(
    cache: SymbolCache | None, key: str | None, read: Callable[[], SymbolTable]
) -> SymbolTable:
    """Return the table stored under a `cache_key`; if there is none, `read` and store it."""
    if cache is None or key is None:
        return read()
    table = cache.load(key)
    if table is None:
        table = read()
        cache.store(key, table)
    return table


def _entry_name(key: str, suffix: str = SYMBOLS_SUFFIX) -> str:
    return blake2b(key.encode(), digest_size=16).hexdigest() + suffix


def _bytes_header(key: str, suffix: str, content_bytes: int) -> bytes:
    digest = blake2b(key.encode(), digest_size=16).digest()
    header = _BYTES_HEADER.pack(_BYTES_MAGIC[suffix], digest, content_bytes)
    return (header + _CHECKSUM.pack(zlib.crc32(header))).ljust(_BYTES_HEADER_BYTES, b"\0")


def _encode(key: str, table: SymbolTable) -> Iterator[bytes | memoryview]:
    columns: list[NDArray[np.generic] | None] = [getattr(table, name) for name in _COLUMNS]
    present = sum(1 << bit for bit, column in enumerate(columns) if column is not None)
    digest = blake2b(key.encode(), digest_size=16).digest()
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
    """Read the columns of an entry; None if it is damaged, of another key or of another version."""
    magic, digest, rows, aliases, text_bytes, present = _HEADER.unpack_from(content)
    checksum = _CHECKSUM.unpack_from(content, _HEADER.size)[0]
    if magic != _MAGIC or checksum != zlib.crc32(content[: _HEADER.size]):
        return None
    if digest != blake2b(key.encode(), digest_size=16).digest():
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
