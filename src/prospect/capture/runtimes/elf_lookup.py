"""Symbols of an ELF file by their names, at a bounded cost for any file.

A look-up reads a few hundred bytes, by the file's hash tables. A statically linked program has
none: then its symbol table is read, if that is not too large.

Defined by: the gABI (program headers, dynamic section, hash table); ``elf/dl-lookup.c`` of glibc
for the GNU hash table.
"""

from __future__ import annotations

import os
import struct
from itertools import takewhile

from prospect.capture.capture_limits import (
    LONGEST_SYMBOL,
    MOST_CHAIN,
    MOST_DYNAMIC,
    MOST_ELF_SECTIONS,
    MOST_READ_BYTES,
    MOST_READS,
    MOST_SECTION_NAMES,
    MOST_SEGMENTS,
    MOST_SYMBOL_TRIES,
    MOST_TABLE_BYTES,
)
from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<qQ")
_GNU_HASH = struct.Struct("<IIII")
_LINK = struct.Struct("<I")
_ELF64, _LITTLE_ENDIAN = 2, 1
ET_EXEC = 2
_PT_LOAD, _PT_DYNAMIC, _PF_X = 1, 2, 1
_SHT_SYMTAB = 2
_DT_NULL, _DT_NEEDED, _DT_HASH, _DT_STRTAB, _DT_SYMTAB = 0, 1, 4, 5, 6
_DT_GNU_HASH = 0x6FFFFEF5

_CHAIN_PIECE = 32


class Segment(NamedTuple):
    """A loaded part of the file: its offset there, its address, its size, whether it is code."""

    offset: int
    address: int
    size: int
    is_code: bool


