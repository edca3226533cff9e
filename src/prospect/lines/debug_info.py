"""Whether an image's DWARF may be passed to the library that reads it, or why it may not.

Section names are those of the DWARF 5 standard, appendix B, and ``.zdebug_`` of binutils.

A report may spend a bounded time on other users' debug information: children read files that
neither root nor we own, one after the other. One that takes too long has no symcache.
"""

from __future__ import annotations

import enum
import struct
import threading
import time
from typing import TYPE_CHECKING

import numpy as np

from prospect.elf import elf_layout
from prospect.elf.image import compressed_section
from prospect.files.budget import VARIABLE, ReadBudget
from prospect.files.rights import is_trusted
from prospect.lines.conversion import convert_in_child
from prospect.lines.lines_limits import (
    ALL_READING_S,
    LARGEST_DEBUG_BYTES,
    LEAST_READING_S,
    LONGEST_SECTION_NAME_BYTES,
    MOST_READING_S,
    READING_S_A_MB,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.elf.image import ElfImage


NO_DEBUG_INFO = "no debug information: install its debug symbols, or build it with -g"
SHARED = (
    "part of its debug information is in a file shared with others (dwz): "
    "some functions inlined there have no name"
)
UNREADABLE = "its debug information is damaged or too large to be read"
TOO_NEW = "its debug information is DWARF {version}: versions 2 to 5 are read"
COSTLY = (
    "its debug information is damaged, or takes more time or memory to be read than files of other"
    f" users may; {VARIABLE}=4G allows more"
)

NO_MEMORY = (
    "its debug information was not read: files of other users and compressed files take all the"
    f" memory that they may; {VARIABLE}=4G allows more"
)

_OLD_COMPRESSED = struct.Struct(">4sQ")  # "ZLIB", size
_OLD_PREFIX = b".zdebug_"
_PREFIX = b".debug_"
_MOST_NAMES = 3

# The part of the remaining time that one user's files may take.
_SHARE = 2 / 3


class Lack(enum.Enum):
    """Why the debug information of a split unit is missing."""

    FILE = "was not found or could not be read"
    MEMORY = "was not read"
    TIME = "could not be read"


_HELP = {
    Lack.FILE: (
        "keep these files where they were made or next to the image, or the .dwp package next to it"
    ),
    Lack.MEMORY: (
        "files of other users and compressed files take all the memory that they may; "
        f"{VARIABLE}=4G allows more"
    ),
    Lack.TIME: (
        "it is damaged, or takes more time or memory than files of other users may; "
        f"{VARIABLE}=4G allows more"
    ),
}


def unreadable(speaks_for: int) -> str:
    """Return the reason for unreadable debug information of a user."""
    return UNREADABLE if is_trusted(speaks_for) else COSTLY


def split_files_missing(lack: Lack, names: Sequence[bytes]) -> str:
    """Return a sentence on missing files with split debug information."""
    shown = ", ".join(name.decode("utf-8", "surrogateescape") for name in names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"split debug information {lack.value}: {shown}{more}; {_HELP[lack]}"


def may_be_split(image: ElfImage) -> bool:
    """Return whether units may have their rest in .dwo files, without reading them.

    Only this section has the addresses of a split unit (DWARF 5, 7.3.2.2, and the GNU extension to
    DWARF 4).
    """
    return any(image.find_section(name) >= 0 for name in (b".debug_addr", b".zdebug_addr"))


def is_shared(image: ElfImage) -> bool:
    """Return whether part of the DWARF is in another file, by ``dwz -m``."""
    return image.find_section(b".gnu_debugaltlink") >= 0


def is_readable(image: ElfImage) -> bool:
    """Return whether the unpacked file is small enough to be read.

    The library reserves the memory that a compressed section claims to need. If the system refuses,
    the process ends.
    """
    return len(image.data) + unpacked_bytes(image) <= LARGEST_DEBUG_BYTES


def unpacked_bytes(image: ElfImage) -> int:
    """Return the sizes that the compressed sections of debug information claim, together."""
    total = 0
    for row, section in enumerate(image.sections):
        at = int(section["name"])
        name = bytes(image.section_names[at : at + LONGEST_SECTION_NAME_BYTES]).partition(b"\0")[0]
        if name.startswith(_OLD_PREFIX):
            start = int(section["offset"])
            content = image.data[start : start + int(section["size"])]
            if len(content) >= _OLD_COMPRESSED.size:
                total += _OLD_COMPRESSED.unpack_from(content)[1]
        elif name.startswith(_PREFIX) and (compressed := compressed_section(image, row)):
            total += compressed[1]
    return total


def load_address(image: ElfImage) -> int:
    """Return the SVMA of the first PT_LOAD, the base of the library's addresses."""
    loads = np.flatnonzero(image.segments["type"] == elf_layout.PT_LOAD)
    return int(image.segments["vaddr"][loads[0]]) if len(loads) else 0


class BoundedReader:
    """Reads other users' debug information, for one report."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._left_bytes = ReadBudget.of_environment().most_bytes
        self._used_s: dict[int, float] = {}

    @property
    def left_bytes(self) -> int:
        """The memory that further files may take."""
        return self._left_bytes

    def convert(self, data: bytes | memoryview, uid: int) -> bytes | None:
        """Make a symcache of a user's whole ELF file; None if it is beyond the bounds.

        The file gets a few seconds, and one for each MB.
        """
        with self._turn:
            used_s = self._used_s.get(uid, 0.0)
            left_s = (ALL_READING_S - sum(self._used_s.values()) + used_s) * _SHARE - used_s
            seconds = min(
                LEAST_READING_S + len(data) / 1e6 * READING_S_A_MB, MOST_READING_S, left_s
            )
            if seconds <= 0 or len(data) > self._left_bytes:
                return None
            began_s = time.monotonic()
            made = convert_in_child(data, self._left_bytes, seconds)
            self._used_s[uid] = used_s + time.monotonic() - began_s
            self._left_bytes -= len(made or b"")
            return made
