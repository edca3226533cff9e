"""Symbol tables and line tables kept on disk between runs, so that an image is parsed once.

The key of a table says which bytes it was made of, never their path. An entry is a header, the
table's columns as they are in memory, and its text; loading maps it. A line table is bytes in a
format that `prospect.lines` knows; so are call-frame rows. Files that cannot be read or written are
as
good as absent: the cache only saves time.
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

# The last byte changes with the form of an entry and with the rules by which its names are found.
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
    """Which file an image was read from, as `os.stat_result` has it."""

    device: int
    inode: int
    modified_ns: int
    owner: int


def cache_key(*files: tuple[FileIdentity, ElfImage]) -> str | None:
    """Name the bytes that a table is made of: those of an image, and of its debug file.

    Returns:
        The key, None if nothing identifies one of the files.
    """
    keys = [_key_of(file, image) for file, image in files]
    return "+".join(filter(None, keys)) if all(keys) else None


def _key_of(file: FileIdentity, image: ElfImage) -> str:
    """Name the bytes of one file; "" if nothing identifies it.

    The build id stands for them, with the size, which keeps a stripped file apart from the whole
    one, and with the owner, which keeps a forged build id out of the tables of everybody else's
    files. A file of EVERYBODY may come from anyone, so only the file itself identifies it.
    """
    if image.build_id and file.owner != EVERYBODY:
        return f"{image.build_id.hex()}-{len(image.data):x}-{file.owner}"
    if file.device < 0:
        return ""
    return f"{file.device:x}-{file.inode:x}-{file.modified_ns:x}-{len(image.data):x}"


class SymbolCache(Record):
    """A directory of entries.

    Attributes:
        directory: made when the first entry is stored.
        most_bytes: beyond this, the entries that were used longest ago are removed.
    """

    directory: str | os.PathLike[str]
    most_bytes: int = MOST_TABLE_BYTES

    @classmethod
    def of_user(cls, environment: Mapping[str, str] = os.environ) -> SymbolCache | None:
        """Return the user's own cache, None if it is switched off or has no place."""
        kept = CacheDirectory.of_user(environment)
        return cls(kept.path) if kept else None

    def load(self, key: str) -> SymbolTable | None:
        """Return the table stored under a key, None if there is none that can be trusted."""
        content = self._map(_entry_name(key), _HEADER_BYTES)
        return _decode(key, content) if content else None

    def store(self, key: str, table: SymbolTable) -> None:
        """Keep a table under a key; do nothing if that is not possible."""
        if len(table.strings) + 64 * len(table) <= self.most_bytes // 4:
            self._put(_entry_name(key), _encode(key, table))

    def load_lines(self, key: str) -> memoryview | None:
        """Return the line table stored under a key, None if there is none that can be trusted."""
        return self._load_bytes(key, LINES_SUFFIX)

    def store_lines(self, key: str, content: bytes | memoryview) -> None:
        """Keep a line table under a key; do nothing if that is not possible."""
        self._store_bytes(key, LINES_SUFFIX, content)

    def load_frames(self, key: str) -> memoryview | None:
        """Return the call-frame rows stored under a key, None if there are none to be trusted."""
        return self._load_bytes(key, FRAMES_SUFFIX)

    def store_frames(self, key: str, content: bytes | memoryview) -> None:
        """Keep call-frame rows under a key; do nothing if that is not possible."""
        self._store_bytes(key, FRAMES_SUFFIX, content)

    def _load_bytes(self, key: str, suffix: str) -> memoryview | None:
        content = self._map(_entry_name(key, suffix), _BYTES_HEADER_BYTES)
        if not content or content[:_BYTES_HEADER_BYTES] != _bytes_header(
            key, suffix, len(content) - _BYTES_HEADER_BYTES
        ):
            return None
        return content[_BYTES_HEADER_BYTES:]

    def _store_bytes(self, key: str, suffix: str, content: bytes | memoryview) -> None:
        if len(content) <= self.most_bytes // 4:
            pieces = (_bytes_header(key, suffix, len(content)), content)
            self._put(_entry_name(key, suffix), pieces)

    def _map(self, name: str, least_bytes: int) -> memoryview | None:
        return CacheDirectory(self.directory).map(name, least_bytes)

    def _put(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        kept = CacheDirectory(self.directory)
        kept.put(name, pieces)
        kept.evict((SYMBOLS_SUFFIX, LINES_SUFFIX, FRAMES_SUFFIX), self.most_bytes)


def kept_table(
    cache: SymbolCache | None, key: str | None, read: Callable[[], SymbolTable]
) -> SymbolTable:
    """Return the table stored under a key, else what `read` returns, which is kept.

    Args:
        cache: None to keep nothing.
        key: from `cache_key`; None for an image that nothing identifies.
    """
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
    """Take the columns of an entry; None if it is damaged, of another key or of another version."""
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
