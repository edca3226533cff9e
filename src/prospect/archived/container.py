"""Facts and columns ↔ the bytes of an archive's section.

Comes in and goes out: a JSON object of facts, and numpy columns by name. The bytes are a head and
one Zstandard frame; in it stand the columns' names, types and lengths with the facts, then the
columns. Numbers of 8 bytes are stored as differences, all numbers byte by byte of equal weight
together: both halve what is left after compression. An archive may come from anyone: what it
unpacks to is bounded by its own size, and every length is checked.
"""

from __future__ import annotations

import itertools
import json
import struct
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import zstandard

from prospect.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

MAGIC = b"PRSPARCH"
VERSION = 1

# Magic, version, flags (0), bytes that the frame unpacks to.
_HEAD = struct.Struct("<8sIIQ")
_LENGTH = struct.Struct("<Q")
_LEVEL = 12
_MOST_BYTES = 4 << 30
# As of compressed records: what honest content never reaches.
_MOST_RATIO = 256
_SLACK_BYTES = 64 << 20
_WINDOW_BYTES = 128 << 20
_TYPES: dict[str, type[np.generic]] = {
    "u1": np.uint8,
    "u4": np.uint32,
    "i4": np.int32,
    "u8": np.uint64,
}

_Scalar = TypeVar("_Scalar", bound=np.generic)


class Columns:
    """Facts and columns that were unpacked; asking for what is not there is an error of ours.

    Attributes:
        facts: the JSON object.
    """

    def __init__(self, facts: dict[str, Any], columns: dict[str, NDArray[Any]]) -> None:
        self.facts = facts
        self._columns = columns

    def get(self, name: str, dtype: type[_Scalar]) -> NDArray[_Scalar]:
        """Return a column, of this type.

        Raises:
            RecordingError: there is none.
        """
        column = self._columns.get(name)
        if column is None or column.dtype != np.dtype(dtype):
            raise damaged(f"it has no column {name}")
        return column

    def index(self, name: str, rows: int) -> NDArray[np.int32]:
        """Return a column of rows of a table, -1 for none.

        Raises:
            RecordingError: one lies outside of the table.
        """
        column = self.get(name, np.int32)
        if len(column) and not -1 <= column.min() <= column.max() < rows:
            raise damaged(f"its column {name} points outside of a table")
        return column


def damaged(what: str) -> RecordingError:
    """Return the error for an archive that is not as it was written."""
    return RecordingError(f"the archive in the recording is damaged: {what}; archive it again")


def pack(facts: Mapping[str, Any], columns: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the section; the types of columns are u1, u4, i4 and u8."""
    listed = [[name, column.dtype.str[1:], len(column)] for name, column in columns.items()]
    head = json.dumps({"columns": listed, "facts": facts}, separators=(",", ":")).encode("ascii")
    parts = [_LENGTH.pack(len(head)), head]
    parts += [_stored(column) for column in columns.values()]
    content = b"".join(parts)
    frame = zstandard.ZstdCompressor(level=_LEVEL).compress(content)
    return _HEAD.pack(MAGIC, VERSION, 0, len(content)) + frame


def unpack(section: bytes | memoryview) -> Columns:
    """Take a section apart.

    Raises:
        RecordingError: it is damaged, of another version, or unpacks to more than it may.
    """
    content = memoryview(_decompressed(memoryview(section)))
    if len(content) < _LENGTH.size:
        raise damaged("it is cut")
    (size,) = _LENGTH.unpack_from(content)
    position = _LENGTH.size + size
    try:
        document = json.loads(bytes(content[_LENGTH.size : position]))
        listed, facts = document["columns"], document["facts"]
        wanted = [(str(name), _TYPES[kind], int(rows)) for name, kind, rows in listed]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise damaged("its list of columns cannot be read") from error
    if not isinstance(facts, dict):
        raise damaged("it has no facts")
    columns = {}
    for name, kind, rows in wanted:
        length = rows * np.dtype(kind).itemsize
        if rows < 0 or length > len(content) - position:
            raise damaged(f"its column {name} is cut")
        columns[name] = _restored(content[position : position + length], kind)
        position += length
    return Columns(facts, columns)


def counted(column: NDArray[np.uint32], total: int, what: str) -> NDArray[np.int64]:
    """Turn counts into where each part begins and ends, i64[n + 1].

    Raises:
        RecordingError: they do not add up to `total`.
    """
    start = np.append(0, np.cumsum(column.astype(np.int64)))
    if start[-1] != total:
        raise damaged(f"the numbers of {what} do not add up")
    return start


def text_columns(texts: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return the columns of a list of texts, which may be any bytes of a file name."""
    encoded = [text.encode("utf-8", "surrogateescape") for text in texts]
    return {
        "text": np.frombuffer(b"".join(encoded), np.uint8),
        "text_bytes": np.array([len(text) for text in encoded], np.uint32),
    }


def texts_of(columns: Columns) -> list[str]:
    """Return the list of texts.

    Raises:
        RecordingError: the columns are damaged.
    """
    text = columns.get("text", np.uint8).tobytes()
    start = counted(columns.get("text_bytes", np.uint32), len(text), "texts").tolist()
    return [
        text[begin:end].decode("utf-8", "surrogateescape")
        for begin, end in itertools.pairwise(start)
    ]


def _decompressed(section: memoryview) -> bytes:
    if len(section) < _HEAD.size:
        raise damaged("it is cut")
    magic, version, _, size = _HEAD.unpack_from(section)
    if magic != MAGIC or version != VERSION:
        raise RecordingError(
            "the archive in the recording was not written by this version of Prospect"
        )
    frame = section[_HEAD.size :]
    if size > min(_MOST_BYTES, _SLACK_BYTES + _MOST_RATIO * len(frame)):
        raise damaged("it claims to unpack to more than an archive can hold")
    try:
        if zstandard.frame_content_size(frame) != size:
            raise damaged("its sizes contradict each other")
        unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
        content: bytes = unpacker.decompress(frame, max_output_size=size)
    except (zstandard.ZstdError, MemoryError) as error:
        raise damaged("it cannot be unpacked") from error
    if len(content) != size:
        raise damaged("it cannot be unpacked")
    return content


def _stored(column: NDArray[Any]) -> bytes:
    if column.dtype.itemsize == 8:
        column = np.diff(column, prepend=column.dtype.type(0))
    octets = np.ascontiguousarray(column).view(np.uint8)
    weights = octets.reshape(len(column), column.dtype.itemsize)
    return weights.T.tobytes()


def _restored(content: memoryview, kind: type[np.generic]) -> NDArray[Any]:
    dtype = np.dtype(kind)
    weights = np.frombuffer(content, np.uint8).reshape(dtype.itemsize, -1)
    column = np.ascontiguousarray(weights.T).view(dtype.newbyteorder("<")).reshape(-1)
    return np.cumsum(column, dtype=dtype) if dtype.itemsize == 8 else column
