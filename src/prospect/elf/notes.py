"""What an image says of its own identity: the build id note, and the link to its debug file.

In: the bytes of PT_NOTE segments and of .gnu_debuglink. Defined by the gABI, "Note Section", and
by the GDB manual, "Debugging Information in Separate Files".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from prospect.elf.layout import NT_GNU_BUILD_ID
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_NOTE_HEADER = struct.Struct("<III")
# ld writes 20 bytes (SHA-1), 16 (MD5, UUID) or 8 (lld's fast hash); --build-id=0x… takes any.
_LONGEST_BUILD_ID_BYTES = 64
# A core file has thousands of notes, an image a handful: what a damaged one costs is bounded.
_MOST_NOTES = 4096


class DebugLink(NamedTuple):
    """Content of .gnu_debuglink.

    Attributes:
        name: file name of the debug file, without a directory; any bytes but NUL and slash.
        crc32: of that file's whole content.
    """

    name: bytes
    crc32: int


def find_build_id(areas: Iterable[memoryview]) -> bytes | None:
    """Return the first NT_GNU_BUILD_ID of several areas of notes, None if there is none."""
    budget = _MOST_NOTES
    for area in areas:
        position = 0
        while position + _NOTE_HEADER.size <= len(area) and budget:
            budget -= 1
            name_size, size, kind = _NOTE_HEADER.unpack_from(area, position)
            name = position + _NOTE_HEADER.size
            content = name + _align(name_size)
            if content + size > len(area):
                break
            owner = bytes(area[name : name + name_size])
            if kind == NT_GNU_BUILD_ID and owner == b"GNU\0":
                return bytes(area[content : content + size])[:_LONGEST_BUILD_ID_BYTES] or None
            position = content + _align(size)
    return None


def parse_debug_link(section: bytes) -> DebugLink | None:
    """Read .gnu_debuglink; None where it names no plain file or has no checksum."""
    name, _, _ = section.partition(b"\0")
    checksum = _align(len(name) + 1)
    # The name is joined to directories: it must not lead out of them.
    if name in {b"", b".", b".."} or b"/" in name or checksum + 4 > len(section):
        return None
    return DebugLink(name, int.from_bytes(section[checksum : checksum + 4], "little"))


def _align(size: int) -> int:
    """Round up to the 4 bytes to which notes are padded, in both classes."""
    return (size + 3) & ~3
