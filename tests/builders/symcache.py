"""Symcaches of version 9 in memory; `prospect.lines.symcache` tells of the format."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

NONE = 0xFFFFFFFF


def leb128(number: int) -> bytes:
    octets = bytearray()
    while True:
        octets.append(number & 0x7F | (0x80 if number > 0x7F else 0))
        number >>= 7
        if not number:
            return bytes(octets)


@dataclass
class SymcacheBuilder:
    """Adds rows: `caller`s first, then `range`s in rising order of address."""

    text: bytearray = field(default_factory=bytearray)
    files: list[tuple[int, ...]] = field(default_factory=list)
    functions: list[tuple[int, ...]] = field(default_factory=list)
    callers: list[tuple[int, ...]] = field(default_factory=list)
    ranges: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)

    def string(self, text: str) -> int:
        offset = len(self.text)
        self.text += leb128(len(text.encode())) + text.encode()
        return offset

    def file(self, name: str, directory: str = "", compilation: str = "") -> int:
        parts = [self.string(part) if part else NONE for part in (compilation, directory, name)]
        self.files.append((*parts, NONE, NONE, NONE))
        return len(self.files) - 1

    def function(self, name: str) -> int:
        self.functions.append((self.string(name), NONE, 0, 0))
        return len(self.functions) - 1

    def caller(self, file: int, line: int, function: int, inlined_into: int = NONE) -> int:
        self.callers.append((file, line, function, inlined_into))
        return len(self.callers) - 1

    def range(
        self, address: int, file: int, line: int, function: int, inlined_into: int = NONE
    ) -> None:
        self.ranges.append((address, (file, line, function, inlined_into)))

    def end(self, address: int) -> None:
        self.ranges.append((address, (NONE,) * 4))

    def build(self, version: int = 9) -> bytes:
        locations = [*self.callers, *(location for _, location in self.ranges)]
        tables = (
            [number for row in self.files for number in row],
            [number for row in self.functions for number in row],
            [number for row in locations for number in row],
            [address for address, _ in self.ranges],
        )
        header = struct.pack(
            "<4sI32sI5I16x",
            b"SYMC",
            version,
            bytes(32),
            0,
            len(self.files),
            len(self.functions),
            len(locations),
            len(self.ranges),
            len(self.text),
        )
        parts = [struct.pack(f"<{len(table)}I", *table) for table in tables]
        return b"".join(part + bytes(-len(part) % 8) for part in (header, *parts, bytes(self.text)))