class File:
    """An ELF file for 64-bit little-endian machines, which may be hostile.

    Attributes:
        kind, machine: ET_* and EM_*.
    """

    def __init__(self, fd: int) -> None:
        """Read the headers.

        Raises:
            ValueError: it is no such file, or costs too much to read.
            OSError: it cannot be read.
            struct.error: it is cut.
        """
        self._fd = fd
        self._bytes_left, self._reads_left = MOST_READ_BYTES, MOST_READS
        header = _HEADER.unpack(self.read(0, _HEADER.size))
        if header[:3] != (b"\x7fELF", _ELF64, _LITTLE_ENDIAN):
            raise ValueError("no ELF file of 64 bits")
        self.kind, self.machine = header[3], header[4]
        self._sections, self._names_row = (header[8], header[13], header[14]), header[15]
        rows = list(self._rows(_SEGMENT, header[7], header[11], header[12], MOST_SEGMENTS))
        self.segments = tuple(
            Segment(row[2], row[3], row[5], bool(row[1] & _PF_X))
            for row in rows
            if row[0] == _PT_LOAD
        )
        dynamic = next(((row[3], row[5]) for row in rows if row[0] == _PT_DYNAMIC), (0, 0))
        data = self.at(dynamic[0], min(dynamic[1], MOST_DYNAMIC * _DYNAMIC.size))
        entries = takewhile(lambda row: row[0] != _DT_NULL, _whole_rows(_DYNAMIC, data))
        self._dynamic = [(tag, value) for tag, value in entries]
        self._tags = dict(self._dynamic)

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the file, fewer at its end.

        Raises:
            ValueError: this exceeds the cost of a file.
            OSError: it cannot be read.
        """
        self.spend(size)
        return os.pread(self._fd, size, offset)

    def spend(self, size: int) -> None:
        """Count a read of so many bytes.

        Raises:
            ValueError: this exceeds the cost of a file.
        """
        self._bytes_left -= size
        self._reads_left -= 1
        if size < 0 or self._bytes_left < 0 or self._reads_left < 0:
            raise ValueError("the file costs too much to read")

    def at(self, address: int, size: int) -> bytes:
        """Return bytes by their address, fewer if the file has fewer; raises as `read`."""
        for segment in self.segments:
            inside = address - segment.address
            if 0 <= inside < segment.size:
                return self.read(segment.offset + inside, min(size, segment.size - inside))
        return b""

    def libraries(self) -> list[bytes]:
        """Return the names of its shared libraries; raises as `read`."""
        names = (value for tag, value in self._dynamic if tag == _DT_NEEDED)
        return [self._name(one, LONGEST_SYMBOL) for one in names]

    def find(self, names: Iterable[bytes]) -> dict[bytes, tuple[int, int]]:
        """Return value and size of the symbols that the file defines; raises as `read`."""
        if _DT_SYMTAB in self._tags and (_DT_GNU_HASH in self._tags or _DT_HASH in self._tags):
            found = {name: self._look_up(name) for name in names}
            return {name: symbol for name, symbol in found.items() if symbol}
        return self._in_table(names)

    def section(self, name: bytes) -> tuple[int, int]:
        """Return address and size of a section, (0, 0) without; raises as `read`."""
        rows = self._section_rows()
        if self._names_row < len(rows):
            names = rows[self._names_row]
            text = self.read(names[4], min(names[5], MOST_SECTION_NAMES))
            for row in rows:
                if text[row[0] : row[0] + LONGEST_SYMBOL].split(b"\0", 1)[0] == name:
                    return row[3], row[5]
        return 0, 0

    def _rows(
        self, form: struct.Struct, at: int, each: int, count: int, most: int
    ) -> Iterator[tuple[int, ...]]:
        if each != form.size or count > most:
            raise ValueError("a table of unknown rows, or of too many")
        return _whole_rows(form, self.read(at, each * count))

    def _section_rows(self) -> list[tuple[int, ...]]:
        return list(self._rows(_SECTION, *self._sections, MOST_ELF_SECTIONS))

    def _name(self, offset: int, most: int) -> bytes:
        return self.at(self._tags.get(_DT_STRTAB, 0) + offset, most).split(b"\0", 1)[0]

    def _look_up(self, name: bytes) -> tuple[int, int] | None:
        is_gnu = _DT_GNU_HASH in self._tags
        table = self._by_gnu_hash if is_gnu else self._by_hash
        for number in table(name, self._tags[_DT_GNU_HASH if is_gnu else _DT_HASH]):
            row = self.at(self._tags[_DT_SYMTAB] + number * _SYMBOL.size, _SYMBOL.size)
            text, _, _, section, value, size = _SYMBOL.unpack(row)
            if section and self._name(text, len(name) + 1) == name:
                return value, size
        return None

    def _by_gnu_hash(self, name: bytes, at: int) -> Iterator[int]:
        """Give the numbers of the symbols with a name's hash."""
        wanted = 5381
        for byte in name:
            wanted = (wanted * 33 + byte) & 0xFFFFFFFF
        buckets, first, bloom, _ = _GNU_HASH.unpack(self.at(at, _GNU_HASH.size))
        places = at + _GNU_HASH.size + 8 * bloom
        (number,) = struct.unpack("<I", self.at(places + 4 * (wanted % max(buckets, 1)), 4))
        chain = places + 4 * buckets
        for begin in range(0, MOST_CHAIN if number >= first else 0, _CHAIN_PIECE):
            data = self.at(chain + 4 * (number + begin - first), 4 * _CHAIN_PIECE)
            for step, (one,) in enumerate(_whole_rows(_LINK, data)):
                if one | 1 == wanted | 1:
                    yield number + begin + step
                if one & 1:
                    return

    def _by_hash(self, name: bytes, at: int) -> Iterator[int]:
        wanted = 0
        for byte in name:
            wanted = (wanted << 4) + byte
            wanted = (wanted ^ (wanted >> 24 & 0xF0)) & 0x0FFFFFFF
        buckets, _ = struct.unpack("<II", self.at(at, 8))
        place = at + 8 + 4 * (wanted % max(buckets, 1))
        for _ in range(MOST_CHAIN):
            (number,) = struct.unpack("<I", self.at(place, 4))
            if not number:
                return
            yield number
            place = at + 8 + 4 * (buckets + number)

    def _in_table(self, names: Iterable[bytes]) -> dict[bytes, tuple[int, int]]:
        """Search the table of all symbols, which stripped programs lack."""
        rows = self._section_rows()
        table = next((row for row in rows if row[1] == _SHT_SYMTAB and row[6] < len(rows)), None)
        if table is None or max(table[5], rows[table[6]][5]) > MOST_TABLE_BYTES:
            return {}
        symbols = self.read(table[4], table[5])
        text = self.read(rows[table[6]][4], rows[table[6]][5])
        found = {}
        for name in names:
            number = text.find(b"\0" + name + b"\0") + 1
            word, at = struct.pack("<I", number), -1
            for _ in range(MOST_SYMBOL_TRIES if number else 0):
                at = symbols.find(word, at + 1)
                if at < 0:
                    break
                if at % _SYMBOL.size == 0 and at + _SYMBOL.size <= len(symbols):
                    _, _, _, section, value, size = _SYMBOL.unpack_from(symbols, at)
                    if section:
                        found[name] = value, size
                        break
        return found


def _whole_rows(form: struct.Struct, data: bytes) -> Iterator[tuple[int, ...]]:
    """Give the rows of a table, without one that is cut at its end."""
    return form.iter_unpack(data[: len(data) // form.size * form.size])
