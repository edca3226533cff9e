"""Results of the reader of mapped files, in memory that it shares with the recorder."""

from __future__ import annotations

import mmap
import struct

from prospect.capture.capture_limits import MOST_MAPPED_FILES, MOST_PATH_BYTES
from prospect.records import NamedTuple

RING_BYTES = 1 << 16
# Bytes of a number that one of the two sends the other through a pipe.
NUMBER_BYTES = 8
# the fields of `Counts`
_HEAD = struct.Struct("=QQQQQ")
# major minor inode since_ns until_ns, size and bytes of the build id
_ROW = struct.Struct("=IIQQQB3x20s")
_PATH = struct.Struct("=H")
_UNTIL = struct.Struct("=Q")
_UNTIL_OFFSET = 24


class ReadFile(NamedTuple):
    """A mapped file with the same content from `since_ns` to `until_ns`; `build_id` may be b""."""

    major: int
    minor: int
    inode: int
    since_ns: int
    until_ns: int
    build_id: bytes
    path: bytes


class Counts(NamedTuple):
    """Counts of the reader.

    Attributes:
        files: rows.
        late: mappings whose file could not be read in time.
        lost: records for which a ring had no room.
        leaked: records with the bit of a build id, which this recorder does not ask for.
    """

    files: int
    path_bytes: int
    late: int
    lost: int
    leaked: int


class ReadFiles:
    """Rows in memory that two processes share, so that they outlive the reader."""

    def __init__(self) -> None:
        self._rows = mmap.mmap(-1, _HEAD.size + MOST_MAPPED_FILES * _ROW.size)
        self._paths = mmap.mmap(-1, MOST_PATH_BYTES)

    def counts(self) -> Counts:
        """Return the counts so far."""
        return Counts(*_HEAD.unpack_from(self._rows))

    def count(self, *, late: int = 0, lost: int = 0, leaked: int = 0) -> None:
        """Add to the counts."""
        now = self.counts()
        now = now._replace(late=now.late + late, lost=now.lost + lost, leaked=now.leaked + leaked)
        _HEAD.pack_into(self._rows, 0, *now)

    def add(self, row: ReadFile) -> int:
        """Add a row; return its number, -1 if it is full."""
        files, begin, *others = _HEAD.unpack_from(self._rows)
        end = begin + _PATH.size + len(row.path)
        if files >= MOST_MAPPED_FILES or end > MOST_PATH_BYTES or len(row.path) > 0xFFFF:
            return -1
        _PATH.pack_into(self._paths, begin, len(row.path))
        self._paths[begin + _PATH.size : end] = row.path
        numbers = (row.major, row.minor, row.inode, row.since_ns, row.until_ns)
        build_id = row.build_id[:20]
        at = _HEAD.size + files * _ROW.size
        _ROW.pack_into(self._rows, at, *numbers, len(build_id), build_id)
        # Last: the reader may be killed at any point.
        _HEAD.pack_into(self._rows, 0, files + 1, end, *others)
        return int(files)

    def extend(self, number: int, until_ns: int) -> None:
        """Set the time until which a file has the content in its row."""
        at = _HEAD.size + number * _ROW.size + _UNTIL_OFFSET
        _UNTIL.pack_into(self._rows, at, until_ns)

    def rows(self) -> list[ReadFile]:
        """Return all rows."""
        found = []
        at = 0
        for number in range(self.counts().files):
            row = _ROW.unpack_from(self._rows, _HEAD.size + number * _ROW.size)
            major, minor, inode, since_ns, until_ns, size, build_id = row
            (length,) = _PATH.unpack_from(self._paths, at)
            path = self._paths[at + _PATH.size : at + _PATH.size + length]
            at += _PATH.size + length
            build_id = build_id[:size]
            found.append(ReadFile(major, minor, inode, since_ns, until_ns, build_id, path))
        return found
